"""Chart of the agreement of targets, with those that agree side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from safemetry.charts import PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray
from safemetry.judges.charts.drawing import (
    FONT,
    LETTER,
    NARROW,
    Box,
    Mark,
    Stroke,
    Word,
    picture,
    room,
)

STRONGEST: Final = 0.5
"""Opacity of the cell of most agreement; above, its number would be hard to read."""
MOST_TARGETS: Final = 24
MOST_ON_A_PHONE: Final = 14
_LARGEST: Final = 46
_HEAD: Final = 18


def agreement_chart(
    names: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    target: str | None = None,
    width: int = 640,
) -> Any:
    """Agreement of each two targets as a heat map, groups side by side.

    Parameters
    ----------
    names
        Of K targets.
    values
        Their agreement on informative items, K x K in [0, 1]; None on the diagonal and where two
        have no item in common.
    target
        One of them, which is bold; where there are too many, those that agree with it most are
        shown.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        The lower triangle in hundredths; rows have number and name, columns the number. Targets are
        ordered by average linkage. At most 24 are shown, 14 on a phone.

    Raises
    ------
    InputError
        Under two targets, or for a matrix of another size.
    """
    size = len(names)
    if size < 2 or [len(row) for row in values] != [size] * size:
        raise InputError("agreement is a square of two or more targets")
    known = np.array(
        [[np.nan if value is None else float(value) for value in row] for row in values]
    )
    known = np.where(np.isnan(known), known.T, known)
    narrow = width < NARROW
    kept = _nearest(names, known, target, MOST_ON_A_PHONE if narrow else MOST_TARGETS)
    order = [kept[place] for place in leaf_order(known[np.ix_(kept, kept)])]
    count = len(order)
    labels = [
        f"{place}  {shown(names[at], 14 if narrow else 28)}"
        for place, at in enumerate(order, start=1)
    ]
    left = max(map(room, labels)) + 8
    side = min(float(_LARGEST), (width - left - 4) / count)
    size_of_text = FONT if side >= 26 else 10 if side >= 2 * LETTER else 8
    inside = known[np.ix_(order, order)][np.tril_indices(count, -1)]
    finite = inside[np.isfinite(inside)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    marks: list[Mark] = []
    for row, at in enumerate(order):
        y = _HEAD + side * row
        marks.append(Word(left - 6, y + side / 2, labels[row], "right", bold=names[at] == target))
        if row + 1 < count:
            number = str(row + 1)
            marks.append(Word(left + side * (row + 0.5), 8, number, "center", size=size_of_text))
        for column, other in enumerate(order[:row]):
            value, x = float(known[at, other]), left + side * column
            if np.isnan(value):
                marks.append(Stroke(x + 4, y + side - 4, x + side - 4, y + 4))
                continue
            depth = 0.04 + (STRONGEST - 0.04) * (value - low) / ((high - low) or 1.0)
            marks.append(Box(x + 1, y + 1, x + side - 1, y + side - 1, PALETTE[0], depth))
            text = f"{100 * value:.0f}"
            # Three digits take more room than a small cell has.
            small = 8 if room(text, size_of_text) > side else size_of_text
            marks.append(Word(x + side / 2, y + side / 2, text, "center", small))
    lowest = _HEAD + side * count + 4
    if count < size:
        marks.append(Word(0, lowest + 10, f"{size - count:,} more targets are not drawn"))
        lowest += 22
    return picture(marks, width, round(lowest)).properties(
        description=f"Agreement of {count} targets from {low:.0%} to {high:.0%}."
    )


def leaf_order(agreement: FloatArray) -> list[int]:
    """Order of targets in which those that agree stand together.

    Average linkage of the disagreement, with branches turned so that neighbours agree most
    (Bar-Joseph, Gifford & Jaakkola 2001). Unknown agreement counts as the mean.

    Parameters
    ----------
    agreement
        Shape ``(K, K)``; NaN where unknown.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    count = len(agreement)
    if count < 3:
        return list(range(count))
    apart = 1 - agreement[np.triu_indices(count, 1)]
    known = apart[np.isfinite(apart)]
    apart = np.where(np.isfinite(apart), apart, known.mean() if known.size else 0.5)
    found: list[int] = leaves_list(linkage(apart, "average", optimal_ordering=True)).tolist()
    return found


def _nearest(names: Sequence[str], known: FloatArray, target: str | None, most: int) -> list[int]:
    """Places of the targets that are shown."""
    if target is None or target not in names:
        return list(range(min(most, len(names))))
    own = list(names).index(target)
    close = np.where(np.isnan(known[own]), -1.0, known[own])
    close[own] = 2.0
    return sorted(int(place) for place in np.argsort(-close, kind="stable")[:most])
