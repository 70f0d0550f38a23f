"""Common factors of a correlation matrix: minimum residuals and maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy.optimize import Bounds, minimize

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray

SMALLEST_UNIQUENESS: Final = 0.005
_CYCLES: Final = 5000
_AT_BOUND: Final = 1e-6
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


class Extraction(StrEnum):
    """How factors are found.

    ====== ==========================================================================
    name   criterion
    ====== ==========================================================================
    minres squared residual correlations (Harman & Jones 1966)
    ml     discrepancy of the normal likelihood (Jöreskog 1967)
    ====== ==========================================================================
    """

    MINRES = "minres"
    ML = "ml"


@dataclass(frozen=True)
class Extracted:
    """Uncorrelated factors, before any rotation.

    Parameters
    ----------
    loadings
        Shape ``(p, K)``, on their principal axes: the columns are orthogonal, the longest first,
        and each has a sum of at least 0.
    uniqueness
        The parameters of the search, shape ``(p,)``, at least .005. With minres they differ from
        1 minus the communality where they meet that bound.
    at_bound
        Where the uniqueness meets the bound, shape ``(p,)``.
    value
        Criterion at the end.
    converged
        Whether the best start met its tolerance.
    agreeing
        How many starts reached the same value, of how many.
    """

    loadings: FloatArray
    uniqueness: FloatArray
    at_bound: BoolArray
    value: float
    converged: bool
    agreeing: tuple[int, int]

    @property
    def communalities(self) -> FloatArray:
        """Share of each variable's variance that the factors explain, shape ``(p,)``."""
        found: FloatArray = np.square(self.loadings).sum(axis=1)
        return found

    @property
    def heywood(self) -> BoolArray:
        """Where the factors explain all of a variable, or more: an improper solution (1931)."""
        return self.at_bound | (self.communalities >= 1)

    @property
    def variance(self) -> float:
        """Sum of squared loadings over the number of variables."""
        return float(np.square(self.loadings).sum() / len(self.loadings))


def extract(
    correlations: FloatArray,
    factors: int,
    method: Extraction | str = Extraction.MINRES,
    *,
    starts: int = 6,
    seed: int = 0,
) -> Extracted:
    """Find K common factors of p variables.

    Parameters
    ----------
    correlations
        Shape ``(p, p)``.
    factors
        K, at least 1 and below p.
    method
        ``minres`` or ``ml``.
    starts
        The first is at the squared multiple correlations, the second at one half, the others are
        random.
    seed
        Of the random starts.

    Raises
    ------
    InputError
        For an impossible number of factors, or ML of a matrix that is not positive definite.

    Notes
    -----
    Both search the uniquenesses by L-BFGS-B with analytic gradients. Given them, the loadings are
    the K leading eigenvectors of the reduced correlation matrix R - U (minres), or of
    U^-1/2 R U^-1/2 (ML; Lawley & Maxwell 1971, chapter 4). Minres sums squares off the diagonal,
    which is what the method minimises; where no uniqueness meets its bound this is least squares
    over the whole matrix too.

    Examples
    --------
    >>> loadings = np.array([0.9, 0.8, 0.7, 0.6])
    >>> matrix = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
    >>> extract(matrix, 1).loadings.ravel().round(3)
    array([0.9, 0.8, 0.7, 0.6])
    """
    matrix = np.asarray(correlations, np.float64)
    size = len(matrix)
    if not 1 <= factors < size:
        raise InputError(
            f"{factors} factors are asked of {size} variables",
            fix="ask for at least 1, and fewer than there are variables",
        )
    kind = Extraction(method)
    if kind is Extraction.ML and not is_definite(matrix):
        raise InputError(
            "maximum likelihood needs a correlation matrix that is positive definite",
            fix="use minres, or leave out a variable that the others determine",
        )
    objective = _minres(matrix, factors) if kind is Extraction.MINRES else _ml(matrix, factors)
    ends = [_search(objective, start) for start in _starts(matrix, starts, seed)]
    values = np.array([value for _, value, _ in ends])
    uniqueness, value, converged = ends[int(values.argmin())]
    loadings = (_leading if kind is Extraction.MINRES else _scaled_leading)(
        matrix, uniqueness, factors
    )
    return Extracted(
        loadings=principal(loadings),
        uniqueness=uniqueness,
        at_bound=uniqueness <= SMALLEST_UNIQUENESS + _AT_BOUND,
        value=value,
        converged=converged,
        agreeing=(int((values <= value + 1e-6 * (1 + abs(value))).sum()), len(ends)),
    )


def is_definite(matrix: FloatArray) -> bool:
    """Whether the smallest eigenvalue of a symmetric matrix is above rounding error."""
    return smallest_eigenvalue(matrix) > 1e-8


def smallest_eigenvalue(matrix: FloatArray) -> float:
    """Smallest eigenvalue of a symmetric matrix: below 0 where no variables have such a matrix."""
    return float(np.linalg.eigvalsh(matrix)[0])


def squared_multiple_correlations(correlations: FloatArray) -> FloatArray:
    """Share of each variable that the others predict, 1 - 1 / (R^-1)_jj, shape ``(p,)``.

    One half for all where the matrix has no inverse.
    """
    if not is_definite(correlations):
        return np.full(len(correlations), 0.5)
    found: FloatArray = 1 - 1 / np.diag(np.linalg.inv(correlations))
    return found


def principal(loadings: FloatArray) -> FloatArray:
    """Loadings on orthogonal axes, the longest first, each with a sum of at least 0."""
    axes = np.linalg.eigh(loadings.T @ loadings)[1][:, ::-1]
    turned = loadings @ axes
    found: FloatArray = turned * np.where(turned.sum(axis=0) < 0, -1.0, 1.0)
    return found


def _starts(matrix: FloatArray, count: int, seed: int) -> list[FloatArray]:
    size = len(matrix)
    rng = np.random.default_rng(seed)
    found = [
        np.clip(1 - squared_multiple_correlations(matrix), SMALLEST_UNIQUENESS, 1.0),
        np.full(size, 0.5),
        *(rng.uniform(0.05, 0.95, size) for _ in range(count - 2)),
    ]
    return found[: max(count, 1)]


def _search(objective: Objective, start: FloatArray) -> tuple[FloatArray, float, bool]:
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(SMALLEST_UNIQUENESS, 1.0),
        options={"maxiter": _CYCLES, "maxfun": 10 * _CYCLES, "ftol": 1e-14, "gtol": 1e-9},
    )
    # A line search that cannot improve any more ends at a solution too.
    done = bool(found.success) or _is_flat(found.x, found.jac)
    return np.asarray(found.x), float(found.fun), done


def _is_flat(place: FloatArray, gradient: FloatArray) -> bool:
    """Whether no step within the bounds would lower the criterion noticeably."""
    step = np.clip(place - gradient, SMALLEST_UNIQUENESS, 1.0) - place
    return bool(np.abs(step).max() < 1e-5)


# --- minimum residuals ----------------------------------------------------------------------------


def _leading(matrix: FloatArray, uniqueness: FloatArray, factors: int) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix - np.diag(uniqueness))
    found: FloatArray = vectors[:, -factors:] * np.sqrt(np.maximum(values[-factors:], 0.0))
    return found


def _minres(matrix: FloatArray, factors: int) -> Objective:
    """Half the sum of squared residuals off the diagonal, and its gradient.

    The fitted matrix is a spectral function of R - U that keeps the K largest eigenvalues, so its
    derivative is made of divided differences (Higham 2008, theorem 3.11).
    """
    size = len(matrix)

    def objective(uniqueness: FloatArray) -> tuple[float, FloatArray]:
        values, vectors = np.linalg.eigh(matrix - np.diag(uniqueness))
        kept = np.where(np.arange(size) >= size - factors, np.maximum(values, 0.0), 0.0)
        residual = matrix - (vectors * kept) @ vectors.T
        np.fill_diagonal(residual, 0.0)
        gap = values[:, None] - values[None, :]
        near = np.abs(gap) < 1e-10
        slopes = ((kept > 0)[:, None] & (kept > 0)[None, :]).astype(np.float64)
        ratio = np.where(near, slopes, (kept[:, None] - kept[None, :]) / np.where(near, 1.0, gap))
        inner = ratio * (vectors.T @ residual @ vectors)
        gradient = np.einsum("ij,jk,ik->i", vectors, inner, vectors)
        return 0.5 * float(np.square(residual).sum()), gradient

    return objective


# --- maximum likelihood ---------------------------------------------------------------------------


def _scaled_leading(matrix: FloatArray, uniqueness: FloatArray, factors: int) -> FloatArray:
    root = np.sqrt(uniqueness)
    values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
    lengths = np.sqrt(np.maximum(values[-factors:] - 1, 0.0))
    found: FloatArray = root[:, None] * vectors[:, -factors:] * lengths
    return found


def _ml(matrix: FloatArray, factors: int) -> Objective:
    """The discrepancy with the loadings maximised out (Lawley & Maxwell 1971, eq. 4.20)."""

    def objective(uniqueness: FloatArray) -> tuple[float, FloatArray]:
        root = np.sqrt(uniqueness)
        values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
        kept = np.zeros(len(values), np.bool_)
        kept[-factors:] = values[-factors:] > 1
        rest = values[~kept]
        value = float((rest - np.log(rest) - 1).sum())
        lengths = np.where(kept, values - 1, 0.0)
        fitted = uniqueness * (1 + (np.square(vectors) * lengths).sum(axis=1))
        return value, (fitted - np.diag(matrix)) / np.square(uniqueness)

    return objective
