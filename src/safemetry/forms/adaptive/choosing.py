"""From how useful items are to the one that is given: ties, random choice, acceptance."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

TIE: Final = 1e-9
"""Relative difference of criteria that counts as none, so that rounding never decides."""

CANDIDATES: Final = 64
"""Best items among which acceptance is tried before it is given up."""


def best_items(values: FloatArray) -> IntArray:
    """The first item of those that are best, within `TIE`, shape ``(n,)``.

    Parameters
    ----------
    values
        Of items, shape ``(n, J)``; -inf where an item cannot be given, never in a whole row.
    """
    top = values.max(axis=1, keepdims=True)
    found: IntArray = (values >= top - TIE * np.abs(top)).argmax(axis=1)
    return found


def ranked_items(values: FloatArray, most: int) -> tuple[IntArray, BoolArray]:
    """The best items of each row in falling order, and which of them can be given.

    Parameters
    ----------
    values
        Shape ``(n, J)``.
    most
        How many.

    Returns
    -------
    tuple
        Both of shape ``(n, min(most, J))``. Equal values stand in the order of the items, unless
        more of them are equal than are asked for.
    """
    size = values.shape[1]
    most = min(most, size)
    places = np.argpartition(-values, most - 1, axis=1)[:, :most]
    places.sort(axis=1)
    near = np.take_along_axis(values, places, axis=1)
    top = near.max(axis=1, keepdims=True)
    # Values that differ by rounding only are made equal; the sort then keeps the order of items.
    scale = np.where(top == 0, 1.0, np.abs(top)) * TIE
    with np.errstate(invalid="ignore"):
        steps = np.where(np.isfinite(near), np.round(near / scale), -np.inf)
    order = np.argsort(-steps, axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    return places, np.take_along_axis(near, order, axis=1) > -np.inf


def one_of_best(values: FloatArray, among: int, uniform: FloatArray) -> IntArray:
    """One of the best items at random, each equally likely (Kingsbury & Zara 1989), shape ``(n,)``.

    Parameters
    ----------
    values
        Shape ``(n, J)``.
    among
        How many of the best.
    uniform
        Random numbers in [0, 1), shape ``(n,)``.
    """
    places, usable = ranked_items(values, among)
    count = usable.sum(axis=1)
    drawn = np.minimum((uniform * count).astype(np.int64), count - 1)
    found: IntArray = places[np.arange(len(places)), drawn]
    return found


def accepted_items(
    values: FloatArray, acceptance: FloatArray, uniform: FloatArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """The first of the best items that is accepted (Sympson & Hetter 1985).

    One random number stands for the whole sequence of trials: item k of the order is given with
    probability p_k (1 - p_1) ... (1 - p_(k-1)), scaled to sum to 1.

    Parameters
    ----------
    values
        Shape ``(n, J)``.
    acceptance
        Probability of each item, shape ``(J,)``.
    uniform
        Random numbers in [0, 1), shape ``(n,)``.

    Returns
    -------
    tuple
        The item of each row, shape ``(n,)``; the order, and which of it were tried and refused,
        both shape ``(n, m)``.
    """
    places, usable = ranked_items(values, CANDIDATES)
    chance = np.where(usable, acceptance[places], 0.0)
    passed = np.cumprod(1 - chance, axis=1)
    within = 1 - passed
    level = uniform * within[:, -1]
    drawn = (within > level[:, None]).argmax(axis=1)
    rows = np.arange(len(places))
    refused = (np.arange(places.shape[1]) < drawn[:, None]) & usable
    return places[rows, drawn], places, refused
