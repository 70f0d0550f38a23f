"""Form mean and model expectation mixed, the more of the mean the longer the form."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

ANCHOR_SHARE: Final = 0.25
"""Variance of a mean over chosen, weighted items beside one over random items, as the reference
implementation of the method sets it."""


def mixture_weight(
    model_error: float,
    outcome_variance: float,
    weights: FloatArray,
    *,
    share: float = ANCHOR_SHARE,
    mean_error: float = 0.0,
) -> float:
    """Weight of the form mean in its mixture with the expectation of the model.

    lambda = b^2 / (b^2 + s^2) (gp-IRT of Polo et al. 2024, "tinyBenchmarks", section 4.2), b being
    the error of the model on targets that it has not seen and s^2 = share v sum(w^2) the variance
    of the weighted mean, which is share v / n for equal weights.

    Parameters
    ----------
    model_error
        Root mean squared error of the expectation among calibration targets, b.
    outcome_variance
        Variance of the outcomes within a target, mean over targets, v.
    weights
        Of the items of the form, shape ``(L,)``; scaled to sum 1.
    share
        In (0, 1].
    mean_error
        Root mean squared error of the weighted mean among calibration targets. A mean over
        informative items is biased, which v does not know: s is at least this.

    Examples
    --------
    >>> round(mixture_weight(0.03, 0.2, np.ones(100)), 3)
    0.643
    """
    total = float(np.sum(weights))
    if not (total > 0 and (np.asarray(weights) >= 0).all()):
        raise InputError("weights of items are not negative, and one at least is above 0")
    scaled = np.asarray(weights, np.float64) / total
    variance = max(share * outcome_variance * float(scaled @ scaled), mean_error**2)
    square = model_error**2
    return square / (square + variance) if square + variance > 0 else 0.5


def mixed(means: FloatArray, expected: FloatArray, weight: FloatArray | float) -> FloatArray:
    """The mixture; where a target answered no item of the form, the expectation alone."""
    blend = weight * means + (1 - weight) * expected
    found: FloatArray = np.where(np.isfinite(means), blend, expected)
    return found
