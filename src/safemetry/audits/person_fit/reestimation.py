"""Abilities of very many patterns of responses to the same items.

Everything that depends on the ability alone is tabulated once on a fine lattice. For logistic items
the responses enter through one sum, s = sum a x (Birnbaum 1968), so that an estimate is a look-up
of s; for other models the slope of the log-likelihood at each node is a matrix product.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from safemetry.audits.person_fit.curves import curves
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters

Method = Literal["wle", "map", "ml"]
METHODS: Final = ("wle", "map", "ml")
Patterns = NDArray[Any]
"""Codes of R patterns over the items of one target, shape ``(R, J)``, none missing."""

REACH: Final = 8.0
"""Abilities are sought within this many standard deviations of the population."""

_FINE: Final = 0.01
_ROUGH: Final = 0.05
_BLOCK: Final = 256


class Abilities(Protocol):
    """Estimates the ability of patterns; `row` says whose items they answer."""

    nodes: FloatArray

    def estimate(self, row: int, patterns: Patterns) -> FloatArray:
        """Estimates, shape ``(R,)``."""
        ...

    def log_density(self, row: int, patterns: Patterns) -> FloatArray:
        """Log posterior density at the nodes up to a constant, shape ``(R, Q)``."""
        ...


class LogisticTables:
    """Sums over the items of each row of a mask, along the ability, for logistic items.

    Parameters
    ----------
    parameters
        Of J items with two categories and no asymptotes.
    masks
        Which items each of P rows has, shape ``(P, J)``.
    mean, sd
        Of the abilities in the population.
    """

    def __init__(
        self, parameters: ItemParameters, masks: BoolArray, mean: float, sd: float
    ) -> None:
        self.nodes = lattice(mean, sd, _FINE)
        self.distinct, self.place = np.unique(masks, axis=0, return_inverse=True)
        self.place = self.place.ravel()
        kept = self.distinct.astype(np.float64)
        slopes, steps = parameters.slopes[:, 0], parameters.intercepts[:, 0]
        shape = (7, len(kept), len(self.nodes))
        sums = np.zeros(shape)
        for start in range(0, len(slopes), _BLOCK):
            part = slice(start, start + _BLOCK)
            a, d, share = slopes[part], steps[part], kept[:, part]
            chance = expit(self.nodes[:, None] * a + d)
            variance = chance * (1 - chance)
            skew = variance * (1 - 2 * chance)
            sums[0] += (share * a) @ chance.T
            sums[1] += (share * d) @ chance.T
            sums[2] += share @ variance.T
            sums[3] += (share * a * a) @ variance.T
            sums[4] += (share * a * d) @ variance.T
            sums[5] += (share * d * d) @ variance.T
            sums[6] += (share * a**3) @ skew.T
        self._sums = sums

    def sums(self, row: int) -> FloatArray:
        """Sums over items of a P, d P, PQ, a^2 PQ, a d PQ, d^2 PQ, a^3 PQ(1-2P), ``(7, Q)``."""
        found: FloatArray = self._sums[:, self.place[row]]
        return found

    def at(self, row: int, which: int, theta: FloatArray) -> FloatArray:
        """One of the sums at abilities within the lattice, shape ``(R,)``."""
        found: FloatArray = np.interp(theta, self.nodes, self.sums(row)[which])
        return found


class LogisticAbilities:
    """Abilities by look-up of s = sum a x, for logistic items; see `make_abilities`."""

    def __init__(
        self,
        parameters: ItemParameters,
        masks: BoolArray,
        method: Method,
        population: tuple[float, float],
    ) -> None:
        self.tables = LogisticTables(parameters, masks, *population)
        self.nodes = self.tables.nodes
        self._slopes = parameters.slopes[:, 0].astype(np.float32)
        self._masks, self._method, self._population = masks, method, population
        # What s would have to be for each node to be the root of the estimating equation.
        self._targets = np.stack(
            [self._root_sums(row) for row in np.unique(self.tables.place, return_index=True)[1]]
        )

    def _root_sums(self, row: int) -> FloatArray:
        sums = self.tables.sums(row)
        extra = _extra(self._method, self.nodes, self._population, sums[3], sums[6])
        # Warm's equation can have several roots; this takes one of them, the same for all patterns.
        found: FloatArray = np.maximum.accumulate(sums[0] - extra)
        return found

    def sufficient(self, row: int, patterns: Patterns) -> FloatArray:
        """S = sum a x, shape ``(R,)``."""
        found: FloatArray = np.asarray(patterns @ self._slopes[self._masks[row]], np.float64)
        return found

    def estimate(self, row: int, patterns: Patterns) -> FloatArray:
        """Estimates, shape ``(R,)``."""
        return self.looked_up(row, self.sufficient(row, patterns))

    def looked_up(self, row: int, sums: FloatArray) -> FloatArray:
        """Estimates from s."""
        found: FloatArray = np.interp(sums, self._targets[self.tables.place[row]], self.nodes)
        return found

    def log_density(self, row: int, patterns: Patterns) -> FloatArray:
        """Log posterior density at the nodes up to a constant, shape ``(R, Q)``."""
        sums = self.tables.sums(row)
        extra = _extra(self._method, self.nodes, self._population, sums[3], sums[6])
        slope = self.sufficient(row, patterns)[:, None] - (sums[0] - extra)
        return _integrated(slope, self.nodes)


class CategoryAbilities:
    """Abilities by the slope of the log-likelihood on the lattice; see `make_abilities`."""

    def __init__(
        self,
        parameters: ItemParameters,
        masks: BoolArray,
        method: Method,
        population: tuple[float, float],
    ) -> None:
        self.nodes = lattice(*population, _ROUGH)
        found = curves(parameters, self.nodes)
        scores = found.scores
        self._scores = np.ascontiguousarray(scores.transpose(0, 2, 1), np.float32)
        self._masks = masks
        step = 1e-4
        ahead = curves(parameters, self.nodes + step).changes
        bend = (ahead - curves(parameters, self.nodes - step).changes) / (2 * step)
        information = (found.changes * scores).sum(axis=0)
        skew = (scores * bend).sum(axis=0)
        kept = masks.astype(np.float64)
        self._extra = _extra(method, self.nodes, population, kept @ information.T, kept @ skew.T)

    def estimate(self, row: int, patterns: Patterns) -> FloatArray:
        """Estimates, shape ``(R,)``."""
        slopes = self._slopes(row, patterns)
        peak = _integrated(slopes, self.nodes).argmax(axis=1)
        rows = np.arange(len(slopes))
        last = len(self.nodes) - 1
        left = np.clip(np.where(slopes[rows, peak] > 0, peak, peak - 1), 0, last - 1)
        high, low = slopes[rows, left], slopes[rows, left + 1]
        fall = high - low
        share = np.where(np.abs(fall) > 1e-12, high / np.where(fall == 0, 1.0, fall), 0.5)
        spacing = self.nodes[1] - self.nodes[0]
        found: FloatArray = self.nodes[left] + np.clip(share, 0.0, 1.0) * spacing
        return found

    def log_density(self, row: int, patterns: Patterns) -> FloatArray:
        """Log posterior density at the nodes up to a constant, shape ``(R, Q)``."""
        return _integrated(self._slopes(row, patterns), self.nodes)

    def _slopes(self, row: int, patterns: Patterns) -> FloatArray:
        kept = self._masks[row]
        found = np.zeros((len(patterns), len(self.nodes)))
        for code, scores in enumerate(self._scores):
            found += (patterns == code).astype(np.float32) @ scores[kept]
        found += self._extra[row]
        return found


def make_abilities(
    parameters: ItemParameters,
    masks: BoolArray,
    method: Method,
    population: tuple[float, float],
) -> LogisticAbilities | CategoryAbilities:
    """Tables from which abilities are read.

    Parameters
    ----------
    parameters
        Of J items in one dimension.
    masks
        Which items each target answered, shape ``(N, J)``.
    method
        ``wle`` (Warm 1989), ``map`` (posterior mode) or ``ml``, within 8 standard deviations of the
        population's mean.
    population
        Mean and standard deviation of the abilities.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}", fix=f"use one of {', '.join(METHODS)}")
    kind = LogisticAbilities if is_logistic(parameters) else CategoryAbilities
    return kind(parameters, masks, method, population)


def is_logistic(parameters: ItemParameters) -> bool:
    """Whether all items have two categories and no asymptotes."""
    asymptotes = (parameters.lower > 0).any() or (parameters.upper < 1).any()
    return parameters.intercepts.shape[1] == 1 and not asymptotes


def lattice(mean: float, sd: float, spacing: float) -> FloatArray:
    """Abilities within `REACH` standard deviations, `spacing` of them apart."""
    count = round(2 * REACH / spacing) + 1
    found: FloatArray = mean + sd * np.linspace(-REACH, REACH, count)
    return found


def draw_abilities(
    abilities: Abilities, row: int, pattern: Patterns, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draws from the posterior of the ability of one pattern, shape ``(draws,)``.

    The prior is that of the estimator: the population for ``map``, Jeffreys' for ``wle`` (Warm
    1989, eq. 12), flat for ``ml``.
    """
    density = np.exp(abilities.log_density(row, pattern[None])[0])
    cumulated = np.cumsum(density)
    spacing = abilities.nodes[1] - abilities.nodes[0]
    edges = abilities.nodes + spacing / 2
    found: FloatArray = np.interp(rng.random(draws) * cumulated[-1], cumulated, edges)
    return found


def _extra(
    method: Method,
    nodes: FloatArray,
    population: tuple[float, float],
    information: FloatArray,
    skew: FloatArray,
) -> FloatArray:
    """What an estimator adds to the slope of the log-likelihood."""
    if method == "wle":
        safe = np.maximum(information, 1e-300)
        found: FloatArray = np.where(information > 1e-300, skew / (2 * safe), 0.0)
        return found
    if method == "map":
        pull: FloatArray = np.broadcast_to(
            (population[0] - nodes) / population[1] ** 2, information.shape
        )
        return pull
    return np.zeros(information.shape)


def _integrated(slopes: FloatArray, nodes: FloatArray) -> FloatArray:
    """The function of these slopes, with its largest value 0."""
    spacing = nodes[1] - nodes[0]
    steps = (slopes[:, 1:] + slopes[:, :-1]) / 2 * spacing
    found = np.concatenate([np.zeros((len(slopes), 1)), np.cumsum(steps, axis=1)], axis=1)
    peaked: FloatArray = found - found.max(axis=1, keepdims=True)
    return peaked
