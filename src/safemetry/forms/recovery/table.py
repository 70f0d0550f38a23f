"""Chances and expected scores of items on a grid of abilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.information import normal_grid
from safemetry.irt.parameters import FloatArray, IntArray, ItemParameters, category_probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

FEWEST_CHANCE: Final = 1e-9
"""No response is taken to be less likely than this, not even one that a calibration never saw."""

_NODES_APART: Final = 1.25
_WIDEST: Final = 0.2
_NARROWEST: Final = 0.02


@dataclass(frozen=True)
class ScoreTable:
    """What J items do on a grid of Q abilities.

    Parameters
    ----------
    nodes, weights
        Abilities and their share of the population, shape ``(Q,)``.
    log_chances
        Logarithm of the chance of each category, shape ``(C, J, Q)``.
    expected, variance
        Mean and variance of the outcome of an item, code / (categories - 1), shape ``(J, Q)``.
    highest
        Categories - 1 of each item, at least 1, shape ``(J,)``.
    """

    nodes: FloatArray
    weights: FloatArray
    log_chances: FloatArray
    expected: FloatArray
    variance: FloatArray
    highest: IntArray

    @property
    def items(self) -> int:
        """J."""
        return int(self.expected.shape[0])


def score_table(
    parameters: ItemParameters,
    *,
    mean: float = 0.0,
    sd: float = 1.0,
    categories: IntArray | None = None,
    longest: int | None = None,
) -> ScoreTable:
    """The table of calibrated items, fine enough for forms of up to `longest` items.

    The rectangle rule with nodes 1.25 w apart integrates a posterior of width w with a relative
    error of 2 exp(-2 pi^2 / 1.25^2), 7e-6; the narrowest that a form can leave has the information
    of its best items.

    Parameters
    ----------
    parameters
        Of J items in one dimension.
    mean, sd
        Of the ability in the population.
    categories
        How many each item has, where the calibration may not have seen them all, shape ``(J,)``.
    longest
        Items of the longest form; all by default.

    Raises
    ------
    InputError
        For several dimensions, or fewer categories than were calibrated.
    """
    if parameters.dimensions != 1:
        raise InputError("scores are recovered in one dimension", fix="calibrate one dimension")
    count = parameters.categories if categories is None else np.asarray(categories, np.int64)
    if count.shape != (parameters.items,) or (count < parameters.categories).any():
        raise InputError("an item has as many categories as were calibrated, or more")
    steepest = np.sort((parameters.slopes[:, 0] * sd) ** 2)[::-1][:longest]
    narrowest = 1 / np.sqrt(1 + float(steepest.sum()) / 4)
    spacing = float(np.clip(_NODES_APART * narrowest, _NARROWEST, _WIDEST))
    nodes, weights = normal_grid(mean, sd, spacing=spacing)
    chances = category_probabilities(parameters, nodes[:, None]).transpose(0, 2, 1)
    wide = int(max(count.max(initial=2), len(chances)))
    if wide > len(chances):
        more = np.zeros((wide - len(chances), *chances.shape[1:]))
        chances = np.concatenate([chances, more])
    highest = np.maximum(count - 1, 1)
    codes = np.arange(wide, dtype=np.float64)[:, None, None]
    expected = (codes * chances).sum(axis=0) / highest[:, None]
    squares = (codes**2 * chances).sum(axis=0) / (highest**2)[:, None]
    return ScoreTable(
        nodes,
        weights,
        np.log(np.maximum(chances, FEWEST_CHANCE)),
        expected,
        np.maximum(squares - expected**2, 0.0),
        highest,
    )


def outcomes(codes: Codes, highest: IntArray) -> FloatArray:
    """Outcomes in [0, 1], shape ``(N, J)``; 0 where there is no response.

    Parameters
    ----------
    codes
        Categories, -1 where missing, shape ``(N, J)``.
    highest
        Categories - 1 of each item, at least 1, shape ``(J,)``.
    """
    found: FloatArray = np.maximum(codes, 0) / highest
    return found


def full_scores(codes: Codes, highest: IntArray) -> FloatArray:
    """Mean outcome of each target over the items that it answered, shape ``(N,)``; NaN for none.

    Examples
    --------
    >>> full_scores(np.array([[1, 0, -1], [2, 1, 0]], np.int8), np.array([2, 1, 1]))
    array([0.25      , 0.66666667])
    """
    count = (codes >= 0).sum(axis=1)
    total = outcomes(codes, highest).sum(axis=1)
    found: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found
