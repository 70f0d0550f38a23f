"""Rotation of factors to simple structure, by gradient projection from many starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.multidimensional.criteria import Criterion, geomin, oblimin, varimax
from safemetry.irt.parameters import FloatArray

LOGISTIC_TO_NORMAL = 1.702
"""Slopes of the logistic curve over slopes of the normal ogive nearest to it (Camilli 1994)."""


class Rotation(StrEnum):
    """How factors are turned.

    ========= ========== ===================================================
    name      factors    source
    ========= ========== ===================================================
    none      orthogonal the axes as they come
    varimax   orthogonal Kaiser 1958
    quartimax orthogonal Neuhaus & Wrigley 1954
    oblimin   correlated gamma 0 unless given: Jennrich & Sampson 1966
    quartimin correlated Carroll 1953, oblimin with gamma 0
    geomin    correlated Yates 1987, epsilon .01
    promax    correlated Hendrickson & White 1964, from varimax, fourth power
    ========= ========== ===================================================
    """

    NONE = "none"
    VARIMAX = "varimax"
    QUARTIMAX = "quartimax"
    OBLIMIN = "oblimin"
    QUARTIMIN = "quartimin"
    GEOMIN = "geomin"
    PROMAX = "promax"


@dataclass(frozen=True)
class RotatedLoadings:
    """Loadings after a rotation, their factors in order of explained variance.

    Parameters
    ----------
    loadings
        Pattern, shape ``(J, K)``: the original loadings are ``loadings @ transform.T``. Loadings of
        each factor have a sum of at least 0.
    correlations
        Of the factors, ``transform.T @ transform``, shape ``(K, K)``.
    transform
        Shape ``(K, K)``, columns of length 1: scores f of the original factors become
        ``transform.T @ f``.
    value
        Of the criterion; None for promax, which has none.
    converged
        Whether the best start reached a stationary point.
    agreeing
        How many starts reached the same value, of how many.
    """

    loadings: FloatArray
    correlations: FloatArray
    transform: FloatArray
    value: float | None
    converged: bool
    agreeing: tuple[int, int]


def rotate(
    loadings: FloatArray,
    rotation: Rotation | str = Rotation.OBLIMIN,
    *,
    gamma: float = 0.0,
    kaiser: bool = False,
    starts: int = 20,
    seed: int = 0,
) -> RotatedLoadings:
    """Turn orthogonal factors to simple structure.

    Parameters
    ----------
    loadings
        Of uncorrelated factors, shape ``(J, K)``.
    gamma
        Of oblimin, at most 0 for it to have a minimum.
    kaiser
        Whether items are weighted to the same communality for the rotation (Kaiser 1958); with
        promax only in its varimax.
    starts
        Number of starts: the given axes, and random orthogonal turns of them.

    Raises
    ------
    InputError
        For loadings that are not finite, an unknown rotation, a positive gamma or no start.

    Notes
    -----
    Gradient projection (Jennrich 2001 for orthogonal, 2002 for oblique rotation). Factors are
    ordered by the sum of squared loadings, largest first, and point to where the sum of their
    loadings is positive, so that two calibrations of the same items can be compared.
    """
    matrix = np.asarray(loadings, np.float64)
    try:
        kind = Rotation(rotation)
    except ValueError:
        raise InputError(
            f"there is no rotation {rotation!r}", fix="use " + ", ".join(Rotation)
        ) from None
    if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
        raise InputError("loadings are a matrix of finite numbers, items by factors")
    if gamma > 0 or starts < 1:
        raise InputError(
            f"gamma is {gamma:g} and starts {starts}",
            fix="give a gamma of at most 0 and at least one start",
        )
    weight = np.ones((len(matrix), 1))
    if kaiser:
        length = np.linalg.norm(matrix, axis=1, keepdims=True)
        weight = np.where(length > 0, length, 1.0)
    if kind is Rotation.PROMAX and matrix.shape[1] > 1:
        return _in_order(matrix, _promax(matrix, matrix / weight, starts, seed))
    return _in_order(matrix, _turn(matrix / weight, kind, gamma, starts, seed))


def standardised_loadings(slopes: FloatArray, correlations: FloatArray) -> FloatArray:
    """Loadings of the normal-ogive factor model, shape ``(J, K)``.

    lambda_j = (a_j / 1.702) / sqrt(1 + a_j' Phi a_j / 1.702²) (Takane & de Leeuw 1987).

    Examples
    --------
    >>> standardised_loadings(np.array([[1.702]]), np.eye(1)).round(4)
    array([[0.7071]])
    """
    scaled = slopes / LOGISTIC_TO_NORMAL
    variance = 1 + np.einsum("jk,kl,jl->j", scaled, correlations, scaled)
    found: FloatArray = scaled / np.sqrt(variance)[:, None]
    return found


@dataclass(frozen=True)
class _Turn:
    transform: FloatArray
    value: float | None
    converged: bool
    agreeing: tuple[int, int]


def _turn(matrix: FloatArray, kind: Rotation, gamma: float, starts: int, seed: int) -> _Turn:
    size = matrix.shape[1]
    if kind is Rotation.NONE or size == 1:
        return _Turn(np.eye(size), None, converged=True, agreeing=(1, 1))
    criterion, descend = {
        Rotation.VARIMAX: (varimax(), _orthogonal),
        Rotation.QUARTIMAX: (oblimin(0.0), _orthogonal),
        Rotation.OBLIMIN: (oblimin(gamma), _oblique),
        Rotation.QUARTIMIN: (oblimin(0.0), _oblique),
        Rotation.GEOMIN: (geomin(), _oblique),
    }[kind]
    return _best(matrix, criterion, descend, starts, seed)


Descent = Callable[[FloatArray, Criterion, FloatArray], tuple[FloatArray, float, bool]]


def _best(
    matrix: FloatArray, criterion: Criterion, descend: Descent, starts: int, seed: int
) -> _Turn:
    rng = np.random.default_rng(seed)
    size = matrix.shape[1]
    turns = [np.eye(size)]
    while len(turns) < starts:
        turns.append(np.linalg.qr(rng.standard_normal((size, size)))[0])
    ends = [descend(matrix, criterion, turn) for turn in turns]
    values = np.array([value for _, value, _ in ends])
    transform, value, converged = ends[int(values.argmin())]
    same = int((values <= value + 1e-6 * (1 + abs(value))).sum())
    return _Turn(transform, value, converged, (same, starts))


_STEPS = 1000
_FLAT = 1e-7


def _orthogonal(
    matrix: FloatArray, criterion: Criterion, turn: FloatArray
) -> tuple[FloatArray, float, bool]:
    """Jennrich (2001): steps along the gradient, projected by a singular value decomposition."""
    step = 1.0
    value, slope = criterion(matrix @ turn)
    gradient = matrix.T @ slope
    for _ in range(_STEPS):
        inner = turn.T @ gradient
        tangent = gradient - turn @ (inner + inner.T) / 2
        size = float(np.linalg.norm(tangent))
        if size < _FLAT:
            return turn, value, True
        step *= 2
        while True:
            left, _, right = np.linalg.svd(turn - step * tangent)
            new = left @ right
            reached, slope = criterion(matrix @ new)
            if reached <= value - 0.5 * size**2 * step or step < 1e-12:
                break
            step /= 2
        if reached >= value:
            return turn, value, size < 1e-4
        turn, value, gradient = new, reached, matrix.T @ slope
    return turn, value, False


def _oblique(
    matrix: FloatArray, criterion: Criterion, turn: FloatArray
) -> tuple[FloatArray, float, bool]:
    """Jennrich (2002): columns of the transform keep length 1."""
    step = 1.0
    back = np.linalg.inv(turn)
    pattern = matrix @ back.T
    value, slope = criterion(pattern)
    gradient = -(pattern.T @ slope @ back).T
    for _ in range(_STEPS):
        tangent = gradient - turn * (turn * gradient).sum(axis=0)
        size = float(np.linalg.norm(tangent))
        if size < _FLAT:
            return turn, value, True
        step *= 2
        while True:
            new = turn - step * tangent
            new = new / np.linalg.norm(new, axis=0)
            if np.linalg.cond(new) < 1e10:
                back = np.linalg.inv(new)
                pattern = matrix @ back.T
                reached, slope = criterion(pattern)
                if reached <= value - 0.5 * size**2 * step or step < 1e-12:
                    break
            step /= 2
        if reached >= value:
            return turn, value, size < 1e-4
        turn, value = new, reached
        gradient = -(pattern.T @ slope @ back).T
    return turn, value, False


def _promax(matrix: FloatArray, weighted: FloatArray, starts: int, seed: int) -> _Turn:
    """Hendrickson & White (1964): least squares on the fourth power of the varimax loadings."""
    start = _best(weighted, varimax(), _orthogonal, starts, seed)
    simple = matrix @ start.transform
    target = simple * np.abs(simple) ** 3
    mixing = np.linalg.lstsq(simple, target, rcond=None)[0]
    lengths = np.sqrt(np.diag(np.linalg.inv(mixing.T @ mixing)))
    change = start.transform @ mixing * lengths
    return _Turn(np.linalg.inv(change).T, None, start.converged, start.agreeing)


def _in_order(matrix: FloatArray, found: _Turn) -> RotatedLoadings:
    transform = found.transform
    pattern = matrix @ np.linalg.inv(transform).T
    order = np.argsort(-np.square(pattern).sum(axis=0), kind="stable")
    signs = np.where(pattern[:, order].sum(axis=0) < 0, -1.0, 1.0)
    transform = transform[:, order] * signs
    return RotatedLoadings(
        loadings=pattern[:, order] * signs,
        correlations=transform.T @ transform,
        transform=transform,
        value=found.value,
        converged=found.converged,
        agreeing=found.agreeing,
    )
