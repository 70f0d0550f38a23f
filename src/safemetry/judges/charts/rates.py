"""Charts of rates on one scale: the spread between judges, and rates corrected by labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import (
    NARROW,
    Dot,
    Mark,
    Stroke,
    Word,
    key,
    percents,
    picture,
    room,
    ticks,
)

MOST_STRIPS: Final = 8
MOST_BLOCKS: Final = 6
MOST_ROWS: Final = 8
_Line = tuple[str, list[Mapping[str, Any]]]
_KEPT, _LEFT_OUT = PALETTE[0], PALETTE[1]
_METHODS: Final = {
    "labels": ("labels alone", PALETTE[5], "square"),
    "ppi++": ("prediction-powered", PALETTE[0], "circle"),
    "rogan_gladen": ("Rogan-Gladen", PALETTE[3], "triangle-up"),
}
_OTHER: Final = ("another method", PALETTE[4], "diamond")
_APART: Final = 9
_SMALL: Final = 11
_EDGE: Final = 22
_LINE: Final = 10


def spread_chart(rows: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """The rate that each judge gives the same responses, a strip for each boundary and intent.

    Parameters
    ----------
    rows
        `boundary`, `intent` (or None), `responses`, `rates` (judge -> fraction), `max_judge`,
        `min_judge` and `without_collapsed` with `left_out`.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Collapsed judges are squares without filling, the others dots; rates that lie on each other
        are stacked. The lowest and the highest are named. At most 8 strips are shown.

    Raises
    ------
    InputError
        Without a rate.
    """
    strips = [row for row in rows if row["rates"]][:MOST_STRIPS]
    if not strips:
        raise InputError("no judge has a rate, so there is nothing to show")
    high = max(*(rate for row in strips for rate in row["rates"].values()), 0.01)
    scale = (width - 2 * _EDGE) / high
    values = ticks(high, max(3, width // 110))
    marks: list[Mark] = []
    y = 0.0
    for row in strips:
        stacks = _stacked_dots(row, scale)
        tall = _APART * max(level for _, _, level, _ in stacks)
        floor = y + 44 + tall
        n = int(row["responses"])
        where = f"{row['boundary']}, {row['intent']} items" if row["intent"] else row["boundary"]
        title = shown(f"{where} ({n:,} responses)", int(width / room("x")))
        marks += [
            Word(0, y + 10, title, bold=True),
            Stroke(_EDGE, floor + 8, width - _EDGE, floor + 8),
        ]
        marks += [
            Stroke(_EDGE + scale * value, y + 36, _EDGE + scale * value, floor + 12)
            for value in values
        ]
        for _, rate, level, left_out in stacks:
            at = floor - _APART * level
            colour, shape = (_LEFT_OUT, "square") if left_out else (_KEPT, "circle")
            marks.append(Dot(_EDGE + scale * rate, at, colour, shape, filled=not left_out, size=44))
        marks += _named(row, scale, y + 28, width)
        y = floor + 24
    floor = y - 14
    marks += [
        Word(_EDGE + scale * value, floor + 14, text, "center")
        for value, text in zip(values, percents(values), strict=True)
    ]
    marks.append(Word(width / 2, floor + 32, "rate under the judge", "center"))
    words = [(_KEPT, "a judge")]
    if any(left_out for row in strips for *_, left_out in _stacked_dots(row, scale)):
        words.append((_LEFT_OUT, "a collapsed judge (empty square)"))
    marks += key(words, floor + 46, width)
    lowest = max(mark.y for mark in marks if isinstance(mark, Word))
    return picture(marks, width, round(lowest + 12))


def corrected_chart(rows: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """Rates as judges give them, and corrected by labels with their intervals.

    Parameters
    ----------
    rows
        `judge`, `boundary`, `intent`, `method`, `naive`, `estimate` and `interval`; those without
        an interval are left out.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A block for each boundary and intent (6 at most): the labels alone, of the judge for which
        there are most, then a row for each of the 8 judges that are corrected most. An upright
        line is the judge's own rate.

    Raises
    ------
    InputError
        Without an interval.
    """
    blocks = _blocks([row for row in rows if row.get("interval")])
    if not blocks:
        raise InputError("no rate could be corrected, so there is nothing to show")
    shown_rows = [row for _, lines in blocks for _, held in lines for row in held]
    letters = 15 if width < NARROW else 26
    left = max(room(shown(name, letters)) for _, lines in blocks for name, _ in lines) + 10
    ends = [float(row["interval"][1]) for row in shown_rows]
    ends += [float(row["naive"]) for row in shown_rows if row.get("naive") is not None]
    high = min(1.0, 1.03 * max(*ends, 0.01))
    scale = (width - left - _EDGE) / high
    present = [name for name in _METHODS if any(_method(row) == name for row in shown_rows)]
    marks: list[Mark] = []
    y = 0.0
    for title, lines in blocks:
        marks.append(Word(0, y + 10, shown(title, int(width / room("x"))), bold=True))
        y += 22
        for name, held in lines:
            tall = _LINE * len(held) + 8
            marks.append(Word(left - 10, y + tall / 2, shown(name, letters), "right"))
            marks.append(Stroke(left, y + tall, width, y + tall))
            marks += _corrections(held, (left, y), scale)
            y += tall
        y += 8
    values = ticks(high, max(3, int(width - left) // 80))
    marks += [
        Word(left + scale * value, y + 8, text, "center")
        for value, text in zip(values, percents(values), strict=True)
    ]
    words = [(_METHODS[name][1], _METHODS[name][0]) for name in present]
    marks += key([*words, (INK, "the judge's own rate (line)")], y + 22, width)
    lowest = max(mark.y for mark in marks if isinstance(mark, Word))
    return picture(marks, width, round(lowest + 12))


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[_Line]]]:
    """Titles with their lines: the labels alone first, then the judges."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((str(row["boundary"]), str(row["intent"] or "")), []).append(row)
    found = []
    for (boundary, intent), held in [*groups.items()][:MOST_BLOCKS]:
        alone = [row for row in held if _method(row) == "labels"]
        lines: list[_Line] = []
        if alone:
            most = max(alone, key=lambda row: (int(row["labels"]), str(row["judge"])))
            lines.append((_METHODS["labels"][0], [{**most, "naive": None}]))
        by_judge: dict[str, list[Mapping[str, Any]]] = {}
        for row in held:
            if _method(row) != "labels":
                by_judge.setdefault(str(row["judge"]), []).append(row)
        lines += sorted(by_judge.items(), key=lambda line: -_corrected_by(line[1]))[:MOST_ROWS]
        found.append((f"{boundary}, {intent} items" if intent else boundary, lines))
    return found


def _corrected_by(rows: Sequence[Mapping[str, Any]]) -> float:
    """How far a judge's rate is from what it is corrected to."""
    naive = rows[0].get("naive")
    return 0.0 if naive is None else max(abs(row["estimate"] - naive) for row in rows)


def _corrections(
    rows: Sequence[Mapping[str, Any]], corner: tuple[float, float], scale: float
) -> Iterator[Mark]:
    """The intervals of one line, one below the other."""
    left, top = corner
    naive = rows[0].get("naive")
    if naive is not None:
        at = left + scale * float(naive)
        yield Stroke(at, top + 2, at, top + _LINE * len(rows) + 6, INK, 2.2)
    for place, row in enumerate(rows):
        _, colour, shape = _METHODS.get(_method(row), _OTHER)
        y = top + 4 + _LINE * (place + 0.5)
        low, high = (left + scale * float(end) for end in row["interval"])
        yield Stroke(low, y, high, y, colour, 2.4)
        yield Dot(left + scale * float(row["estimate"]), y, colour, shape, size=40)


def _method(row: Mapping[str, Any]) -> str:
    return str(row["method"]).partition("/")[0]


def _stacked_dots(row: Mapping[str, Any], scale: float) -> list[tuple[str, float, int, bool]]:
    """Judge, rate, height in a stack, and whether the judge is collapsed; lowest rates first."""
    collapsed = set((row.get("without_collapsed") or {}).get("left_out") or ())
    ends: list[float] = []
    found = []
    for judge, rate in sorted(row["rates"].items(), key=lambda pair: (pair[1], pair[0])):
        x = scale * float(rate)
        level = next((at for at, end in enumerate(ends) if x - end >= _APART), len(ends))
        if level == len(ends):
            ends.append(x)
        ends[level] = x
        found.append((judge, float(rate), level, judge in collapsed))
    return found


def _named(row: Mapping[str, Any], scale: float, y: float, width: float) -> Iterator[Mark]:
    """Names of the judges at both ends, above the dots."""
    rates = row["rates"]
    low, high = row.get("min_judge"), row.get("max_judge")
    if low is None or high is None or low == high:
        return
    letters = int((width / 2 - 16) / room("x", _SMALL))
    texts = [
        shown(f"{judge} {100 * rates[judge]:.1f}%", letters) if judge in rates else ""
        for judge in (low, high)
    ]
    long = [room(text, _SMALL) for text in texts]
    left = max(0.0, min(_EDGE + scale * rates[low] - 8, width - sum(long) - 16))
    right = min(width, max(_EDGE + scale * rates[high] + 8, left + sum(long) + 16))
    yield Word(left, y, texts[0], size=_SMALL)
    yield Word(right, y, texts[1], "right", size=_SMALL)
