"""CUSUM: whether responses drift away from the model along a given order of the items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Residuals = NDArray[np.floating[Any]]
    Places = NDArray[np.intp]


@dataclass(frozen=True)
class Cusum:
    """Largest sums of N patterns, shape ``(N,)``.

    Parameters
    ----------
    upper
        Largest value of C+, at least 0: a run of more reward than expected.
    lower
        Smallest value of C-, at most 0: a run of less.
    """

    upper: Residuals
    lower: Residuals

    @property
    def largest(self) -> Residuals:
        """The larger of the two in size: the statistic that is tested."""
        return np.maximum(self.upper, -self.lower)


def cusum(residuals: Residuals, count: Residuals | int) -> Cusum:
    """Cumulative sums of residuals that start anew at 0.

    C+_i = max(0, C+_(i-1) + T_i) and C-_i = min(0, C-_(i-1) + T_i) with T = (x - P) / J (van
    Krimpen-Stoop & Meijer 2000, eq. 6 and 7).

    Parameters
    ----------
    residuals
        x - P in the order of the items, 0 where missing, shape ``(N, J)``.
    count
        Number of responses J, or one for each pattern, shape ``(N,)``.

    Examples
    --------
    >>> cusum(np.array([[0.5, 0.5, -0.25, -0.5, -0.5]]), 5).largest
    array([0.25])
    """
    sums = np.cumsum(residuals, axis=1)
    # C+ is how far the sum is above its lowest value so far, which is at most its start, 0.
    valley = np.minimum(np.minimum.accumulate(sums, axis=1), 0)
    peak = np.maximum(np.maximum.accumulate(sums, axis=1), 0)
    divisor = np.maximum(count, 1)
    return Cusum((sums - valley).max(axis=1) / divisor, (sums - peak).min(axis=1) / divisor)


def item_order(keys: Sequence[Any], items: int) -> Places:
    """Positions of the items in the order of their keys; equal keys keep the order given.

    Parameters
    ----------
    keys
        One for each item, numbers or texts: a time, a category, whether a trigger is present.
    items
        J.

    Raises
    ------
    InputError
        For another number of keys, or keys that cannot be compared.
    """
    if len(keys) != items:
        raise InputError(f"the order is given for {len(keys)} items of {items}")
    if any(isinstance(key, float) and np.isnan(key) for key in keys):
        raise InputError("a key of the order is not a number", fix="leave such items out")
    try:
        return np.array(sorted(range(items), key=lambda place: keys[place]), np.intp)
    except TypeError as error:
        raise InputError(
            "the keys of the order are of several kinds", fix="give numbers or texts for all items"
        ) from error
