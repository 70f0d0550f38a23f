"""Two calibrations of the same items compared item by item."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.irt.equating import Link, LinkMethod, link_calibrations
from safemetry.irt.parameters import FloatArray, ItemParameters
from safemetry.irt.unidimensional.marginal import UnidimensionalFit

_ROUNDING: Final = 1e-10


def compare_fits(
    first: UnidimensionalFit, second: UnidimensionalFit, method: LinkMethod
) -> tuple[Link, FloatArray]:
    """The link of a second calibration to a first, and the Wald statistic of each item.

    Parameters
    ----------
    first, second
        Of the same items in the same order, with their errors.
    method
        Of the link.

    Returns
    -------
    tuple
        The link, and statistics of shape ``(J,)``; NaN where an error is unknown.
    """
    link = link_calibrations(
        (first.items, first.parameters), (second.items, second.parameters), method=method
    )
    moved = link.parameters(second.parameters)
    width = min(first.parameters.intercepts.shape[1], moved.intercepts.shape[1])
    steps = slice(0, width)
    ours = np.hstack([first.parameters.slopes, first.parameters.intercepts[:, steps]])
    theirs = np.hstack([moved.slopes, moved.intercepts[:, steps]])
    # theta_base = A theta + B, so that a -> a / A and d -> d - (a / A) B.
    turn = np.eye(1 + width)
    turn[0, 0] = 1 / link.slope
    turn[1:, 0] = -link.intercept / link.slope
    size = 1 + width
    own = first.errors.covariance[:, :size, :size]
    other = second.errors.covariance[:, :size, :size]
    covariance = np.ma.filled(own, np.nan) + turn @ np.ma.filled(other, np.nan) @ turn.T
    with np.errstate(invalid="ignore"):
        change = np.where(np.isfinite(ours) & np.isfinite(theirs), theirs - ours, 0.0)
    return link, _wald(change, covariance)


def _wald(change: FloatArray, covariance: FloatArray) -> FloatArray:
    """The change in units of its covariance, over the entries that have a variance.

    The quadratic form is divided by their number, so that items with few and with many categories
    can be compared.
    """
    found = np.full(len(change), np.nan)
    for item, (move, spread) in enumerate(zip(change, covariance, strict=True)):
        known = np.isfinite(np.diagonal(spread)) & (np.diagonal(spread) > _ROUNDING)
        if known[0] and known.sum() > 1 and np.isfinite(spread[np.ix_(known, known)]).all():
            inner = np.linalg.pinv(spread[np.ix_(known, known)], hermitian=True)
            found[item] = float(move[known] @ inner @ move[known]) / int(known.sum())
    return found


def parameters_between(first: ItemParameters, second: ItemParameters) -> ItemParameters:
    """Parameters between those of the two cohorts, for cohorts without drift."""
    width = min(first.intercepts.shape[1], second.intercepts.shape[1])
    one, other = first.intercepts[:, :width], second.intercepts[:, :width]
    both = np.isfinite(one) & np.isfinite(other)
    steps = np.where(both, (np.where(both, one, 0) + np.where(both, other, 0)) / 2, -np.inf)
    return ItemParameters(
        np.sqrt(np.maximum(first.slopes * second.slopes, 1e-6)),
        steps,
        (first.lower + second.lower) / 2,
        (first.upper + second.upper) / 2,
    )
