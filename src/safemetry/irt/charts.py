"""Charts of a calibration: item curves, information, abilities, and both on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from safemetry.charts import INK, PALETTE, ROW_HEIGHT, plainly
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.irt.information import information_curve
from safemetry.irt.parameters import FloatArray, ItemParameters, category_probabilities

_NAME_WIDTH: Final = 34
_CURVE_POINTS: Final = 81
_LEFT: Final = 60
_SPREAD: Final = 1.96
"""Standard errors on each side of an ability: a 95% interval."""
_MOST_CURVES: Final = 24


def item_curves(
    items: Sequence[str],
    parameters: ItemParameters,
    *,
    low: float = -4.0,
    high: float = 4.0,
    width: int = 640,
) -> Any:
    """Probability of each category against the ability, one small panel for each item.

    Parameters
    ----------
    items, parameters
        Names and parameters of at most 24 items in one dimension; an item with two categories
        shows the probability of a 1.
    low, high
        Range of abilities.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.ConcatChart

    Raises
    ------
    InputError
        For more items, or several dimensions.
    """
    import altair as alt

    _one_dimension(parameters)
    if not 0 < len(items) <= _MOST_CURVES:
        raise InputError(
            f"{len(items)} items do not fit one chart", fix=f"choose at most {_MOST_CURVES}"
        )
    theta = np.linspace(low, high, _CURVE_POINTS)
    chances = category_probabilities(parameters, theta[:, None])
    columns = min(4, len(items))
    side = width // columns - 46
    graded = bool((parameters.categories > 2).any())
    shades = PALETTE if graded else PALETTE[:1]
    colours = alt.Scale(
        domain=[str(code) for code in range(len(chances))],
        range=[shades[code % len(shades)] for code in range(len(chances))],
    )
    panels = []
    for place, name in enumerate(items):
        number = int(parameters.categories[place])
        codes = range(number) if number > 2 else range(1, 2)
        rows = [
            {"ability": float(at), "probability": float(chance), "response": str(code)}
            for code in codes
            for at, chance in zip(theta, chances[code, :, place], strict=True)
        ]
        panel = (
            alt.Chart({"values": rows}, title=shown(name, max(side // 7, 8)))
            .mark_line(strokeWidth=2)
            .encode(
                x=alt.X("ability:Q", title=None, axis=alt.Axis(tickCount=5)),
                y=alt.Y(
                    "probability:Q",
                    title=None,
                    scale=alt.Scale(domain=[0, 1]),
                    axis=alt.Axis(tickCount=3),
                ),
                color=alt.Color(
                    "response:N",
                    scale=colours,
                    legend=alt.Legend(orient="bottom") if graded else None,
                ),
            )
            .properties(width=side, height=max(side * 2 // 3, 60))
        )
        panels.append(panel)
    return plainly(alt.concat(*panels, columns=columns, spacing=14))


def information_chart(
    parameters: ItemParameters, *, low: float = -4.0, high: float = 4.0, width: int = 640
) -> Any:
    """Test information, with the standard error of an ability on a second axis.

    Parameters
    ----------
    parameters
        Of items in one dimension.
    low, high
        Range of abilities.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        The axis of the standard error ends at three times its least value or at 1, whichever is
        more: beyond, the items say nothing.
    """
    import altair as alt

    _one_dimension(parameters)
    curve = information_curve(parameters, low=low, high=high)
    if not len(curve.theta):
        raise InputError("the items tell nothing about these abilities")
    top = max(1.0, 3 * float(curve.standard_error.min()))
    rows = [
        {"ability": float(at), "information": float(known), "error": float(min(error, top))}
        for at, known, error in zip(
            curve.theta, curve.information, curve.standard_error, strict=True
        )
    ]
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("ability:Q", title="ability", scale=alt.Scale(domain=[low, high], nice=False))
    )
    known = base.mark_line(strokeWidth=2.5, color=PALETTE[0]).encode(
        y=alt.Y("information:Q", title="information", axis=alt.Axis(titleColor=PALETTE[0]))
    )
    error = base.mark_line(strokeWidth=2, strokeDash=[6, 4], color=PALETTE[1]).encode(
        y=alt.Y(
            "error:Q",
            title="standard error (dashed)",
            scale=alt.Scale(domain=[0, top]),
            axis=alt.Axis(titleColor=PALETTE[1], grid=False, orient="right"),
        )
    )
    chart = alt.layer(known, error).resolve_scale(y="independent")
    return plainly(chart.properties(width=width - 2 * _LEFT, height=260))


def ability_forest(
    targets: Sequence[str],
    abilities: FloatArray,
    errors: FloatArray,
    *,
    width: int = 640,
    axis: str = "ability",
) -> Any:
    """Abilities with their 95% intervals, the highest first.

    Parameters
    ----------
    targets, abilities, errors
        Names, abilities and standard errors in one dimension, shape ``(N,)``; a masked error is
        unknown, and its point stands without an interval.
    width
        Width of the whole chart in pixels.
    axis
        Title of the axis, such as the name of a dimension.

    Returns
    -------
    altair.LayerChart
        One row for each target.
    """
    import altair as alt

    order = np.argsort(-abilities, kind="stable")
    half = np.ma.filled(_SPREAD * np.ma.asarray(errors), 0.0)
    rows = [
        {
            "row": rank,
            "target": targets[place],
            "ability": float(abilities[place]),
            "low": float(abilities[place] - half[place]),
            "high": float(abilities[place] + half[place]),
        }
        for rank, place in enumerate(order)
    ]
    # Names may repeat once they are shortened, so rows are told apart by their rank.
    labels = [shown(targets[place], _NAME_WIDTH) for place in order]
    base = alt.Chart({"values": rows}).encode(
        y=alt.Y(
            "row:O",
            title=None,
            sort=None,
            axis=alt.Axis(
                labelExpr=f"{_quoted(labels)}[datum.value]",
                labelLimit=260,
                ticks=False,
                domain=False,
            ),
        )
    )
    ends = [*(row["low"] for row in rows), *(row["high"] for row in rows)]
    margin = 0.03 * (max(ends) - min(ends)) or 1.0
    scale = alt.Scale(domain=[min(ends) - margin, max(ends) + margin], nice=False)
    lines = base.mark_rule(strokeWidth=2, color=PALETTE[0]).encode(
        x=alt.X("low:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=max(3, width // 90))),
        x2="high:Q",
    )
    points = base.mark_point(filled=True, size=45, opacity=1, color=PALETTE[0]).encode(
        x=alt.X("ability:Q", scale=scale)
    )
    names = max((len(label) for label in labels), default=0)
    side = max(width - min(8 * names + 30, 290), 140)
    chart = alt.layer(lines, points).properties(width=side, height=alt.Step(ROW_HEIGHT))
    return plainly(chart)


def wright_map(
    abilities: FloatArray,
    parameters: ItemParameters,
    *,
    bins: int = 24,
    width: int = 640,
) -> Any:
    """Targets and items on one scale: who the items can tell apart (Wright & Stone 1979).

    Parameters
    ----------
    abilities
        In one dimension, shape ``(N,)``.
    parameters
        Of the items; each step of a graded item is counted at its own difficulty. Items that do
        not discriminate have no difficulty and are left out.
    bins
        Classes over the range of both.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Targets above the line, items below; difficulties further out than the widest ability by
        three units are counted in the outermost class.
    """
    import altair as alt

    _one_dimension(parameters)
    difficulties = parameters.difficulties[np.isfinite(parameters.difficulties)]
    low, high = float(abilities.min()) - 3, float(abilities.max()) + 3
    if difficulties.size:
        low = max(low, min(float(difficulties.min()), float(abilities.min())))
        high = min(high, max(float(difficulties.max()), float(abilities.max())))
    edges = np.linspace(low, high if high > low else low + 1, bins + 1)
    shares = [
        (kind, sign, np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0], len(values))
        for kind, sign, values in (("targets", 1, abilities), ("items", -1, difficulties))
    ]
    rows = [
        {
            "kind": kind,
            "start": float(edges[place]),
            "end": float(edges[place + 1]),
            "share": sign * float(number) / max(total, 1),
        }
        for kind, sign, counts, total in shares
        for place, number in enumerate(counts)
        if number
    ]
    base = alt.Chart({"values": rows})
    bars = base.mark_bar(stroke=None).encode(
        x=alt.X(
            "start:Q",
            title="ability of targets, difficulty of items",
            scale=alt.Scale(domain=[float(edges[0]), float(edges[-1])], nice=False),
        ),
        x2="end:Q",
        y=alt.Y(
            "share:Q",
            title="items below, targets above (share)",
            axis=alt.Axis(labelExpr="format(abs(datum.value), '.0%')", tickCount=6),
        ),
        y2=alt.Y2Datum(0),
        color=alt.Color(
            "kind:N",
            title=None,
            legend=alt.Legend(orient="top"),
            scale=alt.Scale(domain=["targets", "items"], range=list(PALETTE[:2])),
        ),
    )
    line = alt.Chart({"values": [{"zero": 0}]}).mark_rule(color=INK).encode(y="zero:Q")
    return plainly(alt.layer(bars, line).properties(width=width - _LEFT, height=260))


def _one_dimension(parameters: ItemParameters) -> None:
    if parameters.dimensions != 1:
        raise InputError(
            f"the chart shows one ability, and the items have {parameters.dimensions} dimensions",
            fix="choose the items of one dimension",
        )


def _quoted(labels: Sequence[str]) -> str:
    """Texts as an array of the chart's expression language."""
    import json

    return json.dumps(list(labels))
