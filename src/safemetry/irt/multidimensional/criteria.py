"""Criteria of simple structure: functions of a loading matrix that a rotation makes small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from safemetry.irt.parameters import FloatArray

Criterion = Callable[[FloatArray], tuple[float, FloatArray]]
"""From loadings of shape ``(J, K)`` to the value and its gradient of the same shape."""


def oblimin(gamma: float = 0.0) -> Criterion:
    """The oblimin family; gamma 0 is quartimin, and quartimax among orthogonal rotations.

    The sum over pairs of factors of the covariance of squared loadings, with weight gamma on the
    product of means (Jennrich & Sampson 1966; Bernaards & Jennrich 2005).
    """

    def criterion(loadings: FloatArray) -> tuple[float, FloatArray]:
        squares = np.square(loadings)
        others = squares.sum(axis=1, keepdims=True) - squares
        centred = others - gamma * others.mean(axis=0)
        return float((squares * centred).sum()) / 4, loadings * centred

    return criterion


def varimax() -> Criterion:
    """Variance of the squared loadings of each factor, with a minus sign (Kaiser 1958)."""

    def criterion(loadings: FloatArray) -> tuple[float, FloatArray]:
        squares = np.square(loadings)
        centred = squares - squares.mean(axis=0)
        return -float(np.square(centred).sum()) / 4, -loadings * centred

    return criterion


def geomin(epsilon: float = 0.01) -> Criterion:
    """Sum over items of the geometric mean of the squared loadings + epsilon (Yates 1987)."""

    def criterion(loadings: FloatArray) -> tuple[float, FloatArray]:
        lifted = np.square(loadings) + epsilon
        means = np.exp(np.log(lifted).mean(axis=1, keepdims=True))
        return float(means.sum()), 2 / loadings.shape[1] * loadings / lifted * means

    return criterion
