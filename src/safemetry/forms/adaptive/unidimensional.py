"""Estimates and choice of items in one dimension, read off lattices of abilities.

Two lattices: posteriors are summed over ``nodes``, as fine as the narrowest posterior of a session
asks for, and tables are looked up between nodes of a ``fine`` one, on which cubics are right to
about 1e-5 of a value for the steepest item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.classification import cut_ability, likelihood_ratio_table
from safemetry.forms.adaptive.curves import (
    LEAST_CHANCE,
    highest_point,
    interpolated,
    interpolation,
)
from safemetry.forms.adaptive.rules import (
    a_stratified,
    interval_weights,
    kullback_leibler,
    strata_of,
)
from safemetry.forms.adaptive.settings import ONE_DIMENSION, AdaptiveSettings
from safemetry.forms.adaptive.tables import (
    category_chances,
    fine_nodes,
    log_chances,
    posterior_nodes,
    slope_tables,
)
from safemetry.forms.pool import ItemPool
from safemetry.irt.information import item_information
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

LEAST_INFORMATION: Final = 1e-12
"""Below this anywhere on the lattice, answers tell nothing and the estimate is the mean."""


@dataclass
class LatticeEvidence:
    """What n targets have answered, as sums over their items.

    Parameters
    ----------
    answered
        Scored answers, shape ``(n,)``.
    log_likelihood
        At the nodes, shape ``(n, Q)``.
    fine
        Log-likelihood, its slope, information and Warm's J at the fine nodes, shape
        ``(4, n, F)``; empty where the estimator does not need them.
    log_ratio
        Of the likelihoods at both ends of the indifference region, shape ``(n,)``.
    """

    answered: IntArray
    log_likelihood: FloatArray
    fine: FloatArray
    log_ratio: FloatArray

    def keep(self, rows: BoolArray) -> Self:
        """The evidence of some targets."""
        return type(self)(
            self.answered[rows],
            self.log_likelihood[rows],
            self.fine[:, rows],
            self.log_ratio[rows],
        )


@dataclass(frozen=True)
class Unidimensional:
    """Tables of J items on lattices of abilities.

    Parameters
    ----------
    settings
        Of the test, its cut as an ability.
    mean, sd
        Of the population.
    nodes, log_prior
        Shape ``(Q,)``; trapezoid weights are part of the prior.
    log_chances
        Of each category at the nodes, shape ``(J, C, Q)``.
    fine
        Shape ``(F,)``.
    information
        Shape ``(F, J)``.
    node_information
        Shape ``(Q, J)``, for ``posterior_information`` only.
    fine_tables
        Log-chance, its slope and Warm's share for each category at the fine nodes, shape
        ``(3, J, C, F)``; empty where the estimator needs none.
    chances
        Shape ``(C, F, J)``, for Kullback-Leibler rules only.
    stratum, location
        Of each item by slope, and the ability at which it tells most, shape ``(J,)``.
    ratios
        Log-likelihood ratio of each category, shape ``(J, C)``.
    """

    settings: AdaptiveSettings
    mean: float
    sd: float
    nodes: FloatArray
    log_prior: FloatArray
    log_chances: FloatArray
    fine: FloatArray
    information: FloatArray
    node_information: FloatArray
    fine_tables: FloatArray
    chances: FloatArray
    stratum: IntArray
    location: FloatArray
    ratios: FloatArray

    @classmethod
    def of_pool(cls, pool: ItemPool, settings: AdaptiveSettings) -> Self:
        """Tables of a pool.

        Raises
        ------
        InputError
            For a rule of several dimensions, or a start or cut beyond the lattice.
        """
        if settings.rule not in ONE_DIMENSION | {"random"}:
            raise InputError(
                f"the rule {settings.rule!r} is for several dimensions", fix="use information"
            )
        mean, sd = float(pool.mean[0]), pool.sd
        parameters = pool.parameters
        low, high = mean + sd * settings.lattice.low, mean + sd * settings.lattice.high
        settings = _with_ability_of_cut(pool, settings)
        fine = fine_nodes(parameters, low, high)
        information = item_information(parameters, fine)
        nodes = posterior_nodes(settings, parameters, fine, information, sd)
        deviates = (nodes - mean) / sd
        log_prior = -(deviates**2) / 2
        log_prior[[0, -1]] -= np.log(2)
        _check_within(settings, low, high)
        roots = settings.estimator != "eap"
        over_posterior = nodes.size if settings.rule == "posterior_information" else 0
        over_chances = settings.rule.startswith("kl")
        classified = settings.classification
        return cls(
            settings,
            mean,
            sd,
            nodes,
            log_prior,
            log_chances(parameters, nodes),
            fine,
            information,
            item_information(parameters, nodes[:over_posterior]),
            slope_tables(parameters, fine) if roots else np.empty((3, 0, 0, 0)),
            category_chances(parameters, fine[: fine.size if over_chances else 0]),
            strata_of(parameters.slopes[:, 0], settings.strata),
            fine[information.argmax(axis=0)],
            np.zeros((parameters.items, int(parameters.categories.max())))
            if classified is None
            else likelihood_ratio_table(parameters, classified),
        )

    @property
    def dimensions(self) -> int:
        """1."""
        return 1

    def begin(self, targets: int) -> LatticeEvidence:
        """The evidence of targets that have answered nothing."""
        size = self.fine.size if self.settings.estimator != "eap" else 0
        return LatticeEvidence(
            np.zeros(targets, np.int64),
            np.zeros((targets, self.nodes.size)),
            np.zeros((4, targets, size)),
            np.zeros(targets),
        )

    def observe(self, evidence: LatticeEvidence, items: IntArray, codes: IntArray) -> None:
        """Add an answer of each target, in place; a code below 0 changes nothing.

        Parameters
        ----------
        evidence
            Of n targets.
        items, codes
            Positions and categories, shape ``(n,)``.
        """
        rows = np.flatnonzero(codes >= 0)
        item, code = items[rows], codes[rows]
        evidence.answered[rows] += 1
        evidence.log_likelihood[rows] += self.log_chances[item, code]
        evidence.log_ratio[rows] += self.ratios[item, code]
        if self.settings.estimator != "eap":
            evidence.fine[0, rows] += self.fine_tables[0, item, code]
            evidence.fine[1, rows] += self.fine_tables[1, item, code]
            evidence.fine[2, rows] += self.information[:, item].T
            if self.settings.estimator == "wle":
                # Warm's J is summed over categories, whichever was given.
                evidence.fine[3, rows] += self.fine_tables[2, item].sum(axis=1)

    def estimate(self, evidence: LatticeEvidence) -> tuple[FloatArray, FloatArray]:
        """Abilities and standard errors, both shape ``(n, 1)``.

        The posterior mean and standard deviation; or the highest point of the likelihood, of the
        posterior, or of the likelihood weighted as Warm (1989) does, with the inverse root of the
        information there (of ``map`` plus that of the population). An error is infinite where
        nothing is known.
        """
        if self.settings.estimator == "eap":
            theta, se = self._mean(evidence)
        else:
            theta, se = self._highest(evidence)
        return theta[:, None], se[:, None]

    def _mean(self, evidence: LatticeEvidence) -> tuple[FloatArray, FloatArray]:
        weights = self.posterior(evidence)
        theta = np.einsum("iq,q->i", weights, self.nodes)
        away = self.nodes - theta[:, None]
        return theta, np.sqrt(np.einsum("iq,iq,iq->i", weights, away, away))

    def posterior(self, evidence: LatticeEvidence) -> FloatArray:
        """Weights over the nodes, shape ``(n, Q)``, each row summing to 1."""
        return _normalised(evidence.log_likelihood + self.log_prior)

    def _highest(self, evidence: LatticeEvidence) -> tuple[FloatArray, FloatArray]:
        value, slope, information, warm = evidence.fine
        kind = self.settings.estimator
        if kind == "map":
            deviates = (self.fine - self.mean) / self.sd
            value, slope = value - deviates**2 / 2, slope - deviates / self.sd
        elif kind == "wle":
            safe = np.maximum(information, LEAST_CHANCE)
            slope = slope + warm / (2 * safe)
            # With asymptotes Warm's term is not the derivative of log(information) / 2.
            value = np.cumsum((slope[:, 1:] + slope[:, :-1]) / 2, axis=1)
            value = np.concatenate([np.zeros((len(value), 1)), value], axis=1)
        theta = highest_point(self.fine, value, slope)
        nothing = information.max(axis=1) < LEAST_INFORMATION
        theta = np.where(nothing, self.mean, theta)
        known = interpolated(self.fine, information, theta)
        known = np.maximum(known, 0.0) + (1 / self.sd**2 if kind == "map" else 0.0)
        with np.errstate(divide="ignore"):
            return theta, 1 / np.sqrt(known)

    def criterion(self, evidence: LatticeEvidence, theta: FloatArray, step: int) -> FloatArray:
        """How useful each item is next, shape ``(n, J)``; the highest value is chosen.

        Parameters
        ----------
        evidence
            Of n targets.
        theta
            Their estimates, shape ``(n, 1)``.
        step
            Items given before.
        """
        if step == 0 and self.settings.start.population:
            prior = _normalised(-(((self.fine - self.mean) / self.sd) ** 2)[None] / 2)
            return np.repeat(prior @ self.information, len(theta), axis=0)
        at = self._choosing_ability(evidence, theta[:, 0])
        rule = self.settings.rule
        if rule == "a_stratified":
            last = self.settings.strata - 1
            stage = min(step * self.settings.strata // self.settings.budget, last)
            return a_stratified(self.location, self.stratum, at, stage)
        look_up = interpolation(self.fine, at)
        if rule == "information":
            return np.asarray(look_up @ self.information)
        if rule == "posterior_information":
            return self.posterior(evidence) @ self.node_information
        if rule == "kl_interval":
            reach = self.settings.interval_constant / np.sqrt(np.maximum(evidence.answered, 1))
            weights = interval_weights(self.nodes, at, reach)
        elif rule == "klp":
            weights = self.posterior(evidence)
        else:
            weights = _normalised(evidence.log_likelihood + self._ends)
        return kullback_leibler(look_up, self.chances, self.log_chances, weights)

    @property
    def _ends(self) -> FloatArray:
        """Logarithm of the trapezoid weights."""
        found = np.zeros(self.nodes.size)
        found[[0, -1]] = -np.log(2)
        return found

    def _choosing_ability(self, evidence: LatticeEvidence, theta: FloatArray) -> FloatArray:
        classified = self.settings.classification
        if self.settings.at_cut and classified is not None and classified.cut is not None:
            return np.full(theta.shape, classified.cut)
        given = self.settings.start.ability
        if given is None:
            return theta
        return np.where(evidence.answered == 0, given[0], theta)


def _normalised(log_weights: FloatArray) -> FloatArray:
    log_weights = log_weights - log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights)
    found: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return found


def _with_ability_of_cut(pool: ItemPool, settings: AdaptiveSettings) -> AdaptiveSettings:
    classified = settings.classification
    if classified is None or classified.cut_score is None:
        return settings
    cut = cut_ability(pool, classified.cut_score)
    return replace(settings, classification=replace(classified, cut=cut, cut_score=None))


def _check_within(settings: AdaptiveSettings, low: float, high: float) -> None:
    start, classified = settings.start.ability, settings.classification
    if start is not None and len(start) != 1:
        raise InputError("a start in one dimension is one ability")
    places = [start[0]] if start is not None else []
    if classified is not None and classified.cut is not None:
        places.append(classified.cut)
    for place in places:
        if not low <= place <= high:
            raise InputError(
                f"ability {place:g} lies beyond the lattice from {low:g} to {high:g}",
                fix="give one within it, or a wider lattice",
            )
