"""Estimates and choice of items in several dimensions, with a Gaussian posterior of each target.

The posterior is Laplace's: its mode, and the inverse of the expected information there plus that of
the population (Segall 1996).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.curves import LEAST_CHANCE, category_curves
from safemetry.forms.adaptive.settings import SEVERAL_DIMENSIONS, AdaptiveSettings
from safemetry.forms.pool import ItemPool
from safemetry.irt.information import linear_information
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemParameters

_STEPS: Final = 100
_CLOSE: Final = 1e-10
_FAR: Final = 2.0
"""Longest step of the mode, in standard deviations of the population."""


@dataclass
class GaussianEvidence:
    """What n targets have answered, and their posteriors.

    Parameters
    ----------
    answered
        Scored answers, shape ``(n,)``.
    items, codes
        Positions and categories so far, shape ``(n, t)``; a code below 0 does not count.
    mode, covariance
        Shapes ``(n, K)`` and ``(n, K, K)``.
    """

    answered: IntArray
    items: IntArray
    codes: IntArray
    mode: FloatArray
    covariance: FloatArray

    def keep(self, rows: BoolArray) -> Self:
        """The evidence of some targets."""
        return type(self)(
            self.answered[rows],
            self.items[rows],
            self.codes[rows],
            self.mode[rows],
            self.covariance[rows],
        )

    @property
    def log_ratio(self) -> FloatArray:
        """0: sequential tests are in one dimension."""
        return np.zeros(self.answered.size)


@dataclass(frozen=True)
class Multidimensional:
    """J items in K dimensions.

    Parameters
    ----------
    settings
        Of the test.
    parameters
        Of the items.
    mean, covariance
        Of the population.
    plain
        Whether all items have two categories and no asymptotes, for which information is quick.
    """

    settings: AdaptiveSettings
    parameters: ItemParameters
    mean: FloatArray
    covariance: FloatArray
    plain: bool

    @classmethod
    def of_pool(cls, pool: ItemPool, settings: AdaptiveSettings) -> Self:
        """The engine of a pool.

        Raises
        ------
        InputError
            For a rule, a start or a classification of one dimension.
        """
        if settings.rule not in SEVERAL_DIMENSIONS | {"random"}:
            raise InputError(
                f"the rule {settings.rule!r} is for one dimension", fix="use determinant or trace"
            )
        if settings.classification is not None:
            raise InputError("a classification is in one dimension")
        if settings.start.population:
            raise InputError("a start over the population is in one dimension")
        start = settings.start.ability
        if start is not None and len(start) != pool.parameters.dimensions:
            raise InputError(f"a start has {pool.parameters.dimensions} abilities here")
        parameters = pool.parameters
        binary = parameters.intercepts.shape[1] == 1
        open_ended = not ((parameters.lower > 0).any() or (parameters.upper < 1).any())
        return cls(settings, parameters, pool.mean, pool.covariance, binary and open_ended)

    @property
    def dimensions(self) -> int:
        """K."""
        return self.parameters.dimensions

    def begin(self, targets: int) -> GaussianEvidence:
        """The evidence of targets that have answered nothing."""
        return GaussianEvidence(
            np.zeros(targets, np.int64),
            np.empty((targets, 0), np.int64),
            np.empty((targets, 0), np.int64),
            np.repeat(self.mean[None], targets, axis=0),
            np.repeat(self.covariance[None], targets, axis=0),
        )

    def observe(self, evidence: GaussianEvidence, items: IntArray, codes: IntArray) -> None:
        """Add an answer of each target, in place; a code below 0 changes nothing."""
        evidence.answered += codes >= 0
        evidence.items = np.concatenate([evidence.items, items[:, None]], axis=1)
        evidence.codes = np.concatenate([evidence.codes, codes[:, None]], axis=1)

    def estimate(self, evidence: GaussianEvidence) -> tuple[FloatArray, FloatArray]:
        """Modes and posterior standard deviations, both shape ``(n, K)``."""
        self._settle(evidence)
        errors = np.sqrt(np.diagonal(evidence.covariance, axis1=1, axis2=2))
        return evidence.mode.copy(), errors

    def _settle(self, evidence: GaussianEvidence) -> None:
        """Move each posterior to its mode, by Fisher scoring from where it was.

        A step that lowers the posterior is halved: full steps need not converge from afar.
        """
        if not evidence.items.shape[1]:
            return
        base = evidence.mode
        move = np.zeros(base.shape)
        height = np.full(len(base), -np.inf)
        precision = np.asarray(np.linalg.inv(self.covariance), np.float64)
        for _ in range(_STEPS):
            trial = base + move
            value, score, information = self._local(evidence, trial, precision)
            better = value >= height - _CLOSE * np.abs(value)
            base = np.where(better[:, None], trial, base)
            height = np.where(better, value, height)
            move[~better] /= 2
            if better.any():
                covariance = np.linalg.inv(information[better])
                evidence.covariance[better] = covariance
                step = np.einsum("ikl,il->ik", covariance, score[better])
                length = np.sqrt(np.einsum("ik,kl,il->i", step, precision, step))
                move[better] = step * np.minimum(1.0, _FAR / np.maximum(length, 1e-300))[:, None]
            if float(np.abs(move).max()) < _CLOSE:
                break
        evidence.mode = base

    def _local(
        self, evidence: GaussianEvidence, theta: FloatArray, precision: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Logarithm of the posterior, its slope, and the expected information with the prior's."""
        slopes = self.parameters.slopes[evidence.items]
        linear = np.einsum("itk,ik->it", slopes, theta)
        parts = self._plain_parts if self.plain else self._general_parts
        logs, ratio, told = (
            np.where(evidence.codes >= 0, part, 0.0) for part in parts(evidence, linear)
        )
        away = theta - self.mean
        value = logs.sum(axis=1)
        value -= np.einsum("ik,kl,il->i", away, precision, away) / 2
        score = np.einsum("it,itk->ik", ratio, slopes) - away @ precision
        weighted = slopes * told[:, :, None]
        information: FloatArray = np.swapaxes(weighted, 1, 2) @ slopes + precision
        return value, score, information

    def _plain_parts(
        self, evidence: GaussianEvidence, linear: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log-chance of each answer, its slope, and information; for two categories."""
        place = linear + self.parameters.intercepts[evidence.items, 0]
        small = np.exp(-np.abs(place))
        share = 1 / (1 + small)
        chance = np.where(place > 0, share, small * share)
        logs = place * (evidence.codes > 0) - np.maximum(place, 0.0) + np.log(share)
        return logs, (evidence.codes > 0) - chance, small * share * share

    def _general_parts(
        self, evidence: GaussianEvidence, linear: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same for any items."""
        parameters, items = self.parameters, evidence.items
        steps = np.moveaxis(parameters.intercepts[items], -1, 0)
        chances, change, _ = category_curves(
            linear, steps, parameters.lower[items], parameters.upper[items]
        )
        safe = np.maximum(chances, LEAST_CHANCE)
        codes = np.maximum(evidence.codes, 0)[None]
        given = np.take_along_axis(safe, codes, 0)[0]
        ratio = np.take_along_axis(change, codes, 0)[0] / given
        return np.log(given), ratio, (change * change / safe).sum(axis=0)

    def criterion(self, evidence: GaussianEvidence, theta: FloatArray, step: int) -> FloatArray:
        """How useful each item is next, shape ``(n, J)``.

        An answer adds w a a' to the information, where w is the information about the linear
        predictor. The determinant of the information grows by the factor 1 + w a'Va (Segall 1996);
        the sum of posterior variances falls by w a'VVa / (1 + w a'Va); the variance of the expected
        score over all items, whose slope is g, by w (a'Vg)^2 / (1 + w a'Va) (c-optimality, Silvey
        1980). ``posterior_determinant``
        takes the mean of w over the posterior, for the logistic function by MacKay's (1992)
        approximation.
        """
        del step
        given = self.settings.start.ability
        if given is not None:
            theta = np.where(evidence.answered[:, None] == 0, np.array(given), theta)
        spread = self._quadratic(evidence.covariance)
        if self.settings.rule == "posterior_determinant":
            if not self.plain:
                raise InputError(
                    "posterior_determinant is for two categories without asymptotes",
                    fix="use determinant",
                )
            shrink = 1 / np.sqrt(1 + np.pi / 8 * spread)
            return self._told(theta, shrink) * shrink * spread
        told = self._told(theta, None)
        if self.settings.rule == "score":
            along = np.einsum("ikl,il->ik", evidence.covariance, self._score_slope(theta))
            fall: FloatArray = (along @ self.parameters.slopes.T) ** 2
            return told * fall / (1 + told * spread)
        if self.settings.rule == "trace":
            squared = evidence.covariance @ evidence.covariance
            return told * self._quadratic(squared) / (1 + told * spread)
        return told * spread

    def _score_slope(self, theta: FloatArray) -> FloatArray:
        """Derivative of the expected mean score over all items by the ability, ``(n, K)``."""
        parameters = self.parameters
        linear = theta @ parameters.slopes.T
        found = np.zeros(linear.shape)
        for step in parameters.intercepts.T:
            exists = np.isfinite(step)
            half = np.exp(-np.abs(linear + np.where(exists, step, 0.0)))
            found += np.where(exists, half / (1 + half) ** 2, 0.0)
        found *= (parameters.upper - parameters.lower) / np.maximum(parameters.categories - 1, 1)
        slope: FloatArray = found @ parameters.slopes / parameters.items
        return slope

    def _quadratic(self, matrices: FloatArray) -> FloatArray:
        """The form a'Va of every item, shape ``(n, J)``."""
        slopes = self.parameters.slopes
        squares = (slopes[:, :, None] * slopes[:, None, :]).reshape(len(slopes), -1)
        found: FloatArray = matrices.reshape(len(matrices), -1) @ squares.T
        return found

    def _told(self, theta: FloatArray, shrink: FloatArray | None) -> FloatArray:
        """Information about each linear predictor, which `shrink` multiplies before."""
        if not self.plain:
            return linear_information(self.parameters, theta)
        linear = theta @ self.parameters.slopes.T + self.parameters.intercepts[:, 0]
        if shrink is not None:
            linear *= shrink
        # P (1 - P) = 1 / (4 cosh^2(x / 2)), without cancellation for large |x|.
        half = np.exp(-np.abs(linear))
        found: FloatArray = half / (1 + half) ** 2
        return found
