"""The same fit with other priors: which conclusions are the priors' doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.stats import spearmanr

from safemetry.errors import InputError
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.hierarchy import HierarchicalPrior
from safemetry.irt.multidimensional.result import MultidimensionalFit
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.priors import NO_PRIORS, ItemPriors, LogNormal, Normal
from safemetry.irt.responses import Responses
from safemetry.irt.structure import Structure
from safemetry.irt.unidimensional.marginal import UnidimensionalFit, fit_unidimensional

ALTERNATIVES: Final[Mapping[str, ItemPriors]] = {
    "none": NO_PRIORS,
    "tight": ItemPriors(slope=LogNormal(None, 0.1), intercept=Normal(None, 0.5)),
    "default": ItemPriors(),
    "wide": ItemPriors(slope=LogNormal(None, 1.0), intercept=Normal(None, 6.0)),
}
"""What published fits use, from none to tight (a tight prior turned a held-out log loss of .30 into
.43 on one benchmark)."""
_KEYS: Final = (
    "loglik",
    "ability_rank_correlation",
    "largest_ability_change",
    "mean_slope",
    "slope_sd",
)


def prior_sensitivity(
    responses: Responses, fit: UnidimensionalFit, *, allow_negative: bool = False
) -> tuple[dict[str, Any], ...]:
    """Refit with other priors, and compare abilities and slopes.

    Parameters
    ----------
    responses
        What `fit` was fitted to.
    fit
        The fit to compare with.
    allow_negative
        As in the fit.

    Returns
    -------
    tuple of dict
        For each alternative: the log-likelihood, Spearman's correlation of the abilities with those
        of the fit, the largest change of an ability, and mean and standard deviation of the slopes.
        A fit that cannot be made has nulls with the reason.
    """
    return tuple(
        {"prior": name, **_compared(responses, fit, priors, allow_negative=allow_negative)}
        for name, priors in ALTERNATIVES.items()
    )


DIMENSIONAL_ALTERNATIVES: Final[Mapping[str, HierarchicalPrior]] = {
    "tight": HierarchicalPrior(slope_sd=0.1, intercept_sd=0.5, weight=1_000.0),
    "one kind of items": HierarchicalPrior(components=1),
    "default": HierarchicalPrior(),
    "wide": HierarchicalPrior(slope_sd=1.0, intercept_sd=3.0, weight=1.0),
}
"""Learned priors in several dimensions, from nearly fixed to nearly free."""


def dimensional_sensitivity(
    responses: Responses,
    dims: int | Structure,
    fit: MultidimensionalFit,
    settings: DimensionalSettings,
) -> tuple[dict[str, Any], ...]:
    """Refit in several dimensions with other learned priors, and compare the predictions.

    Axes of two explorations are not comparable, but what they predict is.

    Parameters
    ----------
    responses, dims, settings
        What `fit` was fitted to, and how, by the variational method.
    fit
        The fit to compare with.

    Returns
    -------
    tuple of dict
        For each alternative: the log-likelihood, and the root mean square and the largest change of
        a predicted probability.
    """
    mine = fit.probabilities()
    rows = []
    for name, prior in DIMENSIONAL_ALTERNATIVES.items():
        other = fit_multidimensional(responses, dims, replace(settings, priors=prior))
        change = other.probabilities() - mine
        row = {
            "prior": name,
            "loglik": other.loglik,
            "rms_probability_change": float(np.sqrt(np.square(change).mean())),
            "largest_probability_change": float(np.abs(change).max()),
            "converged": other.converged,
        }
        rows.append(row | ({} if other.loglik is not None else {"why": {"loglik": "not computed"}}))
    return tuple(rows)


def _compared(
    responses: Responses, fit: UnidimensionalFit, priors: ItemPriors, *, allow_negative: bool
) -> dict[str, Any]:
    try:
        other = fit_unidimensional(
            responses,
            fit.model,
            priors,
            allow_negative=allow_negative and not isinstance(priors.slope, LogNormal),
            errors=False,
        )
    except InputError as error:
        return {
            **dict.fromkeys((*_KEYS, "converged")),
            "why": dict.fromkeys((*_KEYS, "converged"), error.problem),
        }
    # Abilities are compared in units of their own standard deviation in the population.
    mine, others = (found.abilities.estimates / found.latent_sd for found in (fit, other))
    spread = float(np.ptp(mine)) > 0 and float(np.ptp(others)) > 0
    correlation = float(spearmanr(mine, others).statistic) if spread else None
    slopes = other.parameters.slopes[:, 0]
    row = dict(
        zip(
            _KEYS,
            (
                other.loglik,
                correlation,
                float(np.abs(mine - others).max()),
                float(slopes.mean()),
                float(slopes.std()),
            ),
            strict=True,
        )
    )
    row["converged"] = other.converged
    return row | (
        {} if spread else {"why": {"ability_rank_correlation": "the abilities are all equal"}}
    )
