"""The tables of a study: their columns, their parts, and how a query reads them."""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from safemetry.evidence import schema
from safemetry.evidence.schema import REAL, TEXT, WHOLE, Column

PART_ROWS: Final = 4_750_000
"""A part ends with the row group that reaches this number of rows."""

ROW_GROUP_ROWS: Final = 250_000
"""Rows that a query can skip or hand to a thread as a whole."""


def _schema(*columns: Column) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])


_RESPONSE_KEY = tuple(schema.BY_NAME[name] for name in schema.RESPONSE_KEY)
_STATUS = (schema.BY_NAME["status"], schema.BY_NAME["reason"])

TABLES: Final = {
    "judgements": _schema(
        *schema.KEY_COLUMNS,
        *schema.VERDICT_COLUMNS,
        *schema.SOURCE_COLUMNS,
        Column("judge_identity", TEXT),
        Column("item_key", WHOLE),
        Column("target_key", WHOLE),
        Column("response_key", WHOLE),
    ),
    "responses": _schema(
        *_RESPONSE_KEY, *schema.RESPONSE_COLUMNS, *_STATUS, Column("response_key", WHOLE)
    ),
    "items": _schema(Column("item_key", WHOLE), Column("item", TEXT), *schema.ITEM_COLUMNS),
    "targets": _schema(
        Column("target_key", WHOLE),
        Column("run", TEXT),
        Column("target", TEXT),
        *schema.TARGET_COLUMNS,
        Column("settings", TEXT),
    ),
    "judges": _schema(
        Column("name", TEXT),
        Column("identity", TEXT),
        Column("model", TEXT),
        Column("decoding", TEXT),
        Column("rubric", TEXT),
        Column("parser", TEXT),
        Column("aggregation", TEXT),
        Column("classes", pa.list_(TEXT)),
        Column("scale_min", REAL),
        Column("scale_max", REAL),
        Column("higher_is", TEXT),
    ),
    "corrections": _schema(
        *schema.KEY_COLUMNS,
        schema.BY_NAME["benchmark"],
        Column("field", TEXT),
        Column("value", TEXT),
        Column("implied_by", TEXT),
        Column("who", TEXT),
        Column("when", TEXT),
        Column("why", TEXT),
        Column("batch", TEXT),
    ),
    "texts": _schema(*_RESPONSE_KEY, Column("prompt", TEXT), Column("response", TEXT)),
}
"""Arrow schema of each table. Parts are read by name; a part may hold further columns."""

PART_FILE: Final = re.compile(rf"^({'|'.join(TABLES)})/[0-9a-f]{{16}}-[0-9a-f]{{16}}\.parquet$")
"""Where a part may lie: never outside the study."""

_SQL_TYPES: Final = {TEXT: "VARCHAR", WHOLE: "BIGINT", REAL: "DOUBLE", pa.list_(TEXT): "VARCHAR[]"}


class Part(BaseModel):
    """One immutable Parquet file, as its commit names it.

    Attributes
    ----------
    table
        The table it belongs to.
    file
        Its place within the study, ``TABLE/NAME.parquet``.
    rows
        Number of rows.
    sha256
        Digest of its bytes.
    filled
        The columns that hold at least one value, so that a query can leave out the others.
    """

    model_config = ConfigDict(frozen=True)

    table: str
    file: str = Field(pattern=PART_FILE.pattern)
    rows: int = Field(ge=0)
    sha256: str
    filled: tuple[str, ...]


def write_part(study: Path, table: str, commit: str, batches: Iterable[pa.RecordBatch]) -> Part:
    """Write one part and return what its commit says about it.

    The name is new each time, so a part that a crash left behind, or that another writer of the
    same source writes just now, is never overwritten. The bytes are on the disk on return.
    """
    file = f"{table}/{commit[:16]}-{secrets.token_hex(8)}.parquet"
    path = study / file
    path.parent.mkdir(exist_ok=True)
    expected = TABLES[table]
    rows = 0
    filled: set[str] = set()
    try:
        with pq.ParquetWriter(path, expected, compression="zstd") as writer:
            for batch in batches:
                typed = batch.select(expected.names).cast(expected)
                rows += typed.num_rows
                filled.update(
                    name
                    for name, column in zip(expected.names, typed.columns, strict=True)
                    if column.null_count < len(column)
                )
                writer.write_batch(typed, row_group_size=ROW_GROUP_ROWS)
        with path.open("rb+") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    kept = tuple(name for name in expected.names if name in filled)
    return Part(table=table, file=file, rows=rows, sha256=digest, filled=kept)


def identifier(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def listed(names: Iterable[str], prefix: str = "") -> str:
    """Names as SQL lists them, each of the table `prefix`."""
    return ", ".join(f"{prefix}{identifier(name)}" for name in names)


def typed_null(data_type: pa.DataType) -> str:
    """An unknown value of the given type, in SQL."""
    return f"NULL::{_SQL_TYPES[data_type]}"


def scan(table: str, paths: Sequence[Path]) -> str:
    """A parenthesised query over parts of one table, with one column `filename` more."""
    columns = TABLES[table]
    if not paths:
        nothing = ", ".join(
            f"{typed_null(column.type)} AS {identifier(column.name)}" for column in columns
        )
        return f"(SELECT {nothing}, NULL::VARCHAR AS filename WHERE false)"
    files = ", ".join(literal(_as_glob(path)) for path in paths)
    return (
        f"(SELECT {listed(columns.names)}, filename FROM read_parquet([{files}], "
        "union_by_name = true, hive_partitioning = false, filename = true))"
    )


def _as_glob(path: Path) -> str:
    """The pattern that matches this path only: a folder may be named ``[a]*``."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))
