"""Charts of item differences between groups: the volcano, and what the choices change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from safemetry.charts import (
    INK,
    LETTER_WIDTH,
    LINE_HEIGHT,
    PALETTE,
    RULE,
    fitted,
    label_places,
    named_rows,
    plainly,
)
from safemetry.display import shown
from safemetry.errors import InputError

MOST_LABELS: Final = 8
CLASS_EDGES: Final = (1.0, 1.5)
"""Effects on the delta scale from which an item is of class B and of class C (Zieky 1993)."""

_LEFT: Final = 56
_NARROW: Final = 480
_NULL_WIDTH: Final = 30
_STATES: Final = ("flagged", "beyond its own threshold only", "not flagged")
_SHAPES: Final = ("circle", "triangle-up", "square", "diamond")


def dif_volcano(
    items: Sequence[Mapping[str, Any]],
    threshold: float | None,
    *,
    item_threshold: float | None = None,
    statistic: str = "|statistic|",
    sides: tuple[str, str] | None = None,
    width: int = 640,
) -> Any:
    """Size of the difference of each item against the statistic that is tested.

    Parameters
    ----------
    items
        `item`, `effect` (delta scale) and `statistic`; `flagged` (beyond the family-wise
        threshold) and, where known, `item_flagged` (beyond the item's own). Items without a
        statistic are left out.
    threshold
        Family-wise threshold of the statistic; None where there is none.
    item_threshold
        Threshold of the statistic for one item chosen beforehand.
    statistic
        Title of the axis.
    sides
        What a negative and a positive effect mean, in a few words.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Of items that are not flagged and lie on each other one is drawn. Flagged items are filled
        squares; those of the 8 largest statistics for which there is room
        have their ids. Upright lines part the classes A, B and C of the effect.

    Raises
    ------
    InputError
        Where no item has a statistic.
    """
    import altair as alt

    rows: list[dict[str, Any]] = [
        {
            "item": str(item["item"]),
            "effect": float(item["effect"]),
            "size": abs(float(item["statistic"])),
            "state": _state(item),
        }
        for item in items
        if item.get("statistic") is not None and item.get("effect") is not None
    ]
    if not rows:
        raise InputError("no item has a statistic, so there is nothing to show")
    lines = {"family-wise": threshold, "one item": item_threshold}
    drawn = {name: float(value) for name, value in lines.items() if value is not None}
    across = 1.06 * max(CLASS_EDGES[1] + 0.3, *(abs(row["effect"]) for row in rows))
    up = 1.1 * max(*(row["size"] for row in rows), *drawn.values(), 1e-6)
    side, height = width - _LEFT, 320
    labels = _labels(rows, drawn, side, height, across, up)
    rows = _thinned(rows, 2 * across / side, up / height)
    title = "effect on the delta scale"
    x = alt.X(
        "effect:Q",
        title=[title, f"\N{LEFTWARDS ARROW} {sides[0]}  |  {sides[1]} \N{RIGHTWARDS ARROW}"]
        if sides
        else title,
        scale=alt.Scale(domain=[-across, across], nice=False),
        axis=alt.Axis(tickCount=max(4, width // 90), grid=False),
    )
    y = alt.Y(
        "size:Q",
        title=statistic,
        scale=alt.Scale(domain=[0, up], nice=False),
        axis=alt.Axis(tickCount=6, grid=False),
    )
    present = [state for state in _STATES if any(row["state"] == state for row in rows)]
    legend = alt.Legend(
        orient="top",
        direction="horizontal",
        columns=1 if width < _NARROW else 3,
        title=None,
        labelLimit=0,
        symbolSize=60,
    )
    look = {
        _STATES[0]: (PALETTE[1], "square"),
        _STATES[1]: (PALETTE[4], "diamond"),
        _STATES[2]: (PALETTE[0], "circle"),
    }
    base = alt.Chart({"values": rows}).encode(
        x=x,
        y=y,
        color=alt.Color(
            "state:N",
            legend=legend,
            scale=alt.Scale(domain=present, range=[look[state][0] for state in present]),
        ),
        shape=alt.Shape(
            "state:N",
            legend=legend,
            scale=alt.Scale(domain=present, range=[look[state][1] for state in present]),
        ),
    )
    classes = [{"effect": sign * edge} for edge in CLASS_EDGES for sign in (-1, 1)]
    layers = [
        alt.Chart({"values": classes}).mark_rule(color=RULE).encode(x=x),
        base.transform_filter(alt.datum.state != _STATES[0]).mark_point(
            size=26, opacity=0.75, strokeWidth=1.3
        ),
        base.transform_filter(alt.datum.state == _STATES[0]).mark_point(
            size=58, opacity=1, filled=True
        ),
    ]
    if drawn:
        layers += _thresholds(drawn, y, across)
    layers += _names(labels, x, y)
    return plainly(alt.layer(*layers).properties(width=side, height=height))


def sensitivity_strip(rows: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """How many items are flagged under each banding (rows) and null (marks).

    Parameters
    ----------
    rows
        `choice` (parts such as matching and banding, in words), `null` and `flags` (number of
        items).
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A line joins the least and the most of a row.

    Raises
    ------
    InputError
        Without a row.
    """
    import altair as alt

    if not rows:
        raise InputError("no item was tested, so there is nothing to show")
    choices = list(dict.fromkeys(tuple(row["choice"]) for row in rows))
    nulls = list(dict.fromkeys(shown(row["null"], _NULL_WIDTH) for row in rows))
    reach = 22 if width < _NARROW else 40
    labels = [
        wrap(" \N{MIDDLE DOT} ".join(shown(part) for part in choice) or "all items", reach)
        for choice in choices
    ]
    lines_of_text = max(map(len, labels))
    tall = LINE_HEIGHT * max(len(nulls), lines_of_text) + 12
    reach_of_marks = LINE_HEIGHT * len(nulls) / 2
    marks: list[dict[str, Any]] = [
        {
            "row": choices.index(tuple(row["choice"])),
            "null": shown(row["null"], _NULL_WIDTH),
            "flags": int(row["flags"]),
        }
        for row in rows
    ]
    spans: list[dict[str, Any]] = [
        {
            "row": place,
            "low": min(mark["flags"] for mark in marks if mark["row"] == place),
            "high": max(mark["flags"] for mark in marks if mark["row"] == place),
        }
        for place in range(len(choices))
    ]
    most = max(span["high"] for span in spans)
    step = max(1, round(most / 6))
    rank = named_rows(labels, limit=340)
    scale = alt.Scale(domain=[-0.04 * max(most, 1), 1.04 * max(most, 1)], nice=False)
    along = alt.X(
        "flags:Q",
        title="items flagged, family-wise",
        scale=scale,
        axis=alt.Axis(values=[*range(0, max(most, 1) + 1, step)], format="d"),
    )
    legend = alt.Legend(orient="top", direction="vertical", title=None, labelLimit=0, symbolSize=70)
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(nulls))]
    shapes = [_SHAPES[place % len(_SHAPES)] for place in range(len(nulls))]
    lines = (
        alt.Chart({"values": spans})
        .mark_rule(strokeWidth=3, color=RULE)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=rank)
    )
    dots = (
        alt.Chart({"values": marks})
        .mark_point(size=64, opacity=1, strokeWidth=2)
        .encode(
            x=along,
            y=rank,
            # Nulls that agree lie on one place, so each has a height of its own.
            yOffset=alt.YOffset(
                "null:N",
                scale=alt.Scale(
                    domain=nulls, range=[tall / 2 - reach_of_marks, tall / 2 + reach_of_marks]
                ),
                sort=None,
            ),
            color=alt.Color("null:N", legend=legend, scale=alt.Scale(domain=nulls, range=colours)),
            shape=alt.Shape("null:N", legend=legend, scale=alt.Scale(domain=nulls, range=shapes)),
        )
    )
    step_height = alt.Step(tall, **{"for": "position"})
    letters = max(len(line) for lines in labels for line in lines)
    return fitted(alt.layer(lines, dots), width, step_height, letters=letters)


def _state(item: Mapping[str, Any]) -> str:
    if item.get("flagged"):
        return _STATES[0]
    return _STATES[1] if item.get("item_flagged") else _STATES[2]


def _thinned(rows: Sequence[dict[str, Any]], effect: float, size: float) -> list[dict[str, Any]]:
    """The rows without items that are not flagged and lie on another one, within two pixels.

    A page with thousands of marks is slow, and no eye can tell these apart. `effect` and `size` are
    those of a pixel.
    """
    found: dict[Any, dict[str, Any]] = {}
    for place, row in enumerate(rows):
        spot = (round(row["effect"] / (2 * effect)), round(row["size"] / (2 * size)))
        found.setdefault(spot if row["state"] == _STATES[2] else place, row)
    return list(found.values())


def _thresholds(lines: Mapping[str, float], y: Any, across: float) -> list[Any]:
    """Level lines, each with its name at the left end."""
    import altair as alt

    rows = [
        {"size": value, "effect": -across, "name": _threshold_name(name, value), "place": place}
        for place, (name, value) in enumerate(lines.items())
    ]
    base = alt.Chart({"values": rows}).encode(y=y)
    whole, broken = (base.transform_filter(alt.datum.place == place) for place in (0, 1))
    return [
        whole.mark_rule(strokeWidth=1.6, color=INK),
        broken.mark_rule(strokeWidth=1.6, strokeDash=[5, 4], color=INK),
        base.mark_text(align="left", dx=4, dy=-7).encode(x="effect:Q", text="name:N"),
    ]


def _threshold_name(name: str, value: float) -> str:
    return f"{name} {value:.2f}"


def _labels(
    rows: Sequence[Mapping[str, Any]],
    lines: Mapping[str, float],
    side: int,
    height: int,
    across: float,
    up: float,
) -> list[dict[str, Any]]:
    """Names of the flagged items with the largest statistics that cover nothing."""
    places = [
        (side * (row["effect"] + across) / (2 * across), height * (1 - row["size"] / up))
        for row in rows
    ]
    flagged = [place for place, row in enumerate(rows) if row["state"] == _STATES[0]]
    flagged.sort(key=lambda place: (-rows[place]["size"], rows[place]["item"]))
    reach = 18 if side < _NARROW else 28
    labels = {place: shown(rows[place]["item"], reach) for place in flagged[:MOST_LABELS]}
    taken = []
    for name, value in lines.items():
        level = height * (1 - value / up)
        long = LETTER_WIDTH * len(_threshold_name(name, value)) + 4
        taken += [(0, level - 1, side, level + 1), (0, level - LINE_HEIGHT, long, level)]
    found = label_places(places, labels, side, height, taken=taken, step=LINE_HEIGHT / 2)
    return [
        {
            "effect": rows[place]["effect"],
            "size": up * (1 - middle / height),
            "text": labels[place],
            "side": at,
        }
        for place, (at, middle) in found.items()
    ]


def _names(labels: Sequence[Mapping[str, Any]], x: Any, y: Any) -> list[Any]:
    import altair as alt

    base = alt.Chart({"values": list(labels)}).encode(x=x, y=y, text="text:N")
    return [
        base.transform_filter(alt.datum.side == "left").mark_text(align="right", dx=-8),
        base.transform_filter(alt.datum.side == "right").mark_text(align="left", dx=8),
    ]
