"""The best form of all, by a 0/1 programme (Theunissen 1985; van der Linden 2005)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.greedy import built, exchanged, in_order
from safemetry.forms.selection.limits import ItemClasses, Limits, by_name, classes_of, limits_of
from safemetry.forms.selection.objective import (
    LinearCriterion,
    MaximinCriterion,
    Objective,
    Wished,
    mean_information,
    relative_information,
)
from safemetry.forms.selection.paired import paired_exchange, relaxation
from safemetry.forms.selection.programme import impossible, minimise
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

GAP: Final = 1e-4
"""Relative difference to the bound at which a form counts as proven optimal."""

SECONDS: Final = 8.0

_NO_BOUND: Final = "the time limit was reached before any bound was known"
_NO_VALUE: Final = "the form tells nothing at some ability"
_BLOCK_CELLS: Final = 20_000_000


@dataclass(frozen=True)
class ExactForm:
    """A form, and how far it is from the best.

    Parameters
    ----------
    positions
        In the pool, shape ``(length,)``, best first.
    value
        Of the objective: mean information, or the least information relative to the wished one.
    bound
        No form that keeps the constraints has a higher value; None where none was found in time.
    gap
        bound / value - 1; at most `GAP` where the form is proven optimal. None without a bound, or
        where the value is 0.
    optimal
        Whether it is proven optimal.
    why
        Reasons for what is None.
    """

    positions: IntArray
    value: float
    bound: float | None
    gap: float | None
    optimal: bool
    why: Mapping[str, str] = field(default_factory=dict)


def select_exact(
    pool: ItemPool,
    constraints: Constraints,
    *,
    objective: Objective | str = Objective.MEAN,
    wished: Wished | None = None,
    time_limit: float = SECONDS,
) -> ExactForm:
    """The form with the highest mean information, or the highest least information.

    Items that cannot be in any best form are left out first: those of which as many items of the
    same kind as a form can hold are at least as good everywhere.

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    objective
        ``mean``, the information over the population, or ``maximin``, the least information
        relative to the wished one.
    wished
        For ``maximin``; see `safemetry.forms.selection.objective.wished_over_population` for the
        default.
    time_limit
        Seconds. What was best by then is returned, never worse than the greedy form, with its gap.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name; for another objective.
    """
    if objective not in {Objective.MEAN, Objective.MAXIMIN}:
        raise InputError(
            f"the exact form for objective {str(objective)!r} is no linear programme",
            fix="use mean or maximin, or the greedy method",
        )
    if not time_limit > 0:
        raise InputError(f"a time limit of {time_limit:g} s", fix="give a number above 0")
    ordered, positions = by_name(pool)
    limits = limits_of(ordered, constraints)
    if objective == Objective.MEAN:
        found = best_sum(limits, mean_information(ordered), time_limit=time_limit)
    else:
        found = _best_least(limits, relative_information(ordered, wished), time_limit)
    return replace(found, positions=positions[found.positions])


def best_sum(limits: Limits, values: FloatArray, *, time_limit: float = SECONDS) -> ExactForm:
    """The form with the highest sum of values of its items.

    Parameters
    ----------
    limits
        What it must keep.
    values
        Of the items, finite, shape ``(J,)``.
    time_limit
        Seconds.
    """
    classes = classes_of(limits)
    kept = _not_dominated(limits, classes, values[None])
    scale = max(float(np.abs(values).max()), 1e-300)
    rows, least, most = _item_programme(limits, kept)
    bounds = _item_bounds(limits, kept)
    found = minimise(
        -values[kept] / scale, rows, least, most, bounds, time_limit=time_limit, gap=GAP / 10
    )
    if found is None:
        raise impossible(limits, classes)
    goal = LinearCriterion(values)
    form = kept[found.values > 0.5] if found.values is not None else built(limits, goal)
    return _with_gap(
        in_order(goal, form), goal.value(form), -found.bound * scale, optimal=found.optimal
    )


def _best_least(limits: Limits, relative: FloatArray, time_limit: float) -> ExactForm:
    """The form with the highest least sum over rows of relative information, ``(P, J)``."""
    deadline = time.monotonic() + time_limit
    goal = MaximinCriterion(relative)
    classes = classes_of(limits)
    start = exchanged(limits, goal, built(limits, goal))
    highest, candidates = relaxation(limits, relative)
    start = paired_exchange(limits, classes, relative, start, candidates)
    known = goal.least(start)
    scale = max(known, 1e-300)
    kept = _not_dominated(limits, classes, relative)
    rows, least, most = _item_programme(limits, kept)
    points = len(relative)
    # sum over items of relative information - t >= 0 at every point; t is the last variable.
    reached = csr_array(np.column_stack([relative[:, kept] / scale, -np.ones(points)]))
    free = csr_array(np.zeros((rows.shape[0], 1)))
    lower, upper = _item_bounds(limits, kept)
    found = minimise(
        np.append(np.zeros(len(kept)), -1.0),
        csr_array(vstack([hstack([rows, free]), reached])),
        np.append(least, np.zeros(points)),
        np.append(most, np.full(points, np.inf)),
        # The form that is known is as good as 1; only better ones are searched.
        (np.append(lower, min(1.0, known / scale) * (1 - 1e-9)), np.append(upper, np.inf)),
        whole=np.append(np.ones(len(kept), np.int64), 0),
        time_limit=max(deadline - time.monotonic(), time_limit / 4),
        gap=GAP / 2,
    )
    form, optimal, bound = start, False, highest
    if found is not None:
        optimal, bound = found.optimal, min(highest, -found.bound * scale)
        if found.values is not None:
            better = kept[found.values[:-1] > 0.5]
            form = better if goal.least(better) > known else start
    return _with_gap(in_order(goal, form), goal.least(form), bound, optimal=optimal)


def _with_gap(form: IntArray, value: float, bound: float, *, optimal: bool) -> ExactForm:
    highest = max(bound, value)
    if not np.isfinite(highest):
        return ExactForm(form, value, None, None, optimal, {"bound": _NO_BOUND, "gap": _NO_BOUND})
    if value <= 0 < highest:
        return ExactForm(form, value, highest, None, optimal, {"gap": _NO_VALUE})
    gap = highest / value - 1 if value > 0 else 0.0
    return ExactForm(form, value, highest, gap, optimal or gap <= GAP)


def _not_dominated(limits: Limits, classes: ItemClasses, values: FloatArray) -> IntArray:
    """Items that a best form may need: fewer of their class than a form can hold are as good.

    Parameters
    ----------
    limits, classes
        What a form must keep, and the classes of items under it.
    values
        Of the items, at P points, shape ``(P, J)``.
    """
    kept = np.zeros(len(limits.names), bool)
    kept[limits.required] = True
    most = classes.most(limits)
    order = np.argsort(classes.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(classes.sizes)])
    for number, room in enumerate(most.tolist()):
        members = order[starts[number] : starts[number + 1]]
        if len(members) <= room:
            kept[members] = bool(classes.allowed[number])
        elif room:
            kept[members[_better(values[:, members]) < room]] = True
    kept[limits.required] = True
    return np.flatnonzero(kept)


def _better(values: FloatArray) -> IntArray:
    """How many items are as good as each everywhere, and come first or are better somewhere."""
    points, size = values.shape
    if points == 1:
        rank = np.empty(size, np.int64)
        rank[np.argsort(-values[0], kind="stable")] = np.arange(size)
        return rank
    order = np.argsort(-values.sum(axis=0), kind="stable")
    ranked = values[:, order]
    count = np.zeros(size, np.int64)
    block = max(1, _BLOCK_CELLS // (points * size))
    for start in range(0, size, block):
        part = slice(start, min(start + block, size))
        # What is as good everywhere has as high a sum, so it stands before in this order.
        before: BoolArray = np.arange(size)[:, None] < np.arange(size)[None, part]
        for row in ranked:
            before &= row[:, None] >= row[None, part]
        count[part] = before.sum(axis=0)
    found = np.empty(size, np.int64)
    found[order] = count
    return found


def _item_programme(limits: Limits, kept: IntArray) -> tuple[Any, FloatArray, FloatArray]:
    length = csr_array(np.ones((1, len(kept))))
    rows = csr_array(vstack([csr_array(limits.members)[:, kept], length]))
    least = np.append(limits.least, limits.length).astype(np.float64)
    return rows, least, np.append(limits.most, limits.length).astype(np.float64)


def _item_bounds(limits: Limits, kept: IntArray) -> tuple[FloatArray, FloatArray]:
    lower = np.isin(kept, limits.required).astype(np.float64)
    return lower, limits.allowed[kept].astype(np.float64)
