"""Data sets as one dimension would have made them: the null of the verdict.

A model of one dimension is fitted to the responses, and new responses are drawn from it with the
same targets, items and missing cells. The ability of a target is by default a draw from its own
posterior (a plausible value, Mislevy 1991), not from the population: the abilities of released
models are skewed and come in families, and a draw from N(0, 1) would not keep that. Items are draws
from their posterior after a variational fit, and the estimates after one by marginal likelihood.
These are posterior predictive draws (Rubin 1984).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from safemetry.construct.dimensions.models import CandidateModel
from safemetry.construct.spectra.null_matrices import draw_outcomes
from safemetry.errors import InputError
from safemetry.irt.ability import plausible_values
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.result import MultidimensionalFit
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import FloatArray, ItemParameters, reaching
from safemetry.irt.responses import MISSING, Responses
from safemetry.irt.unidimensional.marginal import UnidimensionalFit, fit_unidimensional

AbilitySource = Literal["posterior", "population"]


@dataclass(frozen=True)
class OneDimension:
    """A fitted model of one dimension, as responses are drawn from it.

    Parameters
    ----------
    parameters
        Of J items in one dimension.
    latent_sd
        Standard deviation of the abilities in the population, whose mean is 0.
    ability_mean, ability_sd
        Normal posterior of each target, shape ``(N,)``; None where it is read off the responses
        and the items.
    item_covariance
        Of slope and intercept given the abilities, shape ``(J, 2, 2)``; None where it is unknown.
    """

    parameters: ItemParameters
    latent_sd: float = 1.0
    ability_mean: FloatArray | None = None
    ability_sd: FloatArray | None = None
    item_covariance: FloatArray | None = None


def fit_one_dimension(responses: Responses, model: CandidateModel) -> OneDimension:
    """Fit a candidate of one dimension to all responses.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    model
        Fitted by marginal likelihood, or by the variational method in one explored dimension.

    Raises
    ------
    InputError
        For a model of several dimensions.
    """
    if model.dimensions != 1:
        raise InputError(f"{model.name!r} has {model.dimensions} dimensions; the null has one")
    if model.marginal:
        return as_one_dimension(fit_unidimensional(responses, model.item_model, errors=False))
    settings = DimensionalSettings(model=model.item_model, likelihood=False)
    return as_one_dimension(fit_multidimensional(responses, 1, settings))


def as_one_dimension(fit: UnidimensionalFit | MultidimensionalFit) -> OneDimension:
    """What is needed of a fit in one dimension to draw responses from it."""
    if isinstance(fit, UnidimensionalFit):
        return OneDimension(fit.parameters, fit.latent_sd)
    if len(fit.dimensions) != 1:
        raise InputError(f"the fit has {len(fit.dimensions)} dimensions; the null has one")
    return OneDimension(
        fit.parameters,
        ability_mean=fit.abilities[:, 0],
        ability_sd=np.sqrt(fit.ability_covariance[:, 0, 0]),
        item_covariance=fit.item_covariance,
    )


def draw_abilities(
    responses: Responses,
    model: OneDimension,
    rng: np.random.Generator,
    abilities: AbilitySource = "posterior",
) -> FloatArray:
    """One ability for each target, shape ``(N,)``."""
    targets = len(responses.targets)
    if abilities == "population":
        return model.latent_sd * rng.standard_normal(targets)
    if model.ability_mean is not None and model.ability_sd is not None:
        return model.ability_mean + model.ability_sd * rng.standard_normal(targets)
    values = plausible_values(model.parameters, responses, 1, rng, latent_sd=model.latent_sd)
    chosen: FloatArray = values[0]
    return chosen


def draw_items(model: OneDimension, rng: np.random.Generator) -> ItemParameters:
    """Item parameters from their posterior, or the estimates where no covariance is known.

    Estimates are shrunk towards one another, so that sets drawn from them have items that are more
    alike than those observed, and give several dimensions less to gain.
    """
    if model.item_covariance is None:
        return model.parameters
    means = np.column_stack([model.parameters.slopes, model.parameters.intercepts])
    values, axes = np.linalg.eigh(model.item_covariance)
    spread = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    drawn = means + (spread @ rng.standard_normal((len(means), 2, 1)))[:, :, 0]
    return replace(model.parameters, slopes=drawn[:, :1], intercepts=drawn[:, 1:])


def simulate_one_dimension(
    responses: Responses,
    model: OneDimension,
    rng: np.random.Generator,
    *,
    abilities: AbilitySource = "posterior",
) -> Responses:
    """Responses that one dimension would have made, with the same missing cells.

    An item on which the observed targets differ also differs in the simulated set: constant columns
    are drawn again, which is a draw from the model given that the item varies. Items that never
    vary were dropped from the observed set, and a null with them would show too small a gain.

    Parameters
    ----------
    responses
        What was observed, codes 0 and 1, or -1 where missing.
    model
        Fitted to `responses`.
    rng
        Source of randomness.
    abilities
        ``posterior``: of each target a draw from its own posterior, which keeps the shape of the
        realised abilities; ``population``: from the normal population. Items are drawn by
        `draw_items`.

    Returns
    -------
    Responses
        Of the same targets and items.

    Raises
    ------
    InputError
        For a model of other items.

    Examples
    --------
    >>> import numpy as np
    >>> from safemetry.irt.responses import make_responses
    >>> items = ItemParameters(np.ones((3, 1)), np.zeros((3, 1)), np.zeros(3), np.ones(3))
    >>> observed = make_responses([[1, 0, -1], [0, 1, 1], [1, 1, 0]])
    >>> drawn = simulate_one_dimension(observed, OneDimension(items), np.random.default_rng(1))
    >>> drawn.codes.shape, int(drawn.codes[0, 2])
    ((3, 3), -1)
    """
    if model.parameters.items != len(responses.items) or model.parameters.dimensions != 1:
        raise InputError("the null model does not describe these items in one dimension")
    theta = draw_abilities(responses, model, rng, abilities)
    chances = reaching(draw_items(model, rng), theta[:, None])[0]
    observed = responses.observed
    passed = ((responses.codes == 1) & observed).sum(axis=0)
    varies = (passed > 0) & (passed < observed.sum(axis=0))
    ones = rng.random(chances.shape) < chances
    if varies.any():
        ones[:, varies] = draw_outcomes(chances[:, varies], observed[:, varies], 1, rng)[0]
    return replace(responses, codes=np.where(observed, ones, MISSING).astype(np.int8))
