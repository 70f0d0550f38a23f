"""Each method's choice of items, in the shape that an evaluation needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.forms.adaptive.settings import AdaptiveSettings, Balance
from safemetry.forms.adaptive.simulation import simulate_sessions
from safemetry.forms.constraints import Constraints
from safemetry.forms.evaluation.predictive import select_predictive
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.dispatch import select
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]


BY_SCORE: Final = frozenset({"predictive"})
"""Methods that look at the scores of targets, and are too hopeful about those they have seen."""


def chosen_form(
    method: str,
    pool: ItemPool,
    constraints: Constraints,
    codes: Codes,
    truth: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray, tuple[str, ...]]:
    """Positions of a form, the weights of its items in a mean, and what there is to say of it.

    Parameters
    ----------
    method
        ``predictive`` (see `select_predictive`) or one of `safemetry.forms.selection.select`.
    pool, constraints
        What to choose from, and what the form must hold.
    codes
        Responses of the calibration targets to the items of the pool.
    truth
        Their full scores.
    rng
        Source of randomness.
    """
    if method == "predictive":
        found = select_predictive(pool, constraints, codes, truth)
        return found, np.ones(found.size), ()
    form = select(pool, constraints, method, codes=codes, rng=rng)
    positions = np.asarray(form.positions, np.int64)
    return positions, np.asarray(form.weights, np.float64), form.notes


def adaptive_items(
    pool: ItemPool,
    codes: Codes,
    settings: AdaptiveSettings,
    per: str | None,
    rng: np.random.Generator,
) -> IntArray:
    """Items that each target takes in an adaptive test, shape ``(N, T)``; -1 after its last.

    Parameters
    ----------
    pool, codes
        Items, and the responses ``(N, J)`` of targets to them.
    settings
        Of the test.
    per
        Property by whose shares in the pool the test is balanced.
    rng
        Source of randomness.
    """
    balance = settings.balance if per is None else Balance(per)
    found = simulate_sessions(pool, codes, replace(settings, balance=balance), rng)
    return np.asarray(found.items, np.int64)
