"""Communalities of one common factor, for many correlation matrices at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.construct.factors.extraction import (
    SMALLEST_UNIQUENESS,
    Extraction,
    extract,
    squared_multiple_correlations,
)
from safemetry.irt.parameters import FloatArray

_SWEEPS: Final = 500
_STILL: Final = 1e-6
_LONGEST: Final = float(np.sqrt(1 - SMALLEST_UNIQUENESS))


def one_factor_communalities(
    matrices: FloatArray, method: Extraction = Extraction.MINRES
) -> FloatArray:
    """Share of each variable's variance that one factor explains, shape ``(B, p)``.

    Parameters
    ----------
    matrices
        Correlation matrices, shape ``(B, p, p)``.
    method
        ``minres``: each loading in turn is set to its best value given the others,
        a_j = sum r_jk a_k / sum a_k^2 over k != j (Harman & Jones 1966), held to a uniqueness of
        .005 at least (Harman & Fukuda 1966). ``ml``: as `extract`, from one start,
        one matrix after the other.

    Examples
    --------
    >>> loadings = np.array([0.9, 0.8, 0.7])
    >>> matrix = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
    >>> one_factor_communalities(matrix[None]).round(2)
    array([[0.81, 0.64, 0.49]])
    """
    if method is Extraction.ML:
        return np.array([extract(matrix, 1, method, starts=1).communalities for matrix in matrices])
    size = matrices.shape[1]
    places = np.arange(size)
    without = matrices.copy()
    without[:, places, places] = 0.0
    loadings = _start(matrices)
    waiting = np.arange(len(matrices))
    for _ in range(_SWEEPS):
        part, now = without[waiting], loadings[waiting]
        before = now.copy()
        total = np.square(now).sum(axis=1)
        for place in places:
            rest = total - np.square(now[:, place])
            drawn = np.einsum("bk,bk->b", part[:, place], now)
            new = np.clip(drawn / np.maximum(rest, 1e-12), -_LONGEST, _LONGEST)
            now[:, place] = new
            total = rest + np.square(new)
        loadings[waiting] = now
        waiting = waiting[np.abs(now - before).max(axis=1) > _STILL]
        if not waiting.size:
            break
    found: FloatArray = np.square(loadings)
    return found


def _start(matrices: FloatArray) -> FloatArray:
    """The leading eigenvector with the squared multiple correlations on the diagonal."""
    places = np.arange(matrices.shape[1])
    reduced = matrices.copy()
    reduced[:, places, places] = _squared_multiple_correlations(matrices)
    values, vectors = np.linalg.eigh(reduced)
    found: FloatArray = vectors[:, :, -1] * np.sqrt(np.maximum(values[:, -1:], 0.0))
    return found


def _squared_multiple_correlations(matrices: FloatArray) -> FloatArray:
    if np.linalg.eigvalsh(matrices)[:, 0].min() > 1e-8:
        inverses = np.linalg.inv(matrices)
        found: FloatArray = 1 - 1 / np.diagonal(inverses, axis1=1, axis2=2)
        return found
    return np.array([squared_multiple_correlations(matrix) for matrix in matrices])
