"""What no single cell may hold, whatever the words of its row.

Each check is read off one number for each group of rows. Sums of conditions over every row cost
more than the grouping itself, so a check looks at a count, a minimum or a maximum wherever one
says as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.evidence.arrival import REAL_PATTERN, Arrival
from safemetry.evidence.schema import BY_NAME, COLUMNS, KEY, REAL, WHOLE, Column

_WHOLE_PATTERN: Final = r"^\s*[+-]?\d{1,18}\s*$"
_MOST_WHOLE: Final = 1e18
_COUNTED_FROM_ONE: Final = ("epoch", "call")
_IDS: Final = ("target", "item", "judge", "run")
_MOST_SHOWN: Final = 60


@dataclass(frozen=True)
class Complaint:
    """What is said of the first cell that a check finds.

    Parameters
    ----------
    column
        Our name of its column.
    problem
        What is wrong, where ``{value}`` stands for what the cell holds.
    fix
        What to do about it.
    """

    column: str
    problem: str
    fix: str


@dataclass(frozen=True)
class CellCheck:
    """Something that no cell of a column may hold.

    Parameters
    ----------
    complaint
        What is said where it does.
    condition
        Whether a row has such a cell.
    value
        What is aggregated over each group of rows.
    how
        ``sum`` of a condition, ``count`` of values, ``min`` or ``max``.
    limit
        The least that ``min`` may be, or the most that ``max`` or ``sum`` may be.
    """

    complaint: Complaint
    condition: nw.Expr
    value: nw.Expr
    how: Literal["sum", "count", "min", "max"]
    limit: float = 0

    def aggregate(self, name: str) -> nw.Expr:
        """The aggregate of the values under this name."""
        column = nw.col(name)
        if self.how == "sum":
            return column.sum().cast(nw.Int64).alias(name)
        found = {"count": column.count, "min": column.min, "max": column.max}[self.how]()
        return found.alias(name)

    def fails(self, found: Any, rows: int) -> bool:
        """Whether a group with this aggregate and number of rows holds such a cell."""
        if self.how == "count":
            return bool(found < rows)
        if found is None:
            return False
        return bool(found < self.limit if self.how == "min" else found > self.limit)

    def error(self, arrival: Arrival) -> InputError:
        """The error that names the first such cell."""
        said, row = self.complaint, arrival.first_row(self.condition)
        problem = said.problem.format(value=_shown(row.get(said.column)))
        return arrival.error(problem, row, said.column, fix=said.fix)


def cell_checks(arrival: Arrival) -> list[CellCheck]:
    """The checks that the columns of a table call for, in the order in which they are reported."""
    return [
        *_empty_keys(arrival),
        *_malformed_numbers(arrival),
        *_negative_numbers(arrival),
        *_long_ids(arrival),
    ]


def _empty_keys(arrival: Arrival) -> Iterator[CellCheck]:
    for name in filter(arrival.is_open, KEY):
        column, cell = BY_NAME[name], nw.col(name)
        fix = "give each row a value"
        if not column.required and name != "run":
            fix += f", or leave the column out (then it is {column.default!r})"
        complaint = Complaint(name, "the cell is empty", fix)
        yield CellCheck(complaint, cell.is_null(), cell, "count")


def _malformed_numbers(arrival: Arrival) -> Iterator[CellCheck]:
    for column in COLUMNS:
        if arrival.is_open(column.name) and column.type in {WHOLE, REAL}:
            text = arrival.is_text(column.name)
            yield from _malformed_text(arrival, column) if text else _no_number(arrival, column)


def _malformed_text(arrival: Arrival, column: Column) -> Iterator[CellCheck]:
    """Text that is no number of the column's type."""
    cell = nw.col(column.name)
    malformed = ~cell.str.contains(_WHOLE_PATTERN if column.type == WHOLE else REAL_PATTERN)
    if column.name == "score":
        # Text may match and yet be too large for a finite number.
        malformed = malformed | arrival.score().is_null()
    yield _flag(_wrong_type(column), malformed & ~cell.is_null())


def _no_number(arrival: Arrival, column: Column) -> Iterator[CellCheck]:
    """Numbers that are none of the column's type."""
    cell, complaint = nw.col(column.name), _wrong_type(column)
    if column.type == WHOLE and arrival.types[column.name].is_integer():
        yield CellCheck(complaint, cell > _MOST_WHOLE, cell, "max", _MOST_WHOLE)
        if column.name not in _COUNTED_FROM_ONE:
            yield CellCheck(complaint, cell < -_MOST_WHOLE, cell, "min", -_MOST_WHOLE)
    elif column.type == WHOLE:
        value = cell.cast(nw.Float64())
        yield _flag(complaint, (value != value.round(0)) | (value.abs() > _MOST_WHOLE))
    elif column.name == "score":
        yield _flag(complaint, ~cell.is_finite())


def _negative_numbers(arrival: Arrival) -> Iterator[CellCheck]:
    for name in filter(arrival.is_open, _COUNTED_FROM_ONE):
        cell, complaint = nw.col(name), Complaint(name, "{value} is negative", "count from 1")
        if arrival.is_text(name):
            yield _flag(complaint, cell.str.contains("-"))
        else:
            yield CellCheck(complaint, cell < 0, cell, "min", 0)


def _long_ids(arrival: Arrival) -> Iterator[CellCheck]:
    limit = arrival.map.limits.id_characters
    for name in filter(arrival.is_open, _IDS):
        length = nw.col(name).str.len_chars()
        complaint = Complaint(
            name,
            f"the id is longer than {limit:,} characters",
            "shorten it, or raise limits.id_characters in the map",
        )
        yield CellCheck(complaint, length > limit, length, "max", limit)


def _flag(complaint: Complaint, condition: nw.Expr) -> CellCheck:
    """A check of a condition that no smaller number tells."""
    value = condition.fill_null(value=False).cast(nw.Int64)
    return CellCheck(complaint, condition, value, "sum")


def _wrong_type(column: Column) -> Complaint:
    kind = "a whole number" if column.type == WHOLE else "a finite number"
    fix = f"write {kind}"
    if column.name == "score":
        fix += ", or leave the cell empty and give a status and a reason"
    return Complaint(column.name, f"{{value}} is not {kind}", fix)


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "...")
