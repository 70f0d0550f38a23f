"""Thresholds and p values from statistics of simulated matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError

if TYPE_CHECKING:
    from safemetry.irt.parameters import FloatArray, IntArray


@dataclass(frozen=True)
class Threshold:
    """The value that a statistic exceeds with a probability of at most alpha if the null holds.

    Parameters
    ----------
    value
        The threshold; a statistic above it is flagged.
    simulations
        How many simulated statistics it comes from.
    low, high
        95% interval of the threshold as a quantile, from the order statistics around it.
    """

    value: float
    simulations: int
    low: float
    high: float


def family_threshold(maxima: FloatArray, alpha: float = 0.05) -> Threshold:
    """Threshold for the largest statistic over items.

    The k-th smallest of S simulated maxima with k = ceil((1 - alpha)(S + 1)): a further maximum
    from the null exceeds it with a probability of at most alpha, whatever S (Dufour 2006,
    proposition 2.2). Item statistics above it are flagged with that family-wise error rate, under
    any dependence between items (Westfall & Young 1993, section 2.3).

    Parameters
    ----------
    maxima
        Largest absolute statistic of each simulated matrix, shape ``(S,)``.
    alpha
        Between 0 and 1.

    Raises
    ------
    InputError
        With fewer than 1 / alpha - 1 simulations, for which no threshold keeps the rate.

    Examples
    --------
    >>> family_threshold(np.arange(1.0, 200.0)).value
    190.0
    """
    count = len(maxima)
    place = rank(count, alpha)
    ordered = np.sort(maxima)
    reach = 1.96 * np.sqrt(count * alpha * (1 - alpha))
    low, high = np.clip(np.rint([place - reach, place + reach]).astype(int), 1, count)
    return Threshold(
        float(ordered[place - 1]), count, float(ordered[low - 1]), float(ordered[high - 1])
    )


def rank(simulations: int, alpha: float) -> int:
    """Which of the ordered simulated statistics, counted from 1, is the threshold.

    Raises
    ------
    InputError
        With too few simulations for this alpha.
    """
    if not 0 < alpha < 1:
        raise InputError(f"an error rate of {alpha:g} is not between 0 and 1")
    # 200 x .95 is not quite 190 in binary; a whole number must stay one.
    place = int(np.ceil((1 - alpha) * (simulations + 1) - 1e-9))
    if place > simulations:
        least = int(np.ceil(1 / alpha - 1e-9)) - 1
        raise InputError(
            f"{simulations} simulations give no threshold at an error rate of {alpha:g}",
            fix=f"run {least} or more",
        )
    return place


def simulated_p_values(at_least: IntArray, simulations: int) -> FloatArray:
    """Share of matrices, the observed one among them, with a statistic at least as large.

    (1 + number at least as large) / (S + 1), which is never 0 (Davison & Hinkley 1997, eq. 4.11).
    A statistic lies above the threshold of `rank` exactly where this is at most alpha.

    Parameters
    ----------
    at_least
        Simulated statistics that reach the observed one, any shape.
    simulations
        S.
    """
    found: FloatArray = (1.0 + at_least) / (simulations + 1)
    return found
