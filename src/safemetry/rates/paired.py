"""Comparison of two targets: paired on the same items, or on separate ones.

A pair is one item (or item and epoch) with an outcome for both targets. A discordant pair has the
event for one target only; only discordant pairs carry evidence about the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from safemetry.rates.intervals import (
    FloatArray,
    Interval,
    check_counts,
    check_level,
    normal_quantile,
    wilson,
    zero_failure_ceiling,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# With fewer discordant clusters no sign-flip test reaches 5%, and their spread says too little.
FEWEST_DISCORDANT = 6
# The same by weight: (sum m)**2 / sum m**2 over discordant clusters, so that a few large ones
# do not pass for many.
FEWEST_DISCORDANT_BY_WEIGHT = 5.0
# Bounds the memory of one batch of sign flips (values drawn at once).
BATCH_FLIPS = 4_000_000
# Bisection halves an interval of length 2 this often, which exhausts double precision.
BISECTIONS = 60


@dataclass(frozen=True)
class SignFlip:
    """Result of a sign-flip test: the p-value, how many flips it rests on, and whether all."""

    p_value: float
    flips: int
    exact: bool


@dataclass(frozen=True)
class PairedDifference:
    """Difference of two rates on the same pairs (first minus second) with its uncertainty.

    discordant: pairs with the event for the first target only and for the second only.
    effective_pairs: number of independent pairs that carry as much information.
    method: `tango`, or `tango_effective` on effective counts where clusters hold several pairs.
    """

    difference: float
    lower: float
    upper: float
    level: float
    pairs: float
    clusters: int
    discordant: tuple[float, float]
    discordant_rate: float
    design_effect: float
    effective_pairs: float
    method: Literal["tango", "tango_effective"]


def mcnemar_exact(only_first: ArrayLike, only_second: ArrayLike) -> FloatArray:
    """Return the two-sided exact McNemar p-value, for one pair per cluster.

    Parameters: `only_first`, `only_second` whole numbers of discordant pairs of either kind,
    broadcast together.

    Returns: twice the smaller binomial tail at 1/2, at most 1; 1 without a discordant pair.

    Raises: ValueError for negative or fractional counts.

    Source: McNemar (1947), Psychometrika 12, 153-157; exact form as in Fleiss, Levin & Paik (2003),
    section 13.1.

    >>> round(float(mcnemar_exact(8, 1)), 5)
    0.03906
    """
    from scipy import special

    b, c = np.broadcast_arrays(
        np.asarray(only_first, np.float64), np.asarray(only_second, np.float64)
    )
    for count in (b, c):
        if (count < 0).any() or (count != np.floor(count)).any() or not np.isfinite(count).all():
            raise ValueError("discordant pairs must be whole numbers >= 0")
    fewer, more = np.minimum(b, c), np.maximum(b, c)
    tail = special.betainc(np.maximum(more, 1.0), fewer + 1.0, 0.5)
    return np.where(more > fewer, np.minimum(2.0 * tail, 1.0), 1.0)


def sign_flip_test(
    differences: ArrayLike, rng: np.random.Generator, permutations: int = 20_000
) -> SignFlip:
    """Return the two-sided p-value for a mean difference of zero, by flipping signs of clusters.

    Parameters: `differences`, shape (clusters,): one difference per cluster, first target minus
    second, its mean over pairs (each cluster counts once) or its sum (each pair counts once);
    `rng` used only where the flips are drawn; `permutations` number of flips, >= 1.

    Returns: the share of sign flips whose absolute sum is at least the observed one. All flips are
    enumerated where the nonzero differences allow no more than `permutations`; otherwise flips
    are drawn and the observed one is counted among them. The p-value depends on the differences
    only through their multiset, so the order of clusters does not matter.

    Raises: ValueError for differences that are not finite or for permutations < 1.

    Source: Fisher (1935), The Design of Experiments, section 21; one added to both counts as in
    Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9, equation 2.

    >>> sign_flip_test([1, 1, 1, 1, 1, 0], np.random.default_rng(0))
    SignFlip(p_value=0.0625, flips=32, exact=True)
    """
    d = np.asarray(differences, np.float64)
    if d.ndim != 1 or not np.isfinite(d).all():
        raise ValueError("differences must be a one-dimensional array of finite numbers")
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    nonzero = d[d != 0]
    if not nonzero.size:
        return SignFlip(1.0, 1, exact=True)
    nonzero = nonzero / np.abs(nonzero).max()
    # Sums of equal differences reach the observed value by different roundings.
    reach = abs(float(nonzero.sum())) - 1e-9 * nonzero.size
    # Equal magnitudes are exchangeable, so a binomial draw stands for all their signs at once.
    sizes, counts = np.unique(np.round(np.abs(nonzero), 12), return_counts=True)
    if 2.0**nonzero.size <= permutations:
        return _all_flips(np.repeat(sizes, counts), reach)
    hits, batch = 0, max(1, BATCH_FLIPS // sizes.size)
    for start in range(0, permutations, batch):
        shape = (min(batch, permutations - start), sizes.size)
        sums = (2.0 * rng.binomial(counts, 0.5, shape) - counts) @ sizes
        hits += int((np.abs(sums) >= reach).sum())
    return SignFlip((hits + 1) / (permutations + 1), permutations, exact=False)


def _all_flips(magnitudes: FloatArray, reach: float) -> SignFlip:
    flips = np.arange(2**magnitudes.size)[:, None]
    signs = 1.0 - 2.0 * ((flips >> np.arange(magnitudes.size)) & 1)
    return SignFlip(float((np.abs(signs @ magnitudes) >= reach).mean()), len(signs), exact=True)


def tango_interval(
    only_first: ArrayLike, only_second: ArrayLike, pairs: ArrayLike, level: float = 0.95
) -> Interval:
    """Return the score interval of the difference of two rates on independent pairs.

    Parameters: `only_first`, `only_second` discordant pairs and `pairs` all pairs (fractions
    allowed), broadcast together; `level` two-sided confidence in (0, 1).

    Returns: all differences that the score test does not reject; [-1, 1] where there is no pair.

    Raises: ValueError for impossible counts or levels.

    Source: Tango (1998), Statistics in Medicine 17, 891-908, equations 7 to 9.

    >>> low, high = tango_interval(12, 2, 60)
    >>> round(float(low), 3), round(float(high), 3)
    (0.051, 0.292)
    """
    check_level(level)
    b, c, n = np.broadcast_arrays(
        *(np.asarray(count, np.float64) for count in (only_first, only_second, pairs))
    )
    check_counts(b + c, n)
    if (np.minimum(b, c) < 0).any():
        raise ValueError("discordant pairs must not be negative")
    tried = n > 0
    n = np.where(tried, n, 1.0)
    z = normal_quantile(0.5 + level / 2)
    return Interval(
        np.where(tried, -_tango_upper(c, b, n, z), -1.0),
        np.where(tried, _tango_upper(b, c, n, z), 1.0),
    )


def _tango_upper(b: FloatArray, c: FloatArray, n: FloatArray, z: float) -> FloatArray:
    low, high = (b - c) / n, np.ones_like(n)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        # Maximum likelihood of the second discordant probability given the difference.
        linear = (2 * n - b + c) * middle - b - c
        root = np.sqrt(np.maximum(linear**2 + 8 * n * c * middle * (1 - middle), 0.0))
        second = np.maximum((root - linear) / (4 * n), 0.0)
        variance = n * np.maximum(2 * second + middle * (1 - middle), 0.0)
        inside = n * middle - (b - c) < z * np.sqrt(variance)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.asarray(high, np.float64)


def paired_difference_interval(
    only_first: ArrayLike, only_second: ArrayLike, pairs: ArrayLike, level: float = 0.95
) -> PairedDifference | None:
    """Return the difference of two rates on the same items, with clusters taken into account.

    Parameters: `only_first`, `only_second`, `pairs`, shape (clusters,): discordant pairs of either
    kind and all pairs of each cluster (fractions allowed); `level` two-sided confidence in (0, 1).

    Returns: the difference sum(only_first - only_second) / sum(pairs) and its interval, or None
    where there is no pair. With one pair per cluster that is Tango's interval. Otherwise Tango's
    interval on counts divided by a design effect: the linearised variance between clusters over
    the variance of independent pairs, at least 1, times the squared ratio of t quantiles. Clusters
    without a discordant pair say nothing of its size, so its degrees of freedom are the discordant
    clusters, (sum m)**2 / sum m**2, less 1. While fewer than 6 clusters (5 by that weight) are
    discordant the effect is the mean cluster size as a pair meets it, sum m**2 / sum m.

    Raises: ValueError for impossible counts or levels.

    Source: Tango (1998); the design effect carries Korn & Graubard (1998) over to a difference.

    >>> result = paired_difference_interval([1] * 12 + [0] * 48, [0] * 58 + [1] * 2, [1] * 60)
    >>> round(result.difference, 3), round(result.lower, 3), result.method
    (0.167, 0.051, 'tango')
    """
    check_level(level)
    counts = (only_first, only_second, pairs)
    b, c, m = np.broadcast_arrays(*(np.atleast_1d(np.asarray(k, np.float64)) for k in counts))
    check_counts(b + c, m)
    if b.ndim != 1 or (np.minimum(b, c) < 0).any():
        raise ValueError("counts must be one-dimensional and not negative, one entry per cluster")
    b, c, m = b[m > 0], c[m > 0], m[m > 0]
    if not m.size:
        return None
    n, first, second = float(m.sum()), float(b.sum()), float(c.sum())
    effect = _difference_effect(b, c, m, level) if (m > 1).any() else 1.0
    # Where every pair is discordant, the two quotients may add up to a rounding error above n.
    effective = max(n / effect, first / effect + second / effect)
    lower, upper = tango_interval(first / effect, second / effect, effective, level)
    return PairedDifference(
        difference=(first - second) / n,
        lower=float(lower),
        upper=float(upper),
        level=level,
        pairs=n,
        clusters=m.size,
        discordant=(first, second),
        discordant_rate=(first + second) / n,
        design_effect=effect,
        effective_pairs=n / effect,
        method="tango_effective" if (m > 1).any() else "tango",
    )


def _difference_effect(b: FloatArray, c: FloatArray, m: FloatArray, level: float) -> float:
    from scipy import special

    n, clusters = m.sum(), m.size
    mean_size = max(float((m * m).sum() / n), 1.0)
    discordant = b + c > 0
    squares = float((m[discordant] ** 2).sum())
    weight = float(m[discordant].sum()) ** 2 / squares if squares else 0.0
    few = discordant.sum() < FEWEST_DISCORDANT or weight < FEWEST_DISCORDANT_BY_WEIGHT
    difference = (b.sum() - c.sum()) / n
    independent = (b.sum() + c.sum()) / n - difference**2
    if few or independent <= 0:
        return mean_size
    spread = ((b - c - difference * m) ** 2).sum()
    effect = clusters / (clusters - 1) * spread / (n * independent)
    probability = 0.5 + level / 2
    between = max(min(weight, n / mean_size) - 1, 1.0)
    ratio = special.stdtrit(between, probability) / special.stdtrit(max(n - 1, 1.0), probability)
    return float(max(effect, 1.0) * max(ratio, 1.0) ** 2)


def unpaired_difference_interval(
    first_events: ArrayLike,
    first_trials: ArrayLike,
    second_events: ArrayLike,
    second_trials: ArrayLike,
    level: float = 0.95,
) -> Interval:
    """Return the interval of the difference of two independent rates, first minus second.

    Parameters: events and trials of both targets (effective counts where trials are clustered),
    broadcast together; `level` two-sided confidence in (0, 1).

    Returns: the hybrid score interval; [-1, 1] where a target has no trial.

    Raises: ValueError for impossible counts or levels.

    Source: Newcombe (1998), Statistics in Medicine 17, 873-890, method 10.

    >>> low, high = unpaired_difference_interval(56, 70, 48, 80)
    >>> round(float(low), 4), round(float(high), 4)
    (0.0524, 0.3339)
    """
    x1, n1, x2, n2 = np.broadcast_arrays(
        *check_counts(first_events, first_trials), *check_counts(second_events, second_trials)
    )
    one, two = wilson(x1, n1, level), wilson(x2, n2, level)
    tried = (n1 > 0) & (n2 > 0)
    p1, p2 = x1 / np.where(n1 > 0, n1, 1.0), x2 / np.where(n2 > 0, n2, 1.0)
    below = np.hypot(p1 - one.lower, two.upper - p2)
    above = np.hypot(one.upper - p1, p2 - two.lower)
    return Interval(np.where(tried, p1 - p2 - below, -1.0), np.where(tried, p1 - p2 + above, 1.0))


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted so that the family-wise error stays below the level they meet.

    Parameters: `p_values`, shape (tests,), each in [0, 1].

    Raises: ValueError for values outside [0, 1].

    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p_values must be a one-dimensional array of numbers in [0, 1]")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def minimum_detectable_difference(
    discordant_rate: float, effective_pairs: float, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """Return the smallest paired difference that a two-sided test finds with the given power.

    Parameters: `discordant_rate` share of discordant pairs, in [0, 1]; `effective_pairs` number of
    independent pairs, > 0; `power` in (0, 1); `alpha` two-sided level in (0, 1).

    Returns: a difference of rates in (0, 1], or None where not even a difference of 1 would be
    found. Where no pair is discordant the rate's exact 95% ceiling takes its place: zero
    observed discordance does not mean that the smallest difference would show. A difference
    cannot exceed the discordance, so where the result would, discordance is raised to it.

    Raises: ValueError for impossible parameters.

    Source: Connor (1987), Biometrics 43, 207-211, equation 2, solved for the difference.

    >>> round(minimum_detectable_difference(0.2, 400), 4)
    0.0625
    """
    upper, beta = _power_quantiles(power, alpha)
    _check_pairs(discordant_rate, effective_pairs)
    rate, n = discordant_rate, effective_pairs
    if rate == 0:
        rate = float(zero_failure_ceiling(n, 0.95))
    inner = n + beta**2 - upper**2
    if inner >= 0:
        difference = np.sqrt(rate) * (upper * np.sqrt(n) + beta * np.sqrt(inner)) / (n + beta**2)
        if difference <= rate:
            return float(difference)

    def shortfall(value: float) -> float:
        return float(upper + beta * np.sqrt(1 - value) - np.sqrt(n * value))

    return _first_root(shortfall, 0.0, 1.0)


def power_paired(
    difference: float, discordant_rate: float, effective_pairs: float, alpha: float = 0.05
) -> float:
    """Return the probability that a two-sided paired test finds a difference.

    Parameters: `difference` of rates in [-1, 1]; `discordant_rate` share of discordant pairs, in
    [|difference|, 1]; `effective_pairs` number of independent pairs, > 0; `alpha` in (0, 1).

    Raises: ValueError for impossible parameters.

    Source: Connor (1987), Biometrics 43, 207-211, equation 2.

    >>> round(power_paired(0.0625, 0.2, 400), 2)
    0.8
    """
    from scipy import special

    upper, _ = _power_quantiles(0.5, alpha)
    _check_pairs(discordant_rate, effective_pairs)
    if abs(difference) > discordant_rate:
        raise ValueError("a difference cannot exceed the share of discordant pairs")
    if difference == 0:
        return alpha
    spread = discordant_rate - difference**2
    excess = abs(difference) * np.sqrt(effective_pairs) - upper * np.sqrt(discordant_rate)
    if spread == 0:
        return float(excess > 0)
    return float(special.ndtr(excess / np.sqrt(spread)))


def minimum_detectable_difference_unpaired(
    rate: float,
    first_effective: float,
    second_effective: float,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float | None:
    """Return the smallest difference of two independent rates that a test finds with given power.

    Parameters: `rate` of one target, in [0, 1]; `first_effective`, `second_effective` numbers of
    independent trials, > 0; `power` in (0, 1); `alpha` two-sided level in (0, 1).

    Returns: the difference toward the farther end of [0, 1] (the side with more variance, so the
    larger answer), or None where no rate on that side would be told apart.

    Raises: ValueError for impossible parameters.

    Source: Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions, equation
    4.12, with the trials of both targets in place of equal ones.

    >>> round(minimum_detectable_difference_unpaired(0.1, 500, 500), 3)
    0.059
    """
    upper, beta = _power_quantiles(power, alpha)
    n1, n2 = first_effective, second_effective
    if not (0 <= rate <= 1 and 0 < n1 < np.inf and 0 < n2 < np.inf):
        raise ValueError("rate must lie in [0, 1] and trials must be > 0")
    # The interval is symmetric under exchanging event and non-event.
    base = min(rate, 1 - rate)

    def shortfall(value: float) -> float:
        other = base + value
        pooled = (n1 * base + n2 * other) / (n1 + n2)
        null = np.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
        alternative = np.sqrt(base * (1 - base) / n1 + max(other * (1 - other), 0.0) / n2)
        return float(upper * null + beta * alternative - value)

    return _first_root(shortfall, 0.0, 1.0 - base)


def _power_quantiles(power: float, alpha: float) -> tuple[float, float]:
    check_level(power, "power")
    check_level(alpha, "alpha")
    return normal_quantile(1 - alpha / 2), normal_quantile(power)


def _check_pairs(discordant_rate: float, effective_pairs: float) -> None:
    if not (0 <= discordant_rate <= 1 and 0 < effective_pairs < np.inf):
        raise ValueError("discordant_rate must lie in [0, 1] and effective_pairs must be > 0")


def _first_root(shortfall: Callable[[float], float], low: float, high: float) -> float | None:
    """Return where a function positive at `low` reaches zero, None if it is positive at `high`."""
    if shortfall(high) > 0:
        return None
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if shortfall(middle) > 0 else (low, middle)
    return high
