"""Forms over time: how stable a choice of items is, which items drift, how a form is renewed."""

from safemetry.forms.maintenance.drift import DriftRow, DriftSettings, ItemDrift, item_drift
from safemetry.forms.maintenance.renewal import RenewedForm, renew_form
from safemetry.forms.maintenance.stability import StabilityRow, split_half_stability

__all__ = [
    "DriftRow",
    "DriftSettings",
    "ItemDrift",
    "RenewedForm",
    "StabilityRow",
    "item_drift",
    "renew_form",
    "split_half_stability",
]
