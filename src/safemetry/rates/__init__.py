"""Rates: counts become claims."""

from safemetry.rates.compare import (
    CompareSettings,
    Comparison,
    ComparisonFinding,
    compare_rates,
    select_side,
)
from safemetry.rates.coverage import CoverageFinding, cover
from safemetry.rates.find import ItemsFinding, find_items
from safemetry.rates.labels import count_labels
from safemetry.rates.measure import measure_rates
from safemetry.rates.plan import (
    ComponentsFinding,
    PlanFinding,
    plan_repeats,
    plan_trials,
)
from safemetry.rates.results import RatesFinding
from safemetry.rates.settings import RateSettings

__all__ = [
    "CompareSettings",
    "Comparison",
    "ComparisonFinding",
    "ComponentsFinding",
    "CoverageFinding",
    "ItemsFinding",
    "PlanFinding",
    "RateSettings",
    "RatesFinding",
    "compare_rates",
    "count_labels",
    "cover",
    "find_items",
    "measure_rates",
    "plan_repeats",
    "plan_trials",
    "select_side",
]
