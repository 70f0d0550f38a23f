"""How far recovered scores are from true ones."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.stats import rankdata

from safemetry.irt.parameters import FloatArray

FIGURES: Final = ("rmse", "mae", "bias", "bias_low", "bias_high", "spearman")
FIFTH: Final = 0.2


def figures_of(predicted: FloatArray, truth: FloatArray) -> FloatArray:
    """Figures of predicted scores in the order of `FIGURES`, shape ``(..., 6)``.

    Bias is the mean of predicted less true; `bias_low` and `bias_high` are over the fifth of the
    targets with the lowest and highest true scores, one at least. A rank correlation is NaN where
    one side does not vary.

    Parameters
    ----------
    predicted
        Shape ``(..., N)``.
    truth
        Shape ``(N,)``.

    Examples
    --------
    >>> figures_of(np.array([0.2, 0.6, 0.7]), np.array([0.1, 0.5, 0.8])).round(3)
    array([ 0.1  ,  0.1  ,  0.033,  0.1  , -0.1  ,  1.   ])
    """
    errors = predicted - truth
    order = np.argsort(truth, kind="stable")
    count = max(1, round(FIFTH * truth.size))
    low, high = order[:count], order[-count:]
    parts = (
        np.sqrt((errors**2).mean(axis=-1)),
        np.abs(errors).mean(axis=-1),
        errors.mean(axis=-1),
        errors[..., low].mean(axis=-1),
        errors[..., high].mean(axis=-1),
        _rank_correlation(predicted, truth),
    )
    return np.stack(parts, axis=-1)


def _rank_correlation(predicted: FloatArray, truth: FloatArray) -> FloatArray:
    """Spearman's, with equal scores at their mean rank."""
    # Differences at the rounding error of a sum are no differences.
    ours = rankdata(np.round(predicted, 10), axis=-1)
    theirs = rankdata(np.round(truth, 10))
    ours = ours - ours.mean(axis=-1, keepdims=True)
    theirs = theirs - theirs.mean()
    scale = np.sqrt((ours**2).sum(axis=-1) * (theirs**2).sum())
    found: FloatArray = np.where(scale > 0, ours @ theirs / np.where(scale > 0, scale, 1), np.nan)
    return found
