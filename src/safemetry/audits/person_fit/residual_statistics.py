"""Infit and outfit of patterns, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from safemetry.audits.person_fit.curves import Codes, curves
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters

LEAST_VARIANCE: Final = 10**-2.5
"""Smaller variances count as this one, so that no single response decides an outfit."""


@dataclass(frozen=True)
class MeanSquares:
    """Mean squares of residuals of N patterns: 1 if the model holds, above for noise.

    Parameters
    ----------
    infit, outfit
        Shape ``(N,)``; 1 where unknown.
    known
        Where a response has a variance.
    """

    infit: FloatArray
    outfit: FloatArray
    known: BoolArray


def mean_squares(
    codes: Codes,
    parameters: ItemParameters,
    theta: FloatArray,
    least_variance: float = LEAST_VARIANCE,
) -> MeanSquares:
    """Mean squared residuals, weighted by information (infit) or standardised (outfit).

    Wright & Masters (1982, chapter 5). There is no transformation to normal deviates, which does
    not hold at estimated abilities.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    parameters
        Of J items in one dimension.
    theta
        Finite abilities, shape ``(N,)``.
    least_variance
        Above 0; smaller variances count as this one. The default is that of the reference values:
        without a floor one unexpected response at a chance of 1e-6 gives an outfit of 1e6 / J.
    """
    found = curves(parameters, theta)
    variances = np.maximum(found.variance, least_variance)
    counted = codes >= 0
    squares = np.where(counted, (codes - found.expected) ** 2, 0.0)
    number = counted.sum(axis=1)
    known = number > 0
    mass = np.where(known, np.where(counted, variances, 0.0).sum(axis=1), 1.0)
    standard = (squares / np.where(counted, variances, 1.0)).sum(axis=1)
    return MeanSquares(
        np.where(known, squares.sum(axis=1) / mass, 1.0),
        np.where(known, standard / np.maximum(number, 1), 1.0),
        known,
    )
