"""Abilities of targets, and intercepts that give an exact expected rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from safemetry.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

RESPONSE_TYPES: Final = ("standard", "contextual", "copyright")
"""Response types of the harmful items, in the order of `PASS_RATES` and `CORRELATIONS`."""

PASS_RATES: Final = (0.83, 0.58, 0.43)
"""Published safe-response rates of the three response types."""

CORRELATIONS: Final = ((1.0, 0.785, 0.451), (0.785, 1.0, 0.603), (0.451, 0.603, 1.0))
"""Published correlations between the abilities behind the three response types."""

# Trapezoids converge exponentially on an analytic integrand. The logistic function has its poles
# at distance pi / a from the real line, so the error is about exp(-2 pi^2 / (.05 a)).
_NODES: Final = np.linspace(-8.5, 8.5, 341)
_WEIGHTS: Final = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


def check_correlations(correlations: ArrayLike) -> NDArray[np.float64]:
    """The matrix itself, once it is known to be a correlation matrix of full rank.

    Raises
    ------
    InputError
        Where it is not square, symmetric, positive definite with a unit diagonal.
    """
    matrix = np.array(correlations, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError("a correlation matrix is a square table of finite numbers")
    if not np.allclose(matrix, matrix.T) or not np.allclose(np.diag(matrix), 1):
        raise InputError("a correlation matrix is symmetric with ones on its diagonal")
    if np.linalg.eigvalsh(matrix)[0] <= 1e-10:
        raise InputError(
            "no abilities can have these correlations: the matrix is not positive definite",
            fix="bring the correlations closer to 0",
        )
    return matrix


def add_caution(correlations: ArrayLike, caution: float) -> NDArray[np.float64]:
    """Correlation matrix with one more factor, caution.

    Caution correlates `caution` with the mean of the other abilities; what is left of it is its
    own. It correlates most with the ability that is nearest to that mean.

    Parameters
    ----------
    correlations
        Correlations between the abilities, (K, K).
    caution
        Correlation between caution and the mean ability, in (-1, 1).

    Returns
    -------
    ndarray
        (K + 1, K + 1), caution last.

    Examples
    --------
    >>> add_caution([[1.0, 0.6], [0.6, 1.0]], 0.5).round(3)
    array([[1.   , 0.6  , 0.447],
           [0.6  , 1.   , 0.447],
           [0.447, 0.447, 1.   ]])
    """
    if not -1 < caution < 1:
        raise InputError(f"the correlation with caution must lie between -1 and 1, not {caution}")
    matrix = check_correlations(correlations)
    with_caution = caution * matrix.mean(axis=1) / np.sqrt(matrix.mean())
    return np.block([[matrix, with_caution[:, None]], [with_caution[None, :], np.ones((1, 1))]])


def draw_abilities(
    targets: int,
    correlations: ArrayLike,
    rng: np.random.Generator,
    *,
    exact_moments: bool = False,
) -> NDArray[np.float64]:
    """Abilities of targets from a multivariate normal with unit variances.

    Parameters
    ----------
    targets
        Number of targets.
    correlations
        Correlations between the abilities, (K, K).
    rng
        Source of randomness.
    exact_moments
        Move and mix the draws so that the sample itself has means 0, variances 1 (divisor
        targets - 1) and exactly these correlations. Needs more targets than abilities.

    Returns
    -------
    ndarray
        (targets, K).

    Raises
    ------
    InputError
        For an impossible correlation matrix, or too few targets for exact moments.

    Examples
    --------
    >>> abilities = draw_abilities(
    ...     12, [[1, 0.5], [0.5, 1]], np.random.default_rng(1), exact_moments=True
    ... )
    >>> np.corrcoef(abilities.T).round(12)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    matrix = check_correlations(correlations)
    factors = len(matrix)
    if targets < 1:
        raise InputError(f"{targets} targets are none")
    if exact_moments and targets <= factors:
        raise InputError(
            f"{targets} targets cannot have {factors} abilities with exact moments",
            fix=f"use at least {factors + 1} targets or exact_moments=False",
        )
    draws = rng.standard_normal((targets, factors))
    if exact_moments:
        draws -= draws.mean(axis=0)
        spread = np.linalg.cholesky(draws.T @ draws / (targets - 1))
        draws = np.linalg.solve(spread, draws.T).T
    return draws @ np.linalg.cholesky(matrix).T


def expected_rate(
    intercept: float,
    discriminations: ArrayLike,
    offsets: ArrayLike,
    abilities: ArrayLike | None = None,
) -> float:
    """Mean of expit(a theta + offset + intercept) over items and abilities.

    Parameters
    ----------
    intercept
        Logits added to every item.
    discriminations, offsets
        One per item, (items,), in logits.
    abilities
        Abilities to average over, (targets,); a standard normal population if None (the
        logistic-normal integral, by the trapezoidal rule: error below 1e-9 for |a| < 18).

    Returns
    -------
    float
        Expected rate, in (0, 1).
    """
    return _rate_and_slope(intercept, *_grid(discriminations, offsets, abilities))[0]


def solve_intercept(
    rate: float,
    discriminations: ArrayLike,
    offsets: ArrayLike,
    abilities: ArrayLike | None = None,
) -> float:
    """The intercept at which the expected rate over items and abilities is `rate`.

    Newton's method on `expected_rate`, which rises in the intercept, kept inside a bracket.

    Parameters
    ----------
    rate
        Rate to reach, in (0, 1).
    discriminations, offsets, abilities
        As for `expected_rate`.

    Returns
    -------
    float
        Intercept in logits; the expected rate agrees with `rate` within 1e-12.

    Raises
    ------
    InputError
        For a rate outside (0, 1).

    Examples
    --------
    A spread of abilities pulls rates towards one half, so the intercept exceeds logit(.83) = 1.59:

    >>> round(solve_intercept(0.83, [1.5], [0.0]), 3)
    2.178
    """
    if not 0 < rate < 1:
        raise InputError(f"a rate of {rate} has no intercept", fix="use a rate between 0 and 1")
    logits, weights = _grid(discriminations, offsets, abilities)
    reach = 40.0 + float(np.abs(logits).max())
    low, high, intercept = -reach, reach, 0.0
    for _ in range(200):
        value, slope = _rate_and_slope(intercept, logits, weights)
        if abs(value - rate) < 1e-14 or high - low < 1e-13:
            break
        low, high = (intercept, high) if value < rate else (low, intercept)
        step = (rate - value) / slope if slope > 0 else np.inf
        newton = intercept + step
        intercept = newton if low < newton < high else (low + high) / 2
    return intercept


def _grid(
    discriminations: ArrayLike, offsets: ArrayLike, abilities: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logits without the intercept (items, nodes), and the weight of each node."""
    nodes = _NODES if abilities is None else np.asarray(abilities, dtype=np.float64)
    weights = _WEIGHTS if abilities is None else np.full(len(nodes), 1 / len(nodes))
    a, offset = (np.asarray(values, dtype=np.float64) for values in (discriminations, offsets))
    return np.multiply.outer(a, nodes) + offset[:, None], weights


def _rate_and_slope(
    intercept: float, logits: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Expected rate and its derivative by the intercept."""
    chances = expit(logits + intercept)
    rate = float((chances @ weights).mean())
    return rate, rate - float((np.square(chances) @ weights).mean())


def apportion(total: int, shares: Sequence[float]) -> NDArray[np.int64]:
    """Whole numbers that sum to `total` in proportion to `shares` (largest remainders).

    Examples
    --------
    >>> apportion(10, [2, 1, 1]).tolist()
    [5, 3, 2]
    """
    exact = total * np.asarray(shares, dtype=np.float64) / sum(shares)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:left]] += 1
    return counts
