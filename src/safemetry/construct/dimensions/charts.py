"""Chart of the correlations between dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from safemetry.charts import INK, LETTER_WIDTH, PALETTE, RULE, WIDER, named_rows, plainly
from safemetry.display import shown
from safemetry.errors import InputError

_NARROW: Final = 480
STRONGEST: Final = 0.5
"""Opacity of a cell whose correlation is 1 or -1; above, its number would be hard to read."""
FEW: Final = 6
"""Dimensions whose names fit beside their numbers on a phone."""


def factor_correlation_map(
    dimensions: Sequence[str], matrix: Sequence[Sequence[float]], *, width: int = 640
) -> Any:
    """Correlations of the dimensions as a heat map, each number in its cell.

    Parameters
    ----------
    dimensions
        Names of the K dimensions.
    matrix
        Their correlations, shape ``(K, K)``, in [-1, 1].
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        Rows have number and name (on a phone the number alone where there are many), columns the
        number; the lower triangle is shown. Stronger
        correlations are darker, and negative ones have another colour and a sign.

    Raises
    ------
    InputError
        For a matrix of another size than the names.
    """
    import altair as alt

    size = len(dimensions)
    if [len(row) for row in matrix] != [size] * size:
        raise InputError(f"the correlations of {size} dimensions are {size} rows of {size}")
    narrow = width < _NARROW
    names = [shown(name, 16 if narrow else 34) for name in dimensions]
    labels = [
        str(place) if name == str(place) or (narrow and size > FEW) else f"{place}  {name}"
        for place, name in enumerate(names, start=1)
    ]
    letters = max(map(len, labels), default=0)
    taken = round((LETTER_WIDTH + WIDER) * letters) + 16
    side = int(min(64, max((width - taken) // size, 20)))
    digits = 3 if side >= 44 else 2
    cells = [
        {
            "row": row,
            "column": column + 1,
            "strength": STRONGEST * min(1.0, abs(float(matrix[row][column]))),
            "sign": "negative" if matrix[row][column] < 0 else "positive",
            "text": _correlation(float(matrix[row][column]), digits),
        }
        for row in range(size)
        for column in range(row + 1)
    ]
    base = alt.Chart({"values": cells}).encode(
        x=alt.X(
            "column:O",
            title=None,
            axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
        ),
        y=named_rows(labels),
    )
    # Opacity alone, so that a page may put its own colours in place of these.
    ground = base.mark_rect(stroke=RULE, strokeWidth=1).encode(
        fill=alt.Fill(
            "sign:N",
            legend=None,
            scale=alt.Scale(domain=["positive", "negative"], range=list(PALETTE[:2])),
        ),
        fillOpacity=alt.FillOpacity("strength:Q", legend=None, scale=None),
    )
    numbers = base.mark_text(fontSize=12 if side >= 32 else 9, color=INK).encode(text="text:N")
    high = min(side, 40)
    return plainly(
        alt.layer(ground, numbers).properties(
            width=side * size,
            height=high * size,
            padding={"left": round(5 + WIDER * letters), "right": 5, "top": 5, "bottom": 5},
        )
    )


def _correlation(value: float, digits: int) -> str:
    """A correlation as tables print it: no zero before the point.

    >>> _correlation(0.451, 3), _correlation(-0.031, 2), _correlation(1.0, 2)
    ('.451', '\N{MINUS SIGN}.03', '1')
    """
    rounded = round(abs(value), digits)
    text = "1" if rounded >= 1 else f"{rounded:.{digits}f}"[1:]
    return ("\N{MINUS SIGN}" if value < 0 and rounded > 0 else "") + text
