"""Content balance: which category the next item comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.settings import Balance
from safemetry.forms.constraints import UNKNOWN
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Categories:
    """The categories of items, and their shares.

    Parameters
    ----------
    names
        Sorted.
    of_item
        Position of each item's category, shape ``(J,)``.
    shares
        Sum to 1, shape ``(C,)``.
    """

    names: tuple[str, ...]
    of_item: IntArray
    shares: FloatArray

    @classmethod
    def of_pool(cls, pool: ItemPool, balance: Balance) -> Self:
        """The categories of a pool.

        Raises
        ------
        InputError
            For a property that the pool lacks, or a share of a value that no item has.
        """
        if balance.by not in pool.properties:
            known = ", ".join(sorted(pool.properties)) or "none"
            raise InputError(
                f"items have no property {balance.by!r}", fix=f"the known properties are {known}"
            )
        values = [UNKNOWN if one is None else one for one in pool.properties[balance.by]]
        names = tuple(sorted(set(values)))
        wrong = sorted(set(balance.shares) - set(names))
        if wrong:
            raise InputError(f"no item has {balance.by} {wrong[0]!r}", fix="leave its share out")
        of_item = np.searchsorted(np.array(names), np.array(values)).astype(np.int64)
        shares = np.bincount(of_item, minlength=len(names)).astype(np.float64)
        if balance.shares:
            shares = np.array([balance.shares.get(name, 0.0) for name in names])
        return cls(names, of_item, shares / shares.sum())

    def open_counts(self, usable: BoolArray) -> IntArray:
        """Usable items of each category, ``(n, J)`` -> ``(n, C)``."""
        chosen = np.arange(len(self.names)) == self.of_item[:, None]
        found: IntArray = (usable.astype(np.float32) @ chosen.astype(np.float32)).astype(np.int64)
        return found

    def next_category(self, given: IntArray, usable: IntArray) -> IntArray:
        """The category whose share is furthest below its target (Kingsbury & Zara 1989).

        Parameters
        ----------
        given, usable
            Items of each category that a target had and could still have, shape ``(n, C)``.

        Returns
        -------
        numpy.ndarray
            Shape ``(n,)``; categories without usable items, and those with share 0 while others
            are left, are passed over.
        """
        count = np.maximum(given.sum(axis=1, keepdims=True), 1)
        deficit = self.shares - given / count
        # Rounding must not decide between equal deficits.
        deficit = np.where(self.shares > 0, np.round(deficit, 12), -10.0)
        found: IntArray = np.where(usable > 0, deficit, -100.0).argmax(axis=1)
        return found
