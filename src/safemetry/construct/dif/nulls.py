"""The one-dimensional model that matrices without item differences are simulated from."""

from __future__ import annotations

from scipy.special import expit

from safemetry.construct.dif.abilities import ability_posteriors, ability_tables
from safemetry.construct.dif.duplicates import shared_answers
from safemetry.construct.dif.simulation import SCORE, NullModel
from safemetry.irt.parameters import IntArray, ItemModel
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional


def fit_null(responses: Responses, priors: ItemPriors, cluster: IntArray) -> NullModel:
    """Fit a 2PL to all targets.

    Parameters
    ----------
    responses
        Of N targets to J items that vary.
    priors
        Of the item parameters.
    cluster
        Of each target, from 0, shape ``(N,)``.

    Raises
    ------
    InputError
        For responses that the model cannot describe.
    """
    fit = fit_unidimensional(responses, ItemModel.TWO_PL, priors, errors=False)
    slopes, intercepts = fit.parameters.slopes[:, 0], fit.parameters.intercepts[:, 0]
    observed = responses.observed
    tables = ability_tables(slopes, intercepts, observed)
    theta = tables.abilities(responses.codes)
    chances = expit(theta[:, None] * slopes + intercepts)
    return NullModel(
        slopes=slopes,
        intercepts=intercepts,
        observed=observed,
        posteriors=ability_posteriors(responses.codes, slopes, intercepts),
        tables={SCORE: tables},
        cluster=cluster,
        shared=shared_answers(responses.codes, chances, cluster),
    )
