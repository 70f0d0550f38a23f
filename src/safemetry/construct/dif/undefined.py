"""Why a statistic of an item has no value, as one small code a cell."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from safemetry.irt.parameters import BoolArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Undefined(IntEnum):
    """Code of a cell without a value; 0 is a cell with one.

    Examples
    --------
    >>> Undefined.CONSTANT.why
    'every comparable target answered the item alike'
    """

    DEFINED = 0
    NO_RESPONSE = 1
    SMALL_GROUP = 2
    NO_COMMON_STRATUM = 3
    CONSTANT = 4
    UNBOUNDED = 5
    NOT_CONVERGED = 6

    @property
    def why(self) -> str:
        """The reason in words; empty for a defined cell."""
        return _WORDS[self]


_WORDS = {
    Undefined.DEFINED: "",
    Undefined.NO_RESPONSE: "no target of the two groups has a response to the item",
    Undefined.SMALL_GROUP: "a group has too few responses to the item",
    Undefined.NO_COMMON_STRATUM: "no stratum holds responses of both groups",
    Undefined.CONSTANT: "every comparable target answered the item alike",
    Undefined.UNBOUNDED: "the estimate is infinite without smoothing or a penalty",
    Undefined.NOT_CONVERGED: "the iterations did not converge",
}


def reasons(codes: NDArray[np.int8], items: Sequence[str]) -> dict[str, str]:
    """The reason of each item without a value.

    Parameters
    ----------
    codes
        Shape ``(J,)``: codes of `Undefined`.
    items
        Names of the J items.

    Examples
    --------
    >>> import numpy as np
    >>> reasons(np.array([0, 1], np.int8), ["a", "b"])
    {'b': 'no target of the two groups has a response to the item'}
    """
    return {
        item: Undefined(int(code)).why
        for item, code in zip(items, codes, strict=True)
        if code != Undefined.DEFINED
    }


def response_faults(
    codes: NDArray[np.int8], focal: BoolArray, min_group: int = 2
) -> NDArray[np.int8]:
    """Which items cannot be compared whatever the method, shape ``(B, J)`` of `Undefined`.

    Parameters
    ----------
    codes
        Shape ``(B, N, J)``: 1, 0 or -1.
    focal
        Shape ``(N,)``.
    min_group
        Fewest responses of each group.
    """
    ones = (codes == 1).sum(axis=1)
    seen = codes >= 0
    focal_count = seen[:, focal].sum(axis=1)
    total = seen.sum(axis=1)
    return np.select(
        [
            total == 0,
            np.minimum(focal_count, total - focal_count) < min_group,
            (ones == 0) | (ones == total),
        ],
        [
            np.int8(Undefined.NO_RESPONSE),
            np.int8(Undefined.SMALL_GROUP),
            np.int8(Undefined.CONSTANT),
        ],
        np.int8(Undefined.DEFINED),
    ).astype(np.int8)
