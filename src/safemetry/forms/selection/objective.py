"""What makes a form good: what its answers leave unknown of an ability, or of the full score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

import numpy as np
from scipy.special import expit, ndtri

from safemetry.errors import InputError
from safemetry.forms.pool import ItemPool
from safemetry.irt.information import linear_information
from safemetry.irt.parameters import FloatArray, IntArray, ItemParameters, category_probabilities

_BLOCK: Final = 4096
_POINTS: Final = 128
_POWERS: Final = (4.0, 12.0, 60.0, 240.0)
_FLOOR: Final = 1e-12


class Objective(StrEnum):
    """What a form is chosen for."""

    VARIANCE = "variance"
    """Expected posterior variance of the ability; in several dimensions its trace."""

    SCORE = "score"
    """Expected variance of the score on the whole pool, given the answers to the form."""

    DETERMINANT = "determinant"
    """Expected logarithm of the determinant of the posterior covariance (D-optimality)."""

    MEAN = "mean"
    """Mean information over the population."""

    MAXIMIN = "maximin"
    """Least information relative to a wished one at several abilities."""


class Criterion(Protocol):
    """An objective for the J items of one pool; higher values are better forms."""

    def value(self, chosen: IntArray) -> float:
        """Of a form."""
        ...

    def after(self, chosen: IntArray) -> FloatArray:
        """Of a form with one more item, for each item of the pool, shape ``(J,)``."""
        ...


@dataclass(frozen=True)
class Wished:
    """Information that is wished for at some abilities, up to a common factor.

    Parameters
    ----------
    theta
        Abilities, shape ``(P,)``.
    shape
        Wished information at each of them, relative to each other, all above 0; all the same by
        default.
    """

    theta: tuple[float, ...]
    shape: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.theta or not np.isfinite(self.theta).all():
            raise InputError("information is wished for at one finite ability or more")
        if self.shape and len(self.shape) != len(self.theta):
            raise InputError(
                f"{len(self.shape)} values are wished for at {len(self.theta)} abilities"
            )
        if not all(np.isfinite(value) and value > 0 for value in self.shape):
            raise InputError("wished information is above 0 at every ability")

    @property
    def relative(self) -> FloatArray:
        """Wished information, shape ``(P,)``, with mean 1."""
        found = np.array(self.shape or (1.0,) * len(self.theta))
        return np.asarray(found / found.mean(), np.float64)


def wished_over_population(pool: ItemPool) -> Wished:
    """The same information at the 5th, 25th, 50th, 75th and 95th percentile of the population."""
    places = ndtri([0.05, 0.25, 0.5, 0.75, 0.95])
    return Wished(tuple((float(pool.mean[0]) + pool.sd * places).tolist()))


@dataclass(frozen=True)
class LinearCriterion:
    """A sum of values of items.

    Parameters
    ----------
    values
        Of the items, shape ``(J,)``.
    """

    values: FloatArray

    def value(self, chosen: IntArray) -> float:
        """The sum over a form."""
        return float(self.values[chosen].sum())

    def after(self, chosen: IntArray) -> FloatArray:
        """The sum with each item more, shape ``(J,)``."""
        return self.values + self.value(chosen)


@dataclass(frozen=True)
class PosteriorCriterion:
    """Expected uncertainty that a form leaves, negative so that higher is better.

    At each ability the posterior precision is that of the population plus the information of the
    form, W = (Sigma^-1 + sum over items of L a a')^-1, with the information L about the linear
    predictor and the slopes a (van der Linden 1999, equation 8). The criterion is -E tr(M W), or
    -E log det W. One more item changes W by a matrix of rank one, so that all candidates follow
    from two quadratic forms (Sherman & Morrison 1950).

    Parameters
    ----------
    linear
        L at Q abilities, shape ``(Q, J)``.
    slopes
        Shape ``(J, K)``.
    weights
        Of the abilities, shape ``(Q,)``.
    prior
        Sigma^-1, shape ``(K, K)``.
    metric
        M at each ability, shape ``(Q, K, K)``; None for the determinant.
    noise
        What an item adds to the criterion by being known, shape ``(J,)``.
    """

    linear: FloatArray
    slopes: FloatArray
    weights: FloatArray
    prior: FloatArray
    metric: FloatArray | None
    noise: FloatArray

    def value(self, chosen: IntArray) -> float:
        """Of a form."""
        covariance = self._covariance(chosen)
        known = float(self.noise[chosen].sum() - self.noise.sum())
        if self.metric is None:
            return known - float(self.weights @ np.linalg.slogdet(covariance)[1])
        traces = np.einsum("qij,qji->q", self.metric, covariance)
        return known - float(self.weights @ traces)

    def after(self, chosen: IntArray) -> FloatArray:
        """Of a form with each item more, shape ``(J,)``."""
        count, dims = self.slopes.shape
        covariance = self._covariance(chosen)
        flat: FloatArray = covariance.reshape(len(covariance), -1)
        moved: FloatArray = flat
        if self.metric is not None:
            product: FloatArray = covariance @ self.metric @ covariance
            moved = product.reshape(len(covariance), -1)
        found = self.noise + self.value(chosen)
        for start in range(0, count, _BLOCK):
            part = slice(start, start + _BLOCK)
            squares = (self.slopes[part, :, None] * self.slopes[part, None, :]).reshape(
                -1, dims * dims
            )
            linear = self.linear[:, part]
            shrink = linear * (flat @ squares.T)
            if self.metric is None:
                found[part] += self.weights @ np.log1p(shrink)
            else:
                found[part] += self.weights @ (linear * (moved @ squares.T) / (1 + shrink))
        return found

    def _covariance(self, chosen: IntArray) -> FloatArray:
        dims = self.slopes.shape[1]
        slopes = self.slopes[chosen]
        squares = (slopes[:, :, None] * slopes[:, None, :]).reshape(-1, dims * dims)
        total = (self.linear[:, chosen] @ squares).reshape(-1, dims, dims) + self.prior
        return np.asarray(np.linalg.inv(total), np.float64)


@dataclass(frozen=True)
class MaximinCriterion:
    """Least information relative to a wished one, in a smooth form that tells all forms apart.

    The power mean of the relative informations with a negative exponent lies between their minimum
    and their mean; the larger the exponent the closer to the minimum.

    Parameters
    ----------
    relative
        Information of the items over the wished one, shape ``(P, J)``.
    power
        Minus the exponent, above 0.
    """

    relative: FloatArray
    power: float = _POWERS[0]

    def sharper(self) -> tuple[MaximinCriterion, ...]:
        """The same ever closer to the minimum: a form improved step by step ends higher."""
        return tuple(replace(self, power=power) for power in _POWERS[1:])

    def least(self, chosen: IntArray) -> float:
        """Least relative information of a form, which `value` is a smooth form of."""
        return float(self.relative[:, chosen].sum(axis=1).min())

    def value(self, chosen: IntArray) -> float:
        """Of a form."""
        return float(self._power_mean(self.relative[:, chosen].sum(axis=1)[:, None])[0])

    def after(self, chosen: IntArray) -> FloatArray:
        """Of a form with each item more, shape ``(J,)``."""
        return self._power_mean(self.relative[:, chosen].sum(axis=1)[:, None] + self.relative)

    def _power_mean(self, total: FloatArray) -> FloatArray:
        lowest = np.maximum(total.min(axis=0), _FLOOR)
        ratios = np.maximum(total, _FLOOR) / lowest
        found: FloatArray = lowest * np.mean(ratios**-self.power, axis=0) ** (-1 / self.power)
        return found


def criterion(
    pool: ItemPool, objective: Objective | str = Objective.SCORE, wished: Wished | None = None
) -> Criterion:
    """An objective for a pool.

    Parameters
    ----------
    pool
        Items and population, in K dimensions; `MAXIMIN` needs one dimension.
    objective
        See `Objective`. `SCORE` is the delta method: the posterior covariance of the ability
        between two slopes of the expected score on the whole pool, plus the chance variance of the
        items that the form leaves out (in fractions of the score, squared).
    wished
        Information wished for by `MAXIMIN`; see `wished_over_population` for the default.

    Raises
    ------
    InputError
        For an unknown objective, or maximin in several dimensions.
    """
    try:
        kind = Objective(objective)
    except ValueError:
        known = ", ".join(Objective)
        raise InputError(f"there is no objective {objective!r}", fix=f"use {known}") from None
    if kind is Objective.MAXIMIN:
        return MaximinCriterion(relative_information(pool, wished))
    theta, weights = nodes(pool)
    linear = linear_information(pool.parameters, theta)
    slopes = pool.parameters.slopes
    if kind is Objective.MEAN:
        return LinearCriterion((weights @ linear) * (slopes**2).sum(axis=1))
    dims = pool.parameters.dimensions
    noise = np.zeros(len(slopes))
    metric: FloatArray | None = None
    if kind is Objective.VARIANCE:
        metric = np.broadcast_to(np.eye(dims), (len(theta), dims, dims))
    elif kind is Objective.SCORE:
        gradient = score_slopes(pool.parameters, theta) @ slopes / len(slopes)
        metric = gradient[:, :, None] * gradient[:, None, :]
        noise = weights @ score_variances(pool.parameters, theta) / len(slopes) ** 2
    prior = np.asarray(np.linalg.inv(pool.covariance), np.float64)
    return PosteriorCriterion(linear, slopes, weights, prior, metric, noise)


def relative_information(pool: ItemPool, wished: Wished | None = None) -> FloatArray:
    """Information of each item over the wished one, shape ``(P, J)``.

    Raises
    ------
    InputError
        In several dimensions.
    """
    if pool.parameters.dimensions > 1:
        raise InputError(
            "information at single abilities is balanced in one dimension only",
            fix="use the objective variance or determinant",
        )
    goal = wished or wished_over_population(pool)
    return pool.information(np.array(goal.theta)) / goal.relative[:, None]


def mean_information(pool: ItemPool) -> FloatArray:
    """Mean information of each item over the population, summed over dimensions, shape ``(J,)``."""
    theta, weights = nodes(pool)
    found: FloatArray = weights @ linear_information(pool.parameters, theta)
    return np.asarray(found * (pool.parameters.slopes**2).sum(axis=1), np.float64)


def nodes(pool: ItemPool) -> tuple[FloatArray, FloatArray]:
    """Abilities that stand for the population, shape ``(Q, K)``, and their weights ``(Q,)``.

    In one dimension a lattice. In several 128 points of a Kronecker sequence with the powers of the
    root of x^(K + 1) = x + 1 (Roberts 2018), their mirror images among them, turned and scaled so
    that mean and covariance are exact; they are always the same.
    """
    dims = pool.parameters.dimensions
    if dims == 1:
        theta, weights = pool.population()
        return theta[:, None], weights
    root = 1.5
    for _ in range(60):
        root = (1 + root) ** (1 / (dims + 1))
    steps = np.arange(1, _POINTS // 2 + 1)[:, None] * root ** -np.arange(1, dims + 1)
    half = ndtri((0.5 + steps) % 1)
    half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
    scale = np.linalg.cholesky(pool.covariance)
    points = pool.mean + np.concatenate([half, -half]) @ scale.T
    return points, np.full(_POINTS, 1 / _POINTS)


def score_slopes(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Slope of each expected outcome in its linear predictor, shape ``(Q, J)``.

    An outcome is code / (categories - 1), between 0 and 1.
    """
    linear = theta @ parameters.slopes.T
    found = np.zeros(linear.shape)
    for step in parameters.intercepts.T:
        found += expit(linear + step) * expit(-linear - step)
    steepest: FloatArray = (parameters.upper - parameters.lower) * found
    return steepest / _steps(parameters)


def score_variances(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Variance of each outcome at given abilities, shape ``(Q, J)``; see `score_slopes`."""
    first = np.zeros((len(theta), parameters.items))
    second = np.zeros_like(first)
    for code, chance in enumerate(category_probabilities(parameters, theta)):
        first += code * chance
        second += code**2 * chance
    found: FloatArray = np.maximum(second - first**2, 0) / _steps(parameters) ** 2
    return found


def _steps(parameters: ItemParameters) -> IntArray:
    return np.maximum(parameters.categories - 1, 1)
