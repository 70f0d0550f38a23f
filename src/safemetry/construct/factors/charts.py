"""Charts of the factors: loadings, and eigenvalues against those of random data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from safemetry.charts import INK, LETTER_WIDTH, PALETTE, ROW_HEIGHT, SURFACE, plainly
from safemetry.construct.factors.parallel import Kind
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.construct.factors.finding import FactorsFinding

_NAME_WIDTH: Final = 34
_CELL: Final = 64
_DIVERGING: Final = ["#c65b3c", "#f4f1ea", "#2f6f9f"]
_DARK: Final = 0.75
"""Loadings beyond this stand on a dark ground, in white."""


def loadings_chart(finding: FactorsFinding, factors: int | None = None) -> Any:
    """Turned loadings as a heat map, one row per benchmark and one column per factor.

    Parameters
    ----------
    finding
        What was found.
    factors
        Which solution; the suggested one by default.

    Returns
    -------
    altair.LayerChart
        Blue for positive, red for negative loadings, with their values.
    """
    import altair as alt

    solution = finding.suggested
    if factors is not None:
        solution = next(found for found in finding.solutions if found.factors == factors)
    names = [shown(name, _NAME_WIDTH) for name in solution.names]
    rows = [
        {"row": place, "factor": f"F{k + 1}", "loading": round(value, 4)}
        for place, values in enumerate(solution.rotated.loadings.tolist())
        for k, value in enumerate(values)
    ]
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("factor:O", title=None, axis=alt.Axis(orient="top", labelAngle=0, domain=False)),
        y=alt.Y(
            "row:O",
            title=None,
            axis=alt.Axis(
                labelExpr=f"{json.dumps(names)}[datum.value]",
                labelLimit=260,
                ticks=False,
                domain=False,
            ),
        ),
    )
    cells = base.mark_rect(stroke=None).encode(
        color=alt.Color(
            "loading:Q",
            title="loading",
            scale=alt.Scale(domain=[-1, 0, 1], range=_DIVERGING, clamp=True, interpolate="rgb"),
            legend=None,
        )
    )
    texts = base.mark_text(fontSize=12).encode(
        text=alt.Text("loading:Q", format=".2f"),
        color=alt.condition(f"abs(datum.loading) > {_DARK}", alt.value("#ffffff"), alt.value(INK)),
    )
    return plainly(
        alt.layer(cells, texts).properties(
            width=_CELL * solution.factors, height=alt.Step(ROW_HEIGHT + 4)
        )
    )


def correlation_chart(finding: FactorsFinding) -> Any:
    """Correlations of the benchmarks as a heat map.

    Returns
    -------
    altair.LayerChart
        Benchmarks in the order of their loadings on the first unrotated factor, so that those that
        go together stand together.
    """
    import altair as alt

    first = finding.solutions[0].extracted.loadings[:, 0]
    order = sorted(range(len(first)), key=lambda place: -first[place])
    names = [shown(finding.correlations.names[place], _NAME_WIDTH) for place in order]
    values = finding.correlations.values[order][:, order]
    rows = [
        {"row": row, "column": column, "correlation": round(float(values[row, column]), 4)}
        for row in range(len(order))
        for column in range(row + 1)
    ]
    labels = alt.Axis(
        labelExpr=f"{json.dumps(names)}[datum.value]", labelLimit=260, ticks=False, domain=False
    )
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("column:O", title=None, axis=labels.copy()),
        y=alt.Y("row:O", title=None, axis=labels),
    )
    cells = base.mark_rect(stroke=None).encode(
        color=alt.Color(
            "correlation:Q",
            scale=alt.Scale(domain=[-1, 0, 1], range=_DIVERGING, clamp=True, interpolate="rgb"),
            legend=None,
        )
    )
    texts = base.mark_text(fontSize=11).encode(
        text=alt.Text("correlation:Q", format=".2f"),
        color=alt.condition(
            f"abs(datum.correlation) > {_DARK}", alt.value("#ffffff"), alt.value(INK)
        ),
    )
    side = 44 * len(order)
    return plainly(alt.layer(cells, texts).properties(width=side, height=26 * len(order)))


def scree_chart(
    finding: FactorsFinding, kind: Kind | str | None = None, *, width: int = 640
) -> Any:
    """Eigenvalues, and what those of random data reach.

    Parameters
    ----------
    finding
        What was found.
    kind
        ``minres``, ``ml`` or ``pca``; by default the one that matches the extraction.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Points that stand out are filled.
    """
    import altair as alt

    found = finding.factor_parallel if kind is None else finding.parallel[Kind(kind)]
    rows = [
        {
            "number": place + 1,
            "eigenvalue": float(value),
            "random": float(limit),
            "kept": place < found.factors,
        }
        for place, (value, limit) in enumerate(zip(found.observed, found.threshold, strict=True))
    ]
    title = "eigenvalue" if found.kind is Kind.PCA else "eigenvalue of the reduced matrix"
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("number:O", title="number", axis=alt.Axis(labelAngle=0))
    )
    band = base.mark_line(strokeWidth=2, strokeDash=[6, 4], color=PALETTE[1]).encode(
        y=alt.Y("random:Q", title=f"{title} (dashed: random data)")
    )
    line = base.mark_line(strokeWidth=2, color=PALETTE[0]).encode(y="eigenvalue:Q")
    points = [
        base.transform_filter(alt.datum.kept).mark_point(
            filled=True, size=70, opacity=1, color=PALETTE[0]
        ),
        base.transform_filter(~alt.datum.kept).mark_point(
            filled=False, fill=SURFACE, size=60, opacity=1, color=PALETTE[0]
        ),
    ]
    points = [marks.encode(y="eigenvalue:Q") for marks in points]
    side = int(width - 10 * LETTER_WIDTH)
    return plainly(alt.layer(band, line, *points).properties(width=side, height=240))
