"""Changed copies of targets: what a form says of a drop that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]


def simulated_errors(
    codes: Codes,
    predict: Callable[[Codes], FloatArray],
    rng: np.random.Generator,
    *,
    drop: float = 0.0,
    disagreement: float = 0.05,
    chances: FloatArray | None = None,
    repeats: int = 100,
) -> FloatArray:
    """Errors of recovered drops between a target and a changed copy of it, shape ``(R, N)``.

    In the copy some ones become zeros and some zeros ones, in numbers that give the drop and the
    disagreement; which ones is drawn. The error is the recovered drop less the true one.

    Parameters
    ----------
    codes
        Outcomes 0, 1, or -1 of N targets to J items.
    predict
        Full scores ``(N,)`` from responses ``(N, J)``, reading a form.
    rng
        Source of randomness.
    drop
        True drop of the score, as a fraction, as far as a target has ones to lose.
    disagreement
        Share of the items on which copy and target differ; at least the drop.
    chances
        Weight with which an item changes, shape ``(N, J)``, such as p (1 - p); all equal by
        default.
    repeats
        Copies of each target.
    """
    if codes.max(initial=0) > 1:
        raise InputError("copies are made of outcomes 0 and 1", fix="choose a boundary")
    before, rows = predict(codes), range(len(codes))
    found = np.empty((repeats, len(codes)))
    weights = np.ones(codes.shape) if chances is None else chances
    for repeat in range(repeats):
        copy = codes.copy()
        true = np.zeros(len(codes))
        for row in rows:
            answered = int((codes[row] >= 0).sum())
            lost = round(drop * answered)
            both = max(round(disagreement * answered) - lost, 0) // 2
            fallen = _drawn(np.flatnonzero(codes[row] == 1), lost + both, weights[row], rng)
            risen = _drawn(np.flatnonzero(codes[row] == 0), both, weights[row], rng)
            copy[row, fallen], copy[row, risen] = 0, 1
            true[row] = (fallen.size - risen.size) / max(answered, 1)
        found[repeat] = before - predict(copy) - true
    return found


def _drawn(
    places: IntArray | NDArray[np.intp], count: int, weights: FloatArray, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Some of the places, without repetition, in proportion to their weights."""
    keys = rng.exponential(size=places.size) / np.maximum(weights[places], 1e-12)
    found: NDArray[np.intp] = places[np.argsort(keys)[: min(count, places.size)]]
    return found
