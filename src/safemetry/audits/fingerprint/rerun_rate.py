"""How often a re-run differs, with what is not known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.rates.intervals import upper_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RerunRate:
    """Share of items on which two runs of an unchanged endpoint differ.

    Parameters
    ----------
    lower, upper
        Bounds; equal where the rate is known.
    doubt
        Chance that the rate lies above `upper`, and again that it lies below `lower`; 0 where it is
        known.
    """

    lower: float
    upper: float
    doubt: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper < 1 or self.upper <= 0:
            raise InputError(
                f"re-run rates of {self.lower:g} to {self.upper:g} are not between 0 and 1",
                fix="give a rate above 0: an endpoint that never varies is an assumption",
            )
        if not 0 <= self.doubt < 1:
            raise InputError(f"a doubt of {self.doubt:g} is not a chance")


def known_rate(rate: float) -> RerunRate:
    """A rate that is known (or assumed)."""
    return RerunRate(rate, rate)


def estimated_rate(differing: int, pairs: int, *, doubt: float = 0.01) -> RerunRate:
    """Exact bounds of the rate from independent pairs of runs (Clopper & Pearson 1934).

    Parameters
    ----------
    differing, pairs
        Pairs of runs that differ, of all; one pair for an item.
    doubt
        Chance that each bound is wrong. It is taken out of the error rate of the drift check.

    Examples
    --------
    >>> rate = estimated_rate(3, 60)
    >>> round(rate.lower, 3), round(rate.upper, 3)
    (0.007, 0.158)
    """
    if not 0 <= differing <= pairs or pairs < 1:
        raise InputError(f"{differing} of {pairs} pairs cannot differ")
    if not 0 < doubt < 0.5:
        raise InputError(f"a doubt of {doubt:g} is not between 0 and .5")
    high = min(float(upper_bound(differing, pairs, 1 - doubt)), 1 - 1e-9)
    low = 1 - float(upper_bound(pairs - differing, pairs, 1 - doubt))
    return RerunRate(max(low, 0.0), high, doubt)


def rate_of_runs(codes: NDArray[np.integer], *, doubt: float = 0.01) -> RerunRate:
    """The rate from repeated runs: the first two answers of every item that has two.

    Parameters
    ----------
    codes
        Shape ``(T, J)``, -1 for missing.
    doubt
        As in `estimated_rate`.

    Raises
    ------
    InputError
        Where no item has two answers.
    """
    differing, pairs = pairs_of_runs(codes)
    if not pairs:
        raise InputError("no item was run twice", fix="state the rate with `known_rate`")
    return estimated_rate(differing, pairs, doubt=doubt)


def pairs_of_runs(codes: NDArray[np.integer]) -> tuple[int, int]:
    """Items whose first two answers differ, and items that have two; of codes ``(T, J)``."""
    runs = np.asarray(codes)
    if runs.ndim != 2:
        raise InputError("repeated runs have the shape runs x items")
    order = np.argsort(runs < 0, axis=0, kind="stable")
    first = np.take_along_axis(runs, order, axis=0)[:2]
    both = (first >= 0).all(axis=0) if len(first) == 2 else np.zeros(runs.shape[1], bool)
    return int((first[0] != first[-1])[both].sum()), int(both.sum())
