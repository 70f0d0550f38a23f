"""Chart of person fit: each statistic beside what fitting targets of the same ability reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import Box, Dot, Mark, Stroke, Word, key, picture, room

MOST_STATISTICS: Final = 16
_NULL: Final = PALETTE[5]
_FITS, _FLAGGED = PALETTE[0], PALETTE[1]
_TALL: Final = 58
_SMALL: Final = 11
_EDGE: Final = 14
_QUANTILES: Final = 7
_NAMES: Final = {
    "l_z": "l_z",
    "l_z_star": "l_z*",
    "guttman": "Guttman errors",
    "guttman_normed": "Guttman errors, normed",
    "u3": "U3",
    "h_t": "H^T",
    "cusum": "CUSUM",
}


def statistic_name(name: object) -> str:
    """A statistic as it is written in papers.

    >>> statistic_name("l_z_star"), statistic_name("infit")
    ('l_z*', 'infit')
    """
    return _NAMES.get(str(name)) or shown(name, 30)


def person_fit_chart(rows: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """The null of each statistic as a bar of quantiles, with the target's value marked.

    Parameters
    ----------
    rows
        `statistic`, `value`, `cutoff`, `side` (``low`` or ``high``: where misfit shows), `flagged`
        and `null_quantiles`, the values at 1, 5, 25, 50, 75, 95 and 99 percent. Rows without a
        value or quantiles are left out.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Each statistic has a scale of its own. A flagged value is a filled square and the word
        *flagged*, another one a circle.

    Raises
    ------
    InputError
        Where no statistic has a value.
    """
    known = [
        row
        for row in rows
        if row.get("value") is not None and len(row.get("null_quantiles") or ()) == _QUANTILES
    ][:MOST_STATISTICS]
    if not known:
        raise InputError("no statistic of person fit has a value, so there is nothing to show")
    marks: list[Mark] = []
    for place, row in enumerate(known):
        marks += _lane(row, place * _TALL, width)
    words = [(_NULL, "fitting targets: 50%, 90%, 98%"), (_FITS, "this target (circle)")]
    if any(row.get("flagged") for row in known):
        words.append((_FLAGGED, "flagged (square)"))
    words.append((INK, "cutoff (line)"))
    marks += key(words, len(known) * _TALL + 6, width)
    lowest = max(mark.y for mark in marks if isinstance(mark, Word))
    said = ", ".join(
        f"{statistic_name(row['statistic'])} {row['value']:.2f}"
        f"{' flagged' if row.get('flagged') else ''}"
        for row in known
    )
    return picture(marks, width, round(lowest + 12)).properties(
        description=f"Person fit beside its null: {said}."
    )


def _lane(row: Mapping[str, Any], top: float, width: float) -> Iterator[Mark]:
    """Name and value above, the bar of quantiles below."""
    quantiles = [float(value) for value in row["null_quantiles"]]
    value, cutoff = float(row["value"]), row.get("cutoff")
    flagged = bool(row.get("flagged"))
    ends = [*quantiles, value, *(() if cutoff is None else (float(cutoff),))]
    low, high = min(ends), max(ends)
    long = high - low or 1.0

    def x(at: float) -> float:
        return float(_EDGE + (width - 2 * _EDGE) * (at - low) / long)

    middle = top + 30
    yield Word(0, top + 10, statistic_name(row["statistic"]), bold=True)
    state = "flagged" if flagged else "within the null"
    yield Word(width, top + 10, f"{_number(value)}, {state}", "right", bold=flagged)
    for (first, last), opacity in (((0, 6), 0.16), ((1, 5), 0.22), ((2, 4), 0.34)):
        left, right = x(quantiles[first]), x(quantiles[last])
        yield Box(left, middle - 7, max(right, left + 1), middle + 7, _NULL, opacity)
    yield Stroke(x(quantiles[3]), middle - 7, x(quantiles[3]), middle + 7, _NULL, 1.6)
    if cutoff is not None:
        at = x(float(cutoff))
        yield Stroke(at, middle - 11, at, middle + 11, INK, 2.2)
    yield Dot(
        x(value), middle, _FLAGGED if flagged else _FITS, "square" if flagged else "circle", size=96
    )
    yield from _numbers(quantiles, cutoff, x, middle + 18, width)


def _numbers(
    quantiles: Sequence[float], cutoff: float | None, x: Any, y: float, width: float
) -> Iterator[Mark]:
    """The cutoff and the median below the bar, where they do not meet."""
    taken: list[tuple[float, float]] = []
    given = [] if cutoff is None else [(float(cutoff), f"cutoff {_number(float(cutoff))}")]
    for at, text in [*given, (quantiles[3], f"median {_number(quantiles[3])}")]:
        half = room(text, _SMALL) / 2
        place = min(max(x(at), half), width - half)
        if all(place + half < left or place - half > right for left, right in taken):
            taken.append((place - half, place + half))
            yield Word(place, y, text, "center", size=_SMALL)


def _number(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")
