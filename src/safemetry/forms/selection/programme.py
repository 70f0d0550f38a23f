"""Integer programmes over items and classes of items: a form at all, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from safemetry.errors import InputError
from safemetry.forms.selection.limits import ItemClasses, Limits, classes_of
from safemetry.irt.parameters import FloatArray, IntArray

FEASIBILITY_SECONDS: Final = 60.0
_MOST_NAMED: Final = 8


@dataclass(frozen=True)
class Solution:
    """Outcome of an integer programme.

    Parameters
    ----------
    values
        Of the variables; None where none were found within the time.
    bound
        No solution has a lower cost than this.
    optimal
        Whether the programme ended before its time limit.
    """

    values: FloatArray | None
    bound: float
    optimal: bool


def minimise(
    cost: FloatArray,
    rows: Any,
    least: FloatArray | IntArray,
    most: FloatArray | IntArray,
    bounds: tuple[FloatArray | IntArray, FloatArray | IntArray],
    *,
    whole: IntArray | None = None,
    time_limit: float = FEASIBILITY_SECONDS,
    gap: float = 0.0,
) -> Solution | None:
    """The cheapest whole numbers with ``least <= rows @ x <= most``, by HiGHS.

    Parameters
    ----------
    cost
        Of each of V variables, shape ``(V,)``.
    rows, least, most
        Sparse, shape ``(R, V)``, and the bounds, shape ``(R,)``.
    bounds
        Lowest and highest value of each variable.
    whole
        1 for whole numbers, 0 for real ones, shape ``(V,)``; all whole by default.
    time_limit
        Seconds.
    gap
        Relative difference to the bound at which the search ends.

    Returns
    -------
    Solution or None
        None where no numbers keep the constraints.
    """
    found = milp(
        cost,
        integrality=np.ones(len(cost), np.int64) if whole is None else whole,
        bounds=Bounds(np.asarray(bounds[0], np.float64), np.asarray(bounds[1], np.float64)),
        constraints=LinearConstraint(
            rows, np.asarray(least, np.float64), np.asarray(most, np.float64)
        ),
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )
    if found.status == 2:
        return None
    bound = found.mip_dual_bound
    return Solution(
        None if found.x is None else np.asarray(found.x, np.float64),
        -np.inf if bound is None else float(bound),
        found.status == 0,
    )


def class_programme(limits: Limits, classes: ItemClasses) -> tuple[csr_array, IntArray, IntArray]:
    """Rows and bounds of the numbers of items by class: all limits, and the length last."""
    length = csr_array(np.ones((1, len(classes.sizes)), np.int64))
    rows = csr_array(vstack([csr_array(classes.rows), length]))
    return rows, np.append(limits.least, limits.length), np.append(limits.most, limits.length)


def complete(
    limits: Limits,
    classes: ItemClasses,
    chosen: IntArray,
    preference: FloatArray,
) -> IntArray | None:
    """A form that holds some items and keeps every limit.

    Parameters
    ----------
    limits, classes
        What it must keep, and the classes of the items under it.
    chosen
        Positions of the items that it must hold besides the required ones.
    preference
        Of two items of a class the one with the higher value is taken, shape ``(J,)``.

    Returns
    -------
    numpy.ndarray or None
        Positions; None where there is no such form.
    """
    fixed = np.union1d(chosen, limits.required)
    lower, upper = classes.counts(fixed), np.where(classes.allowed, classes.sizes, 0)
    if (lower > upper).any() or len(fixed) > limits.length:
        return None
    liked = np.bincount(classes.of, preference, minlength=len(classes.sizes)) / classes.sizes
    rows, least, most = class_programme(limits, classes)
    # What is liked only guides the search; any form will do.
    scale = max(float(np.abs(liked).max()), 1e-300)
    found = minimise(-liked / scale, rows, least, most, (lower, upper), gap=0.05)
    if found is None:
        return None
    if found.values is None:
        raise InputError(
            f"no form of {limits.length:,} items was found within {FEASIBILITY_SECONDS:g} s",
            fix="relax the constraints",
        )
    return fill(classes, np.rint(found.values).astype(np.int64), fixed, preference)


def fill(
    classes: ItemClasses, counts: IntArray, fixed: IntArray, preference: FloatArray
) -> IntArray:
    """Items by class: those that are fixed, then those with the highest preference."""
    rank = preference.astype(np.float64)
    rank = np.where(np.isfinite(rank), rank, -np.finfo(np.float64).max)
    first = np.ones(len(rank), np.int64)
    first[fixed] = 0
    order = np.lexsort((-rank, first, classes.of))
    starts = np.concatenate([[0], np.cumsum(classes.sizes)[:-1]])
    place_in_class = np.arange(len(order)) - np.repeat(starts, classes.sizes)
    found: IntArray = np.sort(order[place_in_class < np.repeat(counts, classes.sizes)])
    return found


def first_form(limits: Limits, preference: FloatArray) -> IntArray:
    """A form that keeps every limit, preferably of items with high values of a preference.

    Raises
    ------
    InputError
        For limits that no form keeps, by name.
    """
    classes = classes_of(limits)
    found = complete(limits, classes, np.zeros(0, np.int64), preference)
    if found is None:
        raise impossible(limits, classes)
    return found


def impossible(limits: Limits, classes: ItemClasses) -> InputError:
    """The error that names constraints which no form keeps together.

    The named set is minimal: without any one of them there is a form (an irreducible infeasible
    set, found by divide and conquer: Junker 2004, QuickXplain).
    """
    every = _constraints(limits)
    culprits = _conflict(limits, classes, [], every, tested=False)
    said = [_label(limits, one) for one in culprits]
    listed = "; ".join(said[:_MOST_NAMED])
    if len(said) > _MOST_NAMED:
        listed += f"; and {len(said) - _MOST_NAMED:,} more"
    together = "cannot keep" if len(said) == 1 else "cannot keep together"
    return InputError(
        f"a form of {limits.length:,} items {together}: {listed}",
        fix="relax it" if len(said) == 1 else "relax one of them; the others can be kept",
    )


def _constraints(limits: Limits) -> list[int | str]:
    """Names of all constraints but the length: numbers of rows, items, and what is forbidden."""
    found: list[int | str] = list(range(len(limits.labels)))
    found += [f"item {place}" for place in limits.required.tolist()]
    return found if limits.allowed.all() else [*found, "forbidden"]


def _label(limits: Limits, constraint: int | str) -> str:
    if isinstance(constraint, int):
        return limits.labels[constraint]
    if constraint == "forbidden":
        return f"{int((~limits.allowed).sum()):,} forbidden items"
    return f"item {limits.names[int(constraint.split()[1])]!r} is required"


def _conflict(
    limits: Limits,
    classes: ItemClasses,
    background: list[int | str],
    suspects: list[int | str],
    *,
    tested: bool,
) -> list[int | str]:
    """Those of the suspects that a form cannot keep along with the background."""
    if tested and not _possible(limits, classes, background):
        return []
    if len(suspects) == 1:
        return suspects
    half = len(suspects) // 2
    first, second = suspects[:half], suspects[half:]
    later = _conflict(limits, classes, [*background, *first], second, tested=bool(first))
    earlier = _conflict(limits, classes, [*background, *later], first, tested=bool(later))
    return [*earlier, *later]


def _possible(limits: Limits, classes: ItemClasses, active: list[int | str]) -> bool:
    rows, least, most = class_programme(limits, classes)
    free = np.ones(len(least), bool)
    free[[one for one in active if isinstance(one, int)]] = False
    free[-1] = False
    items = [int(one.split()[1]) for one in active if isinstance(one, str) and " " in one]
    lower = classes.counts(np.array(items, np.int64))
    upper = (
        classes.sizes if "forbidden" not in active else np.where(classes.allowed, classes.sizes, 0)
    )
    if (lower > upper).any():
        return False
    least, most = np.where(free, 0, least), np.where(free, len(limits.names), most)
    return minimise(np.zeros(len(lower)), rows, least, most, (lower, upper)) is not None
