"""Interval of a difference of abilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.audits.shift.comparison import Comparison
from safemetry.rates.intervals import normal_quantile

if TYPE_CHECKING:
    from safemetry.irt.parameters import FloatArray

_TURNS: Final = 3


def shift_interval(
    comparison: Comparison, level: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval of the difference: those that neither one-sided test rejects at half the level.

    The tests are simulated as the others are, at the most likely abilities with that difference.
    An end is found by turns: where the observed root meets the quantile of simulated ones, and the
    quantile there, from the normal quantile on.

    Parameters
    ----------
    comparison
        Both sides.
    level
        One minus the confidence.
    rng
        Source of randomness.
    """
    differences, observed = comparison.profile()
    limit = normal_quantile(1 - level / 2)
    ends = []
    for side in (1, -1):  # the root falls as the difference rises: the low end first
        quantile = side * limit
        for _ in range(_TURNS):
            end = _crossing(differences, observed, quantile)
            roots = np.sort(comparison.under(round(end / comparison.spacing), rng).roots)
            outer = max(int(np.floor(level / 2 * (len(roots) + 1))), 1)
            quantile = float(roots[-outer] if side > 0 else roots[outer - 1])
        ends.append(_crossing(differences, observed, quantile))
    return ends[0], ends[1]


def _crossing(differences: FloatArray, roots: FloatArray, limit: float) -> float:
    """Where falling roots pass a limit; an end of the lattice where they do not."""
    falling = np.minimum.accumulate(roots)
    return float(np.interp(-limit, -falling, differences))
