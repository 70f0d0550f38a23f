"""Chances of each category at the ability of each target, and how they change with it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from safemetry.irt.parameters import FloatArray, ItemParameters

Codes = NDArray[np.int8]
LEAST_CHANCE = 1e-300


@dataclass(frozen=True)
class Curves:
    """Curves of J items at N abilities.

    Parameters
    ----------
    chances, changes
        Of each category, and its derivative by the ability, shape ``(C, N, J)``.
    """

    chances: FloatArray
    changes: FloatArray

    @property
    def expected(self) -> FloatArray:
        """Expected code, shape ``(N, J)``."""
        found: FloatArray = np.tensordot(np.arange(len(self.chances)), self.chances, axes=1)
        return found

    @property
    def variance(self) -> FloatArray:
        """Variance of the code, shape ``(N, J)``."""
        squares = np.arange(len(self.chances), dtype=np.float64) ** 2
        found: FloatArray = np.tensordot(squares, self.chances, axes=1) - self.expected**2
        return np.maximum(found, 0.0)

    @property
    def logarithms(self) -> FloatArray:
        """Logarithms of the chances; 0 for a category that does not exist."""
        found: FloatArray = np.log(np.where(self.chances > LEAST_CHANCE, self.chances, 1.0))
        return found

    @property
    def scores(self) -> FloatArray:
        """Derivatives of the logarithms of the chances."""
        there = self.chances > LEAST_CHANCE
        found: FloatArray = np.where(there, self.changes / np.where(there, self.chances, 1.0), 0.0)
        return found


def curves(parameters: ItemParameters, theta: FloatArray) -> Curves:
    """Curves of items in one dimension.

    Parameters
    ----------
    parameters
        Of J items.
    theta
        Abilities, shape ``(N,)``.
    """
    slope = parameters.slopes[:, 0]
    linear = theta[:, None] * slope
    chance = parameters.upper - parameters.lower
    ends, slopes = [np.ones(linear.shape)], [np.zeros(linear.shape)]
    below = []
    for step in parameters.intercepts.T:
        there = np.isfinite(step)
        risen = expit(linear + np.where(there, step, 0.0))
        fallen = expit(-linear - np.where(there, step, 0.0))
        ends.append(np.where(there, parameters.lower + chance * risen, 0.0))
        slopes.append(np.where(there, chance * slope * risen * fallen, 0.0))
        below.append(1 - parameters.upper + chance * fallen)
    ends.append(np.zeros(linear.shape))
    slopes.append(np.zeros(linear.shape))
    chances = [np.maximum(first - second, 0.0) for first, second in pairwise(ends)]
    # One minus a chance near 1 would lose all digits.
    chances[0] = below[0]
    changes = [first - second for first, second in pairwise(slopes)]
    return Curves(np.stack(chances), np.stack(changes))


def chosen(by_category: FloatArray, codes: Codes) -> FloatArray:
    """The entry of the category of each response, 0 where missing, shape ``(N, J)``."""
    found = np.zeros(codes.shape)
    for code, values in enumerate(by_category):
        found = np.where(codes == code, values, found)
    return found
