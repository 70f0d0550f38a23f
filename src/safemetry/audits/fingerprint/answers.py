"""Answers of targets as shares of classes, and the items on which they tell targets apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_DIFFERENCE: Final = 0.1
"""How much more often two targets must differ on an item than two runs of one target."""


def answer_counts(codes: NDArray[np.integer], categories: int) -> FloatArray:
    """How often each target gave each class on each item.

    Parameters
    ----------
    codes
        Shape ``(N, J)`` for one run or ``(T, N, J)`` for T: class 0 .. C - 1, or -1 for missing.
    categories
        C, at least 2.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, J, C)``.

    Examples
    --------
    >>> answer_counts(np.array([[[0, 1]], [[0, -1]]]), 2)[0].tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    runs = codes[None] if codes.ndim == 2 else codes
    if runs.ndim != 3 or 0 in runs.shape:
        raise InputError("answers have the shape targets x items, or runs x targets x items")
    if runs.max() >= categories:
        raise InputError(f"an answer is {runs.max()}, and there are {categories} classes")
    return np.stack([(runs == code).sum(axis=0) for code in range(categories)], -1).astype(
        np.float64
    )


def answer_shares(counts: FloatArray) -> FloatArray:
    """Share of each class among the answers of a target to an item; 0 where there is none."""
    total = counts.sum(axis=-1, keepdims=True)
    shares: FloatArray = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    return shares


def difference_of_targets(counts: FloatArray) -> FloatArray:
    """Chance that two targets differ on an item beyond two runs of one target, shape ``(J,)``.

    The first is the mean over pairs of targets; the second is the unbiased share of differing pairs
    of runs, over the targets that have two, and 0 where none has. 0 where fewer than two targets
    answered.

    Parameters
    ----------
    counts
        Shape ``(N, J, C)``.
    """
    shares = answer_shares(counts)
    answered = counts.sum(axis=-1)
    pooled, square = shares.sum(axis=0), np.square(shares).sum(axis=(0, 2))
    here = (answered > 0).sum(axis=0).astype(np.float64)
    pairs = here * (here - 1)
    alike = np.square(pooled).sum(axis=-1) - square
    between = np.divide(pairs - alike, pairs, out=np.zeros_like(here), where=pairs > 0)
    runs = answered * (answered - 1)
    same = (counts * (counts - 1)).sum(axis=-1)
    differing = np.divide(runs - same, runs, out=np.zeros_like(runs), where=runs > 0)
    repeated = (runs > 0).sum(axis=0)
    within = differing.sum(axis=0) / np.maximum(repeated, 1)
    found: FloatArray = between - within
    return found


def informative_items(counts: FloatArray, least: float = LEAST_DIFFERENCE) -> BoolArray:
    """Items on which targets differ enough for an agreement to mean something, shape ``(J,)``.

    Parameters
    ----------
    counts
        Of the known targets, shape ``(N, J, C)``.
    least
        Least difference of two targets beyond that of two runs, in (0, 1). At .1 and with one run,
        two of 37 targets must give another answer than the rest, and five of 77.
    """
    if not 0 < least < 1:
        raise InputError(f"a least difference of {least:g} is not between 0 and 1")
    found: BoolArray = difference_of_targets(counts) >= least - 1e-9
    return found
