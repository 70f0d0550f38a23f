"""Item parameters, and the probabilities of responses that they imply."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class ItemModel(StrEnum):
    """How the probability of a response depends on the ability."""

    RASCH = "rasch"
    ONE_PL = "1pl"
    TWO_PL = "2pl"
    THREE_PL = "3pl"
    FOUR_PL = "4pl"
    GRADED = "grm"


@dataclass(frozen=True)
class ItemParameters:
    """Parameters of J items in K dimensions.

    The probability of a response of at least category c is
    ``lower + (upper - lower) / (1 + exp(-(slopes @ theta + intercepts[c - 1])))``; for an item with
    two categories that is the probability of a 1. Graded items have ``lower`` 0 and ``upper`` 1
    (Samejima 1969); the others follow Barton & Lord (1981).

    Parameters
    ----------
    slopes
        Discriminations a, shape ``(J, K)``.
    intercepts
        d, shape ``(J, C - 1)`` for items of at most C categories, decreasing along a row; the
        entries beyond the last category of an item are -inf (that category is never reached).
    lower, upper
        Asymptotes g and u, shape ``(J,)``, in [0, 1].
    """

    slopes: FloatArray
    intercepts: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def items(self) -> int:
        """J."""
        return int(self.slopes.shape[0])

    @property
    def dimensions(self) -> int:
        """K."""
        return int(self.slopes.shape[1])

    @property
    def categories(self) -> IntArray:
        """Number of categories of each item, shape ``(J,)``."""
        finite: IntArray = np.isfinite(self.intercepts).sum(axis=1)
        return 1 + finite

    def select(self, chosen: BoolArray | IntArray) -> ItemParameters:
        """The parameters of some items."""
        return ItemParameters(
            self.slopes[chosen], self.intercepts[chosen], self.lower[chosen], self.upper[chosen]
        )

    @property
    def difficulties(self) -> FloatArray:
        """Where the curve is steepest, b = -d / a, shape ``(J, C - 1)``, in one dimension."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return -self.intercepts / self.slopes[:, :1]


def reaching(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Probability that a response is of at least category c.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Abilities, shape ``(N, K)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(C - 1, N, J)`` for c = 1 .. C - 1; for two categories the probability of a 1 is
        ``reaching(...)[0]``.
    """
    linear = theta @ parameters.slopes.T
    steps = parameters.intercepts.T[:, None, :]
    chance = parameters.upper - parameters.lower
    found: FloatArray = parameters.lower + chance * expit(linear[None] + steps)
    # A category that an item lacks is never reached, whatever the lower asymptote.
    return found if len(steps) == 1 else np.where(np.isneginf(steps), 0.0, found)


def category_probabilities(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Probability of each category, shape ``(C, N, J)``; a category that an item lacks has 0."""
    at_least = reaching(parameters, theta)
    ones = np.ones((1, *at_least.shape[1:]))
    upper = np.concatenate([ones, at_least])
    lower = np.concatenate([at_least, np.zeros_like(ones)])
    found: FloatArray = upper - lower
    return found


def expected_scores(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Expected response, shape ``(N, J)``: the sum over c of the chance of at least category c."""
    found: FloatArray = reaching(parameters, theta).sum(axis=0)
    return found
