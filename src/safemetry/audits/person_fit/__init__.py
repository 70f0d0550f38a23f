"""Person fit: whether a target answers as its own ability says."""

from safemetry.audits.person_fit.achieved import (
    AchievedRate,
    out_of_sample_rates,
    rates_at_abilities,
)
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import (
    FitRow,
    PersonFit,
    judge_fit,
    largest_p_values,
    person_fit,
    surrounding_nulls,
)
from safemetry.audits.person_fit.misfit import (
    CategoryMisfit,
    ItemMisfit,
    category_misfit,
    item_misfit,
)
from safemetry.audits.person_fit.null import PersonFitNull, simulate_null
from safemetry.audits.person_fit.selective import Selective, SelectiveRow, selective_scan

__all__ = [
    "AchievedRate",
    "Calibrated",
    "CategoryMisfit",
    "FitRow",
    "ItemMisfit",
    "PersonFit",
    "PersonFitNull",
    "Selective",
    "SelectiveRow",
    "category_misfit",
    "item_misfit",
    "judge_fit",
    "largest_p_values",
    "out_of_sample_rates",
    "person_fit",
    "rates_at_abilities",
    "selective_scan",
    "simulate_null",
    "surrounding_nulls",
]
