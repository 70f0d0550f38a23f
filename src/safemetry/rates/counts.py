"""One pass over the evidence makes one table of counts; every rate comes from that table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.evidence import ITEM_KEY, Evidence
from safemetry.evidence.outcomes import only_run
from safemetry.evidence.schema import ITEM_COLUMNS, NAMES, Intent
from safemetry.evidence.success import SuccessRule
from safemetry.rates.codes import Codes, IntArray, combine, joint_code, sorted_rows
from safemetry.rates.counted import COUNTS, Counted, counted_responses
from safemetry.rates.threads import side_by_side

if TYPE_CHECKING:
    from numpy.typing import NDArray

ITEM_NAMES: Final = tuple(column.name for column in ITEM_COLUMNS)
_ALWAYS: Final = ("benchmark", "target", "judge")
_GROUPABLE: Final = tuple(
    name
    for name in NAMES
    if name not in {"label", "score", "status", "reason", "call", "source_file", "source_row"}
)


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

    def has_intent(self, intent: Intent | None) -> NDArray[np.bool_]:
        """Whether each row is on an item of this intent, or of an unknown one."""
        wanted = None if intent is None else str(intent)
        if wanted not in self.intent.values:
            return np.zeros(len(self), dtype=np.bool_)
        found: NDArray[np.bool_] = self.intent.codes == self.intent.values.index(wanted)
        return found

    def groups(self, by: Sequence[str]) -> Groups:
        """The groups that claims are made for: benchmark x target x judge x `by`."""
        names = [*_ALWAYS, *(name for name in by if name not in _ALWAYS)]
        codes, first = combine([self.columns[name] for name in names], len(self))
        values = (self.columns[name].take(first).texts() for name in names)
        labels = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
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
    counted = counted_responses(evidence, rule, of_response, epochs_apart="epoch" in by)
    return _with_items(counted, evidence, by, cluster)


def _with_items(
    counted: Counted, evidence: Evidence, by: Sequence[str], cluster: str
) -> CountTable:
    columns, place = _encoded(counted.cells, evidence, by)
    # An order that does not depend on the engine, so that results repeat to the last digit.
    code, _ = joint_code([*(column.codes for column in columns.values()), place], len(place))
    rows = len(counted.cell)
    order = sorted_rows(*joint_code([code[counted.cell], counted.reason.codes], rows))
    cell = counted.cell[order]
    place = place[cell]
    words = {*by, "benchmark", "intent", "pair", "attack", "language", "item"}
    items = {name: Codes.of(evidence.items[name]) for name in words & {*ITEM_NAMES, "item"}}
    steps = [partial(column.take, cell) for column in columns.values()]
    steps += [partial(column.take, place) for column in items.values()]
    steps.append(partial(_clusters(evidence.items, cluster).take, place))
    *found, clusters = side_by_side(steps, evidence.threads)
    taken = dict(zip([*columns, *items], found, strict=True))
    counts = [partial(np.take, counted.counts[name], order) for name in COUNTS]
    return CountTable(
        columns={name: taken[name] for name in {"benchmark", *by, *columns}},
        intent=taken["intent"],
        item=taken["item"],
        cluster=clusters,
        pair=taken["pair"],
        item_words={name: taken[name] for name in ("attack", "language")},
        reason=counted.reason.take(order),
        item_digests=_digests(items["item"].values[:-1]),
        warnings=counted.warnings,
        **dict(zip(COUNTS, side_by_side(counts, evidence.threads), strict=True)),
    )


def _encoded(
    cells: pa.Table, evidence: Evidence, by: Sequence[str]
) -> tuple[dict[str, Codes], IntArray]:
    """The columns of the cells that are none of the items, and the item of each cell."""
    run = only_run(evidence)
    names = sorted({"target", "judge", "run", *by} - {*ITEM_NAMES, "item"})

    def encode(name: str) -> Codes:
        if name == "run" and run is not None:
            return Codes.constant(run, cells.num_rows)
        return Codes.of(cells[name])

    def place() -> Codes:
        return Codes(_place_in_items(cells, evidence.items), ())

    steps: list[Callable[[], Codes]] = [partial(encode, name) for name in names]
    *columns, items = side_by_side([*steps, place], evidence.threads)
    return dict(zip(names, columns, strict=True)), items.codes


def _place_in_items(table: pa.Table, items: pa.Table) -> IntArray:
    """Row of the items table for each row of the counts."""
    if "run" not in table.column_names:
        place = pc.index_in(table["item"], value_set=items["item"].combine_chunks()).to_numpy()
        return np.asarray(place, np.int64)
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
