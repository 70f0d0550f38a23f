"""Tables for a terminal: numbers keep their place, names that are too wide stand above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from safemetry.display import cell_width

Justify = Literal["left", "right"]
Style = Literal["title", "header", "group", "plain"]

_GAP: Final = 2
_INDENT: Final = 2
_BETWEEN: Final = " \N{MIDDLE DOT} "


def number(value: float | None, digits: int = 2) -> str:
    """A number as a cell shows it; without a minus sign where it rounds to 0.

    Examples
    --------
    >>> number(-0.001), number(1234.5, 1), number(None)
    ('0.00', '1,234.5', 'unknown')
    """
    return "unknown" if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share as a cell shows it.

    Examples
    --------
    >>> percent(0.125), percent(None)
    ('12.5%', 'unknown')
    """
    return "unknown" if value is None else f"{value:.1%}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table and what it is."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name
        Header.
    justify
        Side that the cells keep to.
    optional
        Left out where the table would be too wide.
    """

    name: str
    justify: Justify = "left"
    optional: bool = False


@dataclass
class Table:
    """Rows of text under columns.

    The first columns, as long as they are on the left, are keys: what a row speaks of. A key that
    is the same in all rows is said once, under the title. Where the table is wider than the
    terminal, optional columns go first, then outer keys move into lines of their own above their
    rows, and a name that is still too wide stands on the line before its numbers. Numbers are
    never cut.

    Parameters
    ----------
    title
        What the table shows.
    columns
        Its columns.
    rows
        Its cells, as text that a terminal may print.
    """

    title: str
    columns: Sequence[Column]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """Add a row with one cell for each column."""
        if len(cells) != len(self.columns):
            msg = f"{len(cells)} cells for {len(self.columns)} columns"
            raise ValueError(msg)
        self.rows.append(tuple(cells))

    def lines(self, width: int, *, most: int | None = None) -> Iterator[Line]:
        """The table as lines that fit the width, as far as its numbers do.

        Parameters
        ----------
        width
            Columns of the terminal.
        most
            Rows to show; all where None. What is left out is counted in the last line.
        """
        for text in wrapped(self.title, width):
            yield Line(text, "title")
        common, rest = self._divided()
        for text in packed(common, width) if common else ():
            yield Line(text)
        shown = rest.rows if most is None else rest.rows[:most]
        yield from rest._layout(width).lines(shown)  # noqa: SLF001 - a table too
        if len(shown) < len(self.rows):
            yield Line(f"... and {len(self.rows) - len(shown):,} more rows", "header")

    @property
    def _keys(self) -> int:
        """Number of keys."""
        keys = 0
        while keys < len(self.columns) and self.columns[keys].justify == "left":
            keys += 1
        return keys

    def _divided(self) -> tuple[list[str], Table]:
        """The keys that all rows share, as text, and the table without them."""
        keys = self._keys
        shared = [
            index
            for index in range(keys)
            if len(self.rows) > 1 and len({row[index] for row in self.rows}) == 1
        ]
        if len(shared) == keys:
            shared = shared[:-1]
        kept = [index for index in range(len(self.columns)) if index not in shared]
        rows = [tuple(row[index] for index in kept) for row in self.rows]
        said = [f"{self.columns[index].name}: {self.rows[0][index]}" for index in shared]
        return said, Table(self.title, [self.columns[index] for index in kept], rows)

    def _layout(self, width: int) -> _Layout:
        keys = self._keys
        everything = tuple(range(len(self.columns)))
        needed = tuple(i for i in everything if not self.columns[i].optional)
        choices = (everything, needed) if len(needed) < len(everything) else (everything,)
        for outer in range(max(keys, 1)):
            for chosen in choices:
                layout = _Layout(self, chosen, outer, keys, width)
                if layout.width <= width:
                    return layout
        return _Layout(self, needed, max(keys - 1, 0), keys, width, narrow=True)


class _Layout:
    """Which columns are shown, which keys stand above, and how wide each column is."""

    def __init__(
        self,
        table: Table,
        chosen: Sequence[int],
        outer: int,
        keys: int,
        width: int,
        *,
        narrow: bool = False,
    ) -> None:
        self._table = table
        self._outer = outer
        self._screen = width
        self._inner = [index for index in chosen if index >= outer]
        self._indent = _INDENT if outer else 0
        self._widths = {
            index: max(
                cell_width(table.columns[index].name),
                *(cell_width(row[index]) for row in table.rows),
            )
            for index in self._inner
        }
        self._name = next((index for index in self._inner if index < keys), None)
        if narrow and self._name is not None:
            rest = self.width - self._widths[self._name]
            least = cell_width(table.columns[self._name].name)
            self._widths[self._name] = max(least, width - rest)

    @property
    def width(self) -> int:
        return self._indent + sum(self._widths.values()) + _GAP * (len(self._widths) - 1)

    def lines(self, rows: Sequence[tuple[str, ...]]) -> Iterator[Line]:
        names = [column.name for column in self._table.columns]
        if self._outer:
            yield Line(_BETWEEN.join(names[: self._outer]), "header")
        yield Line(self._row(names), "header")
        yield Line("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * min(self.width, self._screen), "header")
        above: tuple[str, ...] | None = None
        for row in rows:
            if self._outer and row[: self._outer] != above:
                above = row[: self._outer]
                for text in packed(above, self._screen):
                    yield Line(text, "group")
            yield from self._row_lines(row)

    def _row_lines(self, row: tuple[str, ...]) -> Iterator[Line]:
        name = self._name
        if name is not None and cell_width(row[name]) > self._widths[name]:
            yield Line(" " * self._indent + row[name])
            row = (*row[:name], "", *row[name + 1 :])
        yield Line(self._row(row))

    def _row(self, cells: Sequence[str]) -> str:
        parts = [
            padded(cells[index], self._widths[index], self._table.columns[index].justify)
            for index in self._inner
        ]
        return (" " * self._indent + (" " * _GAP).join(parts)).rstrip()


def table(title: str, *columns: tuple[str, Justify] | Column) -> Table:
    """A table without rows; a column is its header and the side that its cells keep to."""
    return Table(
        title, [item if isinstance(item, Column) else Column(item[0], item[1]) for item in columns]
    )


def padded(text: str, width: int, justify: Justify) -> str:
    """Text with spaces up to a width."""
    space = " " * max(0, width - cell_width(text))
    return text + space if justify == "left" else space + text


def packed(parts: Sequence[str], width: int) -> Iterator[str]:
    """Parts on as few lines as they need; no part is broken."""
    line = ""
    for part in parts:
        joined = line + _BETWEEN + part if line else part
        if line and cell_width(joined) > width:
            yield line
            line = part
        else:
            line = joined
    yield line


def wrapped(text: str, width: int) -> Iterator[str]:
    """Text broken between words; lines after the first are indented like the first."""
    indent = " " * (len(text) - len(text.lstrip()))
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else indent + word
        if line and cell_width(joined) > width:
            yield line
            line = indent + word
        else:
            line = joined
    yield line
