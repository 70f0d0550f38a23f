"""Chart of the information of a form against the abilities that it is for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from safemetry.charts import PALETTE, fitted
from safemetry.errors import InputError

FORM: Final = "the form"
ALL: Final = "all items"
_DASHES: Final = ([1, 0], [7, 4])
_REACH: Final = 40
"""The axis ends where a curve has this part of the form's largest information."""


def information_chart(curve: Mapping[str, Any], *, width: int = 640) -> Any:
    """Information of the form and of all items over ability, with the density of targets.

    Parameters
    ----------
    curve
        `theta`, and for each the information of the `form` and of `all` items, and the `population`
        density (largest value 1).
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A logarithmic axis of information, so that a form of few items can be read beside all of
        them; the density is shaded, without an axis.

    Raises
    ------
    InputError
        Without information above 0.
    """
    lines = {name: curve.get(key) for name, key in ((FORM, "form"), (ALL, "all"))}
    return curves_chart(curve, {name: held for name, held in lines.items() if held}, width=width)


def curves_chart(
    curve: Mapping[str, Any], lines: Mapping[str, Sequence[float]], *, width: int
) -> Any:
    """Curves of information by name over the abilities of a `curve`, with its density."""
    import altair as alt

    theta = [float(value) for value in curve.get("theta") or ()]
    peak = max((max(values) for values in lines.values()), default=0.0)
    first = max(next(iter(lines.values()), [0.0]), default=0.0)
    if not theta or peak <= 0 or first <= 0:
        raise InputError("no item tells anything, so there is nothing to show")
    low, high = min(first, peak) / _REACH, 1.25 * peak
    rows = [row for name, values in lines.items() for row in _points(name, theta, values, low)]
    x = alt.X(
        "theta:Q",
        title="ability",
        scale=alt.Scale(domain=[theta[0], theta[-1]], nice=False),
        axis=alt.Axis(grid=False, tickCount=max(5, width // 90)),
    )
    names = list(lines)
    legend = alt.Legend(
        orient="bottom",
        direction="horizontal",
        title=None,
        labelLimit=0,
        columns=3,
        symbolType="stroke",
        symbolSize=420,
        symbolStrokeWidth=2.2,
    )
    colours = [PALETTE[place % 4] for place in range(len(names))]
    dashes = [_DASHES[place % 2] for place in range(len(names))]
    curves = (
        alt.Chart({"values": rows})
        .mark_line(strokeWidth=2.2)
        .encode(
            x=x,
            y=alt.Y(
                "information:Q",
                title="information (log scale)",
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(values=log_values(low, high), format="~g"),
            ),
            detail="piece:N",
            color=alt.Color(
                "series:N", legend=legend, scale=alt.Scale(domain=names, range=colours)
            ),
            strokeDash=alt.StrokeDash(
                "series:N", legend=legend, scale=alt.Scale(domain=names, range=dashes)
            ),
        )
    )
    layers = [curves]
    density = curve.get("population")
    if density:
        people = [
            {"theta": at, "density": float(value)} for at, value in zip(theta, density, strict=True)
        ]
        ground = (
            alt.Chart({"values": people})
            .mark_area(color=PALETTE[4], opacity=0.22)
            .encode(
                x=x,
                y=alt.Y("density:Q", axis=None, scale=alt.Scale(domain=[0, 1.15], nice=False)),
            )
        )
        layers.insert(0, ground)
    chart = alt.layer(*layers).resolve_scale(y="independent")
    return fitted(chart, width, 250).properties(
        description=f"Information over ability of {', '.join(names)}, with the density of targets."
    )


def log_values(low: float, high: float, most: int = 7) -> list[float]:
    """Round values of a logarithmic axis: 1, 2, 5, 10 ..., or powers of ten where these are many.

    >>> log_values(0.4, 30)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    >>> log_values(0.4, 5000)
    [1.0, 10.0, 100.0, 1000.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in ((1, 2, 5), (1,)):
        found = [float(f"{part}e{power}") for power in powers for part in parts]
        kept = [value for value in found if low <= value <= high]
        if len(kept) <= most:
            return kept
    return kept[:: -(-len(kept) // most)]


def _points(
    name: str, theta: Sequence[float], values: Sequence[float], low: float
) -> list[dict[str, Any]]:
    """A curve without what lies below the axis, each piece that is left with its number."""
    places = [place for place, value in enumerate(values) if value >= low]
    starts = [place for before, place in pairwise([-2, *places]) if place > before + 1]
    return [
        {
            "series": name,
            "piece": f"{name} {sum(start <= place for start in starts)}",
            "theta": theta[place],
            "information": float(values[place]),
        }
        for place in places
    ]
