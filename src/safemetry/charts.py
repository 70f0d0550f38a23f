"""Marks and scales that every chart shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

PALETTE: Final = ("#2f6f9f", "#c65b3c", "#5a8f4e", "#8a5fa8", "#b08a2e", "#4d4d4d")
"""Colours that stay apart for the common kinds of colour blindness."""

ROW_HEIGHT: Final = 18
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


def _groups(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name.startswith("scope.by.")]


def _varying(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The columns that tell rows apart; the target always."""
    return [
        name for name in names if name == "scope.target" or len({row.get(name) for row in rows}) > 1
    ]
