"""Chart of the agreement of each two judges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import (
    FONT,
    LETTER,
    NARROW,
    Box,
    Mark,
    Stroke,
    Word,
    picture,
    room,
)

STRONGEST: Final = 0.5
"""Opacity of a cell of full agreement; above, its number would be hard to read."""
MOST_JUDGES: Final = 24
MOST_ON_A_PHONE: Final = 16
_LARGEST: Final = 46
_HEAD: Final = 18


def agreement_map(
    judges: Sequence[str],
    pairs: Mapping[tuple[str, str], float | None],
    *,
    humans: Collection[str] = (),
    ceiling: float | None = None,
    width: int = 640,
) -> Any:
    """Agreement of each two judges as a heat map, each number in its cell.

    Parameters
    ----------
    judges
        Names, in the order of rows.
    pairs
        Two judges, in either order -> coefficient in [-1, 1], or None where it is undefined.
    humans
        Those of the judges who are people; their cells have a frame.
    ceiling
        Mean agreement between people; cells of a judge and a person at or above it are bold.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        The lower triangle; rows have number and name, columns the number. Darker cells agree more,
        negative coefficients have another colour and a sign. At most 24 judges are shown, 16 on a
        phone; where cells are small their numbers are hundredths.

    Raises
    ------
    InputError
        Under two judges.
    """
    if len(judges) < 2:
        raise InputError("agreement needs two judges")
    narrow = width < NARROW
    most = MOST_ON_A_PHONE if narrow else MOST_JUDGES
    kept = [*judges][:most]
    # On a phone many judges leave no room for names beside the cells.
    bare = narrow and len(kept) > 8
    names = [
        f"{place}" if bare else f"{place}  {shown(name, 13 if narrow else 26)}"
        for place, name in enumerate(kept, start=1)
    ]
    left = max(map(room, names)) + 8
    side = min(float(_LARGEST), (width - left - 4) / len(kept))
    size = FONT if side >= 26 else 10
    hundredths = side < LETTER * 3 + 4
    marks: list[Mark] = []
    for row, first in enumerate(kept):
        y = _HEAD + side * row
        marks.append(Word(left - 6, y + side / 2, names[row], "right", bold=first in humans))
        if row + 1 < len(kept):
            marks.append(Word(left + side * (row + 0.5), 8, str(row + 1), "center", size=size))
        for column, second in enumerate(kept[:row]):
            value = pairs.get((first, second), pairs.get((second, first)))
            x = left + side * column
            corners = (x + 1, y + 1, x + side - 1, y + side - 1)
            if value is None:
                marks.append(Stroke(x + 4, y + side - 4, x + side - 4, y + 4))
                continue
            depth = STRONGEST * min(1.0, abs(value))
            marks.append(Box(*corners, PALETTE[1] if value < 0 else PALETTE[0], depth))
            text = _cell(value, hundredths=hundredths)
            people = (first in humans) + (second in humans)
            reached = people == 1 and ceiling is not None and value >= ceiling
            marks.append(Word(x + side / 2, y + side / 2, text, "center", size, bold=reached))
            if people == 2:
                marks += _frame(corners)
    return picture(marks, width, round(_HEAD + side * len(kept) + 4))


def _cell(value: float, *, hundredths: bool) -> str:
    sign = "\N{MINUS SIGN}" if round(value, 2) < 0 else ""
    if hundredths:
        return f"{sign}{100 * abs(value):.0f}"
    text = f"{abs(value):.2f}"
    return sign + (text if text.startswith("1") else text[1:])


def _frame(corners: tuple[float, float, float, float]) -> list[Mark]:
    left, top, right, bottom = corners
    edges = (
        (left, top, right, top),
        (right, top, right, bottom),
        (left, bottom, right, bottom),
        (left, top, left, bottom),
    )
    return [Stroke(*edge, INK, 2) for edge in edges]
