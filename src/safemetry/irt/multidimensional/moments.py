"""Log-odds where abilities and items are uncertain."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from safemetry.irt.multidimensional.symmetric import triangle
from safemetry.irt.parameters import FloatArray


def chances(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Expected logistic function of normal log-odds, by MacKay's (1992) approximation.

    Examples
    --------
    >>> chances(np.array([1.0]), np.array([4.0])).round(3)
    array([0.651])
    """
    found: FloatArray = expit(mean / np.sqrt(1 + (np.pi / 8) * variance))
    return found


def log_odds_moments(
    abilities: FloatArray,
    ability_covariance: FloatArray,
    items: FloatArray,
    item_covariance: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of a'theta + d, shapes ``(N, J)``, for independent targets and items."""
    shape = triangle(items.shape[1])
    extended, second = target_moments(abilities, ability_covariance)
    mean = extended @ items.T
    square = (second * shape.counts) @ item_moments(items, item_covariance).T
    return mean, np.maximum(square - np.square(mean), 0.0)


def target_moments(m: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(theta, 1) and the upper triangles of its expected products, for each target."""
    size = m.shape[1] + 1
    shape = triangle(size)
    extended = np.concatenate([m, np.ones((len(m), 1))], axis=1)
    second = shape.products(extended)
    inner = triangle(size - 1)
    second[:, shape.unpacked[inner.rows, inner.columns]] += inner.pack(V)
    return extended, second


def item_moments(mu: FloatArray, S: FloatArray) -> FloatArray:
    """Upper triangles of the expected products of (a, d), for each item."""
    shape = triangle(mu.shape[1])
    return shape.products(mu) + shape.pack(S)
