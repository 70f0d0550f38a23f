"""Correlations of benchmarks over targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from safemetry.construct.factors.extraction import smallest_eigenvalue
from safemetry.construct.factors.settings import Missing
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

MOSTLY_COMPLETE: Final = 0.9
"""Share of complete targets from which on the others are left out unless told otherwise."""
FEWEST_VARIABLES: Final = 3
_ROUNDED: Final = 0.005
_FEWEST: Final = 4
"""Targets that two benchmarks must have in common."""


@dataclass(frozen=True)
class Correlations:
    """A correlation matrix and what it is over.

    Parameters
    ----------
    names
        Of the p variables.
    values
        Shape ``(p, p)``.
    subjects
        n of every statistic: with pairwise correlations the smallest number that a pair has.
    pairs
        Subjects of each pair, shape ``(p, p)``.
    missing
        Which subjects a correlation is over; None for a matrix that was given.
    used
        Rows of the scores that took part, shape ``(N,)``; empty for a matrix that was given.
    """

    names: tuple[str, ...]
    values: FloatArray
    subjects: int
    pairs: IntArray
    missing: Missing | None
    used: BoolArray

    @property
    def impossible(self) -> bool:
        """Whether the matrix is so far from positive definite that rounding cannot explain it.

        Rounding p variables to two digits moves an eigenvalue by at most .005 p (Weyl 1912).
        """
        return smallest_eigenvalue(self.values) < -_ROUNDED * len(self.names)


def given_correlations(
    names: Sequence[str], values: FloatArray, subjects: int | None
) -> Correlations:
    """A correlation matrix that somebody else computed.

    Raises
    ------
    InputError
        Without the number of subjects, or for fewer than three variables.
    """
    if subjects is None:
        raise InputError(
            "a correlation matrix does not say over how many subjects it is",
            fix="give their number with --subjects N",
        )
    _enough(len(names))
    matrix = np.asarray(values, np.float64)
    return Correlations(
        tuple(names),
        matrix,
        subjects,
        np.full(matrix.shape, subjects, np.int64),
        None,
        np.zeros(0, np.bool_),
    )


def correlate(
    names: Sequence[str], scores: FloatArray, missing: Missing | None = None
) -> Correlations:
    """Pearson correlations of the columns of a score matrix.

    Parameters
    ----------
    names
        Of the p columns.
    scores
        Shape ``(N, p)``, NaN where missing; every column varies.
    missing
        Which rows count; None as `FactorSettings.missing` says.

    Raises
    ------
    InputError
        For fewer than three columns, or too few rows, naming the pair.
    """
    _enough(len(names))
    known = np.isfinite(scores)
    complete: BoolArray = np.logical_and.reduce(known, axis=1)
    seen: BoolArray = np.logical_or.reduce(known, axis=1)
    rule = missing
    if rule is None:
        mostly = complete.sum() >= max(MOSTLY_COMPLETE * seen.sum(), 3)
        rule = Missing.COMPLETE if mostly else Missing.PAIRWISE
    used = complete if rule is Missing.COMPLETE else seen
    part, there = scores[used], known[used].astype(np.float64)
    pairs = (there.T @ there).astype(np.int64)
    if pairs.min() < _FEWEST:
        if rule is Missing.COMPLETE:
            what = f"{int(complete.sum())} targets have scores on all benchmarks"
        else:
            one, two = divmod(int(pairs.argmin()), len(names))
            on = names[one] if one == two else f"{names[one]} and {names[two]}"
            what = f"{int(pairs.min())} targets have scores on {on}"
        helps = rule is Missing.COMPLETE and _fewest_of_a_pair(known) >= _FEWEST
        raise InputError(
            what, fix="give more targets" + (", or use --missing pairwise" if helps else "")
        )
    values = _pairwise(part, there)
    if not np.isfinite(values).all():
        one, two = divmod(int(np.isnan(values).argmax()), len(names))
        raise InputError(
            f"{names[one]} or {names[two]} is the same for all targets that have both",
            fix="leave it out: it tells nobody apart",
        )
    return Correlations(tuple(names), values, int(pairs.min()), pairs, rule, used)


def _fewest_of_a_pair(known: BoolArray) -> int:
    """Fewest rows that have both of two columns."""
    there = known.astype(np.int64)
    return int((there.T @ there).min())


def _pairwise(scores: FloatArray, there: FloatArray) -> FloatArray:
    """Correlations, each over the rows that have both columns; NaN where one is constant."""
    # Centred first, so that the products lose no digits.
    counts = there.sum(axis=0)
    zeroed = np.where(there > 0, scores, 0.0)
    # Scaled too: a score of 1e200 has no square.
    zeroed /= np.maximum(np.abs(zeroed).max(axis=0), 1e-300)
    centred = np.where(there > 0, zeroed - zeroed.sum(axis=0) / counts, 0.0)
    centred /= np.sqrt(np.square(centred).sum(axis=0) / counts)
    shared = there.T @ there
    sums = centred.T @ there
    squares = np.square(centred).T @ there
    products = centred.T @ centred
    covariance = products - sums * sums.T / shared
    variance = squares - np.square(sums) / shared
    with np.errstate(divide="ignore", invalid="ignore"):
        found = covariance / np.sqrt(variance * variance.T)
    found = np.where((variance > 1e-12) & (variance.T > 1e-12), np.clip(found, -1, 1), np.nan)
    if np.isfinite(found).all():
        np.fill_diagonal(found, 1.0)
    return (found + found.T) / 2


def _enough(variables: int) -> None:
    if variables < FEWEST_VARIABLES:
        raise InputError(
            f"{variables} benchmark{'s' if variables != 1 else ''} cannot be told apart into "
            "factors",
            fix="give at least three that vary over the targets, or name the benchmark of each "
            "item with --structure",
        )
