"""Text tables and Parquet files, read as they are: every cell of a text table stays text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import IO, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from safemetry.errors import InputError
from safemetry.evidence.engine import connect
from safemetry.evidence.frames import ROW
from safemetry.readers.source import Source

_PARQUET_MAGIC: Final = b"PAR1"
_ROW_IN_MESSAGE = re.compile(r"Row #(\d+)")
_FIELDS_IN_MESSAGE = re.compile(r"Expected (\d+) columns?, got (\d+)")
SAMPLE_ROWS: Final = 200


@dataclass(frozen=True)
class Table:
    """A table of a source.

    Parameters
    ----------
    data
        Arrow table, or a DuckDB relation for a Parquet file.
    columns
        Names of the columns.
    rows
        Number of rows.
    header_lines
        Lines above the first row, where rows are lines; 0 otherwise.
    """

    data: pa.Table | duckdb.DuckDBPyRelation
    columns: tuple[str, ...]
    rows: int
    header_lines: int = 0

    def to_arrow(self) -> pa.Table:
        """The table in memory."""
        if isinstance(self.data, pa.Table):
            return self.data
        return self.data.to_arrow_table()


def kind_of_table(source: Source) -> str | None:
    """``parquet``, ``jsonl`` or ``csv`` by content, or None where it is none of them."""
    if source.is_folder:
        return None
    head = source.head
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    first = head.lstrip().partition(b"\n")[0]
    if not first or b"\x00" in head:
        return None
    if first.lstrip().startswith((b"{", b"[")):
        is_line = first.lstrip().startswith(b"{") and first.rstrip().endswith(b"}")
        return "jsonl" if is_line else None
    return "csv" if any(mark in first for mark in (b",", b"\t", b";")) else None


def read_table(source: Source, encoding: str = "utf-8") -> Table:
    """Read a table of any of the three kinds.

    Raises
    ------
    InputError
        Where it is empty, damaged, above a limit, not in the stated encoding, or no table.
    """
    readers = {"parquet": _read_parquet, "jsonl": _read_json_lines, "csv": _read_csv}
    kind = kind_of_table(source)
    if source.size is not None and source.size > source.limits.table_bytes:
        raise source.too_large(source.limits.table_bytes, "table_bytes")
    if kind is None:
        what = "is empty" if not source.head.strip() else "is no CSV, JSON lines or Parquet table"
        raise InputError(f"the file {what}", file=source.location)
    table = readers[kind](source, encoding)
    if table.rows == 0:
        raise InputError("the table has a header but no rows", file=source.location)
    if table.rows > source.limits.rows:
        raise InputError(
            f"has more than the limit of {source.limits.rows:,} rows",
            file=source.location,
            fix="raise limits.rows in the map",
        )
    return table


def sample_table(source: Source, encoding: str = "utf-8") -> pa.Table | None:
    """The first rows as an Arrow table, from the head alone; None where that cannot be read."""
    try:
        kind = kind_of_table(source)
        if kind == "parquet":
            relation = _parquet_relation(source).limit(SAMPLE_ROWS)
            return relation.to_arrow_table().drop_columns([ROW])
        whole = source.head.rpartition(b"\n")[0] or source.head
        lines = whole.split(b"\n")[: SAMPLE_ROWS + 1]
        if kind == "csv":
            header, delimiter = _header(source, source.head, encoding)
            if len(set(header)) < len(header):
                return None
            return _parse_csv(io.BytesIO(b"\n".join(lines)), header, delimiter, encoding)
        if kind == "jsonl":
            objects = [
                source.read_json_line(number, line)
                for number, line in enumerate(lines, start=1)
                if line.strip()
            ]
            return _from_objects(objects)
    except (InputError, pa.ArrowException, duckdb.Error):
        return None
    return None


def _read_csv(source: Source, encoding: str) -> Table:
    header, delimiter = _header(source, source.head, encoding)
    for name in header:
        if header.count(name) > 1:
            raise InputError(
                "two columns have the same name",
                file=source.location,
                line=1,
                column=name,
                fix="rename one of them",
            )
    try:
        with source.open() as stream:
            table = _parse_csv(stream, header, delimiter, encoding)
    except (pa.ArrowInvalid, UnicodeDecodeError, LookupError) as error:
        raise _csv_error(source, encoding, error) from error
    return Table(table, tuple(header), table.num_rows, header_lines=1)


def _header(source: Source, content: bytes, encoding: str) -> tuple[list[str], str]:
    """Names of the columns, and the separator that the first line uses most."""
    first = content.partition(b"\n")[0]
    delimiter = max((b",", b"\t", b";"), key=first.count).decode()
    try:
        text = content.decode(encoding, errors="replace")
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except (LookupError, csv.Error) as error:
        raise _csv_error(source, encoding, error) from error
    return header, delimiter


def _parse_csv(stream: IO[bytes], header: list[str], delimiter: str, encoding: str) -> pa.Table:
    return pacsv.read_csv(
        stream,
        # Row numbers in error messages exist only on one thread.
        read_options=pacsv.ReadOptions(encoding=encoding, use_threads=False, block_size=4 * 2**20),
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    )


def _csv_error(source: Source, encoding: str, error: Exception) -> InputError:
    said = str(error)
    if isinstance(error, LookupError):
        return InputError(f"unknown encoding {encoding!r}", fix="write utf-8 or cp1252 in the map")
    if isinstance(error, UnicodeDecodeError) or "UTF8" in said or "UTF-8" in said:
        if encoding.lower().replace("-", "") == "utf8":
            for number, line in source.read_lines():
                try:
                    source.decode(line, line=number)
                except InputError as precise:
                    return precise
        return InputError(
            f"is not in the encoding {encoding}",
            file=source.location,
            fix="name its encoding in the map (encoding: cp1252)",
        )
    if "Empty CSV" in said:
        return InputError("the file is empty", file=source.location)
    row = _ROW_IN_MESSAGE.search(said)
    fields = _FIELDS_IN_MESSAGE.search(said)
    line = int(row.group(1)) if row else None
    if fields:
        return InputError(
            f"has {fields.group(2)} cells where the header has {fields.group(1)}",
            file=source.location,
            row=line - 1 if line else None,
            line=line,
            fix="quote cells that hold a separator, or complete the row",
        )
    return InputError(
        f"cannot be read as a table ({said.partition(': ')[2] or said})", file=source.location
    )


def _read_json_lines(source: Source, encoding: str) -> Table:
    del encoding
    objects = [_object(source, number, line) for number, line in source.read_lines()]
    table = _from_objects(objects)
    return Table(table, tuple(table.column_names), table.num_rows)


def _object(source: Source, number: int, line: bytes) -> dict[str, Any]:
    value = source.read_json_line(number, line)
    if not isinstance(value, dict):
        raise InputError(
            "is not a JSON object", file=source.location, line=number, fix="write one object a line"
        )
    return value


def _from_objects(objects: list[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for entry in objects for name in entry)
    return pa.table(
        {
            name: pa.array([_cell(entry.get(name)) for entry in objects], pa.string())
            for name in names
        }
    )


def _cell(value: Any) -> str | None:
    """A JSON value as the text that a CSV would hold; nested values are not cells."""
    return None if value is None or isinstance(value, dict | list) else str(value)


def _read_parquet(source: Source, encoding: str) -> Table:
    del encoding
    try:
        metadata = pq.read_metadata(source.location)
        relation = _parquet_relation(source)
    except (pa.ArrowException, duckdb.Error, OSError) as error:
        raise InputError(
            "is damaged or cut short (no readable Parquet footer)",
            file=source.location,
            fix="write it again",
        ) from error
    names = tuple(name for name in relation.columns if name != ROW)
    return Table(relation, names, metadata.num_rows)


def _parquet_relation(source: Source) -> duckdb.DuckDBPyRelation:
    """A lazy relation with rows numbered from 1, on a connection of its own."""
    relation = connect().read_parquet(source.location, file_row_number=True)
    if ROW in relation.columns:
        return relation.select(
            *(
                duckdb.ColumnExpression(name)
                for name in relation.columns
                if name != "file_row_number"
            )
        )
    number = (duckdb.ColumnExpression("file_row_number") + 1).alias(ROW)
    others = [
        duckdb.ColumnExpression(name) for name in relation.columns if name != "file_row_number"
    ]
    return relation.select(*others, number)
