"""All ways to choose a form under one name, for the comparisons between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.anchors import select_anchors
from safemetry.forms.selection.baselines import select_discrimination, select_variance
from safemetry.forms.selection.draws import select_random
from safemetry.forms.selection.exact import GAP, select_exact
from safemetry.forms.selection.greedy import select_greedy
from safemetry.forms.selection.objective import Objective
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Method(StrEnum):
    """How a form is chosen."""

    GREEDY = "greedy"
    """Item by item, for the least expected variance of the score on the pool by default."""

    EXACT = "exact"
    """The highest mean information of all forms."""

    DISCRIMINATION = "discrimination"
    """The highest discriminations."""

    VARIANCE = "variance"
    """The highest outcome variances over the calibration targets; needs their responses."""

    ANCHORS = "anchors"
    """Medoids of clusters of items, weighted; uses the responses where given."""

    RANDOM = "random"
    """Any form that keeps the constraints."""


@dataclass(frozen=True)
class Selection:
    """A form.

    Parameters
    ----------
    positions
        Of its items in the pool, shape ``(length,)``.
    weights
        With which their outcomes estimate the score on the pool, shape ``(length,)``, sum 1; equal
        but for anchors.
    method
        How it was chosen.
    notes
        What else there is to say, in sentences.
    """

    positions: IntArray
    weights: FloatArray
    method: str
    notes: tuple[str, ...] = ()


def select(
    pool: ItemPool,
    constraints: Constraints,
    method: Method | str = Method.GREEDY,
    *,
    objective: Objective | str | None = None,
    codes: NDArray[np.integer] | None = None,
    rng: np.random.Generator | None = None,
) -> Selection:
    """Choose a form.

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    method
        See `Method`.
    objective
        Of the methods ``greedy`` (``score`` by default) and ``exact`` (``mean`` by default); the
        others have none.
    codes
        Responses of calibration targets to the items of the pool, shape ``(N, J)``, -1 missing.
        Targets on which the form is evaluated must not be among them.
    rng
        Source of randomness, which ``anchors`` and ``random`` need.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name; an unknown method; or what a method lacks.
    """
    try:
        kind = Method(method)
    except ValueError:
        raise InputError(
            f"there is no method {method!r} to choose items", fix=f"use {', '.join(Method)}"
        ) from None
    if objective is not None and kind not in {Method.GREEDY, Method.EXACT}:
        raise InputError(f"the method {kind} has no objective", fix="leave it out")
    notes: tuple[str, ...] = ()
    if kind is Method.ANCHORS:
        anchors = select_anchors(pool, constraints, _needed(rng, kind), codes=codes)
        what = "parameters" if codes is None else "responses"
        return Selection(
            anchors.positions, anchors.weights, kind.value, (f"Items are clustered by {what}.",)
        )
    if kind is Method.GREEDY:
        chosen = select_greedy(pool, constraints, objective=objective or Objective.SCORE)
    elif kind is Method.EXACT:
        exact = select_exact(pool, constraints, objective=objective or Objective.MEAN)
        chosen, notes = exact.positions, (_proof(exact.gap, optimal=exact.optimal),)
    elif kind is Method.DISCRIMINATION:
        chosen = select_discrimination(pool, constraints)
    elif kind is Method.VARIANCE:
        if codes is None:
            raise InputError("the method variance needs the responses of calibration targets")
        chosen = select_variance(pool, constraints, codes)
    else:
        chosen = select_random(pool, constraints, _needed(rng, kind))
    weights = np.full(len(chosen), 1 / len(chosen))
    return Selection(chosen, weights, kind.value, notes)


def _needed(rng: np.random.Generator | None, method: Method) -> np.random.Generator:
    if rng is None:
        raise InputError(f"the method {method} needs a random generator")
    return rng


def _proof(gap: float | None, *, optimal: bool) -> str:
    if optimal:
        return f"No form that keeps the constraints is better by more than {GAP:.2%}."
    if gap is None:
        return "The time limit was reached before it was known how far the best form is."
    return f"The time limit was reached: the best form may be better by {gap:.2%} at most."
