"""Chart of a specification curve: sorted rates, and the choices behind each of them."""

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
    percents,
    picture,
    room,
    ticks,
)

MOST_POINTS: Final = 120
MOST_CHOICES: Final = 20
_OTHERS: Final = "other judges"
_FACTORS: Final = ("judge", "boundary", "missing", "calls")
_WORDS: Final = {
    "judge": "judge",
    "boundary": "success rule",
    "missing": "missing verdicts",
    "calls": "calls",
}
_HIGH: Final = 150
_ROW: Final = 14
_SMALL: Final = 11


def specification_chart(
    specifications: Sequence[Mapping[str, Any]],
    shares: Mapping[str, float] | None = None,
    *,
    width: int = 640,
) -> Any:
    """The rate under every combination of choices, the lowest first, and the choices below it.

    Parameters
    ----------
    specifications
        `judge`, `boundary`, `missing`, `calls` and `rate`; those without a rate are left out.
    shares
        Choice -> its share of the variance of the rates, and ``interactions``.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        At most 120 points (60 on a phone), evenly by rank with both ends. A mark below a point says
        which choice it has; choices that never vary are left out, and judges beyond 20 share a row.

    Raises
    ------
    InputError
        Where no combination has a rate.
    """
    known = sorted(
        (row for row in specifications if row["rate"] is not None), key=lambda row: row["rate"]
    )
    if not known:
        raise InputError("no combination of choices has a rate, so there is nothing to show")
    narrow = width < NARROW
    points = _thinned(known, MOST_POINTS // 2 if narrow else MOST_POINTS)
    rows = [*_choices(points, known, shares or {})]
    letters = 15 if narrow else 26
    names = [shown(name, letters) for _, name, _ in rows]
    left = max([room(name, _SMALL) for name in names] + [room("100%") + 6]) + 8
    step = (width - left - 6) / len(points)
    xs = [left + step * (place + 0.5) for place in range(len(points))]
    high = max(float(points[-1]["rate"]), 0.01)
    values = ticks(high, 5)
    marks: list[Mark] = []
    for value, text in zip(values, percents(values), strict=True):
        y = 8 + _HIGH * (1 - value / high)
        marks += [Stroke(left, y, width, y), Word(left - 6, y, text, "right")]
    marks += [
        Dot(x, 8 + _HIGH * (1 - float(row["rate"]) / high), PALETTE[0], size=22 if narrow else 30)
        for x, row in zip(xs, points, strict=True)
    ]
    y = 8.0 + _HIGH + 16
    for (title, _, held), name in zip(rows, names, strict=True):
        if title:
            y += 6
            marks.append(Word(0, y + 6, shown(title, int(width / room("x"))), bold=True))
            y += 22
        marks.append(Word(left - 6, y, name, "right", size=_SMALL))
        marks.append(Stroke(left, y, width, y))
        half = max(step * 0.36, 0.7)
        marks += [
            Box(x - half, y - 5, x + half, y + 5, INK)
            for x, has in zip(xs, held, strict=True)
            if has
        ]
        y += _ROW
    if shares and "interactions" in shares:
        y += 10
        said = f"interactions: {100 * shares['interactions']:.0f}% of the variance"
        marks.append(Word(0, y, shown(said, int(width / room("x")))))
        y += _ROW
    return picture(marks, width, round(y + 4))


def _thinned(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """So many rows, evenly by rank, with the first and the last."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def _choices(
    points: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
    shares: Mapping[str, float],
) -> Iterator[tuple[str, str, list[bool]]]:
    """Heading (of the first row of a factor), name of the choice, and which points have it."""
    for factor in _FACTORS:
        means = _by_mean(factor, known)
        if len(means) < 2:
            continue
        share = f": {100 * shares[factor]:.0f}% of the variance" if factor in shares else ""
        title = f"{_WORDS[factor]}{share}"
        for name in means[:MOST_CHOICES]:
            yield title, name, [row[factor] == name for row in points]
            title = ""
        rest = set(means[MOST_CHOICES:])
        if rest:
            yield "", f"{len(rest)} {_OTHERS}", [row[factor] in rest for row in points]


def _by_mean(factor: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The choices, that with the highest mean rate first."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(str(row[factor]), []).append(float(row["rate"]))
    return sorted(found, key=lambda name: (-sum(found[name]) / len(found[name]), name))
