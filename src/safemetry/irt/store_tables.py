"""Tables of numbers by name, as Parquet whose bytes are checked before they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_NAME: Final = r"^(items|abilities)-[0-9a-f]{32}\.parquet$"
_LARGEST_TABLE: Final = 1 << 30
"""Bytes of a table, in the file and unpacked."""
_MOST_ROWS: Final = 10_000_000
_MOST_COLUMNS: Final = 2_000
Columns = Mapping[str, Sequence[float | None]]


class StoredTable(BaseModel):
    """File of a table, its digest and its number of rows."""

    model_config = ConfigDict(frozen=True)

    file: str = Field(pattern=TABLE_NAME)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int = Field(ge=0, le=_MOST_ROWS)


def named_table(columns: dict[str, Any], further: Columns) -> pa.Table:
    """Columns of a calibration together with further columns of numbers."""
    import pyarrow as pa

    if taken := sorted(columns.keys() & further.keys()):
        msg = f"a further column has the name of a column of the calibration: {taken[0]}"
        raise ValueError(msg)
    return pa.table(columns | {name: number_column(values) for name, values in further.items()})


def numbered(name: str, values: FloatArray, absent: float | None = None) -> dict[str, Any]:
    """Columns of a matrix by name and number; `absent` and what is masked become nulls."""
    return {
        f"{name}_{place + 1}": number_column(
            [None if number == absent else number for number in column.tolist()]
        )
        for place, column in enumerate(values.T)
    }


def number_column(values: Sequence[float | None] | FloatArray) -> Any:
    """Finite numbers as an Arrow column; None is a null, NaN is refused."""
    import pyarrow as pa

    given = plain(values)  # refuses what is not finite
    return pa.array(given, pa.float64())


def packed(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file, the same for the same table."""
    import pyarrow.parquet as pq

    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd", store_schema=False)
    return buffer.getvalue()


def read_table(
    folder: Path, table: StoredTable, key: str, needed: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names, and columns of numbers, of a table whose bytes are those that were written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / table.file
    content = _bytes(path)
    if hashlib.sha256(content).hexdigest() != table.sha256:
        raise damaged(path, "its bytes are not those that were written")
    try:
        file = pq.ParquetFile(BytesIO(content))
        about = file.metadata
        unpacked = sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
        if about.num_rows != table.rows or about.num_columns > _MOST_COLUMNS:
            raise damaged(path, "it has another shape than the record says")
        if unpacked > _LARGEST_TABLE:
            raise damaged(path, "it is too large when unpacked")
        schema = file.schema_arrow
        if absent := sorted({key, *needed} - set(schema.names)):
            raise damaged(path, f"column {absent[0]!r} is missing")
        if len(set(schema.names)) < len(schema.names):
            raise damaged(path, "a column occurs twice")
        numeric = [name for name in schema.names if schema.field(name).type == pa.float64()]
        if schema.field(key).type != pa.string() or set(needed) - set(numeric):
            raise damaged(path, "a column has another type than it should")
        read = file.read(columns=[key, *numeric])
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "it is no Parquet table") from error
    names = read.column(key).to_pylist()
    if None in names or len(set(names)) < len(names):
        raise damaged(path, f"{key} names are missing or repeated")
    return tuple(names), {name: read.column(name) for name in numeric}


def _bytes(path: Path) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            raise damaged(path, "it is missing, or no plain file")
        with path.open("rb") as stream:
            content = stream.read(_LARGEST_TABLE + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path)) from error
    if len(content) > _LARGEST_TABLE:
        raise damaged(path, "it is too large")
    return content


def matrix_of(
    columns: Mapping[str, Any], names: Sequence[str], path: Path, missing: float | None = None
) -> FloatArray:
    """Columns side by side; a null is `missing`, or damage."""
    parts = []
    for name in names:
        column = columns[name]
        if column.null_count and missing is None:
            raise damaged(path, f"column {name!r} has a gap")
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        gaps = column.is_null().to_numpy(zero_copy_only=False).astype(bool)
        if not np.isfinite(values[~gaps]).all():
            raise damaged(path, f"column {name!r} holds a number that is not finite")
        parts.append(np.where(gaps, 0.0 if missing is None else missing, values))
    return np.stack(parts, axis=1)


def further_columns(
    columns: Mapping[str, Any], own: set[str]
) -> dict[str, tuple[float | None, ...]]:
    """Columns of numbers that are not `own`, None where one is unknown."""
    return {
        name: tuple(
            number if number is not None and np.isfinite(number) else None
            for number in column.to_pylist()
        )
        for name, column in columns.items()
        if name not in own
    }


def damaged(path: Path, why: str) -> InputError:
    """The error that says how a file of a calibration is damaged."""
    return InputError(
        f"the calibration is damaged: {why}", file=str(path), fix="calibrate again, or restore it"
    )
