"""Chart of the class counts of each judge, with the collapse rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import (
    FAINT,
    NARROW,
    Box,
    Dot,
    Mark,
    Stroke,
    Word,
    key,
    picture,
    room,
    short,
)
from safemetry.judges.collapse import CollapseState

MOST_JUDGES: Final = 30
_ROW: Final = 20
_HEAD: Final = 40
_BAR: Final = 6
_PANEL: Final = 74
"""Least width of the bars of a class, so that three stand side by side on a phone."""
_CANNOT: Final = "cannot emit"
_FINE, _BAD, _OPEN = PALETTE[0], PALETTE[1], PALETTE[5]


def counts_chart(
    rows: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    ordered: int | None = None,
    target: str | None = None,
    applicable: float = 0.1,
    collapsed: float = 1 / 3,
    width: int = 640,
) -> Any:
    """How often each judge gave each class over common responses, with the collapse rule.

    Parameters
    ----------
    rows
        `judge`, `class`, `target`, `count`, `n_common`, `max_count` and `state`.
    classes
        In their order, those outside it last.
    ordered
        How many are in the order; all by default.
    target
        Whose responses; None for all targets together.
    applicable, collapsed
        The thresholds of the rule.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A panel for each class, a bar for each judge, the most compliant judge on top. A panel is as
        wide as its leader's count, or as the count from which the rule applies where that is more;
        a dashed line stands at the count below which a judge is collapsed, a whole line at the
        count that the leader misses. At most 30 judges are shown, collapsed ones before others.

    Raises
    ------
    InputError
        Without a row.
    """
    chosen = [row for row in rows if row["target"] == target]
    if not chosen:
        raise InputError("there are no class counts, so there is nothing to show")
    cells = {(row["judge"], row["class"]): row for row in chosen}
    judges = _most_compliant_first(cells, classes[: ordered or len(classes)])
    narrow = width < NARROW
    labels = {judge: shown(judge, 15 if narrow else 26) for judge in judges}
    left = max(map(room, labels.values())) + 8
    side_by_side = max(1, min(len(classes), int((width - left) // (_PANEL if narrow else 112))))
    wide = (width - left) / side_by_side
    marks: list[Mark] = []
    tall = _HEAD + _ROW * len(judges) + 14
    for place, name in enumerate(classes):
        line, column = divmod(place, side_by_side)
        top = line * tall
        if not column:
            marks += [
                Word(left - 8, top + _HEAD + _ROW * (at + 0.5), labels[judge], "right")
                for at, judge in enumerate(judges)
            ]
        column_rows = [cells[judge, name] for judge in judges if (judge, name) in cells]
        corner = (left + column * wide, top)
        marks += _class_panel(name, column_rows, corner, wide, (applicable, collapsed))
    height = tall * -(-len(classes) // side_by_side)
    legend = [*_legend(chosen, height, width)]
    lowest = max((mark.y for mark in legend if isinstance(mark, Word)), default=height)
    return picture([*marks, *legend], width, round(lowest + 12))


def _most_compliant_first(
    cells: Mapping[tuple[str, str], Mapping[str, Any]], order: Sequence[str]
) -> list[str]:
    judges = list(dict.fromkeys(judge for judge, _ in cells))

    def said(judge: str) -> tuple[int, ...]:
        return tuple(
            -int(cells[judge, name]["count"]) if (judge, name) in cells else 0
            for name in reversed(order)
        )

    ranked = sorted(judges, key=lambda judge: (said(judge), judge))
    if len(ranked) <= MOST_JUDGES:
        return ranked
    bad = {judge for (judge, _), row in cells.items() if row["state"] == CollapseState.COLLAPSED}
    kept = set(sorted(ranked, key=lambda judge: judge not in bad)[:MOST_JUDGES])
    return [judge for judge in ranked if judge in kept]


def _class_panel(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    corner: tuple[float, float],
    wide: float,
    thresholds: tuple[float, float],
) -> Iterator[Mark]:
    """The bars of one class."""
    left, top = corner
    if not rows:
        return
    most, common = int(rows[0]["max_count"]), int(rows[0]["n_common"])
    needed, limit = thresholds[0] * common, thresholds[1] * most
    applies = any(row["state"] in (CollapseState.OK, CollapseState.COLLAPSED) for row in rows) or (
        most >= needed
    )
    digits = max(room(short(row["count"]), 11) for row in rows)
    long = wide - digits - 24
    scale = long / max(most, needed, 1)
    bottom = top + _HEAD + _ROW * len(rows)
    letters = int((wide - 8) / room("x"))
    yield Word(left, top + 8, shown(name, max(letters, 5)), bold=True)
    said = f"line at {limit:.0f}" if applies else f"under {needed:.0f}"
    yield Word(left, top + 24, said, size=11)
    edge = left + scale * (limit if applies else needed)
    dash = 3 if applies else 0
    yield Stroke(edge, top + _HEAD - 4, edge, top + _HEAD, INK, 1, dash)
    yield Stroke(left, top + _HEAD - 4, left, bottom)
    for place, row in enumerate(rows):
        middle = top + _HEAD + _ROW * (place + 0.5)
        state = row["state"]
        if state == CollapseState.CANNOT_EMIT:
            yield Word(left + 5, middle, _CANNOT, size=10)
            if edge > left + 3 + room(_CANNOT, 10):  # the line runs through no word
                yield Stroke(edge, middle - _ROW / 2, edge, middle + _ROW / 2, INK, 1, dash)
            continue
        yield Stroke(edge, middle - _ROW / 2, edge, middle + _ROW / 2, INK, 1, dash)
        end = left + scale * row["count"]
        colour = _BAD if state == CollapseState.COLLAPSED else _FINE
        fills = (_OPEN, FAINT) if state == CollapseState.NOT_APPLICABLE else (colour, 1.0)
        yield Box(left, middle - _BAR, max(end, left + 1), middle + _BAR, *fills)
        text = short(row["count"])
        at = end + 4
        mark = 16 if state == CollapseState.COLLAPSED else 0
        if at < edge + 2 and at + room(text, 11) + mark > edge - 2:  # nothing lies on the line
            at = edge + 4
        yield Word(at, middle, text, size=11, bold=state == CollapseState.COLLAPSED)
        if state == CollapseState.COLLAPSED:
            yield Dot(at + room(text, 11) + 8, middle, _BAD, "triangle-down", size=52)


def _legend(rows: Sequence[Mapping[str, Any]], top: float, width: int) -> Iterator[Mark]:
    states = {row["state"] for row in rows}
    words = [
        (colour, text)
        for state, colour, text in (
            (CollapseState.OK, _FINE, "uses the class"),
            (CollapseState.COLLAPSED, _BAD, "collapsed: left of the dashed line"),
            (CollapseState.NOT_APPLICABLE, _OPEN, "too rare for the rule"),
        )
        if state in states
    ]
    yield from key(words, top + 2, width)
