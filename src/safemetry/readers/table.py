"""A table as it was read, and the first rows by which it is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.readers.source import HEAD_BYTES, Source

if TYPE_CHECKING:
    import duckdb

SAMPLE_ROWS: Final = 200
_SAMPLE_LINE: Final = 4 * 2**20
"""A header or a first row longer than this is not recognised, but is read with ``--as``."""


@dataclass(frozen=True)
class Table:
    """A table of a source.

    Parameters
    ----------
    data
        The columns that were asked for: an Arrow table, or a DuckDB relation over a Parquet file
        with its rows numbered from 1 in `source_row`.
    columns
        Names of all columns of the source.
    rows
        Number of rows.
    header_lines
        Lines above the first row, where every row is one line of its own; 0 otherwise.
    """

    data: pa.Table | duckdb.DuckDBPyRelation
    columns: tuple[str, ...]
    rows: int
    header_lines: int = 0

    def to_arrow(self) -> pa.Table:
        """The table in memory."""
        return self.data if isinstance(self.data, pa.Table) else self.data.to_arrow_table()


@dataclass(frozen=True)
class Sample:
    """The first rows of a table, by which it is recognised.

    Parameters
    ----------
    rows
        At most `SAMPLE_ROWS` of them, in an Arrow table; a name that stands twice is numbered.
    """

    rows: pa.Table

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.rows.column_names)


def first_lines(source: Source, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Whole lines of the head, and at least two as far as they are not too long."""
    one_byte_newline = "\n".encode(encoding) == b"\n"
    with source.open() as stream:
        if not one_byte_newline:
            yield 1, stream.read(HEAD_BYTES)
            return
        total, number = 0, 0
        while number < 2 or (total < HEAD_BYTES and number <= SAMPLE_ROWS):
            line = stream.readline(_SAMPLE_LINE)
            total += len(line)
            if not line or (len(line) == _SAMPLE_LINE and not line.endswith(b"\n")):
                return
            number += 1
            yield number, line


def numbered(names: Sequence[str]) -> list[str]:
    """The names, with repeated ones told apart."""
    counts: dict[str, int] = {}
    numbered = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return numbered


def refuse_repeated_names(source: Source, names: Sequence[str], line: int | None = None) -> None:
    """Refuse a table two of whose columns have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                "two columns have the same name",
                file=source.shown,
                line=line,
                column=name,
                fix="rename one of them",
            )
        seen.add(name)
