"""Chart of parallel forms: whether their information is equal where the targets are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.forms.charts.information import curves_chart

MOST_FORMS: Final = 6


def parallel_chart(
    curve: Mapping[str, Any], forms: Sequence[Sequence[float]], *, width: int = 640
) -> Any:
    """Information of parallel forms over ability, with the density of targets.

    Parameters
    ----------
    curve
        `theta`, and the `population` density over it.
    forms
        Information of each form at the same abilities.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        One line for each form; the first 6 are drawn.

    Raises
    ------
    InputError
        Under two forms.
    """
    if len(forms) < 2:
        raise InputError("parallel forms are two or more")
    names = [f"form {place}" for place in range(1, len(forms) + 1)][:MOST_FORMS]
    return curves_chart(curve, dict(zip(names, forms, strict=False)), width=width)
