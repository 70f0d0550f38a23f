"""Items that go together more than the ability explains: Q3 and the LD chi-square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.stats import chi2, norm

from safemetry.errors import InputError
from safemetry.irt.information import normal_grid
from safemetry.irt.matching import as_points, check_items
from safemetry.irt.parameters import (
    BoolArray,
    FloatArray,
    IntArray,
    ItemParameters,
    category_probabilities,
    expected_scores,
)
from safemetry.irt.responses import Responses

LARGE: Final = 0.2
"""Mean-corrected Q3 above which a pair is usually called dependent (Christensen et al. 2017)."""
LEAST_SHARED: Final = 10
"""Targets with responses to both items that a pair needs to have a value."""


@dataclass(frozen=True)
class Dependence:
    """A statistic for every pair of J items.

    Parameters
    ----------
    items
        Names.
    values
        Symmetric, shape ``(J, J)``; 0 where `known` is False.
    known
        Whether a pair has a value: off the diagonal, with enough shared responses that vary.
    effective
        Residuals that carry the correlation, shape ``(J, J)``: targets that answered both, but for
        each item at most (sum r^2)^2 / sum r^4, which is small where a few rare responses have
        nearly all of its variance.
    """

    items: tuple[str, ...]
    values: FloatArray
    known: BoolArray
    effective: FloatArray

    @property
    def mean(self) -> float | None:
        """Mean over pairs, None where no pair is known."""
        return float(self.values[self.known].mean()) if self.known.any() else None

    def largest(self, count: int = 20) -> Sequence[Mapping[str, Any]]:
        """The pairs with the largest values, largest first."""
        rows, columns = np.nonzero(np.triu(self.known, 1))
        values = self.values[rows, columns]
        order = np.argsort(-values, kind="stable")[:count]
        return [
            {
                "item": self.items[rows[place]],
                "other": self.items[columns[place]],
                "value": float(values[place]),
            }
            for place in order
        ]


def residual_correlations(
    responses: Responses,
    parameters: ItemParameters,
    theta: FloatArray,
    *,
    least_shared: int = LEAST_SHARED,
) -> Dependence:
    """Q3: correlations between items of what the ability leaves unexplained (Yen 1984).

    Parameters
    ----------
    responses
        Of N targets; a pair is compared over the targets that answered both.
    parameters
        Of the items, in any number of dimensions.
    theta
        Ability of each target, shape ``(N, K)`` or ``(N,)``.
    least_shared
        Targets that a pair needs.

    Returns
    -------
    Dependence
        Under independence about -1 / (J - 1) on average, since the abilities come from the same
        responses: see `mean_corrected`.

    Raises
    ------
    InputError
        For items or abilities that do not fit the responses.
    """
    check_items(responses, parameters)
    points = as_points(theta, parameters.dimensions, len(responses.targets))
    seen = responses.observed.astype(np.float64)
    residuals = np.where(
        responses.observed, responses.codes - expected_scores(parameters, points), 0
    )
    weighted = residuals * responses.weights[:, None]
    shares = seen * responses.weights[:, None]
    # Every sum over the targets that answered both items is one matrix product.
    number = shares.T @ seen
    count = np.maximum(number, 1e-300)
    sums = weighted.T @ seen
    squares = (weighted * residuals).T @ seen
    spread = squares - sums**2 / count
    together = weighted.T @ residuals - sums * sums.T / count
    scale = np.sqrt(np.maximum(spread * spread.T, 0.0))
    varied = (spread > 1e-12 * np.maximum(squares, 1e-300)) & (spread > 1e-20)
    known = (seen.T @ seen >= least_shared) & varied & varied.T & (scale > 0)
    np.fill_diagonal(known, val=False)
    values = np.where(known, together / np.where(known, scale, 1.0), 0.0)
    fourth = (weighted * residuals**3).sum(axis=0)
    carrying = (weighted * residuals).sum(axis=0) ** 2 / np.maximum(fourth, 1e-300)
    effective = np.minimum(number, np.minimum(carrying[:, None], carrying[None, :]))
    return Dependence(responses.items, np.clip(values, -1.0, 1.0), known, effective)


def mean_corrected(correlations: Dependence) -> Dependence:
    """Q3 less its mean over all pairs, which the estimation of abilities makes negative.

    A pair above .2 is usually called dependent (Christensen, Makransky & Horton 2017, equation 5).
    """
    middle = correlations.mean or 0.0
    values = np.where(correlations.known, correlations.values - middle, 0.0)
    return replace(correlations, values=values)


def dependent_pairs(
    correlations: Dependence, *, above: float = LARGE, level: float = 0.05
) -> tuple[Mapping[str, Any], ...]:
    """Pairs that depend: a mean-corrected Q3 that is large, and larger than chance makes any.

    Parameters
    ----------
    correlations
        Of `residual_correlations`.
    above
        Least mean-corrected Q3.
    level
        Chance that any of the pairs is named though none depends (Fisher's z with Bonferroni's
        limit, on the effective number of residuals). With 77 targets one pair in 25 is above .2 by
        chance; the limit for 395 items is then .51, and higher for items that nearly all pass.
        1 leaves `above` alone.

    Returns
    -------
    tuple
        One mapping (`item`, `other`, `value`) for each pair, largest first.
    """
    corrected = mean_corrected(correlations)
    pairs = max(int(np.triu(corrected.known, 1).sum()), 1)
    deviate = float(norm.isf(min(level / pairs, 0.5)))
    by_chance = np.tanh(deviate / np.sqrt(np.maximum(corrected.effective - 3, 1)))
    large = corrected.known & (corrected.values > np.maximum(above, by_chance))
    if level >= 1:
        large = corrected.known & (corrected.values > above)
    return tuple(replace(corrected, known=large).largest(int(large.sum())))


@dataclass(frozen=True)
class PairFit:
    """LD chi-square of every pair of J items.

    Parameters
    ----------
    items
        Names.
    statistic
        Not negative, shape ``(J, J)``; 0 where `known` is False.
    effect
        Signed Cramer's V, sqrt(X2 / (n (C - 1))) with C the fewer categories: above 0 where the
        items go together more than the model says, below where less.
    degrees
        (C_1 - 1) (C_2 - 1), shape ``(J, J)``.
    known
        Off the diagonal, where any target answered both.
    """

    items: tuple[str, ...]
    statistic: FloatArray
    effect: FloatArray
    degrees: IntArray
    known: BoolArray

    def p_values(self) -> FloatArray:
        """Chance of a statistic at least as large if the model holds; 1 where nothing is known."""
        found: FloatArray = np.where(
            self.known, chi2.sf(self.statistic, np.maximum(self.degrees, 1)), 1.0
        )
        return found

    def standardised(self) -> FloatArray:
        """(X2 - df) / sqrt(2 df), roughly standard; above 10 is large (Chen & Thissen 1997)."""
        degrees = np.maximum(self.degrees, 1)
        found: FloatArray = np.where(
            self.known, (self.statistic - degrees) / np.sqrt(2 * degrees), 0
        )
        return found


def pair_fit(
    responses: Responses, parameters: ItemParameters, *, mean: float = 0.0, sd: float = 1.0
) -> PairFit:
    """LD chi-square: observed and expected joint responses to two items (Chen & Thissen 1997).

    Parameters
    ----------
    responses
        Of targets; a pair is compared over the targets that answered both.
    parameters
        Of the items, in one dimension.
    mean, sd
        Of the ability in the population.

    Raises
    ------
    InputError
        For several dimensions, or items that do not fit the responses.
    """
    check_items(responses, parameters)
    if parameters.dimensions != 1:
        raise InputError(
            "the LD chi-square is computed in one dimension", fix="use residual_correlations"
        )
    theta, density = normal_grid(mean, sd, spacing=0.1)
    chances = category_probabilities(parameters, theta[:, None])
    heaviness = responses.weights[:, None]
    chosen = [(responses.codes == code).astype(np.float64) for code in range(len(chances))]
    seen = responses.observed.astype(np.float64)
    number = (seen * heaviness).T @ seen
    size = (parameters.items, parameters.items)
    statistic = np.zeros(size)
    for first, chance in enumerate(chances):
        weighted_chance = (chance * density[:, None]).T
        weighted_choice = (chosen[first] * heaviness).T
        for second, other in enumerate(chances):
            expected = number * (weighted_chance @ other)
            away = weighted_choice @ chosen[second] - expected
            possible = expected > 1e-10
            statistic += np.where(possible, away**2 / np.where(possible, expected, 1.0), 0.0)
    known = number > 0
    np.fill_diagonal(known, val=False)
    steps = parameters.categories - 1
    fewer = np.minimum(steps[:, None], steps[None, :])
    size_of_effect = np.sqrt(statistic / np.maximum(number * fewer, 1e-300))
    excess = _covariances(responses) - _expected_covariances(parameters, theta, density)
    effect = np.where(known, np.sign(excess) * size_of_effect, 0.0)
    degrees: IntArray = steps[:, None] * steps[None, :]
    return PairFit(responses.items, np.where(known, statistic, 0.0), effect, degrees, known)


def _covariances(responses: Responses) -> FloatArray:
    """Of the responses to two items, over the targets that answered both, shape ``(J, J)``."""
    seen = responses.observed.astype(np.float64)
    codes = np.where(responses.observed, responses.codes, 0).astype(np.float64)
    weighted = codes * responses.weights[:, None]
    number = np.maximum((seen * responses.weights[:, None]).T @ seen, 1e-300)
    means = weighted.T @ seen / number
    return weighted.T @ codes / number - means * means.T


def _expected_covariances(
    parameters: ItemParameters, theta: FloatArray, density: FloatArray
) -> FloatArray:
    scores = expected_scores(parameters, theta[:, None])
    away = scores - density @ scores
    found: FloatArray = away.T @ (away * density[:, None])
    return found
