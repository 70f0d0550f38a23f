"""Any-of-k success: how often at least one of k attempts on a behaviour succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from safemetry.rates.clusters import FEWEST_CLUSTERS
from safemetry.rates.intervals import (
    FloatArray,
    check_counts,
    check_level,
    clopper_pearson,
    wilson,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class AnyOfK:
    """Mean any-of-k success over behaviours; None where no behaviour has k attempts.

    behaviours: those with at least k attempts. left_out: those with fewer.
    effective: number of all-or-nothing behaviours that carry as much information.
    """

    k: int
    estimate: float | None
    lower: float | None
    upper: float | None
    level: float
    behaviours: int
    left_out: int
    effective: float | None
    method: Literal["wilson", "korn_graubard"] | None


def any_of_k(successes: ArrayLike, attempts: ArrayLike, k: int) -> FloatArray:
    """Return the unbiased probability that one of k attempts on a behaviour succeeds.

    Parameters: `successes`, `attempts` whole numbers for each behaviour, attempts >= k, broadcast
    together; `k` number of tries, >= 1.

    Returns: 1 - C(attempts - successes, k) / C(attempts, k): the share of all sets of k attempts
    that hold a success. Exactly 0 without a success and 1 where every set holds one.

    Raises: ValueError for impossible or fractional counts, or fewer than k attempts.

    Source: Hoeffding (1948), the U-statistic; in this form Chen et al. (2021), arXiv:2107.03374,
    equation 1.

    >>> any_of_k([0, 1, 5], [10, 10, 10], 2).round(4).tolist()
    [0.0, 0.2, 0.7778]
    """
    from scipy import special

    c, n = _whole_counts(successes, attempts)
    if k < 1 or (n < k).any():
        raise ValueError("k must be at least 1 and at most the attempts on each behaviour")
    failures = n - c
    possible = failures >= k
    f = np.where(possible, failures, k)
    # C(f, k) / C(n, k), the factorials of k cancelled.
    log_none = (
        special.gammaln(f + 1)
        - special.gammaln(f - k + 1)
        - special.gammaln(n + 1)
        + special.gammaln(n - k + 1)
    )
    some = np.where(possible, -np.expm1(np.minimum(log_none, 0.0)), 1.0)
    return np.where(c > 0, some, 0.0)


def mean_any_of_k(successes: ArrayLike, attempts: ArrayLike, k: int, level: float = 0.95) -> AnyOfK:
    """Return the mean any-of-k success over behaviours, with an interval over behaviours.

    Parameters: `successes`, `attempts` whole numbers, shape (behaviours,); `k` number of tries,
    >= 1; `level` two-sided confidence in (0, 1).

    Returns: the mean over behaviours with at least k attempts, and how many had fewer. Where every
    value is 0 or 1 the interval is Wilson's. Otherwise it is Clopper-Pearson on the effective
    number p (1 - p) / variance of the mean, times the squared ratio of normal to t quantiles, which
    is kept between the number of behaviours and that of their attempts; while fewer than 10
    behaviours have a value above 0 (or below 1) it is the number of behaviours.

    Raises: ValueError for impossible or fractional counts, or k < 1.

    Source: `any_of_k`; Korn & Graubard (1998), Survey Methodology 24, 193-201.

    >>> result = mean_any_of_k([0, 3, 1], [3, 3, 1], 3)
    >>> result.estimate, result.behaviours, result.left_out, result.method
    (0.5, 2, 1, 'wilson')
    """
    from scipy import special

    check_level(level)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    c, n = (np.atleast_1d(count) for count in _whole_counts(successes, attempts))
    enough = n >= k
    size, left_out = int(enough.sum()), int((~enough).sum())
    if size == 0:
        return AnyOfK(k, None, None, None, level, 0, left_out, None, None)
    values = any_of_k(c[enough], n[enough], k)
    mean = float(values.mean())
    if ((values == 0) | (values == 1)).all():
        low, high = wilson(values.sum(), size, level)
        return AnyOfK(
            k, mean, float(low), float(high), level, size, left_out, float(size), "wilson"
        )
    effective = float(size)
    if min((values > 0).sum(), (values < 1).sum()) >= FEWEST_CLUSTERS:
        probability = 0.5 + level / 2
        ratio = special.ndtri(probability) / special.stdtrit(size - 1.0, probability)
        variance = max(float(values.var(ddof=1)) / size, np.finfo(np.float64).tiny)
        wanted = mean * (1 - mean) / variance * float(ratio) ** 2
        effective = min(max(wanted, effective), float(n[enough].sum()))
    interval = clopper_pearson(mean * effective, effective, level)
    return AnyOfK(
        k,
        mean,
        float(interval.lower),
        float(interval.upper),
        level,
        size,
        left_out,
        effective,
        "korn_graubard",
    )


def _whole_counts(successes: ArrayLike, attempts: ArrayLike) -> tuple[FloatArray, FloatArray]:
    c, n = check_counts(successes, attempts)
    if (c != np.floor(c)).any() or (n != np.floor(n)).any():
        raise ValueError("successes and attempts must be whole numbers")
    return c, n
