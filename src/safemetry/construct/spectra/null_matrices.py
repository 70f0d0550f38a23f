"""Random outcome matrices under a null hypothesis, with the missing cells of the observed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


def draw_outcomes(
    chances: FloatArray, observed: BoolArray, draws: int, rng: np.random.Generator
) -> BoolArray:
    """Independent outcomes, given that every item varies, as the items that are analysed do.

    An item that comes out constant is drawn again from the same chances *given that it varies*:
    the place of its first rare outcome, then the rest. Leaving such items in would lower every
    eigenvalue, since they correlate with nothing; the observed matrix has lost its own.

    Parameters
    ----------
    chances
        Of a 1: shape ``(J,)`` for all targets, ``(N, J)``, or ``(draws, N, J)``.
    observed
        Where there is a response, shape ``(N, J)``; at least two in every column.
    draws
        Number of matrices, at least 1.
    rng
        Source of randomness.

    Returns
    -------
    numpy.ndarray
        Shape ``(draws, N, J)``; what stands in missing cells has no meaning.
    """
    shape = (draws, *observed.shape)
    outcomes: BoolArray = rng.random(shape) < chances
    spread = np.broadcast_to(chances, shape)
    while True:
        ones = (outcomes & observed).sum(axis=1)
        draw, item = np.nonzero((ones == 0) | (ones == observed.sum(axis=0)))
        if not draw.size:
            return outcomes
        outcomes[draw, :, item] = _with_a_rare_outcome(spread[draw, :, item], observed.T[item], rng)


def _with_a_rare_outcome(
    chances: FloatArray, observed: BoolArray, rng: np.random.Generator
) -> BoolArray:
    """Outcomes of M items as rows, given at least one of the rarer outcome, shape ``(M, N)``.

    Both are rarer than half on average over the targets, so that a row of nothing else, which the
    caller draws again, has at most a third of the probability.
    """
    turned = (chances * observed).sum(axis=1) > observed.sum(axis=1) / 2
    rare = np.where(turned[:, None], 1 - chances, chances)
    rare = np.where(observed, np.clip(rare, 1e-100, 1 - 1e-15), 0.0)
    reached = -np.expm1(np.cumsum(np.log1p(-rare), axis=1))
    place = rng.random((len(rare), 1)) * reached[:, -1:]
    first = (reached <= place).sum(axis=1, keepdims=True)
    cells = np.arange(rare.shape[1])
    found = (cells == first) | ((cells > first) & (rng.random(rare.shape) < rare))
    outcomes: BoolArray = np.logical_xor(found, turned[:, None])
    return outcomes


def permute_within_items(
    codes: NDArray[np.int8], observed: BoolArray, draws: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """The responses to each item in random order over the targets that answered it.

    Parameters
    ----------
    codes, observed
        Shape ``(N, J)``.
    draws
        Number of matrices, at least 1.
    rng
        Source of randomness.

    Returns
    -------
    numpy.ndarray
        Shape ``(draws, N, J)``; missing cells stay where they are.
    """
    if observed.all():
        repeated = np.repeat(codes[None], draws, axis=0)
        return rng.permuted(repeated, axis=1, out=repeated)
    # Orders of the targets in which those who answered come first: a random one, a fixed one.
    keys = np.where(observed, rng.random((draws, *codes.shape)), 2.0)
    source = np.argsort(keys, axis=1)
    goal = np.broadcast_to(np.argsort(~observed, axis=0, kind="stable"), source.shape)
    found = np.empty(source.shape, codes.dtype)
    moved = np.take_along_axis(np.broadcast_to(codes, source.shape), source, axis=1)
    np.put_along_axis(found, goal, moved, axis=1)
    return found
