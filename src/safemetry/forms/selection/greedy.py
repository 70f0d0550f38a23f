"""One item after the other, without dead ends, and exchanges at the end."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.limits import ItemClasses, Limits, by_name, classes_of, limits_of
from safemetry.forms.selection.objective import (
    Criterion,
    MaximinCriterion,
    Objective,
    Wished,
    criterion,
)
from safemetry.forms.selection.programme import complete, first_form
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

_SWEEPS: Final = 20
_GAIN: Final = 1e-9


def select_greedy(
    pool: ItemPool,
    constraints: Constraints,
    *,
    objective: Objective | str = Objective.SCORE,
    wished: Wished | None = None,
    exchange: bool = True,
) -> IntArray:
    """A form chosen item by item, each the best that leaves a way to keep every constraint.

    Beside the chosen items a whole form that keeps all constraints is held at any time: an item
    enters by exchange with one of that form, or after an integer programme has found another form
    that holds it. So a form is found whenever there is one. At the end single items are exchanged
    while that helps (van der Linden 2005, section 4.2, calls such rules local optimisation), and
    the items are put in the order in which each adds most to those before it.

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    objective, wished
        See `safemetry.forms.selection.objective.criterion`. The default recovers scores better than
        the variance of the ability, which spends items on rare extreme targets.
    exchange
        Whether items are exchanged at the end.

    Returns
    -------
    numpy.ndarray
        Positions in the pool, shape ``(length,)``, best first.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name.
    """
    ordered, positions = by_name(pool)
    limits = limits_of(ordered, constraints)
    goal = criterion(ordered, objective, wished)
    chosen = built(limits, goal)
    if exchange:
        chosen = exchanged(limits, goal, chosen)
    found: IntArray = positions[in_order(goal, chosen)]
    return found


def built(limits: Limits, goal: Criterion) -> IntArray:
    """A form chosen item by item, the required items first."""
    classes = classes_of(limits)
    worth = goal.after(np.zeros(0, np.int64))
    witness = np.zeros(len(limits.names), bool)
    witness[first_form(limits, worth)] = True
    chosen = limits.required.tolist()
    closed = ~limits.allowed
    closed[chosen] = True
    while len(chosen) < limits.length:
        held = np.array(chosen, np.int64)
        values = goal.after(held)
        full = limits.totals(held) >= limits.most
        closed |= limits.belongs @ full.astype(np.int64) > 0
        item = _next_item(limits, classes, values, held, (witness, closed))
        chosen.append(item)
        closed[item] = True
    return np.array(chosen, np.int64)


def _next_item(
    limits: Limits,
    classes: ItemClasses,
    values: FloatArray,
    held: IntArray,
    state: tuple[BoolArray, BoolArray],
) -> int:
    """The best item with which a form can still be completed; updates the form that proves it.

    An item that leaves no way is closed with its class for good: what is impossible beside some
    items is impossible beside more.
    """
    witness, closed = state
    while True:
        item = int(np.argmax(np.where(closed, -np.inf, values)))
        if witness[item]:
            return item
        inside = np.flatnonzero(witness)
        may_leave = witness & limits.may_leave(limits.totals(np.append(inside, item)))
        may_leave[held] = False
        if may_leave.any():
            witness[int(np.argmin(np.where(may_leave, values, np.inf)))] = False
            witness[item] = True
            return item
        other = complete(limits, classes, np.append(held, item), values)
        if other is not None:
            witness[:] = False
            witness[other] = True
            return item
        closed |= classes.of == classes.of[item]


def exchanged(limits: Limits, goal: Criterion, chosen: IntArray) -> IntArray:
    """A form after exchanges of one item for another, while they help."""
    if not isinstance(goal, MaximinCriterion):
        return _exchanged(limits, goal, chosen)
    form, best = chosen, chosen
    for sharper in goal.sharper():
        form = _exchanged(limits, sharper, form)
        best = max(best, form, key=goal.least)
    return best


def _exchanged(limits: Limits, goal: Criterion, chosen: IntArray) -> IntArray:
    form = chosen.copy()
    value = goal.value(form)
    required = set(limits.required.tolist())
    for _ in range(_SWEEPS):
        before = value
        for place in range(len(form)):
            if form[place] in required:
                continue
            rest = np.delete(form, place)
            may = limits.may_enter(limits.totals(rest))
            may[rest] = False
            values = np.where(may, goal.after(rest), -np.inf)
            best = int(np.argmax(values))
            if values[best] > value + _GAIN * abs(value):
                form[place], value = best, float(values[best])
        if value <= before + _GAIN * abs(before):
            break
    return form


def in_order(goal: Criterion, chosen: IntArray) -> IntArray:
    """Items in the order in which each adds most to those before it."""
    left = np.sort(chosen)
    found: list[int] = []
    while left.size:
        best = int(np.argmax(goal.after(np.array(found, np.int64))[left]))
        found.append(int(left[best]))
        left = np.delete(left, best)
    return np.array(found, np.int64)
