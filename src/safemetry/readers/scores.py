"""Score tables: one row per target, one column per benchmark, a number in each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.matrix import decoded, holds_numbers, layout_of
from safemetry.readers.source import Source
from safemetry.readers.tables import read_sample, read_table
from safemetry.readers.tidy import is_tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORES: Final = "scores"
_GAPS: Final = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})


@dataclass(frozen=True)
class ScoreTable:
    """Scores or abilities of targets on benchmarks.

    Parameters
    ----------
    targets, benchmarks
        Names of the rows and columns.
    values
        Shape ``(targets, benchmarks)``, NaN where there is no score.
    source
        Where it lies.
    """

    targets: tuple[str, ...]
    benchmarks: tuple[str, ...]
    values: NDArray[np.float64]
    source: str


def is_score_table(source: Source, evidence_map: EvidenceMap | None = None) -> bool:
    """Whether a table names targets and holds numbers, of which one is no whole number from 0."""
    given = evidence_map or EvidenceMap()
    sample = read_sample(source, given.encoding)
    if sample is None or is_tidy(sample.names, given):
        return False
    rows = decoded(sample.rows)
    layout = layout_of(rows, given)
    if layout is None or len(layout.items) < 2:
        return False
    columns = [rows[name] for name in layout.items]
    return all(map(holds_numbers, columns)) and any(map(_holds_fractions, columns))


def read_scores(source: Source | str, evidence_map: EvidenceMap | None = None) -> ScoreTable:
    """Read scores or abilities of targets on benchmarks.

    Parameters
    ----------
    source
        A table with a column of targets (``target``, ``model``, or the only column of texts; the
        map may name another) and a column for each benchmark. Empty cells are missing scores.
    evidence_map
        Gives the target column, the encoding and the limits.

    Raises
    ------
    InputError
        For a table without targets, a target with two rows, or a cell that is no number.
    """
    given = evidence_map or EvidenceMap()
    place = source if isinstance(source, Source) else Source(source, given.limits)
    table = read_table(place, given.encoding, in_memory=True)
    wide = decoded(table.to_arrow())
    layout = layout_of(wide, given)
    if layout is None or not layout.items:
        raise InputError(
            "no column names the targets" if layout is None else "there is no benchmark",
            file=place.shown,
            fix="call the column of the targets target or model, or add to the map: "
            "columns: {target: THEIR_NAME}; every other column is a benchmark",
        )
    header = table.header_lines
    targets: list[str | None] = wide[layout.target].cast(pa.string()).to_pylist()
    seen: set[str | None] = {None, ""}
    for row, target in enumerate(targets, start=1):
        if target in seen:
            said = f"target {target!r} has two rows" if target else "the cell is empty"
            raise InputError(
                said,
                file=place.shown,
                row=row,
                line=row + header if header else None,
                column=layout.target,
                fix="give each target one row with its name",
            )
        seen.add(target)
    columns = []
    for name in layout.items:
        cells = []
        for row, cell in enumerate(wide[name].to_pylist(), start=1):
            value = _number(cell)
            if value is None:
                raise InputError(
                    f"{str(cell)[:60]!r} is not a number",
                    file=place.shown,
                    row=row,
                    line=row + header if header else None,
                    column=name,
                    fix="leave the cell empty where there is no score",
                )
            cells.append(value)
        columns.append(cells)
    return ScoreTable(
        tuple(map(str, targets)), layout.items, np.array(columns, np.float64).T, place.shown
    )


def _number(cell: object) -> float | None:
    """A cell as a number, NaN where empty, None where it is no finite number."""
    text = "" if cell is None else str(cell).strip()
    if text.lower() in _GAPS:
        return float("nan")
    try:
        value = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower())
    return value if np.isfinite(value) else None


def _holds_fractions(column: pa.ChunkedArray) -> bool:
    """Whether a number is a fraction or negative."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fractions = pc.match_substring_regex(column, r"^\s*(-|[+]?\d*\.\d*[1-9])|[eE]-")
        return pc.any(fractions).as_py() is True
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    known = numbers[np.isfinite(numbers)]
    return bool(((known < 0) | (known != np.floor(known))).any())
