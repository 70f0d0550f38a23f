"""Responses of targets to items as the engine reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

MISSING = -1


@dataclass(frozen=True)
class Responses:
    """Responses of N targets to J items.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, int8: category 0 .. C - 1, or -1 where there is no response.
    targets, items
        Names of the rows and columns.
    weights
        How many targets each row stands for, shape ``(N,)``; all 1 by default.
    """

    codes: NDArray[np.int8]
    targets: tuple[str, ...]
    items: tuple[str, ...]
    weights: FloatArray

    @property
    def observed(self) -> BoolArray:
        """Where there is a response, shape ``(N, J)``."""
        return np.not_equal(self.codes, MISSING)

    @property
    def complete(self) -> bool:
        """Whether no cell is missing."""
        return bool((self.codes != MISSING).all())

    @property
    def categories(self) -> IntArray:
        """One more than the highest code of each item, shape ``(J,)``; at least 1."""
        highest: IntArray = self.codes.max(axis=0, initial=0).astype(np.int64)
        return highest + 1

    def without(self, held_out: BoolArray) -> Responses:
        """The responses with some cells, shape ``(N, J)``, held out as if they were missing."""
        return replace(self, codes=np.where(held_out, np.int8(MISSING), self.codes))

    def select_targets(self, chosen: BoolArray | IntArray) -> Responses:
        """The responses of some targets."""
        positions = np.arange(len(self.targets))[chosen]
        return replace(
            self,
            codes=np.ascontiguousarray(self.codes[positions]),
            targets=tuple(self.targets[place] for place in positions),
            weights=self.weights[positions],
        )

    @property
    def varies(self) -> BoolArray:
        """Items to which not all targets responded alike, shape ``(J,)``."""
        return varying_items(self.codes)

    def select_items(self, chosen: BoolArray | IntArray) -> Responses:
        """The responses to some items."""
        positions = np.arange(len(self.items))[chosen]
        return replace(
            self,
            codes=np.ascontiguousarray(self.codes[:, positions]),
            items=tuple(self.items[place] for place in positions),
        )


def varying_items(codes: NDArray[np.int8]) -> BoolArray:
    """Items to which not all targets responded alike, shape ``(J,)``.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    """
    lowest = np.where(codes == MISSING, np.int8(127), codes).min(axis=0)
    found: BoolArray = np.asarray(lowest < codes.max(axis=0), bool)
    return found


def make_responses(
    codes: NDArray[np.integer] | Sequence[Sequence[int]],
    *,
    targets: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    weights: NDArray[np.floating] | Sequence[float] | None = None,
) -> Responses:
    """Check a matrix of codes and give it names.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: whole numbers from 0, or -1 for missing.
    targets, items
        Names; numbered from 1 by default.
    weights
        Positive, shape ``(N,)``.

    Raises
    ------
    InputError
        For an empty matrix, a code below -1 or above 99, or names and weights that do not fit.
    """
    matrix = np.asarray(codes)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError("a response matrix has targets as rows and items as columns, one at least")
    if not np.issubdtype(matrix.dtype, np.integer):
        raise InputError(
            "a response matrix holds whole numbers", fix="write a missing response as -1"
        )
    if matrix.min() < MISSING or matrix.max() > 99:
        raise InputError(
            f"responses run from {matrix.min()} to {matrix.max()}",
            fix="number categories from 0 (at most 99), and write a missing response as -1",
        )
    rows, columns = matrix.shape
    names = tuple(targets) if targets is not None else tuple(map(str, range(1, rows + 1)))
    labels = tuple(items) if items is not None else tuple(map(str, range(1, columns + 1)))
    if (len(names), len(labels)) != (rows, columns):
        raise InputError(
            f"{len(names)} targets and {len(labels)} items are named for a matrix of {rows} x "
            f"{columns}"
        )
    shares = np.ones(rows) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (rows,) or not (np.isfinite(shares).all() and (shares > 0).all()):
        raise InputError("weights are one positive number for each target")
    return Responses(np.ascontiguousarray(matrix, np.int8), names, labels, shares)
