"""Anything that narwhals accepts, as a lazy frame on an engine that counting runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError

from safemetry.errors import InputError

if TYPE_CHECKING:
    import duckdb

ROW: Final = "source_row"
_LAZY_ENGINES = {nw.Implementation.DUCKDB, nw.Implementation.PYSPARK}


def lazy(data: Any, connection: duckdb.DuckDBPyConnection) -> nw.LazyFrame[Any]:
    """A lazy frame over the data.

    DuckDB relations and PySpark frames stay where they are. Everything else that narwhals accepts
    (pandas, Polars, PyArrow, Modin, cuDF, a lazy Polars, Dask or Ibis frame) goes to DuckDB through
    Arrow, where NaN becomes null and rows are numbered from 1 in a column ``source_row`` unless
    there is one.

    Raises
    ------
    InputError
        Where the object is no table, or two of its columns have the same name.
    """
    if isinstance(data, nw.LazyFrame | nw.DataFrame):
        frame: Any = data
    else:
        try:
            frame = nw.from_native(data)
        except TypeError as error:
            raise InputError(
                f"{type(data).__name__} is not a table",
                fix="give a data frame, an Arrow table or a DuckDB relation",
            ) from error
        except DuplicateError as error:
            said = " ".join(str(error).split())
            raise InputError(
                f"two columns have the same name ({said})", fix="rename one"
            ) from error
    if isinstance(frame, nw.LazyFrame):
        if frame.implementation in _LAZY_ENGINES:
            return frame
        frame = frame.collect("pyarrow")
    return from_arrow(frame.to_arrow(), connection)


def from_arrow(table: pa.Table, connection: duckdb.DuckDBPyConnection) -> nw.LazyFrame[Any]:
    """A lazy frame over an Arrow table, with NaN as null and rows numbered from 1."""
    if ROW not in table.column_names:
        table = table.append_column(ROW, pa.array(range(1, table.num_rows + 1), pa.int64()))
    return nw.from_native(connection.from_arrow(_without_nan(table)))


def _without_nan(table: pa.Table) -> pa.Table:
    columns = []
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
        elif pa.types.is_null(column.type):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)
