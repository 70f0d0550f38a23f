"""Which targets are held out."""

from __future__ import annotations

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

FEWEST_TARGETS = 8


def held_out_targets(scores: FloatArray, share: float, rng: np.random.Generator) -> BoolArray:
    """Some targets from every part of the scale, so that low and high ones occur on both sides.

    Targets are put in the order of their scores and cut into as many groups of neighbours as are to
    be held out; one of each group is drawn.

    Parameters
    ----------
    scores
        Full scores, shape ``(N,)``; those with a NaN are never held out.
    share
        To hold out, in (0, 1).
    rng
        Source of randomness; it also decides the order of equal scores.

    Returns
    -------
    numpy.ndarray
        Shape ``(N,)``.

    Raises
    ------
    InputError
        For fewer than eight targets with a score.
    """
    known = np.flatnonzero(np.isfinite(scores))
    if known.size < FEWEST_TARGETS:
        raise InputError(
            f"{known.size} targets cannot be split into those that calibrate and those that test",
            fix=f"{FEWEST_TARGETS} are the least",
        )
    count = int(np.clip(round(share * known.size), 2, known.size - 4))
    order = known[np.lexsort((rng.random(known.size), scores[known]))]
    held = np.zeros(len(scores), bool)
    for group in np.array_split(order, count):
        held[rng.choice(group)] = True
    return held


def folds_of(scores: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """A fold, from 0, for each target, every fold spread over the scale; shape ``(N,)``."""
    filled = np.where(np.isfinite(scores), scores, 0.0)
    order = np.lexsort((rng.random(len(scores)), filled))
    found = np.empty(len(scores), np.int64)
    for start in range(0, len(scores), count):
        block = order[start : start + count]
        found[block] = rng.permutation(count)[: block.size]
    return found
