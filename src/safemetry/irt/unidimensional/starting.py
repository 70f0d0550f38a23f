"""Starting values from proportions and from each item's regression on the total score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from safemetry.irt.parameters import FloatArray
from safemetry.irt.unidimensional.coordinates import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROW_BLOCK = 512
FIRST_ASYMPTOTE = -2.0
LOGISTIC_VARIANCE = 2.9


def starting_values(
    codes: NDArray[np.int8], weights: FloatArray, layout: Layout
) -> tuple[FloatArray, float]:
    """Working parameters to start from, and a first guess of the narrowest posterior.

    Abilities are taken to be standardised sums of residuals; a slope is one Newton step from an
    item that does not discriminate, and an intercept is the logit of a proportion, widened by the
    spread of the abilities (the usual approximation of the logistic-normal integral).

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    weights
        Shape ``(N,)``.
    layout
        Of the working coordinates.
    """
    highest = np.maximum(layout.categories - 1, 1)
    counts, covariance = np.zeros(codes.shape[1]), np.zeros(codes.shape[1])
    reached = np.zeros((layout.steps, codes.shape[1]))
    blocks = [slice(at, at + ROW_BLOCK) for at in range(0, len(codes), ROW_BLOCK)]
    for part in blocks:
        seen, share = (codes[part] >= 0).astype(np.float64), weights[part]
        counts += share @ seen
        for step in range(layout.steps):
            reached[step] += share @ (codes[part] > step).astype(np.float64)
    centre = (reached.sum(axis=0) + 0.5) / (counts * highest + 1)
    spread = np.clip(centre * (1 - centre), 1e-3, None)
    total = np.empty(len(codes))
    precision = np.empty(len(codes))
    for part in blocks:
        seen, points = _seen_and_points(codes[part])
        precision[part] = seen @ spread
        total[part] = points @ (1 / highest) - seen @ centre
    ability = total / np.sqrt(np.maximum(precision, 1e-12))
    ability -= np.average(ability, weights=weights)
    deviation = float(np.sqrt(np.average(ability**2, weights=weights)))
    ability /= deviation if deviation > 0 else 1.0
    for part in blocks:
        seen, points = _seen_and_points(codes[part])
        share = ability[part] * weights[part]
        covariance += share @ points / highest - (share @ seen) * centre
    slopes = covariance / np.maximum(counts * spread, 1e-12)
    slopes = np.clip(slopes, -3.0 if layout.signed else 0.2, 3.0)
    if layout.tied:
        slopes = np.full_like(slopes, np.clip(slopes.mean(), 0.2, 3.0))
    proportions = np.clip((reached + 0.5) / (counts + 1), 1e-3, 1 - 1e-3)
    steps = logit(proportions) * np.sqrt(1 + slopes**2 / LOGISTIC_VARIANCE)
    for step in range(1, layout.steps):
        steps[step] = np.minimum(steps[step], steps[step - 1] - 0.1)
    found = np.zeros(layout.exists.shape)
    found[0] = np.log(slopes) if layout.logarithmic else slopes
    found[1 : 1 + layout.steps] = steps
    found[1 + layout.steps :] = FIRST_ASYMPTOTE
    found[2 + layout.steps :] = -FIRST_ASYMPTOTE
    found *= layout.exists
    most = float((precision / spread.mean()).max()) * float((slopes**2 * spread).mean())
    return layout.clipped(found), float(1 / np.sqrt(1 + most))


def _seen_and_points(block: NDArray[np.int8]) -> tuple[FloatArray, FloatArray]:
    """Ones where a cell is observed, and its code with 0 where it is not."""
    return (block >= 0).astype(np.float64), np.maximum(block, 0).astype(np.float64)


def flat_start(working: FloatArray, layout: Layout) -> FloatArray:
    """The same start with slopes of 1 and intercepts that hardly differ.

    Where responses measure more than one thing the likelihood has several maxima, and a start that
    favours no item may reach a better one than a start from the total score.
    """
    found = working.copy()
    found[0] = 0.0 if layout.logarithmic else 1.0
    found[1 : 1 + layout.steps] *= 0.1
    return layout.clipped(found)
