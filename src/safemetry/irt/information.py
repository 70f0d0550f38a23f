"""What items and tests tell about an ability, and how reliable estimated abilities are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.irt.matching import as_points
from safemetry.irt.parameters import FloatArray, ItemParameters, expected_scores


def linear_information(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Fisher information of each item about its linear predictor ``slopes @ theta``.

    The sum over categories of (dP_c)^2 / P_c (Samejima 1969, chapter 6). In one dimension the
    information about the ability is this times a^2; in several it is this times the outer product
    of the slopes (Reckase 2009, equation 5.6).

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Abilities, shape ``(N, K)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, J)``, not negative. It is 0, not NaN, where a probability underflows.
    """
    steps = parameters.intercepts
    linear = theta @ parameters.slopes.T
    chance = parameters.upper - parameters.lower
    last = parameters.categories - 1
    found = np.zeros(linear.shape)
    for category in range(steps.shape[1] + 1):
        above = _logistic(linear, steps, category)
        beyond = _logistic(linear, steps, category + 1)
        inner = chance * _gap(linear, steps, category) * (1 - above - beyond) ** 2
        # At the ends an asymptote adds to the probability but not to its derivative.
        first_part = _share(
            chance * beyond * (1 - beyond), (1 - parameters.upper) + chance * (1 - beyond)
        )
        last_part = _share(
            chance * above * _logistic(-linear, -steps, category), parameters.lower + chance * above
        )
        part = inner if category else first_part
        part = np.where(category == last, last_part if category else 0.0, part)
        found += np.where(category <= last, part, 0.0)
    return found


def _logistic(linear: FloatArray, steps: FloatArray, category: int) -> FloatArray:
    """Logistic part of reaching a category (1 for the lowest, 0 beyond the highest).

    With both arguments negated it is the complement, exact far from one half.
    """
    if category == 0:
        return np.ones(linear.shape)
    if category > steps.shape[1]:
        return np.zeros(linear.shape)
    found: FloatArray = expit(linear + steps[:, category - 1])
    return found


def _gap(linear: FloatArray, steps: FloatArray, category: int) -> FloatArray:
    """Logistic part of a middle category, s(x) - s(y) = s(x) s(-y) (1 - exp(y - x))."""
    if category == 0 or category >= steps.shape[1]:
        return np.zeros(linear.shape)
    high, low = steps[:, category - 1], steps[:, category]
    both = np.isfinite(low) & np.isfinite(high)
    apart = np.where(both, high, 0.0) - np.where(both, low, 0.0)
    shared = -np.expm1(-apart)
    found: FloatArray = expit(linear + high) * expit(-linear - np.where(both, low, 0.0)) * shared
    return found


def _share(derivative: FloatArray, probability: FloatArray) -> FloatArray:
    """derivative^2 / probability, 0 where the derivative is."""
    known = derivative > 0
    safe = np.where(known, probability, 1.0)
    found: FloatArray = np.where(known, derivative * (derivative / safe), 0.0)
    return found


def item_information(
    parameters: ItemParameters, theta: FloatArray, direction: FloatArray | None = None
) -> FloatArray:
    """Fisher information of each item, shape ``(N, J)``.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Abilities, shape ``(N, K)``, or ``(N,)`` in one dimension.
    direction
        Along which the ability changes, shape ``(K,)``; scaled to length 1 (Reckase 2009,
        equation 5.8). Needed in several dimensions only.

    Raises
    ------
    InputError
        For several dimensions without a direction, or shapes that do not fit.

    Examples
    --------
    >>> from safemetry.irt.parameters import ItemParameters
    >>> item = ItemParameters(np.array([[2.0]]), np.zeros((1, 1)), np.zeros(1), np.ones(1))
    >>> item_information(item, np.zeros(1))
    array([[1.]])
    """
    points = as_points(theta, parameters.dimensions)
    along = parameters.slopes @ _unit(direction, parameters.dimensions)
    return linear_information(parameters, points) * along**2


def total_information(
    parameters: ItemParameters, theta: FloatArray, direction: FloatArray | None = None
) -> FloatArray:
    """Information of the whole test, shape ``(N,)``; see `item_information`."""
    found: FloatArray = item_information(parameters, theta, direction).sum(axis=1)
    return found


def information_matrix(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Information about all dimensions at once, shape ``(N, K, K)``."""
    points = as_points(theta, parameters.dimensions)
    slopes = parameters.slopes
    squares = (slopes[:, :, None] * slopes[:, None, :]).reshape(len(slopes), -1)
    flat = linear_information(parameters, points) @ squares
    return flat.reshape(len(points), parameters.dimensions, parameters.dimensions)


def standard_errors(
    parameters: ItemParameters, theta: FloatArray, covariance: FloatArray | None = None
) -> FloatArray:
    """Standard error of an estimated ability in each dimension, from the expected information.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Abilities, shape ``(N, K)`` or ``(N,)``.
    covariance
        Of the ability in the population, shape ``(K, K)``: the error is then that of the posterior
        mode. Without it, that of maximum likelihood, which is unknown where the items tell nothing.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, K)``.

    Raises
    ------
    InputError
        Where the information is singular: name the points, or give `covariance`.
    """
    total = information_matrix(parameters, theta)
    if covariance is not None:
        total = total + np.linalg.inv(np.atleast_2d(covariance))
    weakest = np.linalg.eigvalsh(total)[:, 0]
    strongest = np.linalg.eigvalsh(total)[:, -1]
    empty = np.flatnonzero(~(weakest > 1e-12 * strongest))
    if empty.size:
        raise InputError(
            f"the items tell nothing about {empty.size} of {len(total)} abilities in some "
            f"direction (the first is number {empty[0] + 1})",
            fix="give the covariance of the population, or leave these points out",
        )
    found: FloatArray = np.sqrt(np.diagonal(np.linalg.inv(total), axis1=1, axis2=2))
    return found


@dataclass(frozen=True)
class InformationCurve:
    """Information and standard error along one ability.

    Parameters
    ----------
    theta
        Points, shape ``(Q,)``.
    information
        Of the whole test, shape ``(Q,)``.
    standard_error
        1 / sqrt(information), shape ``(Q,)``; 0 information gives infinity, so such points are
        left out.
    expected_score
        Expected summed response, shape ``(Q,)``.
    """

    theta: FloatArray
    information: FloatArray
    standard_error: FloatArray
    expected_score: FloatArray


def information_curve(
    parameters: ItemParameters, *, low: float = -4.0, high: float = 4.0, points: int = 161
) -> InformationCurve:
    """The information of a one-dimensional test at equally spaced abilities."""
    theta = np.linspace(low, high, points)
    total = total_information(parameters, theta)
    kept = total > 0
    theta, total = theta[kept], total[kept]
    scores = expected_scores(parameters, theta[:, None]).sum(axis=1)
    return InformationCurve(theta, total, 1 / np.sqrt(total), scores)


def marginal_reliability(
    parameters: ItemParameters, *, mean: float = 0.0, sd: float = 1.0
) -> float:
    """Share of the variance of the ability that the items tell, before anyone has answered.

    The mean over the population N(mean, sd) of I / (I + 1 / sd^2), where I is the test information
    (Thissen & Wainer 2001, chapter 3).

    Parameters
    ----------
    parameters
        Of items in one dimension.
    mean, sd
        Of the ability in the population.
    """
    theta, weights = normal_grid(mean, sd)
    total = total_information(parameters, theta)
    return float(weights @ (total / (total + 1 / sd**2)))


def empirical_reliability(
    abilities: FloatArray, errors: FloatArray, weights: FloatArray | None = None
) -> float | None:
    """Share of the variance of posterior means, var(m) / (var(m) + mean(se^2)).

    By the law of total variance the denominator estimates the variance of the abilities. It belongs
    to posterior means with their posterior standard deviations.

    Parameters
    ----------
    abilities, errors
        Posterior means and standard deviations of N targets in one dimension, shape ``(N,)``;
        targets whose error is masked are left out.
    weights
        How many targets each row stands for, shape ``(N,)``.

    Returns
    -------
    float or None
        None for fewer than two targets: one ability has no variance.
    """
    known = ~np.ma.getmaskarray(errors)
    means, spreads = np.ma.getdata(abilities)[known], np.ma.getdata(errors)[known]
    shares = (np.ones(len(known)) if weights is None else weights)[known]
    count = shares.sum()
    if len(means) < 2 or count <= 1:
        return None
    middle = shares @ means / count
    spread = float(shares @ (means - middle) ** 2 / (count - 1))
    noise = float(shares @ spreads**2 / count)
    return spread / (spread + noise) if spread + noise > 0 else None


def normal_grid(
    mean: float = 0.0, sd: float = 1.0, *, spacing: float = 0.2
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of N(mean, sd) between six standard deviations, both shape ``(Q,)``.

    Parameters
    ----------
    mean, sd
        Of the distribution.
    spacing
        Between nodes, at most, in standard deviations. For a function with features of width w the
        rectangle rule errs by about exp(-2 pi^2 w^2 / spacing^2): a spacing of .75 w is exact.
    """
    steps = max(int(np.ceil(6 / spacing)), 30)
    places = np.linspace(-6.0, 6.0, 2 * steps + 1)
    weights = np.exp(-(places**2) / 2)
    return mean + sd * places, weights / weights.sum()


def _unit(direction: FloatArray | None, dimensions: int) -> FloatArray:
    if direction is None:
        if dimensions > 1:
            raise InputError(
                f"information about {dimensions} dimensions is a matrix",
                fix="give a direction, or use information_matrix",
            )
        return np.ones(1)
    given = np.asarray(direction, np.float64)
    length = float(np.linalg.norm(given))
    if given.shape != (dimensions,) or not (np.isfinite(length) and length > 0):
        raise InputError(f"a direction in {dimensions} dimensions is as many finite numbers, not 0")
    return given / length
