"""Chart of adaptive sessions: the ability with its error after each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, LETTER_WIDTH, PALETTE, plainly
from safemetry.display import shown
from safemetry.errors import InputError

MOST_PANELS: Final = 12
MOST_LINES: Final = 120
"""Sessions drawn as thin lines; more would only be a blot."""
_MOST_POINTS: Final = 60
_NARROW: Final = 480
_AXIS: Final = 34
_LEFT: Final = _AXIS + 4
"""Pixels of an axis with its ticks."""
_GAP: Final = 14
_RIM: Final = 16
_ERRORS: Final = 1.96
_CURVE: Final = PALETTE[0]


def traces_chart(
    sessions: Sequence[Mapping[str, Any]],
    *,
    cut: float | None = None,
    most: int = MOST_PANELS,
    width: int = 640,
) -> Any:
    """Ability against the number of items: all sessions thin, some in a panel with their error.

    Parameters
    ----------
    sessions
        `target`, `theta` and `se` after each item (of several dimensions the first is drawn; an
        unknown error has no band), and `decision`, where there is a cut. Sessions without an item
        are left out.
    cut
        Ability that sessions decide about; a dashed line.
    most
        Sessions with a panel of their own: from the lowest to the highest last ability, evenly
        spread.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.VConcatChart
        Up to 120 sessions as thin lines, and below them the panels; a band is 1.96 errors on each
        side.

    Raises
    ------
    InputError
        Where no session has an item.
    """
    import altair as alt

    known = sorted(
        (session for session in sessions if session.get("theta")),
        key=lambda session: (_first(session["theta"][-1]), str(session["target"])),
    )
    if not known:
        raise InputError("no session has an item, so there is nothing to show")
    across = 2 if width < _NARROW else 4
    panels = _spread(known, max(1, most))
    lines = [_points(session) for session in _spread(known, MOST_LINES)]
    drawn = [_points(session) for session in panels]
    ends = [row["theta"] for rows in (*lines, *drawn) for row in rows]
    # The last errors, as those of the first items would flatten everything else.
    ends += [rows[-1][name] for rows in drawn for name in ("low", "high")]
    ends += () if cut is None else (float(cut),)
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.5
    scale = alt.Scale(domain=[low - margin, high + margin], nice=False)
    longest = max(row["items"] for rows in (*lines, *drawn) for row in rows)
    for row in (row for rows in drawn for row in rows):
        # A page has no clipping, so a band must end where its panel does.
        row["low"], row["high"] = max(row["low"], low - margin), min(row["high"], high + margin)
    along = alt.Scale(domain=[0, 1.02 * longest], nice=False)
    small = (width - _RIM - across * _LEFT - (across - 1) * _GAP) / across
    whole = _panel(lines, width - _RIM - _LEFT, 170, (along, scale), cut, "ability")
    parts = [
        _panel([rows], small, 84, (along, scale), cut, "").properties(
            title=alt.TitleParams(
                shown(session["target"], max(6, int(small / LETTER_WIDTH))),
                fontSize=11,
                fontWeight="bold",
                anchor="start",
                offset=3,
            )
        )
        for session, rows in zip(panels, drawn, strict=True)
    ]
    grid = [
        alt.hconcat(*parts[start : start + across], spacing=_GAP)
        for start in range(0, len(parts), across)
    ]
    chart = plainly(alt.vconcat(whole, *grid, spacing=10))
    return chart.properties(
        padding={"left": 2, "right": 8, "top": 5, "bottom": 5},
        description=f"Ability against items in {len(known):,} sessions, {len(panels)} with error.",
    )


def _panel(
    lines: Sequence[Sequence[Mapping[str, float]]],
    width: float,
    height: int,
    scales: tuple[Any, Any],
    cut: float | None,
    title: str,
) -> Any:
    """One session with its band, or many as thin lines."""
    import altair as alt

    single = not title
    rows = [dict(row) | {"session": place} for place, of in enumerate(lines) for row in of]
    x = alt.X(
        "items:Q",
        title=None if single else "items",
        scale=scales[0],
        axis=alt.Axis(tickCount=3 if single else 6, format="d", grid=False),
    )
    up = alt.Axis(minExtent=_AXIS, maxExtent=_AXIS, tickCount=3 if single else 5)
    y = alt.Y("theta:Q", title=None, scale=scales[1], axis=up)
    base = alt.Chart({"values": rows}).encode(x=x, y=y)
    layers = []
    if single:
        band = base.transform_filter(alt.datum.known)
        layers.append(
            band.mark_area(opacity=0.22, color=_CURVE).encode(
                y=alt.Y("low:Q", title=None, scale=scales[1], axis=up), y2="high:Q"
            )
        )
    if cut is not None:
        rule = alt.Chart({"values": [{"theta": float(cut)}]})
        layers.append(rule.mark_rule(strokeDash=[5, 4], color=INK).encode(y=y))
    look: dict[str, Any] = {"strokeWidth": 2.0} if single else {"strokeWidth": 0.8, "opacity": 0.55}
    layers.append(base.mark_line(color=_CURVE, **look).encode(detail="session:N"))
    if single and len(rows) == 1:
        layers.append(base.mark_point(filled=True, size=30, opacity=1, color=_CURVE))
    chart = alt.layer(*layers).properties(width=width, height=height)
    if single:
        return chart
    heading = alt.TitleParams(
        "ability after each item" + ("" if cut is None else ", cut dashed"),
        fontSize=12,
        fontWeight="normal",
        anchor="start",
        offset=3,
    )
    return chart.properties(title=heading)


def _points(session: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Some of the steps of a session, always the first and the last."""
    theta = [_first(value) for value in session["theta"]]
    errors = [_error(value) for value in session.get("se") or [None] * len(theta)]
    count = len(theta)
    kept = (
        range(count)
        if count <= _MOST_POINTS
        else sorted({round(p * (count - 1) / (_MOST_POINTS - 1)) for p in range(_MOST_POINTS)})
    )
    found = []
    for place in kept:
        error = errors[place]
        wide = 0.0 if error is None else _ERRORS * error
        found.append(
            {
                "items": place + 1,
                "theta": round(theta[place], 4),
                "low": round(theta[place] - wide, 4),
                "high": round(theta[place] + wide, 4),
                "known": error is not None,
            }
        )
    return found


def _first(value: Any) -> float:
    """An ability, or its first dimension."""
    return float(value[0] if isinstance(value, Sequence) else value)


def _error(value: Any) -> float | None:
    first = value[0] if isinstance(value, Sequence) and value else value
    return None if first is None else float(first)


def _spread(rows: Sequence[Any], most: int) -> list[Any]:
    """Rows from first to last, evenly spread."""
    if len(rows) <= most:
        return list(rows)
    if most == 1:
        return [rows[len(rows) // 2]]
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]
