"""Predicted responses of targets whose abilities are known with an error, and how good they are."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.irt.matching import as_points
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemParameters
from safemetry.irt.responses import Responses

_REACH: Final = 6.2
_WIDEST_STEP: Final = 0.9
SMALLEST_PROBABILITY: Final = 1e-15
"""Observed responses are given at least this probability in a log loss, which stays finite."""


def expected_logistic(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Mean of 1 / (1 + exp(-x)) over x ~ N(mean, variance), exact within 1e-8.

    By the rectangle rule, which converges exponentially. For a standard deviation s above .45 the
    poles of the logistic function, pi / s away from the real line, bound the step; Gauss-Hermite
    nodes, which do not know of them, need ever more points as s grows (at s = 5, 61 of them still
    leave an error of 1e-5).

    Parameters
    ----------
    mean, variance
        Of the linear predictor, arrays of shapes that broadcast; `variance` is at least 0.

    Returns
    -------
    numpy.ndarray
        In [0, 1], of the broadcast shape.

    Examples
    --------
    >>> expected_logistic(np.array([0.0, 1.0, 1.0]), np.array([9.0, 0.0, 4.0])).round(6)
    array([0.5     , 0.731059, 0.647726])
    """
    middle, square = np.broadcast_arrays(
        np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    )
    spread = np.sqrt(np.maximum(square, 0.0))
    if not spread.size:
        return np.empty(spread.shape)
    # Cells of similar spread share their nodes.
    classes = np.ceil(np.log2(np.maximum(spread, 0.25)))
    if np.ptp(classes) == 0:
        return _rectangle(middle, spread)
    found = np.empty(spread.shape)
    for chosen in np.unique(classes):
        cells = classes == chosen
        found[cells] = _rectangle(middle[cells], spread[cells])
    return found


def _rectangle(mean: FloatArray, sd: FloatArray) -> FloatArray:
    places, weights = _nodes(float(sd.max()))
    found = np.zeros(mean.shape)
    for place, weight in zip(places, weights, strict=True):
        found += weight * expit(mean + place * sd)
    return found


def _nodes(sd: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of N(0, 1) for a logistic function of slope `sd`.

    With step h the error is about exp(-2 pi^2 / h^2), and where the poles at pi / sd are nearer
    than 2 pi / h, exp((pi / sd)^2 / 2 - 2 pi^2 / (sd h)) (Trefethen & Weideman 2014, section 5).
    """
    step = _WIDEST_STEP
    if sd > 0.45:
        step = min(step, 2 * np.pi**2 * sd / (21 * sd**2 + np.pi**2 / 2))
    count = int(np.ceil(_REACH / step))
    places: FloatArray = step * np.arange(-count, count + 1, dtype=np.float64)
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()


def integrated_probabilities(
    parameters: ItemParameters, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Probability of each category over Gaussian posteriors of the abilities.

    The linear predictor of item j is N(a_j'm_i + d_j, a_j'V_i a_j), so that one integral along a
    line does for any number of dimensions. `category_probabilities` gives the same at a point.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    means
        Of N posteriors, shape ``(N, K)``, or ``(N,)`` in one dimension.
    covariances
        Shape ``(N, K, K)``; in one dimension variances, shape ``(N,)``, will do.

    Returns
    -------
    numpy.ndarray
        Shape ``(C, N, J)``, exact within 1e-8; the first axis sums to 1.

    Raises
    ------
    InputError
        For shapes that do not fit, or covariances that are none.
    """
    points = as_points(means, parameters.dimensions)
    spreads = np.asarray(covariances, np.float64)
    size = parameters.dimensions
    if size == 1:
        spreads = spreads.reshape(len(spreads), 1, 1) if spreads.size == len(points) else spreads
    if spreads.shape != (len(points), size, size) or not np.isfinite(spreads).all():
        raise InputError(
            f"covariances have shape {spreads.shape} and not {(len(points), size, size)}, or are "
            "not finite"
        )
    slopes = parameters.slopes
    squares = (slopes[:, :, None] * slopes[:, None, :]).reshape(parameters.items, -1)
    variances = spreads.reshape(len(points), -1) @ squares.T
    if (variances < -1e-9 * np.abs(variances).max(initial=1.0)).any():
        raise InputError("a covariance is not positive semidefinite")
    linear = points @ slopes.T
    ends = [np.ones(linear.shape)]
    for step in parameters.intercepts.T:
        exists = np.isfinite(step)
        within = expected_logistic(linear + np.where(exists, step, 0.0), variances)
        reached = parameters.lower + (parameters.upper - parameters.lower) * within
        ends.append(np.where(exists, reached, 0.0))
    ends.append(np.zeros(linear.shape))
    at_least = np.stack(ends)
    found: FloatArray = np.maximum(at_least[:-1] - at_least[1:], 0.0)
    return found


def log_loss(
    probabilities: FloatArray, responses: Responses, cells: BoolArray | None = None
) -> float | None:
    """Mean negative log probability of responses, in nats; lower is better.

    Parameters
    ----------
    probabilities
        Of each category, shape ``(C, N, J)``.
    responses
        What was observed.
    cells
        Which cells count, shape ``(N, J)``, such as those held out; by default all observed.

    Returns
    -------
    float or None
        None where no observed cell counts.

    Raises
    ------
    InputError
        For shapes that do not fit.
    """
    chosen, weights = _counted(probabilities, responses, cells)
    if not len(weights):
        return None
    certain = np.maximum(probabilities[chosen], SMALLEST_PROBABILITY)
    return float(-(weights @ np.log(certain)) / weights.sum())


def brier_score(
    probabilities: FloatArray, responses: Responses, cells: BoolArray | None = None
) -> float | None:
    """Mean squared error of predicted probabilities (Brier 1950), 0 is best.

    For two categories the squared error of the probability of a 1, so that a coin scores .25; for
    more the ranked probability score, its sum over the chances of at least category c.

    Parameters
    ----------
    probabilities, responses, cells
        As in `log_loss`.
    """
    chosen, weights = _counted(probabilities, responses, cells)
    if not len(weights):
        return None
    codes, rows, columns = chosen
    at_least = 1 - np.cumsum(probabilities, axis=0)[:-1, rows, columns]
    reached = codes >= np.arange(1, len(probabilities))[:, None]
    return float(((at_least - reached) ** 2).sum(axis=0) @ weights / weights.sum())


def _counted(
    probabilities: FloatArray, responses: Responses, cells: BoolArray | None
) -> tuple[tuple[IntArray, IntArray, IntArray], FloatArray]:
    """Positions in `probabilities` of the responses that count, and their weights."""
    if probabilities.shape[1:] != responses.codes.shape or (
        cells is not None and cells.shape != responses.codes.shape
    ):
        raise InputError("probabilities, responses and cells are of the same targets and items")
    if len(probabilities) < responses.categories.max():
        raise InputError(
            f"there is a response {responses.categories.max() - 1} and probabilities of "
            f"{len(probabilities)} categories"
        )
    counted = responses.observed if cells is None else responses.observed & cells
    rows, columns = (axis.astype(np.int64) for axis in np.nonzero(counted))
    codes = responses.codes[rows, columns].astype(np.int64)
    return (codes, rows, columns), responses.weights[rows]
