"""Intervals of an estimate that is worth a number of labels.

For yes/no labels they have Wilson's form on the effective number of labels, which is how many
labels would give the same variance without a judge, with t quantiles. Unanimous labels have no
variance to go by: there the interval is exact, from the number of labels alone.

Sources: Dean & Pagano (2015), Journal of Survey Statistics and Methodology 3, 484-503; Korn &
Graubard (1998), Survey Methodology 24, 193-201; Clopper & Pearson (1934), Biometrika 26, 404-413.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from safemetry.rates.intervals import clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    FloatArray = NDArray[np.float64]

Population = Literal["sample", "fixed"]


@dataclass(frozen=True)
class PredictionPowered:
    """Estimates of any number of tables, or of one mean; every array has one shape.

    Parameters
    ----------
    estimate, lower, upper
        The mean and its interval; NaN without a label, and the interval NaN where labels that are
        not yes/no are all equal.
    tuning
        Weight of the judge, 0 to 1; 0 is the mean of the labels.
    effective_labels
        How many labels without the judge would be worth as much.
    exact
        Whether the labels are unanimous, and the interval is the exact one of the labels alone.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    tuning: FloatArray
    effective_labels: FloatArray
    exact: BoolArray


@dataclass(frozen=True)
class Spread:
    """What the ends of an interval follow from; arrays of one shape.

    Parameters
    ----------
    labels
        Labels, or as many independent ones as they are worth.
    total
        Responses.
    variance
        Of the estimate.
    of_labels
        Variance of a label.
    used
        Degrees of freedom that the estimate took of the labels.
    """

    labels: Any
    total: Any
    variance: Any
    of_labels: Any
    used: Any


def _quantile(level: float, degrees: Any) -> FloatArray:
    found: FloatArray = special.stdtrit(np.maximum(degrees, 1.0), 0.5 + level / 2)
    return found


def rate_interval(
    estimate: FloatArray,
    label: FloatArray,
    weight: FloatArray,
    spread: Spread,
    level: float,
    population: Population,
) -> PredictionPowered:
    """Wilson's interval on the effective number of labels; the exact one of unanimous labels."""
    n, known = spread.labels, spread.labels > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        unanimous = known & ((label <= 0) | (label >= 1) | (spread.of_labels <= 1e-12))
        t2 = _quantile(level, n - spread.used) ** 2
        effective = np.where(unanimous, n, spread.of_labels / spread.variance)
        rate = np.clip(np.where(unanimous, np.round(label), estimate), 0.0, 1.0)
        # 1 / effective is 0 where a fixed set is labelled in full: the interval is the rate itself.
        scale = 1 + t2 / effective
        middle = (rate + t2 / (2 * effective)) / scale
        half = np.sqrt(t2 * (rate * (1 - rate) / effective + t2 / (4 * effective**2))) / scale
        low, high = middle - half, middle + half
        # The estimate of a biased judge may leave [0, 1]; the interval keeps what was clipped.
        low, high = np.minimum(low, rate), np.maximum(high, rate)
        if np.any(unanimous):
            far = _unanimous_reach(np.where(known, n, 1.0), spread.total, level, population)
            low = np.where(unanimous, np.where(rate > 0.5, 1 - far, 0.0), low)
            high = np.where(unanimous, np.where(rate > 0.5, 1.0, far), high)
    return PredictionPowered(
        estimate=np.where(known, rate, np.nan),
        lower=np.where(known, np.clip(low, 0.0, 1.0), np.nan),
        upper=np.where(known, np.clip(high, 0.0, 1.0), np.nan),
        tuning=np.where(unanimous, 0.0, weight),
        effective_labels=np.where(np.isfinite(effective), effective, spread.total),
        exact=unanimous,
    )


def mean_interval(
    estimate: FloatArray, weight: FloatArray, spread: Spread, level: float, *, is_known: bool
) -> PredictionPowered:
    """The symmetric interval of a mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        half = _quantile(level, spread.labels - spread.used) * np.sqrt(spread.variance)
        effective = spread.of_labels / spread.variance
    if not np.isfinite(half) or (half <= 0 and not is_known):
        half = np.array(np.nan)
    return PredictionPowered(
        estimate,
        estimate - half,
        estimate + half,
        weight,
        np.where(np.isfinite(effective), effective, spread.labels),
        np.array(False),  # noqa: FBT003
    )


def _unanimous_reach(
    n: FloatArray, total: FloatArray, level: float, population: Population
) -> FloatArray:
    """How far from unanimous labels the rate may lie.

    Exact: on a sample that of Clopper & Pearson (1934), on a fixed set the largest share of other
    responses that a draw without replacement misses often enough (hypergeometric).
    """
    if population == "sample":
        return np.asarray(clopper_pearson(np.zeros_like(n), n, level).upper)
    tail = np.log((1 - level) / 2)
    low, high = np.zeros_like(total), np.maximum(total - n, 0.0)
    ln = special.gammaln
    for _ in range(int(np.log2(max(float(np.max(total)), 2.0))) + 2):
        middle = np.ceil((low + high) / 2)
        missed = (
            ln(total - middle + 1) - ln(total - middle - n + 1) - ln(total + 1) + ln(total - n + 1)
        )
        likely = missed >= tail
        low, high = np.where(likely, middle, low), np.where(likely, high, middle - 1)
        high = np.maximum(high, low)
    return low / total
