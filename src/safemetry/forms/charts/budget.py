"""Chart of the error of recovered scores against the number of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE, fitted
from safemetry.display import shown
from safemetry.errors import InputError

RANDOM: Final = "random"
MOST_METHODS: Final = 6
_NARROW: Final = 480
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_DASHES: Final = ([1, 0], [6, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4])
_GREY: Final = PALETTE[5]


def budget_chart(
    rows: Sequence[Mapping[str, Any]],
    *,
    own: int | None = None,
    method: str | None = None,
    width: int = 640,
) -> Any:
    """Error of recovered scores on held-out targets against the number of items.

    Parameters
    ----------
    rows
        `items`, `method` and `rmse` (fraction of the score); with `random_band`, the 5th and 95th
        percentile of random forms, and `random_rmse`, their mean. Rows without an error are left
        out.
    own
        Length of the form in question; an upright line stands there.
    method
        The form's own method, which is drawn first and thicker.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A logarithmic axis of items, the band of random forms shaded, a line for each method (6 at
        most).

    Raises
    ------
    InputError
        Without an error to show.
    """
    import altair as alt

    known = [row for row in rows if row.get("rmse") is not None and row["items"] > 0]
    lines = [row for row in known if row["method"] != RANDOM]
    bands = _bands(known)
    if not known:
        raise InputError("no form was evaluated, so there is nothing to show")
    order = sorted(
        dict.fromkeys(str(row["method"]) for row in lines), key=lambda name: name != method
    )[:MOST_METHODS]
    words = {name: shown(name.replace("_", " "), 24) for name in order}
    points = [
        {
            "method": words[str(row["method"])],
            "items": int(row["items"]),
            "rmse": float(row["rmse"]),
            "own": row["method"] == method,
        }
        for row in lines
        if row["method"] in words
    ]
    values = sorted({int(row["items"]) for row in known})
    lowest, highest = values[0] / 1.15, values[-1] * 1.15
    top = 1.08 * max([row["rmse"] for row in points] + [row["high"] for row in bands])
    across = alt.X(
        "items:Q",
        title="items (log scale)",
        scale=alt.Scale(type="log", domain=[lowest, highest], nice=False),
        axis=alt.Axis(values=values, format=",d", grid=False, labelOverlap=True),
    )
    scale = alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(format="~%", tickCount=5)
    up = alt.Y("rmse:Q", title="error (root mean square)", scale=scale, axis=axis)
    layers = []
    if bands:
        ground = alt.Chart({"values": bands}).encode(x=across)
        layers += [
            ground.mark_area(opacity=0.2, color=_GREY).encode(
                y=alt.Y("low:Q", scale=scale), y2="high:Q"
            ),
            ground.mark_line(color=_GREY, strokeWidth=1.4, strokeDash=[3, 3]).encode(
                y=alt.Y("mean:Q", scale=scale)
            ),
        ]
    if own is not None and lowest < own < highest:
        layers += _own_mark(own, across, scale, top, right=own < (lowest * highest) ** 0.5)
    names = [words[name] for name in order]
    legend = alt.Legend(
        orient="bottom",
        direction="horizontal",
        columns=2 if width < _NARROW else 4,
        title=None,
        labelLimit=0,
        symbolSize=60,
    )
    base = alt.Chart({"values": points}).encode(
        x=across,
        y=up,
        color=alt.Color(
            "method:N",
            legend=legend,
            scale=alt.Scale(domain=names, range=[PALETTE[p % 6] for p in range(len(names))]),
        ),
    )
    dash = alt.StrokeDash(
        "method:N",
        legend=None,
        scale=alt.Scale(domain=names, range=[_DASHES[p] for p in range(len(names))]),
    )
    shape = alt.Shape(
        "method:N",
        legend=legend,
        scale=alt.Scale(domain=names, range=[_SHAPES[p] for p in range(len(names))]),
    )
    layers += [
        base.transform_filter(~alt.datum.own).mark_line(strokeWidth=1.5).encode(strokeDash=dash),
        base.transform_filter(alt.datum.own).mark_line(strokeWidth=3).encode(strokeDash=dash),
        base.mark_point(filled=True, size=56, opacity=1).encode(shape=shape),
    ]
    said = f"Error against items for {', '.join(names) or 'random forms'}."
    return fitted(alt.layer(*layers), width, 280).properties(description=said)


def _bands(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Random forms of each length: mean, 5th and 95th percentile."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        band, mean = row.get("random_band"), row.get("random_rmse")
        if band and mean is not None:
            found[int(row["items"])] = {
                "items": int(row["items"]),
                "mean": float(mean),
                "low": float(band[0]),
                "high": float(band[1]),
            }
    return [found[items] for items in sorted(found)]


def _own_mark(own: int, across: Any, scale: Any, top: float, *, right: bool) -> list[Any]:
    """An upright line at the form's own length, with a word on the side that has room."""
    import altair as alt

    base = alt.Chart({"values": [{"items": own, "top": top, "word": "this form"}]})
    return [
        base.mark_rule(color=INK, strokeDash=[5, 4]).encode(x=across),
        base.mark_text(
            align="left" if right else "right", dx=6 if right else -6, dy=8, color=INK
        ).encode(x=across, y=alt.Y("top:Q", scale=scale), text="word:N"),
    ]
