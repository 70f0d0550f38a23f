"""Marks and scales that every chart shares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

PALETTE: Final = ("#2f6f9f", "#c65b3c", "#5a8f4e", "#8a5fa8", "#b08a2e", "#4d4d4d")
"""Colours that stay apart for the common kinds of colour blindness."""

INK: Final = "#1c2430"
RULE: Final = "#d5dae1"
SURFACE: Final = "#ffffff"
"""Colours of text, of lines behind the marks, and of the ground; a page may put others in their
place."""

ROW_HEIGHT: Final = 18
LINE_HEIGHT: Final = 14
LETTER_WIDTH: Final = 6.6
"""Pixels that a name beside a point takes: upwards, and across for each letter."""
WIDER: Final = 1.1
"""Pixels for each letter that a page's font may be wider than the one that charts are laid out
with."""
_BESIDE: Final = 8
_POINT: Final = 5
_NAMING: Final = ("scope.benchmark", "scope.target", "scope.judge")


def interval_chart(claims: pa.Table) -> Any:
    """Estimates as points with their intervals as lines, one row per claim.

    Parameters
    ----------
    claims
        Claims as a table, as `RatesFinding.to_frame` makes it. Claims without an estimate are left
        out. A row is named by what tells it from the others: target, judge, benchmark, group.

    Returns
    -------
    altair.FacetChart
        One panel per metric, all on the scale from 0 to 1.
    """
    import altair as alt

    known = [row for row in claims.to_pylist() if row.get("estimate") is not None]
    names = _varying(known, [*_NAMING, *_groups(claims.column_names)])
    rows = [
        {
            "metric": row["metric"],
            "row": " · ".join(str(row[name]) for name in names),
            "estimate": row["estimate"],
            "low": row["interval.low"],
            "high": row["interval.high"],
        }
        for row in known
    ]
    base = alt.Chart({"values": rows}).encode(
        y=alt.Y("row:N", title=None, sort=None),
        color=alt.Color("metric:N", legend=None, scale=alt.Scale(range=list(PALETTE))),
    )
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="rate", scale=alt.Scale(domain=[0, 1])), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=40).encode(x="estimate:Q")
    panels = alt.layer(lines, points).properties(height=alt.Step(ROW_HEIGHT))
    return panels.facet(row=alt.Row("metric:N", title=None)).resolve_scale(y="independent")


def trade_off_chart(points: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """Safety against usefulness, one point per target.

    Parameters
    ----------
    points
        `target`, `safe_recall` and `help_rate` (fractions), `on_frontier` (filled points), and
        `labelled` (whether the name may stand beside the point).
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Both axes run from 0 to 1.
    """
    import altair as alt

    axis = alt.Axis(format="%", tickCount=5)
    whole = alt.Scale(domain=[0, 1])
    side = width - 60
    height = min(side, 380)
    base = alt.Chart({"values": _with_label_places(points, side, height)}).encode(
        x=alt.X("help_rate:Q", title="benign items answered", scale=whole, axis=axis),
        y=alt.Y(
            "safe_recall:Q", title="harmful items on which it held firm", scale=whole, axis=axis
        ),
    )
    names = base.transform_filter(alt.datum.label_side != "")
    marks = [
        base.transform_filter(alt.datum.on_frontier).mark_point(
            filled=True, size=70, opacity=1, color=PALETTE[0]
        ),
        base.transform_filter(~alt.datum.on_frontier).mark_point(
            size=60, opacity=1, strokeWidth=1.6, color=PALETTE[0]
        ),
        names.transform_filter(alt.datum.label_side == "left")
        .mark_text(align="right", dx=-_BESIDE)
        .encode(text="target:N", y="label_place:Q"),
        names.transform_filter(alt.datum.label_side == "right")
        .mark_text(align="left", dx=_BESIDE)
        .encode(text="target:N", y="label_place:Q"),
    ]
    return plainly(alt.layer(*marks).properties(width=side, height=height))


def _with_label_places(
    points: Sequence[Mapping[str, Any]], width: int, height: int
) -> list[dict[str, Any]]:
    """The points, each with a side and a height for its name at which it covers nothing.

    Names on the frontier choose first.
    """
    rows = [
        {**point, "label_side": "", "label_place": point["safe_recall"]}
        for point in sorted(points, key=lambda point: not point["on_frontier"])
    ]
    places = [(width * row["help_rate"], height * (1 - row["safe_recall"])) for row in rows]
    labels = {place: row["target"] for place, row in enumerate(rows) if row["labelled"]}
    for place, (side, middle) in label_places(places, labels, width, height).items():
        rows[place] |= {"label_side": side, "label_place": 1 - middle / height}
    return rows


def label_places(
    points: Sequence[tuple[float, float]],
    labels: Mapping[int, str],
    width: float,
    height: float,
    *,
    taken: Sequence[tuple[float, float, float, float]] = (),
    step: float = LINE_HEIGHT,
) -> dict[int, tuple[str, float]]:
    """Where names can stand beside their points without covering a point or another name.

    Parameters
    ----------
    points
        Pixels from the left and from the top.
    labels
        Place of a point -> its name; those that come first choose first.
    width, height
        Of the ground in pixels.
    taken
        Boxes (left, top, right, bottom) that must stay free too.
    step
        Pixels by which a name may stand below or above its point.

    Returns
    -------
    dict[int, tuple[str, float]]
        Place of a point -> side (``left`` or ``right``), and the middle of the name in pixels from
        the top. A name that would cover something everywhere is left out.
    """
    own = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    boxes = [*own, *taken]
    found: dict[int, tuple[str, float]] = {}
    for place, name in labels.items():
        x, y = points[place]
        long = LETTER_WIDTH * len(name)
        # The middle of the chart before its rim.
        sides = ("left", "right") if x > width / 2 else ("right", "left")
        for down, side in product((0.0, step, -step), sides):
            left = x - _BESIDE - long if side == "left" else x + _BESIDE
            middle = y + down
            box = (left, middle - LINE_HEIGHT / 2, left + long, middle + LINE_HEIGHT / 2)
            inside = box[0] >= 0 and box[2] <= width and -_BESIDE <= middle <= height - _BESIDE
            if inside and not any(_overlap(box, other) for other in boxes if other != own[place]):
                found[place] = side, middle
                boxes.append(box)
                break
    return found


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def plainly(chart: Any) -> Any:
    """A chart in the colours that every chart shares, on no ground of its own."""
    return (
        chart.configure(background="transparent", font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK,
            titleColor=INK,
            gridColor=RULE,
            domainColor=RULE,
            tickColor=RULE,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
        )
        .configure_legend(
            labelColor=INK,
            titleColor=INK,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            symbolOpacity=1,
            columnPadding=32,
        )
        .configure_title(color=INK)
        .configure_text(color=INK, fontSize=12)
    )


def named_rows(labels: Sequence[str | Sequence[str]], *, limit: int = 300) -> Any:
    """The vertical axis of rows that are numbered from 0, shown by their names, or their lines."""
    import altair as alt

    return alt.Y(
        "row:O",
        title=None,
        sort=None,
        axis=alt.Axis(
            labelExpr=f"{json.dumps(list(labels))}[datum.value]",
            labelLimit=limit,
            ticks=False,
            domain=False,
        ),
    )


def fitted(chart: Any, width: int, height: Any, *, letters: int = 0) -> Any:
    """A chart of one panel in the shared colours, axes and legends within its width.

    Parameters
    ----------
    chart
        Of one panel.
    width, height
        Of the whole chart and of the panel, in pixels.
    letters
        In the longest name on the left, which may be wider on a page than it is here.
    """
    import altair as alt

    return plainly(
        chart.properties(
            width=width,
            height=height,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            padding={"left": round(5 + WIDER * letters), "right": 8, "top": 5, "bottom": 5},
        )
    )


def _groups(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name.startswith("scope.by.")]


def _varying(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The columns that tell rows apart; the target always."""
    return [
        name for name in names if name == "scope.target" or len({row.get(name) for row in rows}) > 1
    ]
