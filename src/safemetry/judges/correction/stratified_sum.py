"""A rate over strata of known size, from the rates within them."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]


def stratified_sum(
    shares: ArrayLike, estimates: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate and interval of a sum over independent strata of known size.

    Parameters
    ----------
    shares
        Of each stratum in the whole, shape ``(..., S)``, with sum 1.
    estimates, lower, upper
        Of each stratum, shape ``(..., S)``; the intervals need not be symmetric.

    Returns
    -------
    Estimate, lower and upper end, shape ``(...)``.

    Source: Zou & Donner (2008), Statistics in Medicine 27, 1693-1702 (MOVER): each end lies as far
    from the sum as the root of the summed squares of the distances of its parts.

    Examples
    --------
    >>> [
    ...     round(float(part), 3)
    ...     for part in stratified_sum([0.5, 0.5], [0.4, 0], [0.3, 0], [0.5, 0.1])
    ... ]
    [0.2, 0.15, 0.271]
    """
    w, p = np.asarray(shares, np.float64), np.asarray(estimates, np.float64)
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    total = (w * p).sum(-1)
    return (
        total,
        total - np.sqrt(((w * (p - low)) ** 2).sum(-1)),
        total + np.sqrt(((w * (high - p)) ** 2).sum(-1)),
    )


def mid_p(reach: ArrayLike, level: float = 0.95) -> FloatArray:
    """The mid-p end of an interval of unanimous labels, from the exact one.

    Parameters
    ----------
    reach
        Exact two-sided end, as a distance from the unanimous rate: (1 - reach)**n = (1 - level) / 2
        for n labels.
    level
        Confidence of both, in (0, 1).

    Source: Lancaster (1961), JASA 56, 223-234: half the probability of what was seen counts.

    Examples
    --------
    >>> round(float(mid_p(0.1684)), 3), round(1 - 0.05 ** (1 / 20), 3)
    (0.139, 0.139)
    """
    left = 1 - np.asarray(reach, np.float64)
    found: FloatArray = 1 - left ** (log(1 - level) / log((1 - level) / 2))
    return found
