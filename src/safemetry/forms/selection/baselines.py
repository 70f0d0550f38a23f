"""Simple rules that a form has to beat: the items with the highest of one number each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.exact import best_sum
from safemetry.forms.selection.limits import by_name, limits_of
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.irt.responses import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray


def select_discrimination(pool: ItemPool, constraints: Constraints) -> IntArray:
    """The form with the highest sum of discriminations that keeps the constraints.

    In several dimensions the discrimination of an item is the length of its slopes (Reckase 2009,
    equation 5.4).

    Returns
    -------
    numpy.ndarray
        Positions in the pool, shape ``(length,)``, best first.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name.
    """
    return highest(pool, constraints, np.linalg.norm(pool.parameters.slopes, axis=1))


def select_variance(
    pool: ItemPool, constraints: Constraints, codes: NDArray[np.integer]
) -> IntArray:
    """The form with the highest sum of outcome variances over the calibration targets.

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    codes
        Responses of calibration targets to the items of the pool, shape ``(N, J)``, -1 missing.

    Returns
    -------
    numpy.ndarray
        Positions in the pool, shape ``(length,)``, best first.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name; for codes of other items.
    """
    return highest(pool, constraints, outcome_variances(pool, codes))


def highest(pool: ItemPool, constraints: Constraints, values: FloatArray) -> IntArray:
    """The form with the highest sum of given values, shape ``(J,)``, best first."""
    ordered, positions = by_name(pool)
    found: IntArray = positions[
        best_sum(limits_of(ordered, constraints), values[positions]).positions
    ]
    return found


def outcomes(pool: ItemPool, codes: NDArray[np.integer]) -> FloatArray:
    """Outcomes code / (categories - 1) of targets, shape ``(N, J)``, NaN where missing.

    Raises
    ------
    InputError
        For codes that are not those of the items of the pool.
    """
    given = np.asarray(codes)
    if given.ndim != 2 or given.shape[1] != len(pool.items) or not len(given):
        raise InputError(
            f"responses have shape {given.shape} where the pool has {len(pool.items):,} items",
            fix="give one row for each target and one column for each item",
        )
    steps = np.maximum(pool.parameters.categories - 1, 1)
    if (given > steps).any():
        raise InputError(
            "a response is above the categories of its item",
            fix="calibrate the items with all their categories",
        )
    found: FloatArray = np.where(given == MISSING, np.nan, given / steps)
    return found


def outcome_variances(pool: ItemPool, codes: NDArray[np.integer]) -> FloatArray:
    """Variance of the outcomes of each item over the targets that answered it, shape ``(J,)``.

    The unbiased one; 0 where fewer than two targets answered.
    """
    given = outcomes(pool, codes)
    known = ~np.isnan(given)
    count = known.sum(axis=0)
    filled = np.where(known, given, 0.0)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, given - mean, 0.0) ** 2).sum(axis=0)
    return np.asarray(squares / np.maximum(count - 1, 1), np.float64)
