"""Judgements of Every Eval Ever as they are collected: one of each key, and one item of each id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.schema import BY_NAME
from safemetry.readers.every_eval_ever_line import Line, arrow_type

ResponseKey = tuple[str, str, str, int]
"""Run, target, item and epoch."""

_Key = tuple[str, str, str, str, int, str, int]
_Before = tuple[str, int, float, str | None]
"""File, row, score and metric of the first line of a key."""

_ALWAYS: Final = frozenset(
    {"run", "target", "item", "epoch", "judge", "label", "score", "status", "reason"}
)


class Judgements:
    """The judgements of all files of a source.

    Attributes
    ----------
    rows
        Columns of each judgement; items as the lines have them.
    ambiguous
        Run and item of ids that stand under several evaluations.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.ambiguous: set[tuple[str, str]] = set()
        self._evaluations: list[str | None] = []
        self._seen: dict[_Key, _Before] = {}
        self._evaluation_of: dict[tuple[str, str], str] = {}

    def is_new(self, file: str, row: int, line: Line, columns: Mapping[str, Any]) -> bool:
        """Whether no line said this before; False for a further statistic of the same score.

        Raises
        ------
        InputError
            For a second line of one key, with the place of the first.
        """
        key: _Key = (
            columns["run"],
            columns["target"],
            line.name,
            columns["item"],
            columns["epoch"],
            columns["judge"],
            columns.get("call", 1),
        )
        here: _Before = (file, row, line.score, line.result)
        before = self._seen.setdefault(key, here)
        if before is here:
            return True
        where, earlier, score, result = before
        place = f"row {earlier:,}" if where == file else f"row {earlier:,} of {where}"
        if not line.exported and result != line.result:
            if score == line.score:
                return False
            raise InputError(
                f"judge {columns['judge']!r} gives this sample another score in {place}, under "
                f"{result}",
                column="evaluation.score",
                fix="keep the lines of one of the two metrics",
            )
        raise InputError(
            f"the sample was scored by {columns['judge']!r} before, in {place}",
            column="sample_id",
            fix="remove the copy; if it is another trial, write which in metadata.epoch",
        )

    def keep(self, file: str, row: int, line: Line, columns: dict[str, Any]) -> None:
        """Add a judgement."""
        place = (columns["run"], columns["item"])
        if not line.exported and self._evaluation_of.setdefault(place, line.name) != line.name:
            self.ambiguous.add(place)
        columns["source_file"] = file
        columns["source_row"] = row
        self.rows.append(columns)
        self._evaluations.append(None if line.exported else line.name)

    def table(self, raw: Sequence[str] = ()) -> pa.Table:
        """The judgements, with the columns that hold something.

        Parameters
        ----------
        raw
            Columns that the border translates, which are kept as they are.
        """
        used = _ALWAYS | {
            name for row in self.rows for name, value in row.items() if value is not None
        }
        names = [name for name in (*BY_NAME, *raw) if name in used]
        if self.rows and "call" in names:
            for row in self.rows:
                row.setdefault("call", 1)
        columns = {
            name: pa.array([row.get(name) for row in self.rows], arrow_type(name)) for name in names
        }
        columns["item"] = pa.array(self._items(), arrow_type("item"))
        return pa.table(columns)

    def _items(self) -> list[str]:
        """The item of each judgement, under its evaluation where the sample alone is ambiguous."""
        return [
            f"{evaluation}/{row['item']}"
            if evaluation is not None and (row["run"], row["item"]) in self.ambiguous
            else row["item"]
            for row, evaluation in zip(self.rows, self._evaluations, strict=True)
        ]

    def first_lines(self) -> dict[tuple[str, int], ResponseKey]:
        """File and row of the first line of each response -> key of the response."""
        if not self.rows:
            return {}
        table = self.table()
        names = ("run", "target", "item", "epoch")
        places: dict[tuple[Any, ...], tuple[str, int]] = {}
        for row in table.select([*names, "source_file", "source_row"]).to_pylist():
            place = (row["source_file"], row["source_row"])
            key = tuple(row[name] for name in names)
            places[key] = min(place, places.get(key, place))
        return {place: key for key, place in places.items()}
