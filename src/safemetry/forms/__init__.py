"""Short forms and adaptive tests: which items are worth running."""

from safemetry.forms.adapt import simulate_adaptive
from safemetry.forms.adapted import AdaptFinding
from safemetry.forms.constraints import Constraints, Exclusion, Quota
from safemetry.forms.form import Form, load_form, save_form
from safemetry.forms.pool import ItemPool
from safemetry.forms.settings import ShortenSettings
from safemetry.forms.shortened import ShortenFinding
from safemetry.forms.shortening import shorten

__all__ = [
    "AdaptFinding",
    "Constraints",
    "Exclusion",
    "Form",
    "ItemPool",
    "Quota",
    "ShortenFinding",
    "ShortenSettings",
    "load_form",
    "save_form",
    "shorten",
    "simulate_adaptive",
]
