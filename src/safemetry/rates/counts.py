"""One pass over the evidence makes one table of counts; every rate comes from that table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from safemetry.errors import InputError
from safemetry.evidence.evidence import ITEM_KEY, Evidence
from safemetry.evidence.outcomes import only_run, refuse_duplicates, responses
from safemetry.evidence.schema import ITEM_COLUMNS, NAMES
from safemetry.evidence.success import SuccessRule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

ITEM_NAMES: Final = tuple(column.name for column in ITEM_COLUMNS)
_ALWAYS: Final = ("benchmark", "target", "judge")
_DENSE: Final = 16
"""Possible codes for each row up to which a table of them is made."""
_SECOND: Final = 2**31
"""Unit of the second of two counts in one sum: no response count comes near it."""
_GROUPABLE: Final = tuple(
    name
    for name in NAMES
    if name not in {"label", "score", "status", "reason", "call", "source_file", "source_row"}
)


@dataclass(frozen=True)
class Codes:
    """A column as whole numbers into its sorted values; null is the code after the last."""

    codes: IntArray
    values: tuple[str | None, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Codes:
        """Encode a column; the same values give the same codes in whatever order they come."""
        if not pa.types.is_string(column.type):
            column = column.cast(pa.string())
        encoded = column.combine_chunks().dictionary_encode()
        values = encoded.dictionary.to_pylist()
        order = sorted(range(len(values)), key=values.__getitem__)
        rank = np.empty(len(values) + 1, dtype=np.int64)
        rank[order] = np.arange(len(values))
        rank[-1] = len(values)
        raw = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        return cls(rank[raw.astype(np.int64)], (*(values[index] for index in order), None))

    def take(self, rows: NDArray[Any]) -> Codes:
        """The same column for other rows."""
        if len(self.values) == 1 or (self.codes.size and self.codes.strides == (0,)):
            # One value for all rows needs no memory for each of them.
            code = self.codes[:1].sum()
            return Codes(np.broadcast_to(code, rows.shape), self.values)
        return Codes(self.codes[rows], self.values)

    def __len__(self) -> int:
        return len(self.codes)


def combine(columns: Sequence[Codes], rows: int) -> tuple[IntArray, IntArray]:
    """Number the combinations of several columns.

    Returns
    -------
    tuple
        Code of each row, shape ``(rows,)``, and for each code one row that has it; codes follow
        the order of the values, column by column.
    """
    code, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        width = int(column.codes.max(initial=0)) + 1
        if width > 1:
            if size * width > np.iinfo(np.int64).max:
                code, first = renumber(code, size)
                size = len(first)
            code = code * width + column.codes
            size *= width
    return renumber(code, size)


def renumber(codes: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Number the codes that occur from 0 on, in their order.

    Parameters
    ----------
    codes
        Whole numbers from 0 to below `size`, shape ``(rows,)``.
    size
        Number of possible codes.

    Returns
    -------
    tuple
        New code of each row, shape ``(rows,)``, and for each new code the first row that has it.
    """
    rows = len(codes)
    if size > _DENSE * rows + 2**16:
        order = _sorted_order(codes, size)
        sorted_codes = codes[order]
        starts = np.ones(rows, dtype=np.bool_)
        starts[1:] = sorted_codes[1:] != sorted_codes[:-1]
        inverse = np.empty(rows, dtype=np.int64)
        inverse[order] = np.cumsum(starts) - 1
        return inverse, order[starts]
    # A table of all possible codes takes a tenth of the time of sorting the rows.
    table = np.full(size, -1, dtype=np.int64 if rows > np.iinfo(np.int32).max else np.int32)
    table[codes[::-1]] = np.arange(rows - 1, -1, -1)
    known = np.flatnonzero(np.greater_equal(table, 0))
    first = table[known].astype(np.int64)
    table[known] = np.arange(len(known))
    return table[codes].astype(np.int64), first


def _sorted_order(codes: IntArray, size: int) -> IntArray:
    """The stable order of whole numbers below `size`: NumPy sorts 16 bits without comparing."""
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(size - 1).bit_length(), 16):
        digit = ((codes[order] >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order.astype(np.int64)


@dataclass(frozen=True)
class CountTable:
    """Responses counted by target, judge, item and reason, and by whatever else was asked for.

    Every array has one entry per row of the table.

    Parameters
    ----------
    columns
        Grouping columns: `benchmark`, `target`, `judge`, `run` and those asked for.
    intent, item, cluster, pair
        Item columns; `cluster` falls back to the item where it is null.
    item_words
        `attack` and `language` of the items, for the scope of a claim.
    reason
        Null where the responses were judged.
    responses, judged, success, refused, calls, disagreed
        Counts. `success` and `refused` are zero where not judged.
    item_digests
        Digest of each value of `item`, shape ``(items, 16)`` bytes.
    warnings
        From reading the verdicts.
    """

    columns: Mapping[str, Codes]
    intent: Codes
    item: Codes
    cluster: Codes
    pair: Codes
    item_words: Mapping[str, Codes]
    reason: Codes
    responses: IntArray
    judged: IntArray
    success: IntArray
    refused: IntArray
    calls: IntArray
    disagreed: IntArray
    item_digests: NDArray[np.uint8]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.responses)

    def groups(self, by: Sequence[str]) -> Groups:
        """The groups that claims are made for: benchmark x target x judge x `by`."""
        names = [*_ALWAYS, *(name for name in by if name not in _ALWAYS)]
        codes, first = combine([self.columns[name] for name in names], len(self))
        labels = [
            {name: self.columns[name].values[self.columns[name].codes[row]] for name in names}
            for row in first
        ]
        return Groups(codes, labels)


@dataclass(frozen=True)
class Groups:
    """Group of each row of a table of counts, and what each group is called."""

    codes: IntArray
    labels: Sequence[Mapping[str, str | None]]


def check_by(by: Sequence[str]) -> tuple[str, ...]:
    """The grouping columns, each known and named once.

    Raises
    ------
    InputError
        For a column that rates cannot be grouped by.
    """
    for name in by:
        if name not in _GROUPABLE:
            raise InputError(
                f"rates cannot be grouped by {name!r}", fix=f"use one of {', '.join(_GROUPABLE)}"
            )
    return tuple(dict.fromkeys(by))


def count_responses(
    evidence: Evidence,
    rule: SuccessRule,
    *,
    by: Sequence[str] = (),
    cluster: str = "behaviour",
) -> CountTable:
    """Count responses by target, judge, item and reason in one pass.

    Parameters
    ----------
    evidence
        Admitted judgements.
    rule
        The success rule.
    by
        Columns of the judgements table to group by.
    cluster
        Item column whose values are the independent units; where it is null, the item.

    Raises
    ------
    InputError
        For an unknown column, a duplicate key, or judges that the rule cannot read.
    """
    by = check_by(by)
    if cluster not in {*ITEM_NAMES, "item"}:
        raise InputError(
            f"{cluster!r} is no column of items to cluster by",
            fix=f"use one of item, {', '.join(ITEM_NAMES)}",
        )
    of_response = [
        name for name in by if name not in {*ITEM_NAMES, "run", "target", "item", "judge", "epoch"}
    ]
    frame, warnings = responses(evidence, rule, of_response)
    run = only_run(evidence)
    keys = [
        *(["run"] if run is None else []),
        "target",
        "judge",
        "item",
        "reason",
        *of_response,
        *(["epoch"] if "epoch" in by else []),
    ]
    # Two counts to a sum: what is kept for each group decides the time of grouping.
    table = (
        frame.select(
            *keys,
            (nw.col("success") + nw.col("refused") * _SECOND).alias("success_refused"),
            (nw.col("calls") + nw.col("disagreed") * _SECOND).alias("calls_disagreed"),
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
    if run is not None:
        table = table.append_column("run", pa.repeat(run, table.num_rows))
    return _with_items(table, evidence, by, cluster, tuple(warnings))


def _with_items(
    table: pa.Table,
    evidence: Evidence,
    by: Sequence[str],
    cluster: str,
    warnings: tuple[str, ...],
) -> CountTable:
    place = _place_in_items(table, evidence.items)
    of_rows = {"target", "judge", "run", *by} - {*ITEM_NAMES, "item"}
    columns = {name: Codes.of(table[name]) for name in sorted(of_rows)}
    reason = Codes.of(table["reason"])
    # An order that does not depend on the engine, so that results repeat to the last digit.
    within = Codes(place, (*evidence.items["item"].to_pylist(), None))
    _, order = combine([*columns.values(), within, reason], table.num_rows)
    place = place[order]
    items = {
        name: Codes.of(evidence.items[name]).take(place)
        for name in {*by, "benchmark", "intent", "pair", "attack", "language", "item"}
        & {*ITEM_NAMES, "item"}
    }
    columns = {name: column.take(order) for name, column in columns.items()}
    columns |= {name: items[name] for name in {"benchmark", *by} & {*ITEM_NAMES, "item"}}
    return CountTable(
        columns=columns,
        intent=items["intent"],
        item=items["item"],
        cluster=_clusters(evidence.items, cluster).take(place),
        pair=items["pair"],
        item_words={name: items[name] for name in ("attack", "language")},
        reason=reason.take(order),
        item_digests=_digests(items["item"].values[:-1]),
        warnings=warnings,
        **_counts(table, order),
    )


def _counts(table: pa.Table, order: IntArray) -> dict[str, IntArray]:
    responses_ = table["responses"].to_numpy()[order]
    judged = table["reason"].is_null().to_numpy()[order]
    refused, success = _two_counts(table["success_refused"].to_numpy()[order])
    disagreed, calls = _two_counts(table["calls_disagreed"].to_numpy()[order])
    return {
        "responses": responses_,
        "judged": np.where(judged, responses_, 0),
        "success": success,
        "refused": refused,
        "calls": calls,
        "disagreed": disagreed,
    }


def _two_counts(both: IntArray) -> tuple[IntArray, IntArray]:
    second = both // _SECOND
    return second, both - second * _SECOND


def _place_in_items(table: pa.Table, items: pa.Table) -> IntArray:
    """Row of the items table for each row of the counts."""
    known = wanted = np.zeros(1, dtype=np.int64)
    size = 1
    for name in ITEM_KEY:
        values = pc.unique(items[name])
        width = len(values)
        known, wanted = (
            code * width + pc.index_in(column, value_set=values).to_numpy().astype(np.int64)
            for code, column in ((known, items[name]), (wanted, table[name]))
        )
        size *= width
    order = np.argsort(known, kind="stable")
    return order[np.searchsorted(known[order], wanted)].astype(np.int64)


def _clusters(items: pa.Table, cluster: str) -> Codes:
    """The cluster of each item, named within its benchmark."""
    benchmark = pc.fill_null(items["benchmark"], "")
    named = pc.binary_join_element_wise("c", benchmark, items[cluster], "\x1f")
    alone = pc.binary_join_element_wise("i", benchmark, items["item"], "\x1f")
    return Codes.of(pa.chunked_array([pc.coalesce(named, alone).combine_chunks()]))


def _digests(ids: Sequence[str | None]) -> NDArray[np.uint8]:
    joined = b"".join(hashlib.sha256(str(name).encode()).digest()[:16] for name in ids)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, 16)
