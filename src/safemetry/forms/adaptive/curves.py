"""Chances of categories and their derivatives, and look-ups between the nodes of a lattice."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from safemetry.irt.parameters import FloatArray, IntArray

LEAST_CHANCE: Final = 1e-300
_BISECTIONS: Final = 45


def category_curves(
    linear: FloatArray, steps: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances of categories and their first two derivatives by the linear predictor.

    Differences are taken on the side of the curve where both terms are small, so that rare
    categories keep their relative precision.

    Parameters
    ----------
    linear
        ``slopes @ theta``, any shape.
    steps
        Intercepts of the categories from the second on, shape ``(C - 1, ...)``, broadcast with
        `linear`; -inf for a category that an item lacks.
    lower, upper
        Asymptotes, broadcast with `linear`.

    Returns
    -------
    tuple
        Three arrays ``(C, *linear.shape)``.
    """
    exists = np.isfinite(steps)
    place = linear + np.where(exists, steps, 0.0)
    above, below = expit(place), expit(-place)
    span = upper - lower
    ends = (1, *place.shape[1:])
    zero, one = np.zeros(ends), np.ones(ends)
    reached = np.concatenate([one, np.where(exists, lower + span * above, 0.0), zero])
    missed = np.concatenate([zero, np.where(exists, (1 - upper) + span * below, 1.0), one])
    bump = np.where(exists, span * above * below, 0.0)
    change = np.concatenate([zero, bump, zero])
    bend = np.concatenate([zero, bump * (below - above), zero])
    upper_side = reached[:-1] < 0.5
    chances = np.where(upper_side, reached[:-1] - reached[1:], missed[1:] - missed[:-1])
    return np.maximum(chances, 0.0), change[:-1] - change[1:], bend[:-1] - bend[1:]


def cubic_weights(place: FloatArray) -> FloatArray:
    """Weights ``(..., 4)`` of the cubic through values at 0, 1, 2 and 3 (Lagrange)."""
    one, two, three = place - 1, place - 2, place - 3
    return np.stack(
        [
            -one * two * three / 6,
            place * two * three / 2,
            -place * one * three / 2,
            place * one * two / 6,
        ],
        axis=-1,
    )


def _first_of_four(nodes: FloatArray, theta: FloatArray) -> tuple[IntArray, FloatArray]:
    """The first of the four nodes around each ability, and its distance from it in nodes."""
    place = (theta - nodes[0]) / (nodes[1] - nodes[0])
    first = np.clip(np.floor(place).astype(np.int64) - 1, 0, nodes.size - 4)
    return first, place - first


def interpolation(nodes: FloatArray, theta: FloatArray) -> csr_array:
    """The matrix that interpolates tables over nodes at abilities.

    Parameters
    ----------
    nodes
        Equally spaced, shape ``(F,)``, four at least.
    theta
        Shape ``(n,)``, within the nodes.

    Returns
    -------
    scipy.sparse.csr_array
        Shape ``(n, F)``, four entries a row. Each row of its product with a table is summed in the
        same order however many rows there are.
    """
    first, place = _first_of_four(nodes, theta)
    columns = first[:, None] + np.arange(4)
    starts = np.arange(0, 4 * theta.size + 1, 4)
    return csr_array(
        (cubic_weights(place).ravel(), columns.ravel(), starts), shape=(theta.size, nodes.size)
    )


def interpolated(nodes: FloatArray, values: FloatArray, theta: FloatArray) -> FloatArray:
    """Each row of ``(n, F)`` at an ability of its own, shape ``(n,)``."""
    first, place = _first_of_four(nodes, theta)
    near = values[np.arange(theta.size)[:, None], first[:, None] + np.arange(4)]
    found: FloatArray = (cubic_weights(place) * near).sum(axis=1)
    return found


def highest_point(nodes: FloatArray, values: FloatArray, slopes: FloatArray) -> FloatArray:
    """Where functions are highest: the root of the slope beside the highest node.

    Parameters
    ----------
    nodes
        Shape ``(F,)``.
    values, slopes
        Of each function at the nodes, shape ``(n, F)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(n,)``; an end of the lattice where the function still rises there.
    """
    rows = np.arange(len(values))
    top = values.argmax(axis=1)
    left = np.where(slopes[rows, top] > 0, top, top - 1)
    beyond = (left < 0) | (left > nodes.size - 2)
    left = np.clip(left, 0, nodes.size - 2)
    first = np.clip(left - 1, 0, nodes.size - 4)
    near = slopes[rows[:, None], first[:, None] + np.arange(4)]
    low = (left - first).astype(np.float64)
    high = low + 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rising = (cubic_weights(middle) * near).sum(axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    found = nodes[first] + (low + high) / 2 * (nodes[1] - nodes[0])
    return np.where(beyond, nodes[np.where(top > nodes.size // 2, -1, 0)], found)
