"""From verdicts to the sums that coefficients of agreement need, for each resampling unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.judges.agreement.tables import PanelSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

# Bounds the memory of one pass; a dozen arrays of this length are alive at once.
_BLOCK_ROWS: Final = 1 << 20


def pair_sums(
    labels: CodeArray, pairs: Sequence[tuple[int, int]], units: IntArray, classes: int
) -> FloatArray:
    """Pair tables of each unit.

    Parameters
    ----------
    labels
        Class of each response by each judge, shape ``(R, J)``, -1 where there is no verdict.
    pairs
        Positions of both judges of P pairs.
    units
        Unit of each response, 0 ... U - 1, shape ``(R,)``.
    classes
        Number K of classes.

    Returns
    -------
    Shape ``(U, P, K, K)``: responses by the class of the first and of the second judge, where both
    have a verdict.
    """
    count = int(units.max(initial=0)) + 1
    found = np.zeros((len(pairs), count, classes, classes))
    # Rows of one unit together: the counts then stay in the cache.
    order = np.argsort(units.astype(np.int32), kind="stable")
    side = classes + 1
    for start in range(0, len(labels), _BLOCK_ROWS):
        rows = order[start : start + _BLOCK_ROWS]
        block = np.ascontiguousarray(labels[rows].T)
        # No verdict is a class of its own that is cut off at the end: no row has to be chosen.
        block[block < 0] = classes
        base = units[rows] * (side * side)
        first, key = -1, base
        for place, (one, other) in enumerate(pairs):
            if one != first:
                first, key = one, base + block[one].astype(np.int64) * side
            counted = np.bincount(key + block[other], minlength=count * side * side)
            found[place] += counted.reshape(count, side, side)[:, :-1, :-1]
    return np.ascontiguousarray(np.moveaxis(found, 0, 1))


def panel_sums(labels: CodeArray, units: IntArray, classes: int) -> PanelSums:
    """Panel sums of each unit.

    Parameters
    ----------
    labels
        Class of each response by each judge, shape ``(R, J)``; codes of ``classes`` or more count
        as no verdict, like -1.
    units
        Unit of each response, 0 ... U - 1, shape ``(R,)``.
    classes
        Number K of classes.

    Returns
    -------
    Sums with the leading axis U.
    """
    count = int(units.max(initial=0)) + 1
    coincidence = np.zeros((count, classes, classes))
    matched = np.zeros((count, classes, classes))
    share = np.zeros((count, classes))
    for start in range(0, len(labels), _BLOCK_ROWS):
        unit = units[start : start + _BLOCK_ROWS]
        chosen = choices(labels[start : start + _BLOCK_ROWS], classes).astype(np.float64)
        judges = chosen.sum(0)
        others = np.where(judges > 1, judges - 1, np.inf)
        for code in range(classes):
            part = chosen[code] / np.maximum(judges, 1)
            share[:, code] += np.bincount(unit, part, minlength=count)
            for other in range(code, classes):
                left = chosen[other] - (1 if other == code else 0)
                met = part * left / others
                for sums, values in ((matched, met), (coincidence, met * judges)):
                    counted = np.bincount(unit, values, minlength=count)
                    sums[:, code, other] += counted
                    if other != code:
                        sums[:, other, code] += counted
    return PanelSums(coincidence, matched, share)


def choices(labels: CodeArray, classes: int) -> NDArray[Any]:
    """How many judges chose each class of each response.

    Parameters
    ----------
    labels
        Shape ``(R, J)``; codes outside 0 ... K - 1 are no verdict.
    classes
        Number K of classes.

    Returns
    -------
    Shape ``(K, R)``.

    Examples
    --------
    >>> choices(np.array([[0, 1, 1], [-1, 0, 1]], np.int8), 2).tolist()
    [[1, 1], [2, 1]]
    """
    columns = np.ascontiguousarray(labels.T)
    found = np.zeros((classes, len(labels)), np.int16)
    for column in columns:
        for code in range(classes):
            found[code] += column == code
    return found
