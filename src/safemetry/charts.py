"""Marks and scales that every chart shares."""

from __future__ import annotations

from typing import Any, Final

PALETTE: Final = ("#2f6f9f", "#c65b3c", "#5a8f4e", "#8a5fa8", "#b08a2e", "#4d4d4d")
"""Colours that stay apart for the common kinds of colour blindness."""

ROW_HEIGHT: Final = 18


def interval_chart(table: Any, *, label: str = "scope.target") -> Any:
    """Estimates as points with their intervals as lines, one row per claim.

    Parameters
    ----------
    table
        Arrow table with the columns ``metric, estimate, interval.low, interval.high`` and `label`.
    label
        Column that names the rows.

    Returns
    -------
    altair.Chart
        One panel per metric; claims without an estimate are left out.
    """
    import altair as alt

    columns = ("metric", "estimate", "interval.low", "interval.high", label)
    rows = [
        {name.replace(".", "_"): row.get(name) for name in columns}
        for row in table.to_pylist()
        if row.get("estimate") is not None
    ]
    name = label.replace(".", "_")
    base = alt.Chart({"values": rows}).encode(
        y=alt.Y(f"{name}:N", title=None),
        color=alt.Color("metric:N", legend=None, scale=alt.Scale(range=list(PALETTE))),
    )
    line = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("interval_low:Q", title="rate", scale=alt.Scale(domain=[0, 1])),
        x2="interval_high:Q",
    )
    point = base.mark_point(filled=True, size=40).encode(x="estimate:Q")
    return (
        alt.layer(line, point)
        .properties(height=alt.Step(ROW_HEIGHT))
        .facet(row=alt.Row("metric:N", title=None))
    )
