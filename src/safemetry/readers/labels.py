"""Label tables: one row per response, one column per judge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import NAMES
from safemetry.readers.conversion import Conversion
from safemetry.readers.source import Source
from safemetry.readers.tables import read_table, sample_table


class LabelTableReader:
    """CSV, JSON lines or Parquet with an item column and a column of labels for each judge."""

    name: ClassVar[str] = "labels"
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        """Whether two columns or more hold nothing but labels."""
        return self.fits(source, EvidenceMap())

    def fits(self, source: Source, evidence_map: EvidenceMap) -> bool:
        """Whether the map makes the file a label table."""
        sample = sample_table(source, evidence_map.encoding)
        if sample is None or _item_column(sample, evidence_map) not in sample.column_names:
            return False
        if evidence_map.label_columns is not None:
            return all(name in sample.column_names for name in _declared(evidence_map))
        return len(_found(sample, evidence_map)) > 1

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """One judgement per row and judge.

        Raises
        ------
        InputError
            Where no column is known to be a judge.
        """
        table = read_table(source, evidence_map.encoding)
        wide = table.to_arrow()
        judges = _declared(evidence_map) or {name: name for name in _found(wide, evidence_map)}
        if not judges:
            raise InputError(
                "no column is known to hold the labels of a judge",
                file=source.location,
                fix="name them in the map: label_columns: [human_1, judge_a]",
            )
        for column in judges:
            if column not in wide.column_names:
                raise InputError(
                    f"the map names a label column {column!r} that is not there",
                    file=source.location,
                    fix=f"the columns are {', '.join(wide.column_names[:20])}",
                )
        return Conversion(
            judgements=_longer(wide, judges, source, evidence_map),
            rows_read=table.rows,
            named=False,
            header_lines=table.header_lines,
        )


def _declared(evidence_map: EvidenceMap) -> dict[str, str]:
    """Label column -> judge, as the map says."""
    declared = evidence_map.label_columns or ()
    return dict(declared) if isinstance(declared, dict) else {name: name for name in declared}


def _item_column(table: pa.Table, evidence_map: EvidenceMap) -> str:
    named = evidence_map.columns.get("item")
    return named or ("item" if "item" in table.column_names else "item_id")


def _found(table: pa.Table, evidence_map: EvidenceMap) -> list[str]:
    """Columns of the table whose every value is a known label."""
    known = pa.array(
        [
            *evidence_map.known_labels,
            *evidence_map.labels,
            *(raw for judge in evidence_map.judges.values() for raw in judge.labels),
        ],
        pa.string(),
    )
    taken = {*evidence_map.columns.values(), *NAMES, *_used_elsewhere(evidence_map)}
    found = []
    for name in table.column_names:
        column = table[name]
        if name in taken or not pa.types.is_string(column.type):
            continue
        values = pc.unique(column.drop_null())
        if len(values) and pc.all(pc.is_in(values, value_set=known)).as_py():
            found.append(name)
    return found


def _used_elsewhere(evidence_map: EvidenceMap) -> list[str]:
    specs = (evidence_map.intent, evidence_map.status)
    return [spec.column for spec in specs if isinstance(spec, FromColumn)]


def _longer(
    wide: pa.Table, judges: dict[str, str], source: Source, evidence_map: EvidenceMap
) -> pa.Table:
    """The rows once for each judge, in the order of the rows."""
    rows, panel = wide.num_rows, len(judges)
    repeat = np.repeat(np.arange(rows), panel)
    kept = [name for name in wide.column_names if name not in judges]
    columns = {name: wide[name].take(pa.array(repeat)) for name in kept}
    item = _item_column(wide, evidence_map)
    if "item" not in evidence_map.columns and item != "item" and item in columns:
        columns["item"] = columns.pop(item)
    if (
        not {"target", *columns} & {evidence_map.columns.get("target", "target")} & set(columns)
        and "target" not in evidence_map.constants
    ):
        columns["target"] = pa.array([source.path.stem] * (rows * panel), pa.string())
    stacked = np.stack([_as_objects(wide[name]) for name in judges], axis=1).reshape(-1)
    columns["label"] = pa.array(stacked.tolist(), pa.string())
    columns["judge"] = pa.array(list(judges.values()) * rows, pa.string())
    if ROW not in columns:
        columns[ROW] = pa.array(repeat + 1, pa.int64())
    return pa.table(columns)


def _as_objects(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        texts = [None if value is None else str(value) for value in column.to_pylist()]
    else:
        texts = column.cast(pa.string()).to_pylist()
    return np.array(texts, dtype=object)
