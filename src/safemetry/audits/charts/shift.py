"""Chart of the difference of ability from history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import NARROW, Box, Dot, Mark, Stroke, Word, key, picture

_EDGE: Final = 18
_MIDDLE: Final = 30
_FLOOR: Final = 60
_MARGIN: Final = PALETTE[2]


def shift_chart(
    difference: float,
    interval: Sequence[float],
    *,
    margin: float | None = None,
    resolution: Sequence[float | None] = (),
    width: int = 640,
) -> Any:
    """Difference of ability with its interval, the margin shaded, the resolution marked.

    Parameters
    ----------
    difference, interval
        Now less before, and the two ends of its interval, in units of ability.
    margin
        Up to which a difference is too small to matter, on both sides.
    resolution
        Smallest fall and smallest rise that these items find with the stated power, both above 0;
        None where none is found.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        One row, on an axis with 0 in the middle.

    Raises
    ------
    InputError
        For an interval without two ends.
    """
    if len(interval) != 2:
        raise InputError("an interval has two ends")
    found = [
        sign * float(size)
        for sign, size in zip((-1, 1), resolution, strict=False)
        if size is not None
    ]
    given = [difference, *interval, *found, *(() if margin is None else (margin,))]
    reach = 1.1 * max(abs(float(value)) for value in given) or 1.0
    scale = (width - 2 * _EDGE) / (2 * reach)

    def x(at: float) -> float:
        return _EDGE + scale * (float(at) + reach)

    marks: list[Mark] = []
    words = [(PALETTE[0], "difference with its interval")]
    if margin is not None:
        marks.append(Box(x(-margin), 4, x(margin), _FLOOR, _MARGIN, 0.2))
        words.append((_MARGIN, "too small to matter (margin)"))
    marks.append(Stroke(x(0), 4, x(0), _FLOOR, INK, 1.2))
    if found:
        marks += [Stroke(x(at), 4, x(at), _FLOOR, PALETTE[1], 2, 5) for at in found]
        words.append((PALETTE[1], "smallest shift that is found (dashed)"))
    marks += [
        Stroke(x(interval[0]), _MIDDLE, x(interval[1]), _MIDDLE, PALETTE[0], 3.5),
        Dot(x(difference), _MIDDLE, PALETTE[0], "circle", size=110),
    ]
    steps = [part * 10.0**power for power in range(-4, 4) for part in (1, 2, 5)]
    most = 3 if width < NARROW else 4
    step = next((step for step in steps if reach / step <= most), reach)
    for place in range(-int(reach / step), int(reach / step) + 1):
        sign = "\N{MINUS SIGN}" if place < 0 else "+" if place else ""
        at = place * step
        marks.append(Stroke(x(at), _FLOOR, x(at), _FLOOR + 5))
        marks.append(Word(x(at), _FLOOR + 14, f"{sign}{abs(at):g}", "center"))
    marks.append(Word(width / 2, _FLOOR + 34, "difference of ability, now less before", "center"))
    marks += key(words, _FLOOR + 48, width)
    lowest = max(mark.y for mark in marks if isinstance(mark, Word))
    return picture(marks, width, round(lowest + 12)).properties(
        description=f"Difference {difference:.2f}, interval {interval[0]:.2f} to {interval[1]:.2f}."
    )
