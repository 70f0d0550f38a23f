"""Eigenvalues of the item correlations of one matrix, or of many random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.sparse.linalg import eigsh

from safemetry.construct.spectra.correlation import (
    CorrelationKind,
    pairwise_pearson,
    pairwise_tetrachoric,
    with_zeros,
)
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LANCZOS_FROM: Final = 300
"""Size from which a few eigenvalues are found faster one after the other than all at once."""


def outcome_eigenvalues(
    outcomes: NDArray[Any], observed: BoolArray, correlation: CorrelationKind, *, depth: int
) -> FloatArray:
    """First eigenvalues of the item correlations of R matrices.

    Parameters
    ----------
    outcomes
        0 and 1 (or False and True), shape ``(R, N, J)``; every item varies.
    observed
        Where there is a response, shape ``(N, J)``.
    correlation
        ``pearson`` or ``tetrachoric``.
    depth
        How many, at most J.

    Returns
    -------
    numpy.ndarray
        Shape ``(R, depth)``, largest first.
    """
    if correlation == "pearson" and observed.all():
        return _gram_eigenvalues(outcomes.astype(np.float64), depth)
    return np.stack([_eigenvalues(matrix, observed, correlation, depth)[0] for matrix in outcomes])


def outcome_spectrum(
    codes: NDArray[Any], observed: BoolArray, correlation: CorrelationKind
) -> tuple[FloatArray, int]:
    """All eigenvalues of one matrix, largest first, shape ``(J,)``, and the pairs without one.

    Parameters
    ----------
    codes, observed, correlation
        As for `outcome_eigenvalues`, of one matrix.
    """
    if correlation == "pearson" and observed.all():
        return _gram_eigenvalues(codes[None].astype(np.float64), codes.shape[1])[0], 0
    return _eigenvalues(codes, observed, correlation, codes.shape[1])


def _eigenvalues(
    codes: NDArray[Any], observed: BoolArray, correlation: CorrelationKind, depth: int
) -> tuple[FloatArray, int]:
    if correlation == "pearson":
        matrix = pairwise_pearson(codes, observed)
    else:
        matrix = pairwise_tetrachoric(codes, observed)
    unknown = int(np.isnan(matrix[np.triu_indices(len(matrix), 1)]).sum())
    filled = with_zeros(matrix)
    values: NDArray[Any]
    if len(filled) >= _LANCZOS_FROM and depth <= len(filled) // 10:
        start = np.ones(len(filled))  # a random one would make the last digits random
        values = eigsh(filled, k=depth, which="LA", return_eigenvectors=False, v0=start)
    else:
        values = np.linalg.eigvalsh(filled)
    return np.asarray(np.sort(values)[::-1][:depth], np.float64), unknown


def _gram_eigenvalues(values: FloatArray, depth: int) -> FloatArray:
    """From the smaller of the two products of standardised columns, which share eigenvalues.

    With Z'Z the J x J correlations, ZZ' (N x N) has the same eigenvalues, apart from zeros.
    """
    values -= values.mean(axis=1, keepdims=True)
    values /= np.sqrt((values * values).sum(axis=1, keepdims=True))
    targets, items = values.shape[1:]
    turned = values.transpose(0, 2, 1)
    products = values @ turned if targets < items else turned @ values
    found = np.asarray(np.linalg.eigvalsh(products)[:, ::-1][:, :depth], np.float64)
    missing = depth - found.shape[1]
    return np.pad(found, ((0, 0), (0, missing))) if missing > 0 else found
