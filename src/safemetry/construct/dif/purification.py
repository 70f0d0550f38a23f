"""Iterative purification: items that differ between groups are taken out of the matching score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.mantel_haenszel import MantelHaenszel
from safemetry.construct.dif.matching import match_items
from safemetry.irt.parameters import BoolArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Purification:
    """Which items stay in the matching score.

    Parameters
    ----------
    members
        Shape ``(J,)``: the items of the last matching score.
    flagged
        Shape ``(J,)``: the items flagged under that score. They are all but the members where the
        purification converged.
    rounds
        How often items were flagged, shape of `history`'s first axis.
    converged
        Whether the last two rounds flagged the same items.
    history
        Items flagged in each round, shape ``(rounds, J)``.
    stopped
        Why it did not converge; empty where it did.
    """

    members: BoolArray
    flagged: BoolArray
    rounds: int
    converged: bool
    history: BoolArray
    stopped: str


def purify(
    flag: Callable[[BoolArray], BoolArray], items: int, *, most_rounds: int = 10
) -> Purification:
    """Flag items, match on the others, and repeat until the flags repeat.

    Parameters
    ----------
    flag
        Takes the members of the matching score, shape ``(J,)``, and returns the flagged items, any
        of them: from `match_items`, or against a simulated threshold.
    items
        J.
    most_rounds
        Rounds after the first.

    Notes
    -----
    Holland & Thayer (1988); Candell & Drasgow (1988). It may cycle; the last round then stands,
    with `converged` False.

    Examples
    --------
    >>> purify(lambda members: np.array([True, False, False]), 3).members
    array([False,  True,  True])
    """
    members = np.ones(items, bool)
    history: list[BoolArray] = []
    stopped = f"the flags still changed after {most_rounds} rounds"
    converged = False
    for _ in range(most_rounds + 1):
        flagged = np.asarray(flag(members), bool)
        before = [entry.tobytes() for entry in history]
        history.append(flagged)
        if np.array_equal(flagged, ~members):
            converged, stopped = True, ""
            break
        if flagged.tobytes() in before:
            stopped = "the flags go round in a cycle"
            break
        if flagged.all():
            stopped = "every item is flagged, so that none is left to match on"
            break
        if len(history) <= most_rounds:
            members = ~flagged
    return Purification(members, flagged, len(history), converged, np.array(history), stopped)


def purified_statistics(
    codes: NDArray[np.int8],
    focal: BoolArray,
    banding: Banding,
    *,
    level: float = 0.05,
    with_studied: bool = True,
    smoothing: float = 0.5,
    continuity: float = 0.5,
    most_rounds: int = 10,
) -> tuple[MantelHaenszel, Purification]:
    """Mantel-Haenszel statistics matched on the items that its own test leaves unflagged.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: one matrix.
    focal, banding, with_studied, smoothing, continuity
        As `match_items` takes them.
    level
        An item is flagged at a p-value below it.
    most_rounds
        As `purify` takes it.

    Returns
    -------
    tuple
        The statistics under the last matching score, and how it came about.
    """

    def statistics(members: BoolArray) -> MantelHaenszel:
        return match_items(
            codes,
            focal,
            banding,
            members,
            with_studied=with_studied,
            smoothing=smoothing,
            continuity=continuity,
        )

    found = purify(
        lambda members: statistics(members).p_value < level, codes.shape[1], most_rounds=most_rounds
    )
    return statistics(found.members), found


def flag_counts(purification: Purification) -> IntArray:
    """How many items each round flagged, shape ``(rounds,)``."""
    counts: IntArray = purification.history.sum(axis=1)
    return counts
