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
from safemetry.evidence.outcomes import refuse_duplicates, responses
from safemetry.evidence.schema import ITEM_COLUMNS, NAMES
from safemetry.evidence.success import SuccessRule

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

ITEM_NAMES: Final = tuple(column.name for column in ITEM_COLUMNS)
_ALWAYS: Final = ("benchmark", "target", "judge")
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
    code = np.zeros(rows, dtype=np.int64)
    for column in columns:
        if len(column.values) > 1:
            code = code * len(column.values) + column.codes
            # Renumbering after each column keeps the product far from the end of 64 bits.
            code = np.unique(code, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return inverse.astype(np.int64), first.astype(np.int64)


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
    keys = [
        "run",
        "target",
        "judge",
        "item",
        "reason",
        *of_response,
        *(["epoch"] if "epoch" in by else []),
    ]
    sums = ("judged", "success", "refused", "calls", "disagreed", "irregular")
    table = (
        frame.with_columns((nw.col("success") * nw.col("judged")).alias("success"))
        .group_by(*keys, drop_null_keys=False)
        .agg(
            nw.len().cast(nw.Int64).alias("responses"),
            *(nw.col(name).sum().cast(nw.Int64).alias(name) for name in sums),
        )
        .collect("pyarrow")
        .to_arrow()
    )
    if pc.sum(table["irregular"]).as_py():
        refuse_duplicates(evidence)
    return _with_items(table, evidence, by, cluster, tuple(warnings))


def _with_items(
    table: pa.Table,
    evidence: Evidence,
    by: Sequence[str],
    cluster: str,
    warnings: tuple[str, ...],
) -> CountTable:
    place = _place_in_items(table, evidence.items)
    items = {name: Codes.of(evidence.items[name]) for name in (*ITEM_NAMES, "item")}
    grouping = {"target", "judge", "run", *by} - {*ITEM_NAMES, "item"}
    columns = {name: Codes.of(table[name]) for name in sorted(grouping)}
    columns |= {
        name: items[name].take(place) for name in {"benchmark", *by} & {*ITEM_NAMES, "item"}
    }
    counts = {
        name: table[name].to_numpy()
        for name in ("responses", "judged", "success", "refused", "calls", "disagreed")
    }
    order = _row_order(columns, items["item"].take(place), Codes.of(table["reason"]))
    return CountTable(
        columns={name: column.take(order) for name, column in columns.items()},
        intent=items["intent"].take(place[order]),
        item=items["item"].take(place[order]),
        cluster=_clusters(evidence.items, cluster).take(place[order]),
        pair=items["pair"].take(place[order]),
        item_words={name: items[name].take(place[order]) for name in ("attack", "language")},
        reason=Codes.of(table["reason"]).take(order),
        item_digests=_digests(items["item"].values[:-1]),
        warnings=warnings,
        **{name: values[order] for name, values in counts.items()},
    )


def _row_order(columns: Mapping[str, Codes], item: Codes, reason: Codes) -> IntArray:
    """An order that does not depend on the engine, so that results repeat to the last digit."""
    keys = [reason.codes, item.codes, *(columns[name].codes for name in sorted(columns))]
    return np.lexsort(keys).astype(np.int64)


def _place_in_items(table: pa.Table, items: pa.Table) -> IntArray:
    """Row of the items table for each row of the counts."""
    runs = Codes.of(pa.chunked_array([*items["run"].chunks, *table["run"].chunks], pa.string()))
    ids = Codes.of(pa.chunked_array([*items["item"].chunks, *table["item"].chunks], pa.string()))
    both, _ = combine([runs, ids], len(runs))
    known, wanted = both[: items.num_rows], both[items.num_rows :]
    place = np.full(both.max(initial=0) + 1, -1, dtype=np.int64)
    place[known] = np.arange(items.num_rows)
    return place[wanted]


def _clusters(items: pa.Table, cluster: str) -> Codes:
    """The cluster of each item, named within its benchmark."""
    benchmark = pc.fill_null(items["benchmark"], "")
    named = pc.binary_join_element_wise("c", benchmark, items[cluster], "\x1f")
    alone = pc.binary_join_element_wise("i", benchmark, items["item"], "\x1f")
    return Codes.of(pa.chunked_array([pc.coalesce(named, alone).combine_chunks()]))


def _digests(ids: Sequence[str | None]) -> NDArray[np.uint8]:
    joined = b"".join(hashlib.sha256(str(name).encode()).digest()[:16] for name in ids)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, 16)


def count_labels(
    evidence: Evidence, by: Sequence[str] = ("category", "attack", "judge")
) -> pa.Table:
    """Judge calls by group, label and status: the plain counts, before any rule or majority.

    Parameters
    ----------
    evidence
        Admitted judgements.
    by
        Columns of the judgements table to group by.

    Returns
    -------
    pyarrow.Table
        Columns `by`, ``label``, ``status``, ``reason`` and ``calls``, sorted.
    """
    keys = [*check_by(by), "label", "status", "reason"]
    table = (
        evidence.rows.group_by(*keys, drop_null_keys=False)
        .agg(nw.len().cast(nw.Int64).alias("calls"))
        .collect("pyarrow")
        .to_arrow()
    )
    return table.sort_by([(name, "ascending") for name in keys])


__all__ = [
    "ITEM_KEY",
    "ITEM_NAMES",
    "Codes",
    "CountTable",
    "Groups",
    "check_by",
    "combine",
    "count_labels",
    "count_responses",
]
