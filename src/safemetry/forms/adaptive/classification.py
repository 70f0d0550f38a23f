"""Which side of a cut a target is on: the sequential test, and how often it errs."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from safemetry.errors import InputError
from safemetry.forms.adaptive.curves import LEAST_CHANCE, category_curves
from safemetry.forms.adaptive.settings import Classification
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import FloatArray, IntArray, ItemParameters, expected_scores

ABOVE: Final = 1
BELOW: Final = -1
UNDECIDED: Final = 0
_REACH: Final = 12.0


def mean_score(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Expected mean score over all items, each between 0 and 1, shape ``(N,)``.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Shape ``(N, K)``.
    """
    scores = expected_scores(parameters, theta) / np.maximum(parameters.categories - 1, 1)
    found: FloatArray = scores.mean(axis=1)
    return found


def cut_ability(pool: ItemPool, score: float) -> float:
    """The ability at which the expected mean score over all items of a pool is `score`.

    Parameters
    ----------
    pool
        Items in one dimension.
    score
        Between 0 and 1.

    Raises
    ------
    InputError
        In several dimensions, or where no ability within 12 standard deviations expects this score.
    """
    if pool.parameters.dimensions != 1:
        raise InputError("a cut is an ability in one dimension")
    middle, reach = float(pool.mean[0]), _REACH * pool.sd

    def beyond(theta: float) -> float:
        return float(mean_score(pool.parameters, np.array([[theta]]))[0]) - score

    low, high = beyond(middle - reach), beyond(middle + reach)
    if not low * high < 0:
        raise InputError(
            f"no ability expects a mean score of {score:g}: over the scale it runs from "
            f"{low + score:.3g} to {high + score:.3g}",
            fix="give a cut between them",
        )
    return float(brentq(beyond, middle - reach, middle + reach, xtol=1e-10))


def likelihood_ratio_table(
    parameters: ItemParameters, classification: Classification
) -> FloatArray:
    """Log-likelihood ratio of each response between the ends of the indifference region.

    Parameters
    ----------
    parameters
        Of J items in one dimension.
    classification
        With a cut that is an ability.

    Returns
    -------
    numpy.ndarray
        Shape ``(J, C)``; positive values speak for "above" (Reckase 1983).
    """
    if classification.cut is None:
        raise InputError("the cut of a sequential test is an ability")
    half = classification.half_width
    ends = classification.cut + np.array([-half, half])
    chances = category_curves(
        ends[:, None] * parameters.slopes[:, 0],
        parameters.intercepts.T[:, None, :],
        parameters.lower,
        parameters.upper,
    )[0]
    logs = np.log(np.maximum(chances, LEAST_CHANCE))
    found: FloatArray = (logs[:, 1] - logs[:, 0]).T
    return found


def decision_bounds(classification: Classification) -> tuple[float, float]:
    """Bounds of the log-likelihood ratio for "below" and "above" (Wald 1947).

    Examples
    --------
    >>> low, high = decision_bounds(Classification(cut=0.0))
    >>> round(low, 3), round(high, 3)
    (-2.944, 2.944)
    """
    alpha, beta = classification.alpha, classification.beta
    return float(np.log(beta / (1 - alpha))), float(np.log((1 - beta) / alpha))


def decide(
    classification: Classification, log_ratio: FloatArray, theta: FloatArray, se: FloatArray
) -> IntArray:
    """`ABOVE`, `BELOW` or `UNDECIDED` for each target.

    Parameters
    ----------
    classification
        With a cut that is an ability.
    log_ratio, theta, se
        Of n targets, shape ``(n,)``; the ratio decides by ``sprt``, estimate and error by
        ``interval``.
    """
    if classification.method == "sprt":
        low, high = decision_bounds(classification)
        return np.where(log_ratio >= high, ABOVE, np.where(log_ratio <= low, BELOW, UNDECIDED))
    if classification.cut is None:
        raise InputError("the cut of a classification is an ability")
    reach = float(norm.isf((1 - classification.level) / 2)) * se
    away = theta - classification.cut
    return np.where(away > reach, ABOVE, np.where(away < -reach, BELOW, UNDECIDED))
