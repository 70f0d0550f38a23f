"""Plain counts of labels, before any rule or majority: `count_labels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence import frames
from safemetry.evidence.arrival import Arrival, Place
from safemetry.evidence.engine import connect
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import MISSING_PREFIX, EvidenceMap, make_map
from safemetry.evidence.naming import name_columns
from safemetry.evidence.schema import BY_NAME, Status
from safemetry.rates.counts import check_by

_WORDS = ("label", "status", "reason")


def count_labels(
    data: Any,
    by: Sequence[str] = ("category", "attack", "judge"),
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
) -> pa.Table:
    """Judge calls by group, label and status: the plain counts, before any rule or majority.

    A table that is no evidence yet is read once, and its cells are not checked: only the labels,
    which are translated by the map. Whether keys are unique, scores in scale and intents consistent
    is for `measure_rates` to see.

    Parameters
    ----------
    data
        Evidence, or any table that narwhals accepts.
    by
        Columns of the judgements table to group by.
    evidence_map
        A map, or a mapping with its entries.

    Returns
    -------
    pyarrow.Table
        Columns `by`, ``label``, ``status``, ``reason`` and ``calls``, sorted.

    Raises
    ------
    InputError
        For a column that rates cannot be grouped by, or an unknown label.

    Examples
    --------
    >>> table = pa.table({"target": ["m", "m"], "item": ["1", "2"], "label": ["comply", "refuse"]})
    >>> count_labels(table, by=["target"]).select(["label", "calls"]).to_pylist()
    [{'label': 'comply', 'calls': 1}, {'label': 'refuse', 'calls': 1}]
    """
    names = check_by(by)
    if isinstance(data, Evidence):
        counted = _grouped(as_evidence(data, evidence_map).rows, [*names, *_WORDS])
        return _table(Counter({tuple(row[:-1]): row[-1] for row in counted}), names)
    known = make_map(evidence_map or {})
    if known.status is not None or not isinstance(known.intent, str | None):
        # What a status or an intent means is then said row by row.
        return count_labels(as_evidence(data, known), names)
    arrival = name_columns(frames.lazy(data, connect()), known, {}, Place("table"))
    keys = dict.fromkeys((*names, "judge", *_WORDS))
    present = [name for name in keys if arrival.has(name)]
    totals: Counter[tuple[Any, ...]] = Counter()
    for *values, calls in _grouped(arrival.frame, present):
        row = {name: _stated(arrival, name) for name in keys}
        row |= dict(zip(present, values, strict=True))
        row |= _verdict(arrival, row)
        totals[tuple(row[name] for name in (*names, *_WORDS))] += calls
    return _table(totals, names)


def _grouped(rows: nw.LazyFrame[Any], keys: Sequence[str]) -> list[list[Any]]:
    """Each combination of values that occurs, and how many rows have it."""
    counted = rows.group_by(*keys, drop_null_keys=False).agg(nw.len().cast(nw.Int64).alias("calls"))
    table = counted.collect("pyarrow").to_arrow().select([*keys, "calls"])
    rows_found = zip(*(column.to_pylist() for column in table), strict=True)
    return sorted((list(row) for row in rows_found), key=lambda row: tuple(map(str, row)))


def _stated(arrival: Arrival, name: str) -> Any:
    """The value of a column that the table does not have."""
    if name == "intent" and arrival.map.intent is not None:
        return str(arrival.map.intent)
    return None if name in _WORDS else arrival.default(name)


def _verdict(arrival: Arrival, row: Mapping[str, Any]) -> dict[str, str | None]:
    label, status, reason = (row[name] for name in _WORDS)
    if label is not None:
        meaning = arrival.meaning(str(row["judge"]), label)
        if meaning is None:
            raise InputError(
                f"unknown label {label!r} of judge {row['judge']!r}",
                column=arrival.theirs["label"],
                fix=f"add to the map: labels: {{{label!r}: CLASS}} with CLASS one of "
                f"{', '.join(arrival.map.known_labels)} or missing:REASON",
            )
        if meaning.startswith(MISSING_PREFIX):
            return {
                "label": None,
                "status": str(Status.MISSING),
                "reason": meaning.removeprefix(MISSING_PREFIX),
            }
        label = meaning
    silent = Status.MISSING if label is None and not arrival.has("score") else Status.OK
    return {"label": label, "status": status or str(silent), "reason": reason}


def _table(totals: Counter[tuple[Any, ...]], names: Sequence[str]) -> pa.Table:
    keys = (*names, *_WORDS)
    columns = list(zip(*totals, strict=True)) or [()] * len(keys)
    table = pa.table(
        {
            **{
                name: pa.array(values, BY_NAME[name].type)
                for name, values in zip(keys, columns, strict=True)
            },
            "calls": pa.array(totals.values(), pa.int64()),
        }
    )
    return table.sort_by([(name, "ascending") for name in keys])
