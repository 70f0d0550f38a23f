"""A table on its way in: under our names, with what is known of it beyond its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.evidence import frames
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import BY_NAME

if TYPE_CHECKING:
    from narwhals.stable.v2.dtypes import DType

Row = Mapping[str, Any]
"""One row under our names."""

REAL_PATTERN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
"""Text that is a number."""


@dataclass(frozen=True)
class Place:
    """Where rows come from, for error messages."""

    name: str
    header_lines: int = 0
    """Lines above the first row of a text file whose rows are its lines; 0 where unknown."""
    run: str | None = None
    """The run of rows that name none; by default the name."""


def untranslated(name: str) -> str:
    """The column, beside ours, whose values the map translates into ours."""
    return f"raw_{name}"


@dataclass(frozen=True)
class Arrival:
    """A table under our names, each column of it text or a number.

    Parameters
    ----------
    frame
        Lazy frame under our names, with only the columns that the source has.
    theirs
        Our column -> the column of the source, for each column of the frame.
    types
        Our column -> its type in the frame.
    map
        What is known about the source.
    scales
        Scales that the format fixes; the map overrides them.
    place
        Name of the source for error messages.
    settled
        Columns of ours whose cells were checked before, and are not looked at again.
    """

    frame: nw.LazyFrame[Any]
    theirs: Mapping[str, str]
    types: Mapping[str, DType]
    map: EvidenceMap
    scales: Mapping[str, Scale]
    place: Place
    settled: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether the source has this column of ours."""
        return name in self.theirs

    def is_open(self, name: str) -> bool:
        """Whether the source has this column of ours and its cells are still to be checked."""
        return self.has(name) and name not in self.settled

    def is_text(self, name: str) -> bool:
        """Whether a column that is there holds text."""
        return bool(self.types[name] == nw.String())

    def counts(self, name: str) -> bool:
        """Whether calls or epochs are numbers that need no parsing, or one number for all rows."""
        if not self.has(name):
            return name not in self.map.constants
        return bool(self.types[name].is_integer())

    def default(self, name: str) -> Any:
        """The value of every row where the source has no such column."""
        if name in self.map.constants:
            return self.map.constants[name]
        if name == "run":
            return self.place.run or self.place.name
        return self.place.name if name == "source_file" else BY_NAME[name].default

    def score(self) -> nw.Expr:
        """The score as a finite number; anything else reads as null here and is an error there.

        See `safemetry.evidence.cells`.
        """
        if not self.has("score"):
            return nw.lit(None, nw.Float64())
        score: nw.Expr = nw.col("score")
        if self.is_text("score"):
            score = nw.when(score.str.contains(REAL_PATTERN)).then(score).otherwise(None)
        score = score.cast(nw.Float64())
        return nw.when(score.is_finite()).then(score).otherwise(None)

    def no_verdict(self) -> list[nw.Expr]:
        """Conditions that hold together where a row gives neither a label nor a score."""
        return [nw.col(name).is_null() for name in ("label", "score") if self.has(name)]

    def scale(self, judge: str) -> Scale:
        """The scale of a judge: the map, else the format."""
        if judge in self.map.judges or "*" in self.map.judges:
            return self.map.scale(judge)
        return self.scales.get(judge) or self.scales.get("*") or Scale()

    def meaning(self, judge: str, label: str) -> str | None:
        """The class of a judge's label, ``missing:REASON``, or None where it is unknown."""
        for labels in (self.scale(judge).labels, self.map.labels):
            if label in labels:
                return labels[label]
        return label if label in self.map.known_labels else None

    def labelled(self, judge: str, label: str) -> nw.Expr:
        """Condition of the rows on which a judge gave a label."""
        condition = nw.col("label") == label
        return condition & (nw.col("judge") == judge) if self.has("judge") else condition

    def first_row(self, condition: nw.Expr) -> Row:
        """The first row for which a condition holds."""
        rows = self.frame.filter(condition.fill_null(value=False))
        if self.has(frames.ROW):
            rows = rows.sort(frames.ROW)
        found = rows.head(1).collect("pyarrow").to_arrow().to_pylist()
        return found[0] if found else {}

    def error(self, problem: str, row: Row, column: str, *, fix: str) -> InputError:
        """The error of a cell, under the names that the source uses."""
        given = row.get(frames.ROW)
        number = int(str(given)) if str(given).isdecimal() else None
        line = number + self.place.header_lines if number and self.place.header_lines else None
        return InputError(
            problem,
            file=str(row.get("source_file") or self.place.name),
            row=number,
            line=line,
            column=self.theirs.get(column, column),
            fix=fix,
        )
