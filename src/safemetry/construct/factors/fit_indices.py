"""How well factors reproduce a correlation matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from safemetry.construct.factors.extraction import SMALLEST_UNIQUENESS, is_definite
from safemetry.irt.parameters import FloatArray

_NO_FREEDOM = "the factors have no degree of freedom left"
_SINGULAR = "the correlation matrix is not positive definite"
_NO_MODEL = "the correlation matrix that the factors imply is not positive definite"
_INDEPENDENT = "the variables fit independence so well that nothing is left to compare with"
_OF_LIKELIHOOD = ("discrepancy", "chi_square", "p_value", "rmsea", "cfi", "tli")


@dataclass(frozen=True)
class FitIndices:
    """Indices of fit; None where one cannot be computed, with the reason in `why`.

    Parameters
    ----------
    df
        Degrees of freedom, ((p - K)^2 - p - K) / 2; below 0 the factors are not identified.
    discrepancy
        F of the normal likelihood, tr(S^-1 R) - log det(S^-1 R) - p.
    chi_square, p_value
        F (n - 1 - (2p + 5) / 6 - 2K / 3), with Bartlett's (1951) correction, and its upper tail.
    rmsea
        sqrt(max(F / df - 1 / (n - 1), 0)): Steiger & Lind (1980), without that correction.
    cfi, tli
        Bentler (1990) and Tucker & Lewis (1973), with the correction in both chi-squares.
    srmr
        Root mean square of the residual correlations, the p zeros of the diagonal counted (Hu &
        Bentler 1999).
    """

    df: int
    discrepancy: float | None
    chi_square: float | None
    p_value: float | None
    rmsea: float | None
    cfi: float | None
    tli: float | None
    srmr: float
    why: Mapping[str, str] = field(default_factory=dict)


def fit_indices(correlations: FloatArray, loadings: FloatArray, subjects: int) -> FitIndices:
    """Compare a correlation matrix with the one that uncorrelated factors imply.

    Parameters
    ----------
    correlations
        R, shape ``(p, p)``.
    loadings
        Of uncorrelated factors, L, shape ``(p, K)``.
    subjects
        n, at least 2.

    Notes
    -----
    The implied matrix S is L L' off its diagonal and 1 on it. Where a communality reaches 1, its
    uniqueness counts as .005 instead, since S would have no inverse.

    Examples
    --------
    >>> loadings = np.array([[0.9], [0.8], [0.7], [0.6]])
    >>> matrix = loadings @ loadings.T + np.diag(1 - np.square(loadings[:, 0]))
    >>> found = fit_indices(matrix, loadings, 100)
    >>> found.df, round(found.chi_square, 6), found.cfi
    (2, 0.0, 1.0)
    """
    size, factors = loadings.shape
    df = ((size - factors) ** 2 - size - factors) // 2
    shared = loadings @ loadings.T
    residual = np.tril(correlations - shared, -1)
    srmr = float(np.sqrt(np.square(residual).sum() / (size * (size + 1) / 2)))
    left = 1 - np.diag(shared)
    implied = shared + np.diag(np.where(left > 0, left, SMALLEST_UNIQUENESS))
    problem = (
        _SINGULAR
        if not is_definite(correlations)
        else None
        if np.linalg.eigvalsh(implied)[0] > 0
        else _NO_MODEL
    )
    if problem:
        return _unknown(df, srmr, dict.fromkeys(_OF_LIKELIHOOD, problem))
    discrepancy = _discrepancy(correlations, implied)
    if df <= 0:
        why = dict.fromkeys(_OF_LIKELIHOOD[1:], _NO_FREEDOM)
        return _unknown(df, srmr, why, discrepancy)
    steps = subjects - 1 - (2 * size + 5) / 6
    if steps - 2 * factors / 3 <= 0:
        few = f"{subjects} subjects are too few for {size} variables"
        why = dict.fromkeys(_OF_LIKELIHOOD[1:], few)
        return _unknown(df, srmr, why, discrepancy)
    chi = discrepancy * (steps - 2 * factors / 3)
    base_df = size * (size - 1) // 2
    base = -float(np.linalg.slogdet(correlations)[1]) * steps
    cfi, tli, why = _relative(chi, df, base, base_df)
    return FitIndices(
        df=df,
        discrepancy=discrepancy,
        chi_square=chi,
        p_value=float(chi2.sf(chi, df)),
        rmsea=float(np.sqrt(max(discrepancy / df - 1 / (subjects - 1), 0.0))),
        cfi=cfi,
        tli=tli,
        srmr=srmr,
        why=why,
    )


def _relative(
    chi: float, df: int, base: float, base_df: int
) -> tuple[float | None, float | None, dict[str, str]]:
    """CFI, TLI and why one is unknown."""
    why = {}
    worst = max(base - base_df, chi - df, 0.0)
    cfi = 1 - max(chi - df, 0.0) / worst if worst > 0 else None
    tli = None
    if base / base_df > 1:
        tli = (base / base_df - chi / df) / (base / base_df - 1)
    else:
        why["tli"] = _INDEPENDENT
    if cfi is None:
        why["cfi"] = _INDEPENDENT
    return cfi, tli, why


def _discrepancy(correlations: FloatArray, implied: FloatArray) -> float:
    ratio = np.linalg.solve(implied, correlations)
    value = float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(ratio))
    return max(value, 0.0)


def _unknown(
    df: int, srmr: float, why: Mapping[str, str], discrepancy: float | None = None
) -> FitIndices:
    return FitIndices(df, discrepancy, None, None, None, None, None, srmr, why)
