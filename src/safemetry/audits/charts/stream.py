"""Chart of a sequential check of drift: the evidence after each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from safemetry.charts import INK, PALETTE, fitted
from safemetry.errors import InputError
from safemetry.forms.charts.information import log_values

MOST_POINTS: Final = 400
_FLOOR: Final = 1e-6


def stream_chart(
    e_values: Sequence[float],
    threshold: float,
    *,
    stopped_at: int | None = None,
    same: Sequence[float] = (),
    width: int = 640,
) -> Any:
    """E-values after each answer on a logarithmic axis, with the threshold of an alarm.

    Parameters
    ----------
    e_values
        Evidence against no change, 1 for none; values under 1e-6 are drawn there.
    threshold
        ``1 / alpha``, at which the alarm is raised.
    stopped_at
        Answers after which a limit was reached, by either line.
    same
        Evidence against a change of the margin or more, where that is watched too; a dashed line.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Of longer streams 400 places are drawn, the highest among them.

    Raises
    ------
    InputError
        Without an e-value.
    """
    import altair as alt

    if not e_values:
        raise InputError("there is no e-value, so there is nothing to show")
    rows = [
        {"answers": place + 1, "evidence": max(float(e_values[place]), _FLOOR)}
        for place in _places(e_values, stopped_at)
    ]
    others = [
        {"answers": place + 1, "evidence": max(float(same[place]), _FLOOR)}
        for place in (_places(same, stopped_at) if same else ())
    ]
    levels = [row["evidence"] for row in (*rows, *others)]
    low, high = min(*levels, 0.5) / 1.5, max(*levels, threshold) * 2.2
    x = alt.X(
        "answers:Q",
        title="answers",
        scale=alt.Scale(domain=[0, 1.02 * max(len(e_values), 1)], nice=False),
        axis=alt.Axis(format=",d", tickCount=max(4, width // 100), grid=False),
    )
    y = alt.Y(
        "evidence:Q",
        title="e-value (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_values(low, high), format="~g"),
    )
    base = alt.Chart({"values": rows}).encode(x=x, y=y)
    limit = [{"answers": 0, "evidence": float(threshold), "word": f"limit {threshold:g}"}]
    lines = alt.Chart({"values": limit}).encode(y=y)
    layers = [
        lines.mark_rule(strokeDash=[5, 4], strokeWidth=1.6, color=PALETTE[1]),
        lines.mark_text(align="left", dx=6, dy=-9, color=INK).encode(x=x, text="word:N"),
        base.mark_line(strokeWidth=2, color=PALETTE[0]),
    ]
    if others:
        second = alt.Chart({"values": others}).encode(x=x, y=y)
        layers.append(second.mark_line(strokeWidth=2, strokeDash=[6, 3], color=PALETTE[2]))
    if stopped_at is not None and 1 <= stopped_at <= len(e_values):
        end = [row for row in (*rows, *others) if row["answers"] == stopped_at]
        end = sorted(end, key=lambda row: row["evidence"])[-1:]
        layers.append(
            alt.Chart({"values": end})
            .mark_point(filled=True, size=110, opacity=1, shape="square", color=PALETTE[1])
            .encode(x=x, y=y)
        )
    return fitted(alt.layer(*layers), width, 230).properties(
        description=f"E-values over {len(e_values):,} answers, threshold {threshold:g}."
    )


def _places(values: Sequence[float], stopped_at: int | None) -> list[int]:
    """Places that are drawn: all, or an even choice with the highest, the last and the stop."""
    count = len(values)
    if count <= MOST_POINTS:
        return list(range(count))
    chosen = {round(place * (count - 1) / (MOST_POINTS - 3)) for place in range(MOST_POINTS - 2)}
    chosen.add(max(range(count), key=lambda place: values[place]))
    if stopped_at is not None and 1 <= stopped_at <= count:
        chosen.add(stopped_at - 1)
    return sorted(chosen)
