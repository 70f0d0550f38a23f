"""How likely a pattern of responses is: l_z, and l_z* for abilities that are estimated.

Patterns that are less likely than the model expects have values below 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.audits.person_fit.curves import Codes, chosen, curves
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters

_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class LikelihoodFit:
    """Standardised log-likelihoods of N patterns.

    Parameters
    ----------
    l_z, l_z_star
        Shape ``(N,)``; 0 where unknown.
    known, star_known
        Where there is a value: the log-likelihood has a variance.
    """

    l_z: FloatArray
    l_z_star: FloatArray
    known: BoolArray
    star_known: BoolArray


def likelihood_fit(codes: Codes, parameters: ItemParameters, theta: FloatArray) -> LikelihoodFit:
    """Standardised log-likelihood of each pattern.

    l_z = (l - E(l)) / sd(l) with l the sum of log P(x) (Drasgow, Levine & Williams 1985, eq. 3 to
    6 for binary and graded items; ``Zh`` in some programs). It has mean 0 and variance 1 at the
    true ability only.

    l_z* (Snijders 2001, eq. 5 to 12; for graded items Sinharay 2016): the same with weights w - c r
    for w = log P, where r = P' / P and c = sum P' w / sum P' r, so that the error of the estimated
    ability has no first-order effect. The term c r_0 that depends on the estimator (Magis, Raiche &
    Beland 2012, eq. 8 to 11: r_0 = 0 for maximum likelihood, J / 2I for Warm's, the slope of the
    log prior for the mode) is here by the estimating equation r_0 = -sum (x - P) r, which gives the
    same number at an exact root for each of them.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    parameters
        Of J items in one dimension.
    theta
        Finite abilities, shape ``(N,)``.

    Examples
    --------
    >>> items = ItemParameters(
    ...     np.ones((4, 1)), np.array([[2.0], [1.0], [-1.0], [-2.0]]), np.zeros(4), np.ones(4)
    ... )
    >>> patterns = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], np.int8)
    >>> likelihood_fit(patterns, items, np.zeros(2)).l_z.round(2)
    array([ 0.91, -4.49])
    """
    observed = codes >= 0
    found = curves(parameters, theta)
    chances, weights, scores = found.chances, found.logarithms, found.scores
    plain, variance = _standard(codes, chances, weights, observed)
    slopes = np.where(observed, (found.changes * weights).sum(axis=0), 0.0).sum(axis=1)
    information = np.where(observed, (found.changes * scores).sum(axis=0), 0.0).sum(axis=1)
    informed = information > _LEAST_VARIANCE
    factor = slopes / np.where(informed, information, 1.0)
    corrected = weights - factor[:, None] * scores
    star, star_variance = _standard(codes, chances, corrected, observed)
    # Where all weights are proportional to the scores nothing is left after the correction.
    star_known = informed & (star_variance > 1e-9 * variance) & (star_variance > _LEAST_VARIANCE)
    known = variance > _LEAST_VARIANCE
    return LikelihoodFit(
        np.where(known, plain / np.sqrt(np.where(known, variance, 1.0)), 0.0),
        np.where(star_known, star / np.sqrt(np.where(star_known, star_variance, 1.0)), 0.0),
        known,
        star_known,
    )


def _standard(
    codes: Codes, chances: FloatArray, weights: FloatArray, observed: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Sum of the weights of the responses less its expectation, and its variance."""
    mean = (chances * weights).sum(axis=0)
    away = weights - mean
    spread = np.where(observed, (chances * away**2).sum(axis=0), 0.0).sum(axis=1)
    return chosen(away, codes).sum(axis=1), spread
