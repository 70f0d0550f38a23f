"""Settings of `measure_rates`, checked when made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safemetry.claims import Inference
from safemetry.errors import InputError
from safemetry.evidence.success import SuccessRule
from safemetry.rates.counts import check_by
from safemetry.rates.metrics import METRIC_NAMES


@dataclass(frozen=True)
class RateSettings:
    """Settings of `measure_rates`, checked when made.

    Parameters
    ----------
    by
        Columns of the judgements table to group by, beside benchmark, target and judge.
    success
        Success rule; None for the default of the evidence.
    cluster
        Item column whose values are the independent units; where it is null, the item.
    level
        Confidence of intervals (two-sided) and ceilings (one-sided), in (0, 1).
    exact
        Clopper-Pearson instead of Wilson where trials are independent; what gates use.
    inference
        Whether the items are a sample of those of interest or all of them.
    population
        Number of clusters in the finite population that the items were drawn from.
    volume
        Requests to project the rates onto.
    metrics
        Names of the rates wanted; all that apply by default.
    any_of
        Numbers of attempts k for the any-of-k rates.
    """

    by: tuple[str, ...] = ()
    success: SuccessRule | None = None
    cluster: str = "behaviour"
    level: float = 0.95
    exact: bool = False
    inference: Inference = "sampled"
    population: int | None = None
    volume: float | None = None
    metrics: tuple[str, ...] = ()
    any_of: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_by(self.by)
        if not 0 < self.level < 1:
            raise InputError(f"level {self.level:g} is not between 0 and 1", fix="write 0.95")
        if self.volume is not None and not 0 < self.volume < math.inf:
            raise InputError(f"volume {self.volume:g} is not a positive number of requests")
        if self.population is not None and self.population < 1:
            raise InputError(f"population {self.population} is not a positive number of items")
        for name in self.metrics:
            if name not in METRIC_NAMES:
                raise InputError(
                    f"unknown metric {name!r}", fix=f"use one of {', '.join(METRIC_NAMES)}"
                )
        for tries in self.any_of:
            if tries < 1:
                raise InputError(f"any-of-{tries} is no number of attempts", fix="count from 1")


def rate_settings(options: Mapping[str, Any]) -> RateSettings:
    """Settings from options as a caller writes them: a name alone for a tuple, a rule as text."""
    given = dict(options)
    for name in ("by", "metrics", "any_of"):
        if name in given:
            value = given[name]
            given[name] = (value,) if isinstance(value, str | int) else tuple(value)
    if isinstance(given.get("success"), str):
        given["success"] = SuccessRule.parse(given["success"])
    return RateSettings(**given)
