"""What the engine counts: the responses of each target to each item, by judge and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.evidence.evidence import Evidence
from safemetry.evidence.outcomes import (
    ResponseTallies,
    only_run,
    refuse_duplicates,
    response_tallies,
    responses,
)
from safemetry.evidence.success import SuccessRule
from safemetry.rates.codes import Codes, IntArray
from safemetry.rates.threads import side_by_side

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNTS: Final = ("responses", "judged", "success", "refused", "calls", "disagreed")
_SECOND_BIT: Final = 31
"""Where the second of two counts in one sum starts: no response count comes near its unit."""
_PACKED: Final = ("judged", "success", "refused", "disagreed", "calls", "lost", "every_call")
"""The digits of a number to base 16 that says what a response adds to the counts of its cell.

All but the last two speak of responses with a verdict. No digit overflows: there are no more than
15 calls in a cell (`Tally.most_epochs`).
"""


@dataclass(frozen=True)
class Counted:
    """Counts of responses by cell and reason, in no particular order.

    Parameters
    ----------
    cells
        Columns `target`, `judge`, `item` and whatever else makes a cell; one row for each.
    cell
        Row of `cells` of each count.
    reason
        Reason of each count, null where the responses were judged.
    counts
        The counts of `COUNTS`, each an array like `cell`.
    warnings
        From reading the verdicts.
    """

    cells: pa.Table
    cell: IntArray
    reason: Codes
    counts: Mapping[str, IntArray]
    warnings: tuple[str, ...]


def counted_responses(
    evidence: Evidence, rule: SuccessRule, by: Sequence[str], *, epochs_apart: bool
) -> Counted:
    """Count responses by target, judge, item, reason and `by`.

    Parameters
    ----------
    evidence, rule
        Admitted judgements and what counts as a success.
    by
        Columns of the judgements table that are constant within a response.
    epochs_apart
        Whether the epoch makes a cell too.

    Raises
    ------
    InputError
        For a duplicate key, or judges that the rule cannot read.
    """
    tallies = None if epochs_apart else response_tallies(evidence, rule, by)
    counted = None if tallies is None else _from_tallies(tallies, evidence.threads)
    if counted is None:
        return _grouped_twice(evidence, rule, (*by, *(["epoch"] if epochs_apart else [])))
    return counted


# -- calls grouped into cells ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Verdicts:
    """What each of the different tallies says of a response, each array one entry for each."""

    calls: IntArray
    judged: IntArray
    success: IntArray
    refused: IntArray
    disagreed: IntArray
    lost: IntArray
    reason: Codes

    @classmethod
    def of(cls, found: ResponseTallies, tallies: IntArray) -> _Verdicts | None:
        """None where calls are not numbered from 1, each once."""
        table = found.verdicts(tallies)
        if table is None:
            return None
        held = np.not_equal(tallies, 0)
        judged = table["judged"].to_numpy()
        reason = pc.if_else(pa.array(held), table["reason"].combine_chunks(), None)
        return cls(
            calls=table["calls"].to_numpy(),
            judged=judged,
            success=table["success"].to_numpy(),
            refused=table["refused"].to_numpy(),
            disagreed=table["disagreed"].to_numpy(),
            lost=(held & (judged == 0)).astype(np.int64),
            reason=Codes.of(pa.chunked_array([reason])),
        )

    def packed(self) -> IntArray:
        """What a response with each tally adds, see `_PACKED`."""
        parts = {name: getattr(self, name) * self.judged for name in _PACKED[:5]}
        parts |= {"lost": self.lost, "every_call": self.calls}
        packed: IntArray = sum(
            (parts[name] << (4 * place) for place, name in enumerate(_PACKED)),
            start=np.zeros_like(self.calls),
        )
        return packed


def _from_tallies(found: ResponseTallies, threads: int) -> Counted | None:
    """The counts, or None where calls are not numbered from 1, each once."""
    table = found.frame.collect("pyarrow").to_arrow()
    columns = side_by_side([partial(_numbered, table[name]) for name in found.names], threads)
    tallies = np.unique(np.concatenate([values for _, values in columns]))
    verdicts = _Verdicts.of(found, tallies)
    if verdicts is None:
        return None
    places = [np.searchsorted(tallies, values)[codes] for codes, values in columns]
    packed = verdicts.packed()
    sums = sum((packed[place] for place in places), start=np.zeros(1, dtype=np.int64))
    parts = side_by_side([partial(_digit, sums, name) for name in _PACKED], threads)
    digits = dict(zip(_PACKED, parts, strict=True))
    if not np.array_equal(digits["every_call"], table["calls"].to_numpy()):
        return None
    judged = np.flatnonzero(digits["judged"])
    cell, reason, lost = _lost(verdicts, places, np.flatnonzero(digits["lost"]))
    of_judged = {name: digits[name][judged] for name in ("judged", *COUNTS[2:])}
    of_judged["responses"] = of_judged["judged"]
    null = len(verdicts.reason.values) - 1
    return Counted(
        table.drop_columns([*found.names, "calls"]),
        np.concatenate([judged, cell]),
        Codes(
            np.concatenate([np.full(len(judged), null), reason]),
            verdicts.reason.values,
        ),
        {name: np.concatenate([of_judged[name], lost[name]]) for name in COUNTS},
        found.warnings,
    )


def _numbered(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], IntArray]:
    """Few different whole numbers: the place of each row among them, and what they are."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_numpy()


def _digit(sums: IntArray, name: str) -> IntArray:
    return (sums >> (4 * _PACKED.index(name))) & 15


def _lost(
    verdicts: _Verdicts, places: Sequence[IntArray], cells: IntArray
) -> tuple[IntArray, IntArray, dict[str, IntArray]]:
    """The responses without a verdict in some cells: cell, reason and counts."""
    tally = np.concatenate([place[cells] for place in places])
    without = np.flatnonzero(verdicts.lost[tally])
    tally, cell = tally[without], np.tile(cells, len(places))[without]
    width = len(verdicts.reason.values)
    keys, place = np.unique(cell * width + verdicts.reason.codes[tally], return_inverse=True)

    def total(values: IntArray) -> IntArray:
        return np.bincount(place, values[tally], minlength=len(keys)).astype(np.int64)

    counts = {name: np.zeros(len(keys), dtype=np.int64) for name in COUNTS}
    counts |= {
        "responses": total(verdicts.lost),
        "calls": total(verdicts.calls),
        "disagreed": total(verdicts.disagreed),
    }
    return keys // width, keys % width, counts


# -- calls grouped into responses, and these into cells -------------------------------------------


def _grouped_twice(evidence: Evidence, rule: SuccessRule, by: Sequence[str]) -> Counted:
    frame, warnings = responses(evidence, rule, [name for name in by if name != "epoch"])
    run = ["run"] if only_run(evidence) is None else []
    keys = [*run, "target", "judge", "item", "reason", *by]
    # Two counts to a sum: what is kept for each group decides the time of grouping.
    table = (
        frame.select(
            *keys,
            (nw.col("success") + nw.col("refused") * 2**_SECOND_BIT).alias("success_refused"),
            (nw.col("calls") + nw.col("disagreed") * 2**_SECOND_BIT).alias("calls_disagreed"),
            "irregular",
        )
        .group_by(*keys, drop_null_keys=False)
        .agg(
            nw.len().cast(nw.Int64).alias("responses"),
            *(
                nw.col(name).sum().cast(nw.Int64).alias(name)
                for name in ("success_refused", "calls_disagreed", "irregular")
            ),
        )
        .collect("pyarrow")
        .to_arrow()
    )
    if pc.sum(table["irregular"]).as_py():
        refuse_duplicates(evidence)
    every = table["responses"].to_numpy()
    refused, success = _two_counts(table["success_refused"].to_numpy())
    disagreed, calls = _two_counts(table["calls_disagreed"].to_numpy())
    judged = np.where(table["reason"].is_null().to_numpy(), every, 0)
    arrays = (every, judged, success, refused, calls, disagreed)
    return Counted(
        table.select([name for name in keys if name != "reason"]),
        np.arange(table.num_rows),
        Codes.of(table["reason"]),
        dict(zip(COUNTS, arrays, strict=True)),
        tuple(warnings),
    )


def _two_counts(both: IntArray) -> tuple[IntArray, IntArray]:
    return both >> _SECOND_BIT, both & (2**_SECOND_BIT - 1)
