"""From evidence to a panel: names become whole numbers, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.outcomes import usable_judges
from safemetry.evidence.success import SuccessRule
from safemetry.judges.panel import NO_VERDICT, BoolArray, CodeArray, Column, IntArray, Panel

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

MOST_CALLS: Final = 64
_BATCH_ROWS: Final = 1_000_000
_KEY: Final = ("run", "target", "item")
_CONTEXT: Final = ("intent", "category", "behaviour")


def panel_of(evidence: Evidence, *, success: SuccessRule | None = None) -> Panel:
    """The verdicts of all judges of the evidence.

    Parameters
    ----------
    evidence
        The evidence.
    success
        Needed where a judge gives scores: ``at_least:x`` makes two classes of every score,
        ``below`` and ``at_least:x``, the second being the compliant one; judges that give labels
        only are then left out.

    Raises
    ------
    InputError
        Where the rule can read no judge, or a judge has more than 64 calls of one response.
    """
    judges, warnings = _usable(evidence, success)
    classes, ordered = _classes(evidence, success)
    names = {
        "judge": judges,
        "run": _names(evidence, "run"),
        "target": evidence.targets_seen,
        "item": tuple(dict.fromkeys(sorted(evidence.items["item"].to_pylist()))),
    }
    rows, missing = _coded(evidence, names, classes, success)
    panel = _assembled(evidence, names, rows, missing, (classes, ordered), success)
    return replace(panel, warnings=warnings)


def _usable(
    evidence: Evidence, success: SuccessRule | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The judges that gave a verdict which the rule can read, and a word on each of the others."""
    rule = success or SuccessRule()
    usable, warnings = usable_judges(evidence, rule)
    by_score = rule.threshold is not None
    spoke = {
        name: bool(instrument.scored if by_score else instrument.labels)
        for name, instrument in evidence.instruments.items()
    }
    silent = [name for name in usable if not spoke[name]]
    said = tuple(f"Judge {name!r} gave no verdict and is left out." for name in silent)
    return tuple(name for name in usable if spoke[name]), (*warnings, *said)


def _classes(evidence: Evidence, success: SuccessRule | None) -> tuple[tuple[str, ...], int]:
    if success is not None and success.threshold is not None:
        return ("below", success.boundary), 2
    order = tuple(evidence.map.classes)
    used = {label for instrument in evidence.instruments.values() for label in instrument.labels}
    outside = tuple(name for name in evidence.map.outside if name in used)
    return (*order, *outside), len(order)


def _names(evidence: Evidence, column: str) -> tuple[str, ...]:
    found = evidence.rows.select(column).unique().collect("pyarrow").to_arrow()[column].to_pylist()
    return tuple(sorted(name for name in found if name is not None))


@dataclass(frozen=True)
class _Rows:
    """One row a call, as whole numbers."""

    judge: IntArray
    run: IntArray
    target: IntArray
    item: IntArray
    epoch: IntArray
    call: IntArray
    code: CodeArray


def _batches(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The columns in pieces, where the engine can hand them out piece by piece."""
    wanted = frame.select(*columns)
    native: Any = wanted.to_native()
    if hasattr(native, "to_arrow_reader"):
        for batch in native.to_arrow_reader(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])
    else:
        yield wanted.collect("pyarrow").to_arrow()


def _coded(
    evidence: Evidence,
    names: Mapping[str, tuple[str, ...]],
    classes: tuple[str, ...],
    success: SuccessRule | None,
) -> tuple[_Rows, dict[str, dict[str, int]]]:
    columns = (*_KEY, "epoch", "judge", "call", "label", "score", "status", "reason")
    parts: list[tuple[Any, ...]] = []
    missing: dict[str, dict[str, int]] = {name: {} for name in names["judge"]}
    for table in _batches(evidence.rows, columns):
        places = {name: _places(table[name], names[name]) for name in names}
        used = places["judge"] >= 0
        codes = _codes(table, evidence, classes, success)
        _count_missing(table, codes, used, missing)
        parts.append(
            (
                *(places[name][used].astype(np.int32) for name in ("judge", *_KEY)),
                _whole(table["epoch"])[used].astype(np.int32),
                _whole(table["call"])[used].astype(np.int16),
                codes[used],
            )
        )
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _Rows(*joined), missing


def _places(values: pa.ChunkedArray, names: Sequence[str]) -> IntArray:
    found = pc.index_in(values, pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def _whole(values: pa.ChunkedArray) -> IntArray:
    return np.asarray(pc.fill_null(values.cast(pa.int64()), 1).to_numpy(), np.int64)


def _codes(
    table: pa.Table, evidence: Evidence, classes: tuple[str, ...], success: SuccessRule | None
) -> CodeArray:
    valid = np.asarray(pc.equal(table["status"], "ok").fill_null(fill_value=False).to_numpy(), bool)
    if success is None or success.threshold is None:
        codes = _places(table["label"], classes).astype(np.int8)
        return np.where(valid, codes, np.int8(NO_VERDICT))
    scores = table["score"].cast(pa.float64()).to_numpy()
    worse = {
        name: instrument.scale.higher_is != "safer"
        for name, instrument in evidence.instruments.items()
    }
    names = list(worse)
    upward = np.array([*worse.values(), True])[_places(table["judge"], names)]
    # A score counts from the threshold on; where higher is safer it is the low end that complies.
    reached = np.where(upward, scores >= success.threshold, scores < success.threshold)
    codes = reached.astype(np.int8)
    return np.where(valid & np.isfinite(scores), codes, np.int8(NO_VERDICT))


def _count_missing(
    table: pa.Table, codes: CodeArray, used: BoolArray, missing: dict[str, dict[str, int]]
) -> None:
    without = table.filter(pa.array((codes == NO_VERDICT) & used))
    if not without.num_rows:
        return
    grouped = without.group_by(["judge", "reason"]).aggregate([([], "count_all")])
    for judge, reason, count in zip(
        grouped["judge"].to_pylist(),
        grouped["reason"].to_pylist(),
        grouped["count_all"].to_pylist(),
        strict=True,
    ):
        held = missing[judge]
        held[reason or "unstated"] = held.get(reason or "unstated", 0) + count


def _assembled(
    evidence: Evidence,
    names: Mapping[str, tuple[str, ...]],
    rows: _Rows,
    missing: Mapping[str, Mapping[str, int]],
    order: tuple[tuple[str, ...], int],
    success: SuccessRule | None,
) -> Panel:
    classes, ordered = order
    key = rows.run.astype(np.int64)
    for part, size in (
        (rows.target, len(names["target"])),
        (rows.item, len(names["item"])),
        (rows.epoch, int(rows.epoch.max(initial=0)) + 1),
    ):
        key = key * size + part
    _, first, response = np.unique(key, return_index=True, return_inverse=True)
    response = response.reshape(-1)
    calls = _call_places(rows.call)
    if calls.max(initial=0) >= MOST_CALLS:
        raise InputError(
            f"a judge has {int(calls.max()) + 1} calls of one response",
            fix=f"keep {MOST_CALLS} at most",
        )
    table = np.full((int(calls.max(initial=0)) + 1, len(first), len(names["judge"])), -1, np.int8)
    table[calls, response, rows.judge] = rows.code
    can_emit, declared = _class_sets(evidence, names["judge"], classes, table, success)
    run, item = rows.run[first].astype(np.int64), rows.item[first].astype(np.int64)
    context = _context(evidence, names, run, item)
    return Panel(
        judges=names["judge"],
        classes=classes,
        ordered=ordered,
        calls=table,
        can_emit=can_emit,
        declared=declared,
        target=Column(names["target"], rows.target[first].astype(np.int64)),
        item=Column(names["item"], item),
        run=Column(names["run"], run),
        epoch=rows.epoch[first].astype(np.int64),
        intent=context["intent"],
        category=context["category"],
        behaviour=context["behaviour"],
        missing=missing,
    )


def _call_places(calls: IntArray) -> IntArray:
    """Numbers of calls as positions from 0, whatever they are numbered with."""
    found: IntArray = np.unique(calls, return_inverse=True)[1].reshape(-1)
    return found


def _class_sets(
    evidence: Evidence,
    judges: Sequence[str],
    classes: tuple[str, ...],
    calls: CodeArray,
    success: SuccessRule | None,
) -> tuple[BoolArray, BoolArray]:
    shape = (len(judges), len(classes))
    declared = np.zeros(len(judges), bool)
    if success is not None and success.threshold is not None:
        return np.ones(shape, bool), declared
    can_emit = np.zeros(shape, bool)
    for place, judge in enumerate(judges):
        counts = np.bincount(calls[:, :, place].ravel() + 1, minlength=len(classes) + 1)
        can_emit[place] = counts[1:] > 0
        stated = evidence.instruments[judge].scale.classes
        if stated is not None:
            declared[place] = True
            can_emit[place] |= np.isin(classes, stated)
    return can_emit, declared


def _context(
    evidence: Evidence, names: Mapping[str, tuple[str, ...]], run: IntArray, item: IntArray
) -> dict[str, Column]:
    """Properties of the items, brought to the responses."""
    items = evidence.items
    runs, places = _places(items["run"], names["run"]), _places(items["item"], names["item"])
    of_pair = np.full(len(names["run"]) * len(names["item"]), -1, np.int64)
    of_pair[runs * len(names["item"]) + places] = np.arange(items.num_rows)
    row = of_pair[run * len(names["item"]) + item]
    found = {}
    for column in _CONTEXT:
        values = items[column].combine_chunks()
        known = tuple(sorted({value for value in values.to_pylist() if value is not None}))
        codes = _places(pa.chunked_array([values]), known)
        found[column] = Column(known, np.where(row >= 0, codes[row], -1))
    return found
