"""Correlations of items over the targets that answered both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from safemetry.construct.spectra.tetrachoric import tetrachoric
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

CorrelationKind = Literal["pearson", "tetrachoric"]


@dataclass(frozen=True, eq=False)
class ItemCorrelations:
    """Correlations of J items.

    Parameters
    ----------
    items
        Names.
    kind
        ``pearson`` (phi, for outcomes 0 and 1) or ``tetrachoric``.
    values
        Symmetric, shape ``(J, J)``, in [-1, 1], with ones on the diagonal. With missing cells, and
        for tetrachoric correlations, it may have negative eigenvalues: it is then no correlation
        matrix of complete data.
    unknown_pairs
        Pairs that have no correlation, because fewer than two targets answered both items or one
        item does not vary over those targets; they hold 0.
    perfect_pairs
        Pairs that correlate -1 or 1.
    """

    items: tuple[str, ...]
    kind: CorrelationKind
    values: FloatArray
    unknown_pairs: int
    perfect_pairs: int


def item_correlations(
    responses: Responses, kind: CorrelationKind = "pearson", *, correction: float = 0.5
) -> ItemCorrelations:
    """Correlations of items, each pair over the targets that answered both.

    Parameters
    ----------
    responses
        Of N targets to J items, any pattern of missing cells; weights count.
    kind
        ``pearson``, or ``tetrachoric`` for outcomes 0 and 1 (see `tetrachoric.tetrachoric`; the
        thresholds are those of the pair's own targets).
    correction
        Added to the empty cells of a tetrachoric table, in counts; 0 for none, which makes the
        correlation -1 or 1.

    Raises
    ------
    InputError
        For an unknown kind, a negative correction, or tetrachoric correlations of more than two
        categories.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> found = item_correlations(make_responses([[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, -1, 1]]))
    >>> found.values
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    >>> found.unknown_pairs
    2
    """
    check_kind(kind)
    if kind == "tetrachoric":
        check_binary(responses, "a tetrachoric correlation")
        matrix = pairwise_tetrachoric(
            responses.codes, responses.observed, responses.weights, correction=correction
        )
    else:
        matrix = pairwise_pearson(responses.codes, responses.observed, responses.weights)
    pairs = np.triu_indices(len(responses.items), 1)
    known = matrix[pairs]
    return ItemCorrelations(
        responses.items,
        kind,
        with_zeros(matrix),
        int(np.isnan(known).sum()),
        int((np.abs(known) > 1 - 1e-12).sum()),
    )


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of correlation."""
    if kind not in get_args(CorrelationKind):
        raise InputError(
            f"unknown correlation {kind!r}", fix=f"use {' or '.join(get_args(CorrelationKind))}"
        )


def check_binary(responses: Responses, purpose: str) -> None:
    """Refuse responses with more than two categories."""
    if responses.codes.max() > 1:
        raise InputError(
            f"{purpose} takes outcomes 0 and 1, and there is a {responses.codes.max()}",
            fix="declare at which class an outcome counts as 1",
        )


def pairwise_pearson(
    codes: ArrayLike, observed: BoolArray, weights: FloatArray | None = None
) -> FloatArray:
    """Pearson correlations over pairwise complete rows, shape ``(J, J)``; NaN where unknown.

    With x set to 0 where it is missing, and M = 1 where it is not, the sums over the rows of each
    pair are the products x'x, x'M, (x^2)'M and M'M.

    Parameters
    ----------
    codes
        Shape ``(N, J)``; what stands in missing cells does not matter.
    observed
        Where there is a response, shape ``(N, J)``.
    weights
        Of the rows, positive, shape ``(N,)``.
    """
    seen = observed.astype(np.float64)
    values = np.where(observed, np.asarray(codes), 0).astype(np.float64)
    weighted = seen if weights is None else seen * weights[:, None]
    rows = weighted.T @ seen
    sums = (values * weighted).T @ seen
    binary = (values * values == values).all()
    squares = sums if binary else ((values * weighted) * values).T @ seen
    products = (values * weighted).T @ values
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = squares - sums * sums / rows
        spread[~(spread > 1e-9 * np.maximum(squares, 1.0))] = np.nan
        found = (products - sums * sums.T / rows) / np.sqrt(spread * spread.T)
    return np.clip((found + found.T) / 2, -1.0, 1.0)


def pairwise_tetrachoric(
    codes: ArrayLike,
    observed: BoolArray,
    weights: FloatArray | None = None,
    *,
    correction: float = 0.5,
) -> FloatArray:
    """Tetrachoric correlations over pairwise complete rows, shape ``(J, J)``; NaN where unknown.

    Parameters
    ----------
    codes, observed, weights
        As for `pairwise_pearson`, with codes 0 and 1.
    correction
        As for `tetrachoric.tetrachoric`.
    """
    ones = ((np.asarray(codes) == 1) & observed).astype(np.float64)
    zeros = observed - ones
    weight = np.ones(len(ones)) if weights is None else weights
    heavy_ones, heavy_zeros = ones * weight[:, None], zeros * weight[:, None]
    size = ones.shape[1]
    upper = np.triu_indices(size, 1)
    mixed = heavy_ones.T @ zeros
    tables = np.stack(
        [
            (heavy_zeros.T @ zeros)[upper],
            mixed.T[upper],
            mixed[upper],
            (heavy_ones.T @ ones)[upper],
        ]
    )
    found = np.eye(size)
    found[upper] = tetrachoric(tables, correction=correction)
    found.T[upper] = found[upper]
    return found


def with_zeros(matrix: FloatArray) -> FloatArray:
    """The correlations with 0 where there is none, and ones on the diagonal."""
    found: FloatArray = np.nan_to_num(matrix, nan=0.0)
    np.fill_diagonal(found, 1.0)
    return found


def eigenvalues_of(correlations: ArrayLike) -> FloatArray:
    """Eigenvalues of a symmetric matrix, largest first, shape ``(J,)``, as they are.

    Negative ones (pairwise deletion, tetrachoric correlations) are neither hidden nor repaired.

    Raises
    ------
    InputError
        For a matrix that is not square, symmetric and finite.

    Examples
    --------
    >>> eigenvalues_of([[1.0, 0.6], [0.6, 1.0]])
    array([1.6, 0.4])
    """
    matrix = np.asarray(correlations, np.float64)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
    if not (square and np.isfinite(matrix).all() and np.allclose(matrix, matrix.T, atol=1e-8)):
        raise InputError("correlations are a square, symmetric matrix of finite numbers")
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], np.float64)
