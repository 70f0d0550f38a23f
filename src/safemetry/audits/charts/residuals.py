"""Charts of misfit: which categories carry it, and which items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import (
    NARROW,
    Box,
    Dot,
    Mark,
    Stroke,
    Word,
    key,
    picture,
    room,
)

MOST_ITEMS: Final = 400
MOST_CATEGORIES: Final = 30
STRONGEST: Final = 0.5
"""Opacity of the strongest residuals; above, their signs would be hard to read."""
LARGE: Final = 2.0
"""Standardised residual from which a cell has a sign."""
_CELL: Final = 13
_FULL: Final = 3.0
_NORMAL: Final = 1.96
_ABOVE, _BELOW = PALETTE[0], PALETTE[1]
_ROW: Final = 22
_NONE: Final = "no category"


def residual_map(rows: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """Standardised residual of each item, in rows by category.

    Parameters
    ----------
    rows
        `item`, `category` (or None) and `residual`, standardised: above 0 where the outcome is
        higher than expected. At most 400 are drawn, those with the largest residuals; the rest is
        counted.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A block for each category, its items from the highest to the lowest residual. Colour says
        the direction and darkness the size up to 3; residuals from 2 on have a sign.

    Raises
    ------
    InputError
        Without a residual.
    """
    known = [row for row in rows if row.get("residual") is not None]
    if not known:
        raise InputError("no item has a residual, so there is nothing to show")
    known.sort(key=lambda row: (-abs(row["residual"]), str(row["item"])))
    drawn, rest = known[:MOST_ITEMS], known[MOST_ITEMS:]
    groups: dict[str, list[float]] = {}
    for row in drawn:
        name = row.get("category")
        groups.setdefault(_NONE if name is None else str(name), []).append(float(row["residual"]))
    order = sorted(groups, key=lambda name: (-_mean_square(groups[name]), name))
    across = max(1, int(width // _CELL))
    marks: list[Mark] = []
    y = 0.0
    for name in order[:MOST_CATEGORIES]:
        values = sorted(groups[name], reverse=True)
        count = f" ({len(values):,} items)" if len(values) != 1 else " (1 item)"
        letters = int(width / room("x")) - len(count)
        marks.append(Word(0, y + 9, shown(name, letters) + count))
        y += 20
        for place, value in enumerate(values):
            line, column = divmod(place, across)
            marks += _cell(value, column * _CELL, y + line * _CELL)
        y += _CELL * -(-len(values) // across) + 8
    left = len(rest) + sum(len(groups[name]) for name in order[MOST_CATEGORIES:])
    if left:
        marks.append(Word(0, y + 8, f"{left:,} more items with smaller residuals are not drawn"))
        y += 20
    legend = [
        (_ABOVE, "higher than expected (+)"),
        (_BELOW, "lower than expected (\N{MINUS SIGN})"),
    ]
    marks += key(legend, y + 6, width)
    lowest = max(mark.y for mark in marks if isinstance(mark, Word))
    return picture(marks, width, round(lowest + 12)).properties(
        description=f"Residuals of {len(drawn):,} items in {len(groups)} categories."
    )


def misfit_chart(
    rows: Sequence[Mapping[str, Any]],
    *,
    value: str = "value",
    title: str = "standardised residual of the category",
    width: int = 640,
) -> Any:
    """One value for each category, with the limits of a target that fits.

    Parameters
    ----------
    rows
        `category`, the value, `flagged`, and `items`; `se` where the value has a unit. Rows without
        a value are left out.
    value
        Key of the value.
    title
        Of the axis.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        At most 30 categories, the largest values first. A value without `se` stands in a band from
        -1.96 to 1.96, where 95% of single categories lie if the target fits; one with it has an
        interval of 1.96 errors. A flagged one is a filled square and the word *flagged*.

    Raises
    ------
    InputError
        Where no category has a value.
    """
    known = [row for row in rows if row.get(value) is not None]
    if not known:
        raise InputError("no category has a value, so there is nothing to show")
    known.sort(key=lambda row: (-abs(row[value]), str(row.get("category"))))
    kept = known[:MOST_CATEGORIES]
    narrow = width < NARROW
    names = [
        shown(_NONE if row.get("category") is None else row["category"], 16 if narrow else 34)
        for row in kept
    ]
    left = max(map(room, names)) + 12
    flag = room("flagged", 11) + 6
    banded = all(row.get("se") is None for row in kept)
    ends = [abs(float(row[value])) + _NORMAL * float(row.get("se") or 0) for row in kept]
    reach = 1.06 * max(*ends, _NORMAL if banded else 0.0, 1e-6)
    right = width - flag
    scale = (right - left) / (2 * reach)

    def x(at: float) -> float:
        return left + scale * (at + reach)

    floor = _ROW * len(kept) + 4
    marks: list[Mark] = []
    if banded:
        marks.append(Box(x(-_NORMAL), 0, x(_NORMAL), floor, PALETTE[5], 0.14))
    marks.append(Stroke(x(0), 0, x(0), floor, INK, 1.0, 3))
    for place, (row, name) in enumerate(zip(kept, names, strict=True)):
        y = _ROW * (place + 0.5) + 2
        at, flagged = float(row[value]), bool(row.get("flagged"))
        marks.append(Word(left - 10, y, name, "right", bold=flagged))
        colour, shape = (PALETTE[1], "square") if flagged else (PALETTE[0], "circle")
        if row.get("se") is not None:
            wide = _NORMAL * float(row["se"])
            marks.append(Stroke(x(at - wide), y, x(at + wide), y, colour, 2.2))
        marks.append(Dot(x(at), y, colour, shape, size=64))
        if flagged:
            marks.append(Word(right + 6, y, "flagged", size=11))
    marks += _axis(reach, x, floor, narrow=narrow)
    # Beside a long name the middle of the axis may leave the title no room.
    half = room(title) / 2
    marks.append(Word(min(max(x(0), half), width - half), floor + 34, title, "center"))
    lowest = floor + 34
    if len(known) > len(kept):
        more = f"{len(known) - len(kept):,} more categories with smaller values"
        marks.append(Word(0, floor + 52, more))
        lowest += 18
    said = ", ".join(f"{name} {row[value]:.2f}" for name, row in zip(names[:6], kept, strict=False))
    return picture(marks, width, round(lowest + 12)).properties(description=f"{title}: {said}.")


def _axis(reach: float, x: Any, floor: float, *, narrow: bool) -> Iterator[Mark]:
    """Round values on both sides of 0."""
    steps = [part * 10.0**power for power in range(-6, 4) for part in (1, 2, 5)]
    step = next((step for step in steps if reach / step <= (3 if narrow else 5)), reach)
    most = int(reach / step)
    for place in range(-most, most + 1):
        at = place * step
        sign = "\N{MINUS SIGN}" if at < 0 else ""
        yield Stroke(x(at), floor, x(at), floor + 5)
        yield Word(x(at), floor + 14, f"{sign}{abs(at):g}", "center")


def _cell(value: float, left: float, top: float) -> Iterator[Mark]:
    depth = STRONGEST * min(1.0, abs(value) / _FULL)
    colour = _ABOVE if value >= 0 else _BELOW
    yield Box(left, top, left + _CELL - 1, top + _CELL - 1, colour, max(depth, 0.06))
    if abs(value) >= LARGE:
        sign = "+" if value > 0 else "\N{MINUS SIGN}"
        yield Word(left + (_CELL - 1) / 2, top + (_CELL - 1) / 2, sign, "center", size=10)


def _mean_square(values: Sequence[float]) -> float:
    return sum(value * value for value in values) / len(values)
