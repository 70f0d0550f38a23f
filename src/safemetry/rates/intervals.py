"""Intervals and ceilings for a proportion of independent trials.

Counts may be fractional, because the cluster-aware methods hand in effective counts. Every
function broadcasts over its array arguments and returns arrays of the broadcast shape. Where there
is no trial nothing is ruled out: the interval is [0, 1] and the ceiling is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


class Interval(NamedTuple):
    """Lower and upper ends, arrays of one shape."""

    lower: FloatArray
    upper: FloatArray


class Projection(NamedTuple):
    """Expected number of events in a volume: estimate and both ends of its interval."""

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray


def check_level(level: float, name: str = "level") -> None:
    """Raise unless a confidence level lies strictly between 0 and 1.

    Parameters: `level` the confidence as a fraction; `name` the argument named in the message.

    Raises: ValueError where it does not.

    >>> check_level(0.95)
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {level}")


def check_counts(events: ArrayLike, trials: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return events and trials as float arrays of one shape.

    Parameters: `events` and `trials`, counts of any broadcastable shapes, fractions allowed.

    Raises: ValueError unless 0 <= events <= trials, all finite.

    >>> check_counts(1, [2, 4])[0].tolist()
    [1.0, 1.0]
    """
    x, n = np.broadcast_arrays(np.asarray(events, np.float64), np.asarray(trials, np.float64))
    if not (np.isfinite(x).all() and np.isfinite(n).all()):
        raise ValueError("events and trials must be finite numbers")
    if (x < 0).any() or (x > n).any():
        raise ValueError("events must lie between 0 and trials")
    return x, n


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile.

    Parameters: `probability` strictly between 0 and 1.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    from scipy import special

    return float(special.ndtri(probability))


def wilson(events: ArrayLike, trials: ArrayLike, level: float = 0.95) -> Interval:
    """Return the Wilson score interval, whose coverage is near `level` on average over rates.

    Parameters: `events`, `trials` counts (fractions allowed), broadcast together; `level` two-sided
    confidence in (0, 1).

    Raises: ValueError for impossible counts or levels.

    Source: Wilson (1927), JASA 22, 209-212; Brown, Cai & DasGupta (2001), equation 4.

    >>> low, high = wilson(0, 100)
    >>> float(low), round(float(high), 4)
    (0.0, 0.037)
    """
    check_level(level)
    x, n = check_counts(events, trials)
    z = normal_quantile(0.5 + level / 2)
    tried = n > 0
    safe_n = np.where(tried, n, 1.0)
    rate = x / safe_n
    scale = 1 + z * z / safe_n
    centre = (rate + z * z / (2 * safe_n)) / scale
    half = z * np.sqrt(rate * (1 - rate) / safe_n + (z / (2 * safe_n)) ** 2) / scale
    # At the two edges the algebra gives exactly 0 and 1; floating point does not.
    lower = np.where(tried & (x > 0), np.maximum(centre - half, 0.0), 0.0)
    upper = np.where(tried & (x < n), np.minimum(centre + half, 1.0), 1.0)
    return Interval(lower, upper)


def upper_bound(events: ArrayLike, trials: ArrayLike, confidence: float = 0.95) -> FloatArray:
    """Return the exact one-sided upper bound on a rate (the ceiling of independent trials).

    Parameters: `events`, `trials` counts (fractions allowed), broadcast together; `confidence`
    one-sided, in (0, 1).

    Returns: the largest rate at which `events` or fewer still has probability 1 - confidence;
    1 where every trial is an event, also where there is no trial.

    Raises: ValueError for impossible counts or levels.

    Source: Clopper & Pearson (1934), Biometrika 26, 404-413, upper limit only.

    >>> round(float(upper_bound(0, 100)), 4)
    0.0295
    """
    from scipy import special

    check_level(confidence, "confidence")
    x, n = check_counts(events, trials)
    partial = x < n
    bound = special.betaincinv(x + 1, np.where(partial, n - x, 1.0), confidence)
    return np.where(partial, bound, 1.0)


def clopper_pearson(events: ArrayLike, trials: ArrayLike, level: float = 0.95) -> Interval:
    """Return the exact interval, whose coverage is never below `level`.

    Parameters: `events`, `trials` counts (fractions allowed), broadcast together; `level` two-sided
    confidence in (0, 1).

    Raises: ValueError for impossible counts or levels.

    Source: Clopper & Pearson (1934), Biometrika 26, 404-413; beta form as in Brown, Cai &
    DasGupta (2001), section 4.2.1; fractional counts as in Korn & Graubard (1998).

    >>> low, high = clopper_pearson(34, 64)
    >>> round(float(low), 3), round(float(high), 3)
    (0.402, 0.657)
    """
    from scipy import special

    check_level(level)
    x, n = check_counts(events, trials)
    upper = upper_bound(x, n, 0.5 + level / 2)
    some = x > 0
    lower = special.betaincinv(np.where(some, x, 1.0), n - x + 1, 0.5 - level / 2)
    return Interval(np.where(some, lower, 0.0), upper)


def zero_failure_ceiling(trials: ArrayLike, confidence: float = 0.95) -> FloatArray:
    """Return how high the rate may still be after trials without a single event.

    Parameters: `trials` number of clean independent trials, >= 0 (fractions allowed); `confidence`
    one-sided, in (0, 1).

    Returns: 1 - alpha ** (1 / trials); 1 where there is no trial.

    Raises: ValueError for a negative number of trials or an impossible level.

    Source: `upper_bound` at zero events, in closed form (Hanley & Lippman-Hand 1983, JAMA 249).

    >>> round(float(zero_failure_ceiling(1000)), 4)
    0.003
    """
    check_level(confidence, "confidence")
    _, n = check_counts(0.0, trials)
    log_alpha = np.log1p(-confidence)
    return np.where(n > 0, -np.expm1(log_alpha / np.where(n > 0, n, 1.0)), 1.0)


def rule_of_three(trials: ArrayLike) -> FloatArray:
    """Return 3 / trials, the well-known approximation of the 95% ceiling at zero events.

    Parameters: `trials` number of clean trials, >= 0.

    Returns: 3 / trials, at most 1; 1 where there is no trial.

    Raises: ValueError for a negative number of trials.

    Source: Hanley & Lippman-Hand (1983), JAMA 249, 1743-1745.

    >>> float(rule_of_three(1000))
    0.003
    """
    _, n = check_counts(0.0, trials)
    return np.minimum(3.0 / np.maximum(n, 3.0), 1.0)


def missing_bounds(events: ArrayLike, trials: ArrayLike, missing: ArrayLike) -> Interval:
    """Return the rates if every missing outcome were no event, and if every one were an event.

    Parameters: `events`, `trials` judged counts; `missing` number of outcomes that are not known,
    >= 0; all broadcast together.

    Returns: events / (trials + missing) and (events + missing) / (trials + missing); [0, 1] where
    nothing was tried.

    Raises: ValueError for impossible counts.

    Source: Manski (1989), Journal of Human Resources 24, worst-case bounds.

    >>> low, high = missing_bounds(34, 64, 36)
    >>> float(low), float(high)
    (0.34, 0.7)
    """
    x, n = check_counts(events, trials)
    _, lost = check_counts(0.0, missing)
    total = n + lost
    known = total > 0
    safe_total = np.where(known, total, 1.0)
    return Interval(
        np.where(known, x / safe_total, 0.0), np.where(known, (x + lost) / safe_total, 1.0)
    )


def project(estimate: ArrayLike, interval: Interval, volume: float) -> Projection:
    """Return the number of events to expect in a volume of uses like the tested ones.

    Parameters: `estimate` rates in [0, 1]; `interval` their lower and upper ends; `volume` number
    of uses, >= 0, for example requests a day.

    Returns: rate times volume for the estimate and both ends. The spread of the count around its
    expectation is not included: it is small beside the interval where volumes are large.

    Raises: ValueError for a negative or infinite volume.

    >>> projection = project(0.001, Interval(np.array(0.0005), np.array(0.002)), 10_000_000)
    >>> [round(float(part)) for part in projection]
    [10000, 5000, 20000]
    """
    if not 0.0 <= volume < np.inf:
        raise ValueError(f"volume must be a finite number of uses >= 0, got {volume}")
    rate = np.asarray(estimate, np.float64)
    return Projection(rate * volume, interval.lower * volume, interval.upper * volume)


def simultaneous_level(level: float, groups: int) -> float:
    """Return the level at which each of several intervals must stand so that all hold together.

    Wherever the worst of several cells is named, that cell was chosen by its data, and only
    intervals that hold simultaneously cover it at the stated level.

    Parameters: `level` joint confidence in (0, 1); `groups` number of intervals, >= 1.

    Returns: level ** (1 / groups), exact for independent cells and safe for positively dependent
    ones.

    Raises: ValueError for an impossible level or fewer than one group.

    Source: Sidak (1967), JASA 62, 626-633.

    >>> round(simultaneous_level(0.95, 10), 5)
    0.99488
    """
    check_level(level)
    if groups < 1:
        raise ValueError(f"groups must be at least 1, got {groups}")
    return float(level ** (1.0 / groups))
