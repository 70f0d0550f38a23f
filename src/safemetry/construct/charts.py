"""Charts of the number of dimensions: eigenvalues, held-out loss, and the null of the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from safemetry.charts import INK, PALETTE, fitted, named_rows
from safemetry.display import shown
from safemetry.errors import InputError

ONE_DIMENSION: Final = "one dimension"
EXPLORED: Final = "explored dimensions"
GIVEN: Final = "given structure"
_KINDS: Final = (ONE_DIMENSION, EXPLORED, GIVEN)
_SHAPES: Final = ("circle", "triangle-up", "square")
_OBSERVED: Final = "observed"
_DASHES: Final = ([1, 0], [6, 3], [2, 3], [9, 3, 2, 3])
_NARROW: Final = 480
"""Charts under this width in pixels are drawn for a phone: fewer components, shorter names."""
_LOG_FROM: Final = 8
_BAR: Final = 4
_BARS: Final = 15
_WORD: Final = 100
_ROW: Final = 22


def scree_chart(
    observed: Sequence[float],
    nulls: Mapping[str, Sequence[float]],
    *,
    width: int = 640,
) -> Any:
    """Eigenvalues in falling order, with what data of known structure reach (Cattell 1966).

    Parameters
    ----------
    observed
        Eigenvalues, the largest first; those that are not positive are left out.
    nulls
        What the data were simulated from -> a percentile of each eigenvalue, the largest first.
        The ground below the first of them is shaded: noise reaches so far.
    width
        Width of the whole chart in pixels; a narrow one shows 12 eigenvalues, a wide one 20.

    Returns
    -------
    altair.LayerChart
        With a logarithmic axis where the largest is 8 times the least or more, so that all can be
        read.

    Raises
    ------
    InputError
        Without a positive eigenvalue.
    """
    import altair as alt

    most = 12 if width < _NARROW else 20
    lines = {_OBSERVED: observed, **{shown(name): values for name, values in nulls.items()}}
    rows: list[dict[str, Any]] = [
        {"series": name, "component": place, "eigenvalue": float(value)}
        for name, values in lines.items()
        for place, value in enumerate(values[:most], start=1)
        if value > 0
    ]
    if not any(row["series"] == _OBSERVED for row in rows):
        raise InputError("no eigenvalue is above 0, so there is nothing to show")
    levels = [row["eigenvalue"] for row in rows]
    low, high = min(levels) / 1.15, max(levels) * 1.15
    steep = high / low > _LOG_FROM
    last = max(row["component"] for row in rows)
    across = alt.X(
        "component:Q",
        title="component",
        scale=alt.Scale(domain=[0.7, last + 0.3], nice=False),
        axis=alt.Axis(values=[*range(1, last + 1)], format="d", grid=False),
    )
    up = alt.Y(
        "eigenvalue:Q",
        title="eigenvalue (log scale)" if steep else "eigenvalue",
        scale=alt.Scale(type="log" if steep else "linear", domain=[low, high], nice=False),
        axis=alt.Axis(values=_round_values(low, high)) if steep else alt.Axis(),
    )
    base = alt.Chart({"values": rows}).encode(x=across, y=up)
    legend = alt.Legend(
        orient="bottom",
        direction="horizontal",
        columns=1 if width < _NARROW else 2,
        title=None,
        labelLimit=0,
        symbolType="stroke",
        symbolSize=420,
        symbolStrokeWidth=2.2,
    )
    names = list(lines)
    curves = base.mark_line(strokeWidth=2.2).encode(
        color=alt.Color(
            "series:N", legend=legend, scale=alt.Scale(domain=names, range=_cycle(PALETTE, names))
        ),
        strokeDash=alt.StrokeDash(
            "series:N", legend=legend, scale=alt.Scale(domain=names, range=_cycle(_DASHES, names))
        ),
    )
    dots = base.transform_filter(alt.datum.series == _OBSERVED).mark_point(
        filled=True, size=46, opacity=1, color=PALETTE[0]
    )
    layers = [curves, dots]
    if nulls:
        noise = base.transform_filter(alt.datum.series == names[1])
        layers.insert(0, noise.mark_area(opacity=0.14, color=PALETTE[1]).encode(y2=alt.datum(low)))
    return fitted(alt.layer(*layers), width, 280)


def log_loss_chart(models: Sequence[Mapping[str, Any]], *, width: int = 640) -> Any:
    """Held-out log loss of each model: a dot for each split, a line at the mean.

    Parameters
    ----------
    models
        `name`, `dims`, `kind` (one of `ONE_DIMENSION`, `EXPLORED`, `GIVEN`), `mean` and `splits`
        (nats for each response; less is better), and `ranked`: False for a failed fit, which is
        never the best.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        One row for each model: one dimension, explored, given structures, each by its number of
        dimensions; a dashed line runs through the best one, which is named.
    """
    import altair as alt

    order = sorted(
        models, key=lambda model: (_KINDS.index(model["kind"]), model["dims"], model["name"])
    )
    if not order:
        raise InputError("no model was fitted, so there is nothing to show")
    ranked = [model for model in order if model.get("ranked", True)]
    best = min(ranked, key=lambda model: (model["mean"], model["dims"]), default=None)
    reach = 20 if width < _NARROW else 44
    labels = [shown(model["name"], reach) + _standing(model, best) for model in order]
    means = [
        {"row": row, "kind": model["kind"], "loss": float(model["mean"])}
        for row, model in enumerate(order)
    ]
    splits = [
        {"row": row, "kind": model["kind"], "loss": float(loss)}
        for row, model in enumerate(order)
        for loss in model["splits"]
    ]
    low, high = _stretched([row["loss"] for row in (*means, *splits)])
    present = [kind for kind in _KINDS if any(row["kind"] == kind for row in means)]
    rank = named_rows(labels)
    along = alt.X(
        "loss:Q",
        title="held-out log loss",
        scale=alt.Scale(domain=[low, high], nice=False, zero=False),
        axis=alt.Axis(tickCount=max(3, width // 120)),
    )
    legend = alt.Legend(orient="top", direction="vertical", title=None, labelLimit=0, symbolSize=70)
    colour = alt.Color(
        "kind:N",
        legend=legend,
        scale=alt.Scale(domain=present, range=_of_kinds(PALETTE, present)),
    )
    shape = alt.Shape(
        "kind:N", legend=legend, scale=alt.Scale(domain=present, range=_of_kinds(_SHAPES, present))
    )
    at_best = [] if best is None else [{"loss": float(best["mean"])}]
    line = alt.Chart({"values": at_best}).mark_rule(strokeDash=[4, 4], color=INK).encode(x=along)
    dots = (
        alt.Chart({"values": splits})
        .mark_point(size=42, opacity=1, strokeWidth=1.5)
        .encode(x=along, y=rank, color=colour, shape=shape)
    )
    bars = (
        alt.Chart({"values": means})
        .mark_tick(thickness=3, size=15)
        .encode(x=along, y=rank, color=alt.Color("kind:N", legend=legend))
    )
    return fitted(alt.layer(line, bars, dots), width, alt.Step(_ROW), letters=max(map(len, labels)))


def gain_chart(
    gains: Sequence[float],
    observed: float,
    *,
    threshold: float | None = None,
    interval: tuple[float, float] | None = None,
    width: int = 640,
) -> Any:
    """The gain of several dimensions, against the same gain in data sets that have one.

    Parameters
    ----------
    gains
        In data sets simulated from the fitted one-dimensional model, nats for each response.
    observed
        In the data.
    threshold
        Percentile of `gains` that the verdict compares with.
    interval
        Of the observed gain, (low, high).
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A histogram of the null, a dashed line at the threshold, a point with its interval at the
        observed gain.
    """
    import altair as alt

    given = [*gains, observed, *(interval or ()), *(() if threshold is None else (threshold,))]
    low, high = _stretched(given)
    side = width - 60
    # About 15 bars, none too thin to be seen where the observed gain is far away.
    wide = max((max(gains) - min(gains)) / _BARS, (high - low) * _BAR / side)
    edges = np.arange(low, high + wide, wide)
    counts = np.histogram(np.asarray(gains, dtype=np.float64), edges)[0]
    bars = [
        {"start": float(edges[place]), "end": float(edges[place + 1]), "sets": int(number)}
        for place, number in enumerate(counts)
        if number
    ]
    top = float(max(counts.max(initial=0), 1))
    along = alt.X(
        "start:Q",
        title="gain in held-out log loss",
        scale=alt.Scale(domain=[low, high], nice=False, zero=False),
        axis=alt.Axis(tickCount=max(3, width // 120), grid=False),
    )
    # The marks of the data stand above the bars, where they cover nothing.
    up = alt.Scale(domain=[0, 1.45 * top], nice=False)
    whole = sorted({max(1, round(top / 2)), round(top)})
    layers = [
        alt.Chart({"values": bars})
        .mark_bar(color=PALETTE[1], opacity=0.75)
        .encode(
            x=along,
            x2="end:Q",
            y=alt.Y(
                "sets:Q", title="simulated data sets", scale=up, axis=alt.Axis(values=[0, *whole])
            ),
            y2=alt.datum(0),
        )
    ]
    beside = observed if threshold is None else threshold
    room = _WORD * (high - low) / side

    def goes_right(value: float, other: float) -> bool:
        """Whether a word stands right of its line: away from the other line if there is room."""
        return value + room < high if value >= other else value - room < low

    if threshold is not None:
        right = goes_right(threshold, observed)
        layers.append(_mark_at(threshold, INK, strokeDash=[4, 4]))
        # Without the word where the line of the data would run through it.
        if right == (threshold >= observed) or abs(threshold - observed) > room:
            layers.append(_word_at(threshold, 1.08 * top, "95th percentile", up, right=right))
    low_end, high_end = interval or (observed, observed)
    seen = {"start": float(low_end), "end": float(high_end), "level": 1.25 * top}
    layers += [
        _mark_at(observed, PALETTE[0], strokeWidth=2),
        alt.Chart({"values": [seen]})
        .mark_rule(strokeWidth=5, color=PALETTE[0])
        .encode(x="start:Q", x2="end:Q", y=alt.Y("level:Q", scale=up)),
        alt.Chart({"values": [seen | {"start": float(observed)}]})
        .mark_point(filled=True, size=110, opacity=1, color=PALETTE[0])
        .encode(x="start:Q", y=alt.Y("level:Q", scale=up)),
        _word_at(
            observed,
            1.37 * top,
            "observed",
            up,
            right=goes_right(observed, beside),
            weight="bold",
        ),
    ]
    return fitted(alt.layer(*layers), width, 210)


def _standing(model: Mapping[str, Any], best: Mapping[str, Any] | None) -> str:
    if not model.get("ranked", True):
        return " (failed)"
    return " (best)" if model is best else ""


def _mark_at(value: float, colour: str, **options: Any) -> Any:
    """An upright line."""
    import altair as alt

    rows = [{"start": float(value)}]
    return alt.Chart({"values": rows}).mark_rule(color=colour, **options).encode(x="start:Q")


def _word_at(
    value: float, level: float, word: str, scale: Any, *, right: bool, weight: Any = "normal"
) -> Any:
    """A word beside an upright line."""
    import altair as alt

    rows = [{"start": float(value), "level": level, "word": word}]
    return (
        alt.Chart({"values": rows})
        .mark_text(align="left" if right else "right", dx=6 if right else -6, fontWeight=weight)
        .encode(x="start:Q", y=alt.Y("level:Q", scale=scale), text="word:N")
    )


def _stretched(values: Sequence[float]) -> tuple[float, float]:
    """The range of values with a margin, never empty."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or max(0.05 * abs(high), 1e-3)
    return float(low - margin), float(high + margin)


def _round_values(low: float, high: float) -> list[float]:
    """Values 1, 2, 5, 10 ... within a range of more than a factor of eight."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def _cycle(choices: Sequence[Any], names: Sequence[str]) -> list[Any]:
    return [choices[place % len(choices)] for place in range(len(names))]


def _of_kinds(choices: Sequence[Any], kinds: Sequence[str]) -> list[Any]:
    return [choices[_KINDS.index(kind)] for kind in kinds]
