"""Anchor items: those taken to be free of group differences, on which targets are matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from safemetry.construct.dif.purification import Purification
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray


@dataclass(frozen=True)
class Anchors:
    """The items of the matching score and where they come from.

    Parameters
    ----------
    members
        Shape ``(J,)``; `match_items` takes them.
    method
        ``given``, ``purified`` or ``lowest``.
    caution
        What to know of them, empty where nothing.
    """

    members: BoolArray
    method: Literal["given", "purified", "lowest"]
    caution: str = ""

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        """The anchors by name."""
        return tuple(name for name, held in zip(items, self.members, strict=True) if held)


def given_anchors(anchors: Sequence[str], items: Sequence[str]) -> Anchors:
    """Anchors that the user names.

    Parameters
    ----------
    anchors
        Names, one at least.
    items
        Names of the J items.

    Raises
    ------
    InputError
        For no anchor, or one that is no item.

    Examples
    --------
    >>> given_anchors(["b"], ["a", "b"]).members
    array([False,  True])
    """
    chosen = set(anchors)
    unknown = sorted(chosen - set(items))
    if unknown:
        shown = ", ".join(unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        raise InputError(
            f"{len(unknown)} anchors are no items of the matrix: {shown}",
            fix="name items as the columns do; items that all targets answer alike are dropped",
        )
    if not chosen:
        raise InputError("no anchor item is named", fix="name one or more")
    return Anchors(np.array([name in chosen for name in items]), "given")


def purified_anchors(purification: Purification) -> Anchors:
    """The items that iterative purification left unflagged.

    Examples
    --------
    >>> from safemetry.construct.dif.purification import purify
    >>> purified_anchors(purify(lambda members: np.array([True, False]), 2)).members
    array([False,  True])
    """
    return Anchors(purification.members, "purified", purification.stopped)


def lowest_anchors(statistic: FloatArray, defined: BoolArray, count: int) -> Anchors:
    """The items with the smallest statistics when all others are the anchors.

    Parameters
    ----------
    statistic
        Shape ``(J,)``: any sign; ln alpha, gamma or a chi-square.
    defined
        Items without a value are no anchors.
    count
        How many; at most the defined ones. Ties go to the earlier item.

    Raises
    ------
    InputError
        For a count below 1, or no defined item.

    Notes
    -----
    The rank-based choice of Woods (2009), who advises 10 to 20% of the items. It presumes that most
    items do not differ: where most differ in one direction, the data cannot say which are free of
    a difference, and anchors must be given.

    Examples
    --------
    >>> lowest_anchors(np.array([-2.0, 0.1, 0.3]), np.ones(3, bool), 2).members
    array([False,  True,  True])
    """
    if count < 1 or not defined.any():
        raise InputError(
            f"{count} anchors of {int(defined.sum())} comparable items", fix="choose one or more"
        )
    size = np.where(defined, np.abs(statistic), np.inf)
    members = np.zeros(len(size), bool)
    members[np.argsort(size, kind="stable")[:count]] = True
    members &= defined
    short = int(members.sum()) < count
    caution = f"only {int(members.sum())} of {count} items can be compared" if short else ""
    return Anchors(members, "lowest", caution)
