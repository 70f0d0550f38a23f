"""Label tables: one row per response, one column per judge."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import COLUMNS, NAMES, RESPONSE_KEY, Status
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.source import Source
from safemetry.readers.table import Sample
from safemetry.readers.table_texts import read_texts_of_rows
from safemetry.readers.tables import read_sample, read_table

_ALSO_CALLED: Final = {"item": "item_id", "target": "model"}
_MADE_HERE: Final = ("judge", "label", "score", "status", "reason", "call")
"""Columns that say something about one judge, which a row with several judges cannot."""


class LabelTableReader:
    """CSV, JSON lines or Parquet with an item column and a column of labels for each judge."""

    name = "labels"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether two columns or more hold labels."""
        sample = read_sample(source)
        return sample is not None and self.fits(sample, EvidenceMap())

    def fits(self, sample: Sample, evidence_map: EvidenceMap) -> bool:
        """Whether the map makes the table a label table."""
        if _column_of("item", sample.names, evidence_map) is None:
            return False
        if evidence_map.label_columns:
            return is_declared(sample.names, evidence_map)
        return len(_found(sample.rows, evidence_map)) > 1

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """One judgement for each row and judge.

        Raises
        ------
        InputError
            Where no column holds the items, none is known to be a judge, or one that the map
            names is absent.
        """
        table = read_table(source, evidence_map.encoding, in_memory=True)
        wide = table.to_arrow()
        judges = _declared(evidence_map) or {name: name for name in _found(wide, evidence_map)}
        _refuse_absent(source, wide.column_names, judges, evidence_map)
        context = _context(source, wide, judges, evidence_map)
        warnings = []
        if "target" not in context and "target" not in evidence_map.constants:
            stem = Path(source.name).stem
            context["target"] = pa.repeat(pa.scalar(stem), wide.num_rows)
            warnings.append(f"{source.name} names no target; {stem!r} stands for it.")
        return Conversion(
            judgements=_longer(wide, judges, context),
            rows_read=table.rows,
            header_lines=0 if ROW in wide.column_names else table.header_lines,
            warnings=warnings,
        )

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The cells of the columns `prompt` and `response`, as far as the table has them.

        Raises
        ------
        InputError
            Where it is damaged or no table.
        """
        sample = read_sample(source, evidence_map.encoding)
        if sample is None:
            return iter(())
        judges = _declared(evidence_map)
        columns = {
            ours: theirs
            for ours in RESPONSE_KEY
            if (theirs := _column_of(ours, sample.names, evidence_map)) is not None
            and theirs not in judges
        }
        defaults = {} if "target" in columns else {"target": Path(source.name).stem}
        return read_texts_of_rows(source, evidence_map, columns, defaults)


def is_declared(names: Collection[str], evidence_map: EvidenceMap) -> bool:
    """Whether the map says that columns of these names hold labels: it is then no other table."""
    judges = _declared(evidence_map)
    return bool(judges) and set(judges) <= set(names)


def _declared(evidence_map: EvidenceMap) -> dict[str, str]:
    """Label column -> judge, as the map says."""
    declared = evidence_map.label_columns or ()
    return dict(declared) if isinstance(declared, Mapping) else {name: name for name in declared}


def _column_of(ours: str, names: Collection[str], evidence_map: EvidenceMap) -> str | None:
    """The column of the source that holds one of ours."""
    named = evidence_map.columns.get(ours)
    candidates = (named,) if named else (ours, _ALSO_CALLED.get(ours))
    return next((name for name in candidates if name in names), None)


def _translated(evidence_map: EvidenceMap) -> list[str]:
    """Columns that the map translates into intents and statuses."""
    return [
        spec.column
        for spec in (evidence_map.intent, evidence_map.status)
        if isinstance(spec, FromColumn)
    ]


def _found(table: pa.Table, evidence_map: EvidenceMap) -> list[str]:
    """Columns that a judge may have filled: all cells are known labels, or one is a known word.

    A judge whose other labels the map does not know is found too, so that the border can ask for
    them; a number alone says nothing, for many columns hold a 1.
    """
    known = {
        *evidence_map.known_labels,
        *evidence_map.labels,
        *(raw for judge in evidence_map.judges.values() for raw in judge.labels),
    }
    words = {label for label in known if label.isalpha() and label not in {"True", "False"}}
    taken = {*evidence_map.columns.values(), *NAMES, *_translated(evidence_map)}
    found = []
    for name in table.column_names:
        if name in taken or pa.types.is_nested(table[name].type):
            continue
        values = set(pc.unique(_texts(table[name]).drop_null()).to_pylist())
        if values and (values <= known or values & words):
            found.append(name)
    return found


def _refuse_absent(
    source: Source, names: Sequence[str], judges: Collection[str], evidence_map: EvidenceMap
) -> None:
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    for column in [*judges, *evidence_map.columns.values(), *_translated(evidence_map)]:
        if column not in names:
            raise InputError(
                f"the map names a column {column!r} that is not there",
                file=source.shown,
                fix=f"the columns are {shown}",
            )
    if not judges:
        raise InputError(
            "no column is known to hold the labels of a judge",
            file=source.shown,
            fix="name them in the map, such as label_columns: [human_1, judge_a], and say under "
            f"labels what their values mean; the columns are {shown}",
        )
    if _column_of("item", names, evidence_map) is None:
        raise InputError(
            "no column holds the items",
            file=source.shown,
            fix="call it item or item_id, or add to the map: columns: {item: THEIR_NAME}; "
            f"the columns are {shown}",
        )


def _context(
    source: Source, wide: pa.Table, judges: Collection[str], evidence_map: EvidenceMap
) -> dict[str, pa.ChunkedArray]:
    """What the rows say beside their labels, under our names, and columns that are translated."""
    origin = {
        column.name: theirs
        for column in COLUMNS
        if column.name not in _MADE_HERE
        and (theirs := _column_of(column.name, wide.column_names, evidence_map)) is not None
        and theirs not in judges
    }
    for name in _translated(evidence_map):
        if origin.setdefault(name, name) != name:
            raise InputError(
                f"the map reads {name!r} from the column {origin[name]!r} and translates the "
                "column of that name too",
                file=source.shown,
                column=name,
                fix="rename the column",
            )
    return {ours: wide[theirs] for ours, theirs in origin.items()}


def _longer(
    wide: pa.Table, judges: Mapping[str, str], context: Mapping[str, pa.ChunkedArray]
) -> pa.Table:
    """The rows once for each judge, in the order of the rows."""
    rows, panel = wide.num_rows, len(judges)
    of_row = np.repeat(np.arange(rows), panel)
    columns = {name: pc.take(column, pa.array(of_row)) for name, column in context.items()}
    # Label k of row r stands at place k * rows + r of the columns put one under the other.
    by_judge = pa.chunked_array(
        [chunk for name in judges for chunk in _texts(wide[name]).chunks], pa.string()
    )
    place = np.tile(np.arange(panel) * rows, rows) + of_row
    label = by_judge.take(pa.array(place))
    columns["label"] = label
    columns["status"] = pc.if_else(pc.is_null(label), str(Status.MISSING), str(Status.OK))
    columns["judge"] = pa.DictionaryArray.from_arrays(
        np.tile(np.arange(panel, dtype=np.int32), rows), pa.array(list(judges.values()))
    ).cast(pa.string())
    columns.setdefault(ROW, pa.array(of_row + 1, pa.int64()))
    return pa.table(columns)


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as the text that a CSV would hold, so that one map reads both."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _texts(column.cast(kind.value_type))
    if pa.types.is_boolean(kind):
        texts = pc.if_else(column, "True", "False")
    elif pa.types.is_floating(kind) and _is_whole(column):
        # Whole numbers with gaps become fractions in pandas.
        texts = column.cast(pa.int64()).cast(pa.string())
    else:
        texts = column.cast(pa.string())
    blank = pc.equal(texts, "")
    return pc.if_else(blank, pa.scalar(None, pa.string()), texts)


def _is_whole(column: pa.ChunkedArray) -> bool:
    numbers = column.drop_null()
    if not pc.all(pc.less(pc.abs(numbers), 2.0**53)).as_py():
        return False
    return bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())
