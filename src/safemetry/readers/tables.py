"""Text tables and Parquet files, read as they are: every cell of a text table stays text."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, Literal

from safemetry.errors import InputError
from safemetry.readers.csv_table import (
    QUOTED,
    SEPARATORS,
    csv_batches,
    read_csv,
    sample_csv,
    unknown_encoding,
)
from safemetry.readers.json_lines import json_line_batches, read_json_lines, sample_json_lines
from safemetry.readers.parquet import parquet_batches, read_parquet, sample_parquet
from safemetry.readers.source import HEAD_BYTES, Source
from safemetry.readers.sqlite_file import MAGIC as SQLITE
from safemetry.readers.table import Sample, Table

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["csv", "jsonl", "parquet"]

_PARQUET_MAGIC: Final = b"PAR1"
_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ONE_A_LINE: Final = "write one JSON object a line, such as with: jq -c '.[]' FILE"
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh")


def kind_of_table(source: Source, encoding: str = "utf-8") -> Kind | None:
    """``parquet``, ``jsonl`` or ``csv`` by the first bytes, or None where it is none of them."""
    if source.is_folder:
        return None
    if source.head.startswith(_PARQUET_MAGIC):
        return "parquet"
    text = _head_text(source, encoding).lstrip()
    if text.startswith("{"):
        first, newline, _ = text.partition("\n")
        # An indented document opens on a line of its own; a long first object fills the head.
        cut = not newline and len(source.head) >= HEAD_BYTES - len(codecs.BOM_UTF8)
        return "jsonl" if cut or first.rstrip().endswith("}") else None
    if text.startswith("["):
        return None
    first = QUOTED.sub("", text).partition("\n")[0]
    is_text = all(sign >= " " or sign in "\t\r" for sign in first)
    return "csv" if is_text and any(mark in first for mark in SEPARATORS) else None


def _head_text(source: Source, encoding: str) -> str:
    try:
        return source.head.decode(encoding, errors="replace").removeprefix("\ufeff")
    except LookupError as error:
        raise unknown_encoding(source, encoding) from error


def read_table(
    source: Source,
    encoding: str = "utf-8",
    *,
    columns: Collection[str] | None = None,
    in_memory: bool = False,
) -> Table:
    """Read a table of any of the three kinds.

    Parameters
    ----------
    source
        Where the table lies.
    encoding
        Encoding of a CSV file.
    columns
        Columns to read, as far as they are there; all by default. Prompts and responses that
        stand beside the judgements are not held in memory then.
    in_memory
        Whether a Parquet file becomes an Arrow table too. Tables with a column for each item or
        judge need it: DuckDB takes names that differ only in case for one.

    Raises
    ------
    InputError
        Where it is empty, damaged, above a limit, not in the stated encoding, or no table.
    """
    kind = kind_of_table(source, encoding)
    if source.size is not None and source.size > source.limits.table_bytes:
        raise source.too_large(source.limits.table_bytes, "table_bytes")
    if kind is None:
        raise not_a_table(source)
    if kind == "parquet":
        table = read_parquet(source, columns, in_memory=in_memory or source.is_remote)
    elif kind == "jsonl":
        table = read_json_lines(source, columns)
    else:
        table = read_csv(source, encoding, columns)
    if table.rows == 0:
        raise InputError("the table has a header but no rows", file=source.shown)
    if table.rows > source.limits.rows:
        raise InputError(
            f"has {table.rows:,} rows, more than the limit of {source.limits.rows:,}",
            file=source.shown,
            fix="raise limits.rows in the map if you trust the file",
        )
    return table


def read_batches(source: Source, encoding: str, columns: Collection[str]) -> Iterator[pa.Table]:
    """Some columns of a table piece by piece, as far as they are there.

    Raises
    ------
    InputError
        As `read_table`.
    """
    kind = kind_of_table(source, encoding)
    if source.size is not None and source.size > source.limits.table_bytes:
        raise source.too_large(source.limits.table_bytes, "table_bytes")
    if kind is None:
        raise not_a_table(source)
    if kind == "parquet":
        return parquet_batches(source, columns)
    if kind == "jsonl":
        return json_line_batches(source, columns)
    return csv_batches(source, encoding, columns)


def read_sample(source: Source, encoding: str = "utf-8") -> Sample | None:
    """The first rows of a table, damaged rows left out; None where the source is no table.

    Raises
    ------
    InputError
        Where a Parquet file has no readable footer.
    """
    kind = kind_of_table(source, encoding)
    if kind == "parquet":
        return sample_parquet(source)
    if kind == "jsonl":
        return sample_json_lines(source)
    return sample_csv(source, encoding) if kind == "csv" else None


def not_a_table(source: Source) -> InputError:
    """Why a source is no table, with the fix where it nearly is one."""
    head = source.head.lstrip()
    problem, fix = "is no CSV, JSON lines or Parquet table", None
    if not head:
        problem = "the folder is no table" if source.is_folder else "the file is empty"
    elif head.startswith(_BYTE_ORDER_MARKS):
        problem = "is not UTF-8 but UTF-16"
        fix = "save it as UTF-8, or name its encoding in the map (encoding: utf-16)"
    elif head.startswith(b"["):
        problem, fix = "is one JSON list, not JSON lines", _ONE_A_LINE
    elif head.startswith(b"{"):
        problem = "is one JSON document, not JSON lines"
        fix = "write its records one a line, or say what it is with --as"
    elif head.startswith(_COMPRESSED):
        problem, fix = "is compressed", "unpack it first"
    elif head.startswith(SQLITE):
        problem = "is an SQLite database, of which only those of PyRIT are read"
        fix = "export its judgements as CSV, or add --as pyrit if PyRIT wrote it"
    elif head.startswith(b"PK"):
        problem = "is a zip archive or a spreadsheet"
        fix = "unpack it first, or save the sheet as CSV"
    return InputError(problem, file=source.shown, fix=fix)
