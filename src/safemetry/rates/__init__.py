"""Rates: counts become claims."""

from safemetry.rates.counts import count_labels
from safemetry.rates.measure import RateSettings, RatesFinding, measure_rates

__all__ = ["RateSettings", "RatesFinding", "count_labels", "measure_rates"]
