"""How fits are compared: AIC, BIC and likelihood ratios of nested models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemModel, category_probabilities
from safemetry.irt.priors import NO_PRIORS
from safemetry.irt.responses import MISSING, Responses
from safemetry.irt.unidimensional.marginal import UnidimensionalFit, fit_unidimensional

if TYPE_CHECKING:
    from numpy.typing import NDArray

NESTED = (
    ItemModel.RASCH,
    ItemModel.ONE_PL,
    ItemModel.TWO_PL,
    ItemModel.THREE_PL,
    ItemModel.FOUR_PL,
)
ALIKE = (ItemModel.RASCH, ItemModel.ONE_PL)
WORSE = 1e-3


@dataclass(frozen=True)
class InformationCriteria:
    """AIC and BIC from the marginal log-likelihood without priors; lower is better.

    Parameters
    ----------
    loglik, parameters
        Log-likelihood and number of free parameters.
    aic
        Akaike (1974).
    bic_targets, bic_responses
        Schwarz (1978) with n = number of targets, and with n = number of responses.
    approximate
        Whether priors held the estimate away from the largest likelihood.
    """

    loglik: float
    parameters: int
    aic: float
    bic_targets: float
    bic_responses: float
    approximate: bool


@dataclass(frozen=True)
class LikelihoodRatio:
    """Twice the difference of log-likelihoods of two nested models.

    Parameters
    ----------
    statistic, degrees
        The statistic and the difference in parameters.
    p_value
        None where it is unknown.
    method
        ``chi2``, ``bootstrap`` or ``none``.
    why
        Why there is no p-value; empty otherwise.
    failed
        Whether the larger model fits worse, which shows a failed optimisation or a prior at work.
    draws
        Data sets simulated for the bootstrap.
    """

    statistic: float
    degrees: int
    p_value: float | None
    method: str
    why: str
    failed: bool
    draws: int = 0


def exploratory_parameters(items: int, dimensions: int) -> int:
    """Free parameters of an exploratory 2PL: p (K + 1) - K (K - 1) / 2."""
    return items * (dimensions + 1) - dimensions * (dimensions - 1) // 2


def information_criteria(
    loglik: float, parameters: int, targets: float, responses: float, *, approximate: bool
) -> InformationCriteria:
    """AIC and both BIC.

    Examples
    --------
    >>> round(information_criteria(-2658.805, 10, 1000, 5000, approximate=False).bic_targets, 2)
    5386.69
    """
    return InformationCriteria(
        loglik=loglik,
        parameters=parameters,
        aic=2 * parameters - 2 * loglik,
        bic_targets=parameters * float(np.log(targets)) - 2 * loglik,
        bic_responses=parameters * float(np.log(responses)) - 2 * loglik,
        approximate=approximate,
    )


def criteria(fit: UnidimensionalFit) -> InformationCriteria:
    """AIC and BIC of a fit."""
    return information_criteria(
        fit.loglik,
        fit.parameter_count,
        fit.target_count,
        fit.response_count,
        approximate=fit.priors != NO_PRIORS,
    )


def likelihood_ratio(small: UnidimensionalFit, large: UnidimensionalFit) -> LikelihoodRatio:
    """Likelihood-ratio test of nested models fitted to the same responses.

    A p-value is given only where the chi-squared distribution holds: not with priors, and not where
    the smaller model lies on the boundary of the larger one (asymptotes at 0 or 1: Self & Liang
    1987; use `bootstrap_likelihood_ratio`).

    Raises
    ------
    InputError
        If the models are not nested, or the fits are of different responses.
    """
    degrees = _check_nested(small, large)
    statistic = 2 * (large.loglik - small.loglik)
    failed = statistic < -WORSE
    why = ""
    if failed:
        why = "the larger model fits worse: a failed optimisation, or a prior at work"
    elif not (small.converged and large.converged):
        why = "one of the fits did not converge"
    elif small.priors != NO_PRIORS or large.priors != NO_PRIORS:
        why = "the fits use priors, so that the statistic has no known distribution"
    elif large.model in (ItemModel.THREE_PL, ItemModel.FOUR_PL) and small.model is not large.model:
        why = "the smaller model is on the boundary of the larger one; use the bootstrap"
    p_value = None if why else float(chi2.sf(max(statistic, 0.0), degrees))
    method = "none" if why else "chi2"
    return LikelihoodRatio(statistic, degrees, p_value, method, why, failed)


def bootstrap_likelihood_ratio(
    responses: Responses,
    small: UnidimensionalFit,
    large: UnidimensionalFit,
    rng: np.random.Generator,
    *,
    draws: int = 99,
) -> LikelihoodRatio:
    """Likelihood-ratio test against data simulated from the smaller model (McLachlan 1987).

    Parameters
    ----------
    responses
        What both models were fitted to; simulated data have the same missing cells.
    small, large
        Fits of nested models.
    rng
        Source of randomness.
    draws
        Simulated data sets; the smallest possible p-value is 1 / (draws + 1).
    """
    degrees = _check_nested(small, large)
    statistic = 2 * (large.loglik - small.loglik)
    exceeding, done = 0, 0
    for _ in range(draws):
        try:
            simulated = _simulate(small, responses, rng)
            fits = [
                fit_unidimensional(simulated, fit.model, fit.priors, errors=False)
                for fit in (small, large)
            ]
        except InputError:  # a column of a small sample came out constant
            continue
        done += 1
        exceeding += 2 * (fits[1].loglik - fits[0].loglik) >= statistic
    failed = statistic < -WORSE
    if not done:
        why = "no simulated data set could be fitted"
        return LikelihoodRatio(statistic, degrees, None, "none", why, failed)
    p_value = (1 + exceeding) / (1 + done)
    return LikelihoodRatio(statistic, degrees, p_value, "bootstrap", "", failed, done)


def _simulate(fit: UnidimensionalFit, responses: Responses, rng: np.random.Generator) -> Responses:
    abilities = rng.normal(scale=fit.latent_sd, size=(len(responses.targets), 1))
    chances = category_probabilities(fit.parameters, abilities).cumsum(axis=0)
    drawn: NDArray[np.int64] = (rng.random(chances.shape[1:]) > chances[:-1]).sum(axis=0)
    codes = np.where(responses.observed, drawn, MISSING).astype(np.int8)
    return Responses(codes, responses.targets, responses.items, responses.weights)


def _check_nested(small: UnidimensionalFit, large: UnidimensionalFit) -> int:
    if (small.items, small.targets) != (large.items, large.targets) or (
        small.response_count != large.response_count
    ):
        raise InputError("the two fits are of different responses")
    ranks = [NESTED.index(fit.model) if fit.model in NESTED else -1 for fit in (small, large)]
    alike = small.model in ALIKE and large.model in ALIKE
    if min(ranks) < 0 or ranks[0] >= ranks[1] or alike:
        raise InputError(f"{small.model} is not nested in {large.model}")
    return large.parameter_count - small.parameter_count
