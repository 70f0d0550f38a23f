"""Parallel analysis: how many eigenvalues stand out from those of random data (Horn 1965)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from safemetry.construct.factors.extraction import Extraction
from safemetry.construct.factors.one_factor import one_factor_communalities
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

_CLOSE: Final = 3.0
"""Standard errors of a threshold within which an eigenvalue makes the decision a close one."""
_BLOCK_NUMBERS: Final = 4_000_000


class Kind(StrEnum):
    """Which eigenvalues are compared.

    ====== ===============================================================================
    name   matrix
    ====== ===============================================================================
    minres R with the communalities of one minres factor on its diagonal
    ml     R with the communalities of one maximum likelihood factor on its diagonal
    pca    R
    ====== ===============================================================================
    """

    MINRES = "minres"
    ML = "ml"
    PCA = "pca"


@dataclass(frozen=True)
class ParallelAnalysis:
    """Eigenvalues against those of random data.

    Parameters
    ----------
    kind
        Which eigenvalues.
    observed, threshold
        Eigenvalues and what they must exceed, shape ``(p,)``, the largest first.
    mean
        Mean eigenvalues of random data.
    p_values
        Chance that random data reach the observed eigenvalue, (1 + reached) / (1 + replicates).
    factors
        How many eigenvalues, counted from the largest, exceed their threshold without a gap.
    factors_by_mean
        The same with the mean as the threshold.
    margin, margin_error
        Least distance of an eigenvalue from its threshold among those that decided, and the
        standard error of that threshold by simulation.
    close
        Whether another seed could decide otherwise: the margin is below three of those errors.
    """

    kind: Kind
    observed: FloatArray
    threshold: FloatArray
    mean: FloatArray
    p_values: FloatArray
    factors: int
    factors_by_mean: int
    margin: float
    margin_error: float
    close: bool


def parallel_analysis(
    correlations: FloatArray,
    subjects: int,
    kind: Kind | str = Kind.MINRES,
    *,
    percentile: float | None = 95.0,
    replicates: int = 1000,
    seed: int = 0,
) -> ParallelAnalysis:
    """Compare eigenvalues with those of uncorrelated normal data of the same size.

    Parameters
    ----------
    correlations
        Shape ``(p, p)``.
    subjects
        Rows of each random matrix, at least 3.
    kind
        ``pca`` for components (Horn 1965); ``minres`` or ``ml`` for factors: eigenvalues of the
        reduced correlation matrix, with communalities of one factor on the diagonal, in the data
        and in every random matrix alike.
    percentile
        Of the random eigenvalues that the observed one must exceed (Glorfeld 1995); None for
        their mean (Horn 1965).
    replicates
        Random matrices, at least 20.

    Raises
    ------
    InputError
        For too few subjects or replicates, or a percentile outside (0, 100).

    Examples
    --------
    >>> two = np.kron(np.eye(2), np.full((4, 4), 0.6))
    >>> np.fill_diagonal(two, 1.0)
    >>> parallel_analysis(two, 100).factors
    2
    """
    if subjects < 3 or replicates < 20:
        raise InputError(
            f"{replicates} random matrices of {subjects} subjects say nothing",
            fix="give at least 20 replicates and 3 subjects",
        )
    if percentile is not None and not 0 < percentile < 100:
        raise InputError(f"the percentile is {percentile:g}", fix="give one between 0 and 100")
    chosen = Kind(kind)
    random = _random_eigenvalues(len(correlations), subjects, chosen, replicates, seed)
    observed = _eigenvalues(np.asarray(correlations, np.float64)[None], chosen)[0]
    mean = random.mean(axis=0)
    threshold, error = _threshold(random, percentile)
    factors = _exceeding(observed, threshold)
    # The first eigenvalue that falls short decided too.
    distance = np.abs(observed - threshold)[: factors + 1]
    nearest = int((distance / np.maximum(error[: factors + 1], 1e-12)).argmin())
    return ParallelAnalysis(
        kind=chosen,
        observed=observed,
        threshold=threshold,
        mean=mean,
        p_values=(1 + (random >= observed).sum(axis=0)) / (1 + replicates),
        factors=factors,
        factors_by_mean=_exceeding(observed, mean),
        margin=float(distance[nearest]),
        margin_error=float(error[nearest]),
        close=bool(distance[nearest] < _CLOSE * error[nearest]),
    )


def _exceeding(observed: FloatArray, threshold: FloatArray) -> int:
    exceeds = observed > threshold
    return len(exceeds) if exceeds.all() else int(exceeds.argmin())


def _threshold(random: FloatArray, percentile: float | None) -> tuple[FloatArray, FloatArray]:
    """The threshold of each eigenvalue and its standard error by simulation."""
    count = len(random)
    if percentile is None:
        return random.mean(axis=0), random.std(axis=0, ddof=1) / np.sqrt(count)
    step = 100 * np.sqrt(percentile / 100 * (1 - percentile / 100) / count)
    ends = np.clip([percentile - step, percentile + step], 0, 100)
    low, high = np.percentile(random, ends, axis=0)
    return np.percentile(random, percentile, axis=0), (high - low) / 2


def _random_eigenvalues(
    size: int, subjects: int, kind: Kind, replicates: int, seed: int
) -> FloatArray:
    normal, chisquare = np.random.default_rng(seed).spawn(2)
    block = max(1, _BLOCK_NUMBERS // (size * size))
    found = []
    for first in range(0, replicates, block):
        count = min(block, replicates - first)
        scatter = _scatter(size, subjects, count, (normal, chisquare))
        spread = np.sqrt(np.einsum("bii->bi", scatter))
        found.append(_eigenvalues(scatter / spread[:, :, None] / spread[:, None, :], kind))
    return np.concatenate(found)


def _scatter(
    size: int, subjects: int, count: int, rngs: tuple[np.random.Generator, np.random.Generator]
) -> FloatArray:
    """Scatter matrices of standard normal data, shape ``(B, p, p)``.

    Bartlett's (1933) decomposition of the Wishart distribution with n - 1 degrees of freedom, whose
    cost does not grow with the subjects; with fewer subjects than variables the data themselves.
    Normal and chi-squared draws come from generators of their own, so that blocks of any size give
    the same.
    """
    normal, chisquare = rngs
    degrees = subjects - 1
    if degrees < size:
        drawn = normal.standard_normal((count, subjects, size))
        drawn -= drawn.mean(axis=1, keepdims=True)
        return np.asarray(drawn.transpose(0, 2, 1) @ drawn, np.float64)
    factor = np.tril(normal.standard_normal((count, size, size)), -1)
    places = np.arange(size)
    factor[:, places, places] = np.sqrt(chisquare.chisquare(degrees - places, (count, size)))
    return np.asarray(factor @ factor.transpose(0, 2, 1), np.float64)


def _eigenvalues(matrices: FloatArray, kind: Kind) -> FloatArray:
    """Eigenvalues of each matrix, the largest first; `matrices` has shape ``(B, p, p)``."""
    reduced: FloatArray = matrices
    if kind is not Kind.PCA:
        reduced = matrices.copy()
        places = np.arange(matrices.shape[1])
        reduced[:, places, places] = one_factor_communalities(matrices, Extraction(kind))
    return np.asarray(np.linalg.eigvalsh(reduced)[:, ::-1], np.float64)
