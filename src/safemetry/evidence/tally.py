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

if TYPE_CHECKING:
    from safemetry.evidence.border import Instrument

_BASE: Final = 16
_MOST_CALLS: Final = _BASE - 1
_LAST_CALL: Final = _MOST_CALLS - 1
_EXACT_BITS: Final = 53
"""Whole numbers up to this many bits are exact as floats, which every engine sums in one word."""


@dataclass(frozen=True)
class Tally:
    """What the digits of the number mean.

    Parameters
    ----------
    reasons
        The reasons that occur, sorted.
    """

    reasons: tuple[str, ...]

    @classmethod
    def of(cls, instruments: Mapping[str, Instrument], judges: Sequence[str]) -> Tally | None:
        """The layout for these judges, or None where one number cannot hold their calls."""
        used = [instruments[judge] for judge in judges]
        if not used or any(instrument.last_call is None for instrument in used):
            return None
        reasons = sorted({reason for instrument in used for reason in instrument.reasons})
        last = max(instrument.last_call or 0 for instrument in used)
        tally = cls(tuple(reasons))
        fits = last <= _LAST_CALL and 4 * tally._digits + last <= _EXACT_BITS
        return tally if fits else None

    @property
    def _digits(self) -> int:
        return 3 + len(self.reasons)

    def call(self, success: nw.Expr, refused: nw.Expr, given: nw.Expr) -> nw.Expr:
        """What one call adds, from conditions on it; null is false."""
        verdict = _first(
            (success, 1.0 + _BASE), (refused, 1.0 + _BASE**2), (given, 1.0), otherwise=0.0
        )
        lost = _first(
            *(
                (nw.col("reason") == reason, float(_BASE ** (3 + place)))
                for place, reason in enumerate(self.reasons)
            ),
            otherwise=0.0,
        )
        power = nw.lit(2.0) ** (nw.col("call") - 1).cast(nw.Float64())
        # The number of a call may be 0, whose power of two is no whole number.
        number = nw.when(nw.col("call") >= 1).then(power).otherwise(0.0)
        return verdict + lost + number * float(_BASE**self._digits)

    def read(self, counted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Turn the sums in a column `tally`, beside `calls`, into a column for each count."""
        regular = nw.when(nw.col("calls") <= _MOST_CALLS).then(nw.col("tally")).otherwise(0.0)
        counted = counted.with_columns(regular.cast(nw.Int64).alias("tally"))
        why = _first(
            *((self._digit(3 + place) > 0, word) for place, word in enumerate(self.reasons)),
            otherwise=None,
        )
        return counted.with_columns(
            self._digit(0).alias("valid"),
            self._digit(1).alias("successes"),
            self._digit(2).alias("refusals"),
            self._from(self._digits).cast(nw.Float64()).alias("call_bits"),
            why.cast(nw.String()).alias("why"),
        ).drop("tally")

    def _from(self, place: int) -> nw.Expr:
        above: nw.Expr = nw.col("tally") // _BASE**place
        return above.cast(nw.Int64())

    def _digit(self, place: int) -> nw.Expr:
        return self._from(place) - self._from(place + 1) * _BASE


def _first(*cases: tuple[nw.Expr, float | str], otherwise: float | None) -> nw.Expr:
    """The value of the first condition that holds."""
    found: nw.Expr = nw.lit(otherwise, nw.String() if otherwise is None else nw.Float64())
    for condition, value in reversed(cases):
        found = nw.when(condition).then(nw.lit(value)).otherwise(found)
    return found
