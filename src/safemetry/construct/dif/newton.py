"""Newton's method for many small penalised logistic regressions at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from safemetry.irt.parameters import BoolArray

Floats = NDArray[np.floating]
"""Single or double precision, as the caller chose."""

_LONGEST_STEP = 4.0
"""Longest move of a coefficient in one step, in logits."""
_OVERSHOT = 0.9
"""A step whose slope at its end is steeper than this share of the slope at its start, the other
way, has passed the maximum and is halved."""
_TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-14}
"""Newton decrement under which a last step is taken; the error after it is of its order."""


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients of b x J regressions on P features.

    Parameters
    ----------
    coefficients
        Shape ``(b, P, J)``.
    converged
        Shape ``(b, J)``.
    iterations
        Newton steps taken, with halved ones.
    """

    coefficients: Floats
    converged: BoolArray
    iterations: int


@dataclass(frozen=True)
class Curvature:
    """The log-likelihood and its derivatives at some coefficients, each with the ridge taken off.

    Parameters
    ----------
    gradient
        Shape ``(b, P, J)``.
    information
        The upper triangle of minus the second derivatives by rows, shape ``(b, P (P + 1) / 2, J)``.
    """

    gradient: Floats
    information: Floats


@dataclass(frozen=True)
class LogisticData:
    """Answers and features in the precision of the work.

    Parameters
    ----------
    answers
        0 or 1, and 0 where missing, shape ``(b, N, J)``.
    observed
        1 or 0 of the same shape, None where nothing is missing.
    features
        Shape ``(b, P, N)`` or, where they differ by item, ``(b, P, N, J)``; b may be 1.
    products
        Products of each two features, the upper triangle by rows.
    """

    answers: Floats
    observed: Floats | None
    features: Floats
    products: Floats

    def predictor(self, coefficients: Floats) -> Floats:
        """The logits, shape ``(b, N, J)``."""
        if self.features.ndim == 4:
            by_item: Floats = np.einsum("bpnj,bpj->bnj", self.features, coefficients)
            return by_item
        logits: Floats = self.features.swapaxes(1, 2) @ coefficients
        return logits

    def curvature(self, coefficients: Floats, ridge: Floats) -> Curvature:
        """Gradient and information of the penalised log-likelihood."""
        chance = self.predictor(coefficients)
        with np.errstate(over="ignore"):  # exp of a large logit is infinite, and the chance 0
            np.exp(np.negative(chance, out=chance), out=chance)
        np.reciprocal(np.add(chance, 1, out=chance), out=chance)
        residual = self.answers - chance
        weight = np.multiply(chance, 1 - chance, out=chance)
        if self.observed is not None:
            residual *= self.observed
            weight *= self.observed
        gradient = _weighted_sums(self.features, residual)
        gradient -= ridge[:, None] * coefficients
        information = _weighted_sums(self.products, weight)
        for row, place in enumerate(_diagonal(len(ridge))):
            information[:, place] += ridge[row]
        return Curvature(gradient, information)

    def log_likelihood(self, coefficients: Floats) -> Floats:
        """The log-likelihood without the penalty, shape ``(b, J)``."""
        logits = self.predictor(coefficients)
        each = self.answers * logits - np.logaddexp(0, logits)
        total: Floats = (each if self.observed is None else each * self.observed).sum(axis=1)
        return total


def logistic_data(
    codes: NDArray[np.int8], features: Floats, dtype: type[np.floating]
) -> LogisticData:
    """The data of b x J regressions.

    Parameters
    ----------
    codes
        Shape ``(b, N, J)``: 1, 0 or -1.
    features
        Shape ``(b, P, N)`` or ``(b, P, N, J)``.
    dtype
        Precision of the work.
    """
    columns = features.astype(dtype)
    pairs = list(combinations_with_replacement(range(columns.shape[1]), 2))
    products = np.stack([columns[:, one] * columns[:, two] for one, two in pairs], axis=1)
    seen = codes >= 0
    return LogisticData(
        (codes == 1).astype(dtype), None if seen.all() else seen.astype(dtype), columns, products
    )


def fit_logistic(
    data: LogisticData,
    start: Floats,
    ridge: Floats,
    wanted: BoolArray,
    most_iterations: int = 40,
) -> LogisticFit:
    """Maximise the penalised log-likelihood of every regression by Newton steps in step.

    Parameters
    ----------
    data
        As `logistic_data` makes it.
    start
        First coefficients, shape ``(b, P, J)``.
    ridge
        Precision of the normal penalty on each coefficient, shape ``(P,)``; 0 for none.
    wanted
        Shape ``(b, J)``: the regressions that the iterations wait for.
    most_iterations
        Where to stop, halved steps counted.

    Notes
    -----
    The penalised log-likelihood is concave, so a step may only be too long. Its slope along the
    step comes free with the next gradient; where it points back almost as steeply as it pointed
    forth, the step is halved. A step never moves a coefficient by more than 4 logits.
    """
    tolerance = _TOLERANCE[start.dtype]
    place = start.copy()
    step = np.zeros_like(place)
    slope = np.zeros(wanted.shape, place.dtype)
    converged = np.zeros(wanted.shape, bool)
    taken = 0
    while taken < most_iterations:
        taken += 1
        here = data.curvature(place, ridge)
        newton, _ = solve(here.information, here.gradient)
        decrement = (here.gradient * newton).sum(axis=1)
        overshot = (here.gradient * step).sum(axis=1) < -_OVERSHOT * slope
        overshot &= decrement > tolerance
        converged = decrement <= tolerance
        longest = np.abs(newton).max(axis=1)
        shrink = np.minimum(1, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        newton *= shrink[:, None]
        decrement *= shrink
        if overshot.any():
            half = step / 2
            place = np.where(overshot[:, None], place - half, place + newton)
            step = np.where(overshot[:, None], half, newton)
            slope = np.where(overshot, slope / 2, decrement)
        else:
            place += newton
            step, slope = newton, decrement
        if (converged | ~wanted).all():
            break
    return LogisticFit(place, converged, taken)


def solve(information: Floats, gradient: Floats) -> tuple[Floats, Floats]:
    """Solve symmetric systems, and the part of the information that the last features own.

    Parameters
    ----------
    information
        Upper triangles by rows, shape ``(b, P (P + 1) / 2, J)``.
    gradient
        Right sides, shape ``(b, P, J)``.

    Returns
    -------
    tuple
        The solutions, and the pivots of the elimination, both ``(b, P, J)``. The last pivot is the
        information on the last coefficient when all others are estimated.
    """
    size = gradient.shape[1]
    tiny = np.finfo(gradient.dtype).tiny ** 0.5
    places = {pair: k for k, pair in enumerate(combinations_with_replacement(range(size), 2))}
    rest = {pair: information[:, k] for pair, k in places.items()}
    right = [gradient[:, row] for row in range(size)]
    inverse = []
    for row in range(size):
        inverse.append(1 / np.maximum(rest[row, row], tiny))
        for lower in range(row + 1, size):
            factor = rest[row, lower] * inverse[row]
            for column in range(lower, size):
                rest[lower, column] = rest[lower, column] - factor * rest[row, column]
            right[lower] = right[lower] - factor * right[row]
    solution: list[Floats] = [right[0]] * size
    for row in reversed(range(size)):
        total = right[row]
        for column in range(row + 1, size):
            total = total - rest[row, column] * solution[column]
        solution[row] = total * inverse[row]
    return np.stack(solution, axis=1), np.stack([rest[row, row] for row in range(size)], axis=1)


def _weighted_sums(features: Floats, weights: Floats) -> Floats:
    """Sums over targets of each feature times the weights, shape ``(b, K, J)``."""
    if features.ndim == 4:
        by_item: Floats = np.einsum("bknj,bnj->bkj", features, weights)
        return by_item
    sums: Floats = features @ weights
    return sums


def _diagonal(size: int) -> list[int]:
    """Places of the diagonal in an upper triangle by rows."""
    return [
        place
        for place, (one, two) in enumerate(combinations_with_replacement(range(size), 2))
        if one == two
    ]
