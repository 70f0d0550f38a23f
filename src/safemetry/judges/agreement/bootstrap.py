"""Resampling whole clusters, on sums.

Responses to one prompt share what makes them hard to judge, so clusters are drawn, not rows. Every
figure here is a function of sums over responses; a resample is a vector of how often each cluster
was drawn, and all resamples together are one matrix product, weights ``(B, U)`` times sums
``(U, M)``.

With very many clusters, whole clusters are first put together at random into a few thousand units,
and units are drawn. To first order a figure is a sum of independent cluster contributions with mean
zero, and the expected squared sum of any group of them is the sum of their squared values: the
variance between random groups estimates the same variance. What is lost is degrees of freedom
(Wolter 2007, Introduction to Variance Estimation, 2nd edition, chapter 2, random groups): with
4,096 units the standard error has a relative error of 1.1%, half of what 1,000 draws add
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

Method = Literal["bca", "percentile"]
Statistic = Callable[["FloatArray"], "FloatArray"]

MOST_UNITS: Final = 4096
LEAST_DEFINED: Final = 0.9
"""Share of resamples in which a figure must be defined to have an interval."""
MOST_LEFT_OUT: Final = 1024
"""Units up to which each is left out once. The skewness that this measures falls with the root of
their number; beyond it is taken as 0."""
_CHUNK_CELLS: Final = 4_000_000


@dataclass(frozen=True)
class Resampled:
    """Figures in every resample.

    Parameters
    ----------
    estimate
        On all clusters, shape ``(T,)``; NaN where undefined.
    draws
        Shape ``(B, T)``; NaN where undefined. Without rows where there are fewer than two units.
    left_out
        Without each unit in turn, shape ``(U, T)``; without rows where there are too many units, or
        fewer than three.
    units
        Number of units that were drawn from.
    """

    estimate: FloatArray
    draws: FloatArray
    left_out: FloatArray
    units: int


def resampling_units(
    cluster: IntArray, rng: np.random.Generator, most: int = MOST_UNITS
) -> IntArray:
    """The unit of each row: its cluster, or a random group of whole clusters where there are many.

    Parameters
    ----------
    cluster
        Cluster of each row, whole numbers >= 0, shape ``(R,)``.
    rng
        Decides which clusters go together.
    most
        Number of units at most, >= 2. Groups hold equally many clusters, or one more.

    Returns
    -------
    Codes 0 ... U - 1 without a gap, shape ``(R,)``.
    """
    if not len(cluster):
        return np.zeros(0, np.int64)
    seen = np.bincount(cluster) > 0
    count = int(seen.sum())
    place = np.cumsum(seen) - 1
    if count > most:
        place = (rng.permutation(count) % most)[place]
    return np.asarray(place[cluster], np.int64)


def distinct(cluster: IntArray) -> int:
    """Number of clusters among rows, from their codes >= 0."""
    return int(np.count_nonzero(np.bincount(cluster)))


def multinomial_weights(units: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """How often each unit is drawn when as many as there are are drawn with replacement.

    Parameters
    ----------
    units, draws
        Numbers of units and of resamples.

    Returns
    -------
    Shape ``(draws, units)``; every row sums to `units`.

    Source: Efron & Tibshirani (1993), An Introduction to the Bootstrap, section 6.2.
    """
    picked = rng.integers(0, units, (draws, units))
    picked += np.arange(draws)[:, None] * units
    counted = np.bincount(picked.ravel(), minlength=draws * units)
    return counted.reshape(draws, units).astype(np.float64)


def resample(
    sums: FloatArray, statistic: Statistic, draws: int, rng: np.random.Generator
) -> Resampled:
    """Figures of the sums over all units, and over resampled units.

    Parameters
    ----------
    sums
        Of each unit, shape ``(U, M)``.
    statistic
        Makes figures ``(n, T)`` of sums ``(n, M)``; NaN where a figure is undefined.
    draws
        Number of resamples.

    Raises
    ------
    ValueError
        For fewer than 100 draws, which fix no end of a 95% interval.
    """
    if draws < 100:
        raise ValueError(f"{draws} resamples are too few for an interval, take 100 or more")
    units, width = sums.shape
    total = sums.sum(0)
    estimate = statistic(total[None, :])[0]
    nothing = np.empty((0, len(estimate)))
    if units < 2:
        return Resampled(estimate, nothing, nothing, units)
    # Differences of large sums leave 1e-12 where a count is 0.
    jackknifed = 2 < units <= MOST_LEFT_OUT
    left_out = statistic(np.maximum(total - sums, 0.0)) if jackknifed else nothing
    found = np.empty((draws, len(estimate)))
    step = max(1, _CHUNK_CELLS // max(width, units))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        found[start : start + size] = statistic(multinomial_weights(units, size, rng) @ sums)
    return Resampled(estimate, found, left_out, units)


def acceleration(left_out: FloatArray) -> float:
    """How fast the standard error of a figure changes with the figure, from its skewness.

    Parameters
    ----------
    left_out
        The figure without each unit in turn, shape ``(U,)``; NaN where undefined.

    Returns
    -------
    0 where nothing tells.

    Source: Efron & Tibshirani (1993), equation 14.15.
    """
    known = left_out[~np.isnan(left_out)]
    if not len(known):
        return 0.0
    apart = known.mean() - known
    spread = float((apart**2).sum())
    return float((apart**3).sum() / (6 * spread**1.5)) if spread > 1e-24 else 0.0


def interval(
    values: FloatArray,
    estimate: float,
    units: int,
    *,
    level: float = 0.95,
    method: Method = "bca",
    skew: float = 0.0,
) -> tuple[float, float]:
    """Two-sided interval from the resampled values of one figure.

    With few units a percentile interval is too narrow, because a resample has less spread than the
    clusters by (U - 1) / U and takes that spread as known. The tail probabilities are therefore
    those of a normal at sqrt(U / (U - 1)) times the t quantile with U - 1 degrees of freedom.

    Parameters
    ----------
    values
        Defined values, shape ``(B,)``.
    estimate
        On all units.
    units
        Number of units, >= 2.
    level
        Two-sided confidence in (0, 1).
    method
        ``bca``: corrected for bias and acceleration. ``percentile``: for neither.
    skew
        The `acceleration`.

    Source: Efron & Tibshirani (1993), sections 13.3 and 14.3, equations 14.9 to 14.14; the
    expansion for few units is Hesterberg (2015), The American Statistician 69, 371-386.
    """
    from scipy import special

    check_level(level)
    spread = np.sqrt(units / (units - 1)) * special.stdtrit(units - 1, 0.5 + level / 2)
    ends = np.array([-spread, spread])
    if method == "bca":
        below = ((values < estimate).mean() + (values <= estimate).mean()) / 2
        edge = 0.5 / len(values)
        shift = float(special.ndtri(min(max(below, edge), 1 - edge)))
        reach = shift + ends
        # Beyond a pole, which very few and very unequal units reach, the end is the extreme value.
        ends = shift + reach / np.maximum(1 - skew * reach, 1e-3)
    places = special.ndtr(ends) * (len(values) - 1)
    # As np.quantile, at a fifth of its time, which counts with thousands of figures.
    low, high = np.interp(places, np.arange(len(values)), np.sort(values))
    return float(low), float(high)
