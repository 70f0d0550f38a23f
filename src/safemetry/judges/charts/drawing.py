"""Marks at places in pixels, put together as one chart.

The charts of judges are tables of small panels, with a name wherever one is needed. Laid out in
pixels they have the width that is asked for, whatever the names are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from safemetry.charts import INK, RULE, plainly

LETTER: Final = 7.2
"""Pixels that a letter of 12 pixels may take on a page; smaller letters take less in proportion."""
FONT: Final = 12
FAINT: Final = 0.6
"""Opacity of what is no part of the finding."""
NARROW: Final = 480
"""Charts under this width in pixels are drawn for a phone."""
_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle."""

    left: float
    top: float
    right: float
    bottom: float
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line; `dash` is the length of dashes and gaps, 0 for none."""

    left: float
    top: float
    right: float
    bottom: float
    colour: str = RULE
    thickness: float = 1.0
    dash: int = 0


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark at a place; `size` is its area in pixels."""

    x: float
    y: float
    colour: str
    shape: str = "circle"
    filled: bool = True
    size: int = 50


@dataclass(frozen=True, slots=True)
class Band:
    """A bent band that joins a piece of one upright edge to a piece of another."""

    left: float
    right: float
    left_top: float
    right_top: float
    thickness: float
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Word:
    """Text whose middle stands at `y`, aligned ``left``, ``right`` or ``center`` at `x`."""

    x: float
    y: float
    text: str
    align: str = "left"
    size: int = FONT
    bold: bool = False


Mark = Box | Stroke | Dot | Band | Word
_ORDER: Final = (Band, Box, Stroke, Dot, Word)


def room(text: str, size: int = FONT) -> float:
    """Pixels that a text may take."""
    return LETTER * size / FONT * len(text)


def spaced(places: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Places in rising order, moved so that each two are `least` apart and all within the ends.

    Examples
    --------
    >>> spaced([5, 6, 40], 12, 0, 44)
    [5.0, 17.0, 40.0]
    >>> spaced([40, 41], 12, 0, 44)
    [32.0, 44.0]
    """
    found: list[float] = []
    for place in places:
        found.append(max(float(place), low if not found else found[-1] + least))
    limit = float(high)
    for at in reversed(range(len(found))):
        found[at] = min(found[at], limit)
        limit = found[at] - least
    return found


def ticks(high: float, most: int = 5) -> list[float]:
    """Round values from 0 to `high`, at most so many.

    Examples
    --------
    >>> ticks(0.25)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    steps = [part * 10.0**power for power in range(-6, 3) for part in (1, 2, 5)]
    step = next((step for step in steps if high / step <= most + 1e-9), high or 1.0)
    return [round(place * step, 9) for place in range(int(high / step + 1e-9) + 1)]


def percents(values: Sequence[float]) -> list[str]:
    """Values of an axis as percentages, all with as many digits as their step needs."""
    step = values[1] - values[0] if len(values) > 1 else 1.0
    digits = next((d for d in range(5) if abs(round(100 * step, d) - 100 * step) < 1e-9), 5)
    return [f"{100 * value:.{digits}f}%" for value in values]


def share(count: int, n: int) -> str:
    """Never 0% for a few of many."""
    return f"{100 * count / n:.0f}%" if not count or count >= n / 200 else "under 1%"


def short(count: int) -> str:
    """A count in few letters."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1000:,.0f}k" if count < 10_000_000 else f"{count / 1e6:,.0f}M"


def key(words: Sequence[tuple[str, str]], top: float, width: float) -> Iterator[Mark]:
    """Colours with what they mean, side by side as far as they fit."""
    x, y = 0.0, top
    for colour, text in words:
        long = room(text) + 36
        if x and x + long > width:
            x, y = 0.0, y + 18
        yield Box(x, y, x + 12, y + 10, colour)
        yield Word(x + 17, y + 5, text)
        x += long


def picture(marks: Iterable[Mark], width: float, height: float) -> Any:
    """The marks as one chart of this size: bands, then boxes, lines, dots and words on top."""
    import altair as alt

    across = alt.Scale(domain=[0, width], nice=False, zero=False)
    down = alt.Scale(domain=[height, 0], nice=False, zero=False)
    layers = []
    ordered = sorted(marks, key=_kind)
    for key, group in groupby(ordered, key=_kind):
        rows = [asdict(mark) for mark in group]
        layers.append(_layer(key, rows, across, down))
    chart = alt.layer(*layers).properties(
        width=width, height=height, padding=0, autosize=alt.AutoSizeParams(type="none")
    )
    return plainly(chart)


def _kind(mark: Mark) -> tuple[Any, ...]:
    """What all marks of a layer share, the order of layers first."""
    place = _ORDER.index(type(mark))
    if isinstance(mark, Stroke):
        return place, mark.thickness, mark.dash
    if isinstance(mark, Dot):
        return place, mark.shape, mark.filled, mark.size
    if isinstance(mark, Word):
        return place, mark.align, mark.size, mark.bold
    return (place,)


def _layer(key: tuple[Any, ...], rows: list[dict[str, Any]], across: Any, down: Any) -> Any:
    import altair as alt

    def x(name: str) -> Any:
        return alt.X(f"{name}:Q", scale=across, axis=None)

    def y(name: str) -> Any:
        return alt.Y(f"{name}:Q", scale=down, axis=None)

    colour = alt.Color("colour:N", scale=None, legend=None)
    kind = _ORDER[key[0]]
    if kind is Word:
        _, align, size, bold = key
        return (
            alt.Chart({"values": rows})
            .mark_text(
                align=align,
                baseline="middle",
                fontSize=size,
                fontWeight="bold" if bold else "normal",
                color=INK,
            )
            .encode(x=x("x"), y=y("y"), text="text:N")
        )
    if kind is Dot:
        _, shape, filled, size = key
        return (
            alt.Chart({"values": rows})
            .mark_point(shape=shape, filled=filled, size=size, strokeWidth=1.8, opacity=1)
            .encode(x=x("x"), y=y("y"), color=colour)
        )
    if kind is Stroke:
        _, thickness, dash = key
        options: dict[str, Any] = {"strokeDash": [dash, dash]} if dash else {}
        return (
            alt.Chart({"values": rows})
            .mark_rule(strokeWidth=thickness, **options)
            .encode(x=x("left"), x2="right:Q", y=y("top"), y2="bottom:Q", color=colour)
        )
    opacity = alt.Opacity("opacity:Q", scale=None, legend=None)
    if kind is Box:
        return (
            alt.Chart({"values": rows})
            .mark_rect()
            .encode(
                x=x("left"),
                x2="right:Q",
                y=y("top"),
                y2="bottom:Q",
                color=colour,
                opacity=opacity,
            )
        )
    corners = [part for place, row in enumerate(rows) for part in _bent(place, row)]
    return (
        alt.Chart({"values": corners})
        .mark_area()
        .encode(
            x=x("x"),
            y=y("top"),
            y2="bottom:Q",
            detail="band:N",
            color=colour,
            opacity=opacity,
        )
    )


def _bent(place: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Corners of a band along a smooth step."""
    found = []
    for step in range(_STEPS + 1):
        part = step / _STEPS
        bend = part * part * (3 - 2 * part)
        top = row["left_top"] + bend * (row["right_top"] - row["left_top"])
        found.append(
            {
                "band": place,
                "x": round(row["left"] + part * (row["right"] - row["left"]), 2),
                "top": round(top, 2),
                "bottom": round(top + row["thickness"], 2),
                "colour": row["colour"],
                "opacity": row["opacity"],
            }
        )
    return found
