"""Exchanges of two items at once, where one at a time cannot level the information of a form."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from safemetry.forms.selection.limits import ItemClasses, Limits
from safemetry.irt.parameters import FloatArray, IntArray

_CANDIDATES: Final = 200
_ROUNDS: Final = 30
_MOST_MOVES: Final = 1500
_BLOCK_CELLS: Final = 2_000_000


def paired_exchange(
    limits: Limits,
    classes: ItemClasses,
    relative: FloatArray,
    chosen: IntArray,
    candidates: IntArray,
) -> IntArray:
    """A form after exchanges of up to two items that raise its least information.

    Items come in for others of their class, which keeps every limit.

    Parameters
    ----------
    limits, classes
        What the form keeps, and the classes of the items under it.
    relative
        Information of the items over the wished one, shape ``(P, J)``.
    chosen
        A form that keeps the limits.
    candidates
        Items that may come in; see `relaxation`.
    """
    form = chosen.copy()
    for _ in range(_ROUNDS):
        leave, enter = _moves(limits, classes, form, candidates)
        if not leave.size:
            break
        pair = _best_pair(relative, form, leave, enter)
        if pair is None:
            break
        for move in pair:
            form[form == leave[move]] = enter[move]
    return form


def relaxation(limits: Limits, relative: FloatArray) -> tuple[float, IntArray]:
    """A bound of the least information, and the items that are promising.

    Both follow from the linear programme in which an item may be in the form by a part: its
    optimum, infinite if it is not found, and the 200 items with the lowest reduced costs.

    Parameters
    ----------
    limits
        What the form keeps.
    relative
        Information of the items over the wished one, shape ``(P, J)``.
    """
    points, size = relative.shape
    members = csr_array(limits.members).astype(np.float64)
    none = csr_array((members.shape[0], 1))
    scale = max(float(relative.sum(axis=1).max()) / size * limits.length, 1e-300)
    lower = np.zeros(size)
    lower[limits.required] = 1
    rows: Any = vstack(
        [
            csr_array(np.column_stack([-relative / scale, np.ones(points)])),
            hstack([members, none]),
            hstack([-members, none]),
        ]
    )
    sides: Any = np.column_stack(
        [np.append(lower, 0.0), np.append(limits.allowed.astype(np.float64), np.inf)]
    )
    found: Any = linprog(
        np.append(np.zeros(size), -1.0),
        A_ub=rows,
        b_ub=np.concatenate([np.zeros(points), limits.most, -limits.least]),
        A_eq=np.append(np.ones(size), 0.0)[None],
        b_eq=np.array([float(limits.length)]),
        bounds=sides,
        method="highs",
    )
    if found.status != 0:
        return np.inf, np.zeros(0, np.int64)
    cost: FloatArray = np.abs(found.lower.marginals + found.upper.marginals)[:-1]
    cost[~limits.allowed] = np.inf
    order: IntArray = np.argsort(cost, kind="stable")[:_CANDIDATES]
    return -float(found.fun) * scale, order[limits.allowed[order]]


def _moves(
    limits: Limits, classes: ItemClasses, form: IntArray, candidates: IntArray
) -> tuple[IntArray, IntArray]:
    """Items that may leave, each with one of its class that may enter for it."""
    movable = np.setdiff1d(form, limits.required)
    new = np.setdiff1d(candidates, form)
    alike = classes.of[movable][:, None] == classes.of[new][None]
    leave, enter = np.nonzero(alike)
    return movable[leave][:_MOST_MOVES], new[enter][:_MOST_MOVES]


def _best_pair(
    relative: FloatArray, form: IntArray, leave: IntArray, enter: IntArray
) -> tuple[int, ...] | None:
    """The one or two moves after which the least information is highest; None if none helps."""
    total = relative[:, form].sum(axis=1)
    change = relative[:, enter] - relative[:, leave]
    count = len(leave)
    single = (total[:, None] + change).min(axis=0)
    best = float(total.min()) * (1 + 1e-9)
    found: tuple[int, ...] | None = None
    if single.max() > best:
        best, found = float(single.max()), (int(np.argmax(single)),)
    block = max(1, _BLOCK_CELLS // count)
    for start in range(0, count, block):
        part = slice(start, min(start + block, count))
        least = np.full((part.stop - start, count), np.inf)
        for level, row in zip(total, change, strict=True):
            np.minimum(least, (level + row[part])[:, None] + row[None], out=least)
        clash = leave[part, None] == leave[None]
        clash |= enter[part, None] == enter[None]
        least[clash] = -np.inf
        where = int(np.argmax(least))
        if least.flat[where] > best:
            best, found = float(least.flat[where]), (start + where // count, where % count)
    return found
