"""Correlation matrices: names in the first column and in the header, correlations in the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.source import Source
from safemetry.readers.table import Table
from safemetry.readers.tables import read_sample, read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

CORRELATION: Final = "correlation"
_ROUNDING: Final = 1.5e-3
"""Two halves of a matrix may be rounded apart by this much, and a diagonal from 1."""


@dataclass(frozen=True)
class CorrelationTable:
    """A correlation matrix as it was read.

    Parameters
    ----------
    names
        Of the p variables, as the header gives them.
    values
        Shape ``(p, p)``, symmetric, with ones on the diagonal.
    source
        Where it lies.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    source: str


def is_correlation(source: Source, evidence_map: EvidenceMap | None = None) -> bool:
    """Whether the first column of a table holds the names that its header gives to the others.

    A square table with ones on the diagonal is one too where most names agree: reading it then
    names the row that does not.
    """
    sample = read_sample(source, (evidence_map or EvidenceMap()).encoding)
    if sample is None or len(sample.names) < 3:
        return False
    first, *names = sample.names
    rows = sample.rows[first].cast(pa.string()).to_pylist()
    if len(rows) != len(names):
        return False
    known = set(rows) & set(names)
    if len(known) == len(names):
        return True
    return 2 * len(known) > len(names) and all(
        _is_one(sample.rows[name][row].as_py()) for row, name in enumerate(rows) if name in known
    )


def _is_one(cell: object) -> bool:
    try:
        return abs(float(str(cell)) - 1) <= _ROUNDING
    except ValueError:
        return False


def read_correlations(
    source: Source | str, evidence_map: EvidenceMap | None = None
) -> CorrelationTable:
    """Read a correlation matrix.

    Parameters
    ----------
    source
        A CSV, JSON lines or Parquet table. One half of the matrix may be empty.
    evidence_map
        Gives the encoding and the limits.

    Raises
    ------
    InputError
        For a matrix that is not square, not symmetric, with a diagonal that is not 1 or a cell
        that is no number from -1 to 1; the error names the cell.
    """
    given = evidence_map or EvidenceMap()
    place = source if isinstance(source, Source) else Source(source, given.limits)
    table = read_table(place, given.encoding, in_memory=True)
    wide = table.to_arrow()
    first, *names = wide.column_names
    cells = _Cells(place, table)
    rows: list[str | None] = wide[first].cast(pa.string()).to_pylist()
    order = cells.order(rows, names, first)
    values = np.column_stack([cells.numbers(wide[name], name) for name in names])[order]
    values = np.where(np.isnan(values), values.T, values)
    line = {name: rows.index(name) for name in names}
    cells.check(values, names, line)
    values = (values + values.T) / 2
    np.fill_diagonal(values, 1.0)
    return CorrelationTable(tuple(names), values, place.shown)


@dataclass(frozen=True)
class _Cells:
    """Reads the cells of one table; its errors name the cell."""

    source: Source
    table: Table

    def order(self, rows: list[str | None], names: list[str], first: str) -> list[int]:
        """The row of each column."""
        known = {name: row for row, name in enumerate(rows)}
        for row, name in enumerate(rows):
            if name not in names:
                raise self._error(
                    f"{name!r} is no column",
                    row,
                    first,
                    "name the rows as the columns are named, in the first column",
                )
            if known[name] != row:
                raise self._error(f"{name!r} has two rows", row, first, "leave one out")
        for name in names:
            if name not in known:
                raise InputError(
                    "has no row of its own",
                    file=self.source.shown,
                    column=name,
                    fix="a correlation matrix has a row and a column for each variable",
                )
        return [known[name] for name in names]

    def numbers(self, column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
        """One column as numbers, NaN where empty."""
        found = []
        for row, cell in enumerate(column.to_pylist()):
            text = "" if cell is None else str(cell).strip()
            try:
                value = float(text) if text else np.nan
            except ValueError:
                raise self._error(
                    f"{text[:60]!r} is not a number", row, name, "write a number from -1 to 1"
                ) from None
            if text and not abs(value) <= 1 + _ROUNDING:
                raise self._error(
                    f"{text[:60]} is no correlation",
                    row,
                    name,
                    "correlations lie between -1 and 1; divide covariances by the standard "
                    "deviations",
                )
            found.append(value)
        return np.array(found)

    def check(self, values: NDArray[np.float64], names: list[str], line: dict[str, int]) -> None:
        """Refuse cells that no correlation matrix has."""
        for place, name in enumerate(names):
            own = values[place, place]
            if np.isnan(own) or abs(own - 1) > _ROUNDING:
                said = "is empty" if np.isnan(own) else f"is {own:g}"
                raise self._error(
                    f"the diagonal {said}", line[name], name, "a variable correlates 1 with itself"
                )
            for other in range(place):
                here, there = values[place, other], values[other, place]
                if np.isnan(here):
                    raise self._error(
                        "the cell is empty in both halves",
                        line[name],
                        names[other],
                        "fill one of them",
                    )
                if abs(here - there) > _ROUNDING:
                    raise self._error(
                        f"the matrix is not symmetric: {here:g} here and {there:g} across the "
                        "diagonal",
                        line[name],
                        names[other],
                        "correct one of the two",
                    )

    def _error(self, problem: str, row: int, column: str, fix: str) -> InputError:
        header = self.table.header_lines
        return InputError(
            problem,
            file=self.source.shown,
            row=row + 1,
            line=row + 1 + header if header else None,
            column=column,
            fix=fix,
        )
