"""Parquet files: the footer is checked first, and the pages are read as counting goes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from safemetry.errors import InputError
from safemetry.evidence.engine import connect
from safemetry.evidence.frames import ROW
from safemetry.readers.source import Source
from safemetry.readers.table import SAMPLE_ROWS, Sample, Table, refuse_repeated_names

_BATCH_ROWS: Final = 500
_DAMAGE: Final = (pa.ArrowException, OSError, ValueError)
"""What PyArrow raises on damaged bytes; names that are no UTF-8 are a `ValueError`."""


def sample_parquet(source: Source) -> Sample:
    """The first rows; none where the first page is damaged.

    Raises
    ------
    InputError
        Where the footer cannot be read or announces more than the limits allow, or two columns
        have one name.
    """
    with source.local_copy() as path:
        file = _parquet_file(source, path)
        try:
            batch = next(file.iter_batches(batch_size=SAMPLE_ROWS), None)
            rows = pa.Table.from_batches([] if batch is None else [batch], file.schema_arrow)
        except _DAMAGE:
            # A damaged page is reported when it is read, by the reader that the columns call for.
            rows = file.schema_arrow.empty_table()
    return Sample(rows)


def _parquet_file(source: Source, path: Path | None = None) -> pq.ParquetFile:
    """The opened file, once its footer is readable and what it announces is within the limits."""
    source.refuse_unreadable()
    try:
        file = pq.ParquetFile(path or source.path, memory_map=False)
        metadata = file.metadata
        expanded = sum(
            metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
        )
        refuse_repeated_names(source, file.schema_arrow.names)
    except _DAMAGE as error:
        raise InputError(
            "is damaged or cut short (no readable Parquet footer)",
            file=source.shown,
            fix="write it again",
        ) from error
    if expanded > source.limits.expanded_bytes:
        raise InputError(
            f"expands to {expanded:,} bytes, more than the limit of "
            f"{source.limits.expanded_bytes:,}",
            file=source.shown,
            fix="raise limits.expanded_bytes in the map if you trust the file",
        )
    return file


def read_parquet(source: Source, columns: Collection[str] | None, *, in_memory: bool) -> Table:
    """The columns, lazily through DuckDB or in memory.

    Raises
    ------
    InputError
        Where the footer cannot be read or announces more than the limits allow, two columns have
        one name, or a column that was asked for holds nested values.
    """
    if in_memory:
        with source.local_copy() as path:
            return _parquet_in_memory(source, path, columns)
    file = _parquet_file(source)
    schema = file.schema_arrow
    kept = [name for name in schema.names if columns is None or name in columns]
    if columns is not None:
        for name in kept:
            if pa.types.is_nested(schema.field(name).type):
                raise InputError(
                    f"holds values of the type {schema.field(name).type}",
                    file=source.shown,
                    column=name,
                    fix="write one text or number in each cell",
                )
    return Table(
        _parquet_relation(source, schema, kept), tuple(schema.names), file.metadata.num_rows
    )


def _parquet_in_memory(source: Source, path: Path, columns: Collection[str] | None) -> Table:
    file = _parquet_file(source, path)
    names = file.schema_arrow.names
    kept = None if columns is None else [name for name in names if name in columns]
    try:
        table = file.read(columns=kept)
    except _DAMAGE as error:
        raise _damaged(source, error) from error
    return Table(table, tuple(names), table.num_rows)


def parquet_batches(source: Source, columns: Collection[str]) -> Iterator[pa.Table]:
    """The rows piece by piece, as far as the columns are there.

    Raises
    ------
    InputError
        As `read_parquet`.
    """
    with source.local_copy() as path:
        file = _parquet_file(source, path)
        kept = [name for name in file.schema_arrow.names if name in columns]
        if not kept:
            return
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=kept):
                yield pa.Table.from_batches([batch])
        except _DAMAGE as error:
            raise _damaged(source, error) from error


def _damaged(source: Source, error: Exception) -> InputError:
    said = " ".join(str(error).partition("\n")[0].split())[:200]
    return InputError(f"is damaged ({said})", file=source.shown, fix="write it again")


def _parquet_relation(
    source: Source, schema: pa.Schema, kept: Sequence[str]
) -> duckdb.DuckDBPyRelation:
    """A lazy relation with rows numbered from 1, on a connection of its own."""
    engine = connect()
    # Rows are imported in the order of the source.
    engine.execute("SET preserve_insertion_order = true")
    # None of the characters of a path stands for other files, and no folder of it is a column.
    path = re.sub(r"([*?\[])", r"[\1]", str(source.path.absolute()))
    numbered = ROW not in kept and "file_row_number" not in schema.names
    try:
        relation = engine.read_parquet(
            path, hive_partitioning=False, binary_as_string=True, file_row_number=numbered
        )
    except (duckdb.Error, ValueError) as error:
        raise _damaged(source, error) from error
    # Names that differ in case only are one to DuckDB, which renames the later: go by place.
    theirs = dict(zip(schema.names, relation.columns, strict=False))
    columns = []
    for name in kept:
        column = duckdb.ColumnExpression(theirs[name])
        if pa.types.is_floating(schema.field(name).type):
            number = f'"{theirs[name].replace(chr(34), chr(34) * 2)}"'
            column = duckdb.SQLExpression(f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END")
        columns.append(column.alias(name))
    if numbered:
        columns.append((duckdb.ColumnExpression("file_row_number") + 1).alias(ROW))
    return relation.select(*columns)
