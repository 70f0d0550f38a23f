"""The calls of one judge on one response, counted in a single number.

Grouping tens of millions of calls costs time and memory by what is kept for each response: five
sums take twice as long as one. So each call adds one whole number, whose digits to base 16 count
the verdicts, the successes, the refusals and each reason, and whose part above them has one bit for
each number of a call.

=================  ============================================================
digit              counts
=================  ============================================================
0                  calls with a verdict
1                  successes
2                  refusals
3 and on           calls without a verdict, by reason, in the order of the words
above              2 ** (call - 1)
=================  ============================================================

A digit cannot overflow while calls are numbered 0 to 14, each once. More than 15 calls on one
response hold a number twice, and such a response is marked without reading its digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.evidence.border import Instrument

_BASE: Final = 16
_MOST_CALLS: Final = _BASE - 1
_LAST_CALL: Final = _MOST_CALLS - 1
_MOST_EPOCHS: Final = 8
"""Beyond it, a sum for each epoch costs more than grouping twice."""
_EXACT_BITS: Final = 53
"""Whole numbers up to this many bits are exact as floats, which every engine sums in one word."""


@dataclass(frozen=True)
class Tally:
    """What the digits of the number mean.

    Parameters
    ----------
    reasons
        The reasons that occur, sorted.
    last_call
        Highest number of a call.
    """

    reasons: tuple[str, ...]
    last_call: int

    @classmethod
    def of(cls, instruments: Mapping[str, Instrument], judges: Sequence[str]) -> Tally | None:
        """The layout for these judges, or None where one number cannot hold their calls."""
        used = [instruments[judge] for judge in judges]
        if not used or any(instrument.last_call is None for instrument in used):
            return None
        reasons = sorted({reason for instrument in used for reason in instrument.reasons})
        last = max(instrument.last_call or 0 for instrument in used)
        tally = cls(tuple(reasons), last)
        fits = last <= _LAST_CALL and 4 * tally._digits + last <= _EXACT_BITS
        return tally if fits else None

    @property
    def _digits(self) -> int:
        return 3 + len(self.reasons)

    @property
    def most_epochs(self) -> int:
        """How many responses to one item can be tallied side by side.

        All their calls together fit into one digit, so that too many on one of them show.
        """
        return min(_MOST_CALLS // max(self.last_call, 1), _MOST_EPOCHS)

    def calls(self, tallies: NDArray[np.int64]) -> NDArray[np.int64]:
        """The highest number of a call in each tally, 0 where there is none."""
        bits = tallies >> (4 * self._digits)
        # The exponent of a float: its mantissa lies in [.5, 1).
        return np.frexp(bits.astype(np.float64))[1].astype(np.int64)

    def call(self, success: nw.Expr, refused: nw.Expr, given: nw.Expr) -> nw.Expr:
        """What one call adds, from conditions on it; null is false."""
        reason, call = nw.col("reason"), nw.col("call")
        # Few rows get as far as the reasons, which a response with a verdict has no use for.
        verdict = _first(
            (success, 1.0 + _BASE),
            (refused, 1.0 + _BASE**2),
            (given, 1.0),
            *(
                (reason == word, float(_BASE ** (3 + place)))
                for place, word in enumerate(self.reasons)
            ),
            otherwise=0.0,
        )
        # A handful of comparisons takes half the time of a power, and no bit is that of a call 0.
        bits = [
            (call == number, float(_BASE**self._digits * 2 ** (number - 1)))
            for number in range(1, self.last_call + 1)
        ]
        return verdict + _first(*bits, otherwise=0.0)

    @staticmethod
    def held(name: str) -> nw.Expr:
        """The sums in a column, 0 where there are more `calls` than a digit can count."""
        held: nw.Expr = nw.when(nw.col("calls") <= _MOST_CALLS).then(nw.col(name)).otherwise(0.0)
        return held

    def read(self, counted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Turn the sums in a column `tally`, beside `calls`, into a column for each count."""
        counted = counted.with_columns(self.held("tally").alias("tally"))
        why = _first(
            *((self._digit(3 + place) > 0, word) for place, word in enumerate(self.reasons)),
            otherwise=None,
        )
        return counted.with_columns(
            self._digit(0).alias("valid"),
            self._digit(1).alias("successes"),
            self._digit(2).alias("refusals"),
            self._from(self._digits).alias("call_bits"),
            why.cast(nw.String()).alias("why"),
        ).drop("tally")

    def _from(self, place: int) -> nw.Expr:
        # In floats a division by a power of two is exact, and cheaper than one of integers.
        above: nw.Expr = (nw.col("tally") / float(_BASE**place)).floor()
        return above

    def _digit(self, place: int) -> nw.Expr:
        digit: nw.Expr = self._from(place) - self._from(place + 1) * float(_BASE)
        return digit.cast(nw.Int64())


def _first(*cases: tuple[nw.Expr, float | str], otherwise: float | None) -> nw.Expr:
    """The value of the first condition that holds."""
    found: nw.Expr = nw.lit(otherwise, nw.String() if otherwise is None else nw.Float64())
    for condition, value in reversed(cases):
        found = nw.when(condition).then(nw.lit(value)).otherwise(found)
    return found
