"""Export of a table to a file that other programs open."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from safemetry.display import FORMULA, NUMBER
from safemetry.errors import InputError
from safemetry.evidence.study_commits import settle
from safemetry.evidence.study_tables import ROW_GROUP_ROWS

if TYPE_CHECKING:
    import duckdb


def export_table(
    table: duckdb.DuckDBPyRelation | pa.Table,
    path: str | Path,
    to: Literal["parquet", "csv"] = "parquet",
) -> int:
    """Write a table to a file, whole or not at all.

    A spreadsheet runs a cell that begins with ``= + - @``, a tab or a line break as a formula.
    In CSV such a text is written with an apostrophe before it, except a plain number. This can be
    undone: a cell that begins with apostrophes and then one of these signs loses the first
    apostrophe (a text that began so already has got one more). Parquet holds the texts as they
    are. In CSV an unknown value is an empty cell and an empty text is ``""``.

    Parameters
    ----------
    table
        The table; a relation is written in pieces and never held in memory as a whole.
    path
        The file; an existing one is replaced.
    to
        ``parquet`` (zstd) or ``csv`` (UTF-8, comma, header).

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    InputError
        For an unknown format, or a file that cannot be written.
    """
    if to not in _WRITERS:
        raise InputError(
            f"cannot export to {to!r}", file=str(path), fix=f"choose {' or '.join(_WRITERS)}"
        )
    final = Path(path)
    draft = final.with_name(f".{final.name}.{secrets.token_hex(8)}")
    try:
        try:
            rows = _write(table, draft, to)
            with draft.open("rb+") as stream:
                os.fsync(stream.fileno())
            draft.replace(final)
            settle(final.parent)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})", file=str(path)
        ) from error
    except pa.ArrowException as error:
        raise InputError(f"cannot be written as {to} ({error})", file=str(path)) from error
    return rows


def _write(table: duckdb.DuckDBPyRelation | pa.Table, path: Path, to: str) -> int:
    source = table if isinstance(table, pa.Table) else table.to_arrow_reader(ROW_GROUP_ROWS)
    batches: Iterator[pa.RecordBatch] = (
        iter(source.to_batches(ROW_GROUP_ROWS)) if isinstance(source, pa.Table) else iter(source)
    )
    prepare, names, opened = _WRITERS[to]
    schema = pa.schema([field.with_name(names(field.name)) for field in source.schema])
    rows = 0
    with opened(path, schema) as writer:
        for batch in batches:
            rows += batch.num_rows
            columns = [prepare(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return rows


def defuse(texts: pa.Array) -> pa.Array:
    """Texts that no spreadsheet takes for a formula; other columns as they are."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return texts
    formula = pc.and_(
        pc.match_substring_regex(texts, FORMULA),
        pc.invert(pc.match_substring_regex(texts, NUMBER)),
    )
    marked = pc.binary_join_element_wise("'", texts, "").cast(texts.type)
    return pc.if_else(formula, marked, texts)


def _as_it_is(value: Any) -> Any:
    return value


def _defused_name(name: str) -> str:
    return str(defuse(pa.array([name]))[0].as_py())


def _open_parquet(path: Path, schema: pa.Schema) -> AbstractContextManager[Any]:
    writer: AbstractContextManager[Any] = pq.ParquetWriter(path, schema, compression="zstd")
    return writer


def _open_csv(path: Path, schema: pa.Schema) -> AbstractContextManager[Any]:
    writer: AbstractContextManager[Any] = pa_csv.CSVWriter(path, schema)
    return writer


_WRITERS: Final[
    dict[
        str,
        tuple[
            Callable[[pa.Array], pa.Array],
            Callable[[str], str],
            Callable[[Path, pa.Schema], AbstractContextManager[Any]],
        ],
    ]
] = {
    "parquet": (_as_it_is, _as_it_is, _open_parquet),
    "csv": (defuse, _defused_name, _open_csv),
}
