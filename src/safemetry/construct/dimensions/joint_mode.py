"""Two-parameter items and abilities at their joint posterior mode, with priors on difficulties.

Published baselines of one dimension are often such fits, written in a probabilistic programming
language with a normal prior on b and a log-normal one on a. The engine puts its priors on the
intercept d = -a b and integrates the abilities out; to see what a prior on b does, it is fitted
here as it was published: P(1) = 1 / (1 + exp(-a_j (theta_i - b_j))), theta ~ N(0, 1), all
parameters at the mode of their joint density (Mislevy 1986, section 2; Swaminathan & Gifford 1985).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses

LARGEST_LOG_SLOPE: Final = 3.0
LARGEST_DIFFICULTY: Final = 10.0
"""Bounds that hold where there is no prior: an item that separates the targets has no other."""


@dataclass(frozen=True)
class DifficultyPrior:
    """Normal prior of difficulties and log-normal prior of slopes; None stands for none.

    Parameters
    ----------
    difficulty_sd
        Standard deviation of b, whose mean is 0.
    slope_sd
        Standard deviation of log a, whose mean is 0.
    """

    difficulty_sd: float | None
    slope_sd: float | None

    def __post_init__(self) -> None:
        for value in (self.difficulty_sd, self.slope_sd):
            if value is not None and not value > 0:
                raise InputError(f"a standard deviation of {value:g} is not above 0")


@dataclass(frozen=True)
class JointMode:
    """The joint mode.

    Parameters
    ----------
    abilities
        Shape ``(N,)``.
    slopes, difficulties
        Shape ``(J,)``.
    converged
        Whether the optimiser met its tolerance.
    """

    abilities: FloatArray
    slopes: FloatArray
    difficulties: FloatArray
    converged: bool

    @property
    def probabilities(self) -> FloatArray:
        """Of a 1 at the mode, shape ``(N, J)``."""
        found: FloatArray = expit(self.slopes * (self.abilities[:, None] - self.difficulties))
        return found


def fit_joint_mode(responses: Responses, prior: DifficultyPrior) -> JointMode:
    """Fit items and abilities at their joint posterior mode.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing. An item or target without responses stays at the mode
        of its prior, or at 0 where there is none.
    prior
        Of the items.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> tight = fit_joint_mode(make_responses([[1, 0], [1, 1], [1, 0]]), DifficultyPrior(0.1, 0.1))
    >>> bool(np.abs(tight.difficulties).max() < 0.05)
    True
    """
    targets, items = responses.codes.shape
    ones = (responses.codes == 1).astype(np.float64)
    observed = responses.observed.astype(np.float64)
    weights = responses.weights[:, None]
    pull_a = 0.0 if prior.slope_sd is None else prior.slope_sd**-2
    pull_b = 0.0 if prior.difficulty_sd is None else prior.difficulty_sd**-2

    def loss(place: FloatArray) -> tuple[float, FloatArray]:
        theta, log_a, b = np.split(place, [targets, targets + items])
        a = np.exp(log_a)
        linear = a * (theta[:, None] - b)
        fit = (weights * (ones * linear - observed * np.logaddexp(0, linear))).sum()
        priors = weights[:, 0] @ theta**2 + pull_a * log_a @ log_a + pull_b * b @ b
        rest = weights * (ones - observed * expit(linear))
        slope = np.concatenate(
            [
                weights[:, 0] * theta - rest @ a,
                pull_a * log_a - (rest * linear).sum(axis=0),
                pull_b * b + a * rest.sum(axis=0),
            ]
        )
        return float(priors / 2 - fit), slope

    found = minimize(
        loss,
        _start(ones, observed),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * targets
        + [(-LARGEST_LOG_SLOPE, LARGEST_LOG_SLOPE)] * items
        + [(-LARGEST_DIFFICULTY, LARGEST_DIFFICULTY)] * items,
        options={"maxiter": 2000, "maxfun": 4000},
    )
    theta, log_a, b = np.split(np.asarray(found.x, np.float64), [targets, targets + items])
    return JointMode(theta, np.exp(log_a), b, bool(found.success))


def _start(ones: FloatArray, observed: FloatArray) -> FloatArray:
    """Log-odds of the scores of targets, standardised, and of the items; slopes of 1."""
    scores = (ones.sum(axis=1) + 0.5) / (observed.sum(axis=1) + 1)
    rates = (ones.sum(axis=0) + 0.5) / (observed.sum(axis=0) + 1)
    theta = np.log(scores / (1 - scores))
    theta = (theta - theta.mean()) / max(float(theta.std()), 1e-6)
    return np.concatenate([theta, np.zeros(len(rates)), -np.log(rates / (1 - rates))])
