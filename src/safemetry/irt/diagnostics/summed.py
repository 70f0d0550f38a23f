"""Distributions of summed scores given an ability (Lord & Wingersky 1984)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from safemetry.irt.parameters import FloatArray


def score_distribution(chances: FloatArray) -> FloatArray:
    """Probability of each summed score of independent items, by the Lord-Wingersky recursion.

    Parameters
    ----------
    chances
        Probability of each category, shape ``(C, Q, J)`` for Q abilities.

    Returns
    -------
    numpy.ndarray
        Shape ``(S, Q)`` for scores 0 to J (C - 1).
    """
    start = np.ones((1, chances.shape[1]))
    return _with_items(start, chances, range(chances.shape[2]))


def scores_without_each(chances: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """For each item the distribution of the summed score of all other items.

    The items are halved again and again, each half joined by the items outside it, so that J items
    take J log2 J steps of the recursion and nothing is ever divided out.

    Parameters
    ----------
    chances
        Shape ``(C, Q, J)``.

    Yields
    ------
    tuple
        The position of an item, and the distribution without it, shape ``(S, Q)``.
    """
    start = np.ones((1, chances.shape[1]))
    waiting = [(start, range(chances.shape[2]))]
    while waiting:
        outside, items = waiting.pop()
        if len(items) == 1:
            yield items[0], outside
            continue
        first, second = items[: len(items) // 2], items[len(items) // 2 :]
        waiting.append((_with_items(outside, chances, first), second))
        waiting.append((_with_items(outside, chances, second), first))


def _with_items(scores: FloatArray, chances: FloatArray, items: range) -> FloatArray:
    """A distribution of scores, shape ``(S, Q)``, after further items."""
    top = chances.shape[0] - 1
    length = scores.shape[0]
    joined = np.zeros((length + top * len(items), scores.shape[1]))
    joined[:length] = scores
    for item in items:
        before = joined[:length].copy()
        length += top
        joined[:length] = 0.0
        for category, chance in enumerate(chances[:, :, item]):
            joined[category : category + len(before)] += before * chance
    return joined
