"""Item parameters drawn from what a calibration leaves open.

Independent errors are not all of it. Estimated slopes differ more from one another than the items
do, where a prior has drawn them together too little or there is none: every steep item is a little
less steep than it seems. Far from the middle of the population all curves are then too extreme in
the same way, and patterns that fit look disorderly. With 77 targets in the calibration and 196
items 19% of those at an ability of -3 had an l_z* beyond the 5% cutoff. The slopes are therefore
drawn around their regression on the estimates, with which it was 4%.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEWEST: Final = 10
"""Items from which the spread of slopes is estimated."""

_LEAST_SHARE: Final = 0.05


@dataclass(frozen=True)
class DrawnItems:
    """Parameters that the items may truly have, one set for each of M replicates.

    Parameters
    ----------
    slopes, intercepts
        Shapes ``(M, J)`` and ``(C - 1, M, J)``, single precision.
    """

    slopes: NDArray[np.float32]
    intercepts: NDArray[np.float32]


def draw_items(calibrated: Calibrated, draws: int, rng: np.random.Generator) -> DrawnItems:
    """Draw item parameters given their estimates.

    Intercepts are normal around their estimates. Slopes above 0 are log-normal as `likely_slopes`
    says, so that none changes its sign; others are normal. The steps of a graded item move
    together, and asymptotes stay.

    Parameters
    ----------
    calibrated
        Estimates and errors of J items.
    draws
        M, at least 1.
    rng
        Source of randomness.
    """
    size = (draws, len(calibrated.items))
    first = rng.standard_normal(size, dtype=np.float32)
    second = rng.standard_normal(size, dtype=np.float32)
    slope, error = calibrated.parameters.slopes[:, 0], calibrated.slope_errors
    middle, spread = likely_slopes(calibrated)
    slopes = np.where(
        slope > 0,
        np.exp(_single(middle) + _single(spread) * first),
        _single(slope) + _single(error) * first,
    )
    share = calibrated.correlations
    noise = _single(share) * first + _single(np.sqrt(1 - share**2)) * second
    intercepts = np.stack(
        [
            _single(step) + _single(errors) * noise
            for step, errors in zip(
                calibrated.parameters.intercepts.T, calibrated.intercept_errors.T, strict=True
            )
        ]
    )
    if len(intercepts) > 1:
        intercepts = -np.sort(-intercepts, axis=0)
    return DrawnItems(slopes, intercepts)


def likely_slopes(calibrated: Calibrated) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of log a given the estimates, for slopes above 0.

    Empirical Bayes (Efron & Morris 1975; for items Mislevy 1986): log a ~ N(b_0 + b_1 d^2, t^2)
    over items, since steep items have extreme intercepts at the same spread of difficulties. The
    prior that the calibration used is first taken out of estimates and errors, and t^2 is estimated
    by moments. Below ten items with an error the estimates stay.

    Returns
    -------
    tuple of numpy.ndarray
        Shape ``(J,)`` each; for other slopes 0.
    """
    slope, error = calibrated.parameters.slopes[:, 0], calibrated.slope_errors
    positive = slope > 0
    middle = np.log(np.where(positive, slope, 1.0))
    spread = np.where(positive, error / np.where(positive, slope, 1.0), 0.0)
    used = positive & (error > 0)
    if used.sum() < _FEWEST:
        return middle, spread
    prior = calibrated.slope_prior_sd
    share = np.ones(int(used.sum()))
    if prior is not None:
        # The share of the data in the estimate: 1 - s^2 / prior^2.
        share = np.clip(1 - spread[used] ** 2 / prior**2, _LEAST_SHARE, 1.0)
    square = spread[used] ** 2 / share
    steps = np.where(np.isfinite(calibrated.parameters.intercepts[used, 0]), 1.0, 0.0)
    intercept = steps * calibrated.parameters.intercepts[used, 0]
    design = np.column_stack([np.ones(len(share)), np.minimum(intercept**2, 16.0)])
    weights = np.sqrt(1 / (square + square.mean()))
    centre = np.average(middle[used], weights=share)
    data = centre + (middle[used] - centre) / share
    found = np.linalg.lstsq(design * weights[:, None], data * weights, rcond=None)[0]
    expected = design @ found
    tau = max(float(np.average((data - expected) ** 2 - square, weights=weights**4)), 0.0)
    kept = tau / (tau + square)
    middle[used] = expected + kept * (data - expected)
    spread[used] = np.sqrt(kept * square)
    return middle, spread


def _single(values: FloatArray) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)
