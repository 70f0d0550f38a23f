"""A new form on the scale of the old one, through the items that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safemetry.irt.equating import Link, LinkMethod, link_calibrations
from safemetry.irt.information import normal_grid
from safemetry.irt.parameters import FloatArray, ItemModel, ItemParameters, expected_scores
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional


@dataclass(frozen=True)
class RenewedForm:
    """Items of a new calibration on the scale of an old one.

    Parameters
    ----------
    items, parameters
        All items of the new calibration, on the old scale.
    targets, abilities, errors
        Of its targets, on the old scale, shape ``(N,)``; the errors are without that of the link.
    link
        How the scales were joined; which common items drifted.
    ability_error
        Standard error of an ability on the old scale that comes from the link alone, root mean
        square over the new targets.
    score_error
        The same for the expected score on the old items, as a fraction.
    warnings
        In whole sentences.
    """

    items: tuple[str, ...]
    parameters: ItemParameters
    targets: tuple[str, ...]
    abilities: FloatArray
    errors: FloatArray
    link: Link
    ability_error: float
    score_error: float
    warnings: tuple[str, ...]


def renew_form(
    old: tuple[Sequence[str], ItemParameters],
    responses: Responses,
    *,
    model: ItemModel = ItemModel.TWO_PL,
    priors: ItemPriors | None = None,
    method: LinkMethod = "stocking_lord",
) -> RenewedForm:
    """Calibrate new items together with old ones, and put them on the old scale.

    Parameters
    ----------
    old
        Names and parameters of the old items, in one dimension.
    responses
        To the new form: new items, and at least three old ones.
    model, priors
        Of the items.
    method
        Of `safemetry.irt.equating.link_calibrations`.

    Notes
    -----
    With theta_old = A theta + B the error of the link at an ability is
    sqrt(se(B)^2 + theta^2 se(A)^2), the standard errors being those over the choice of common items
    (jackknife), taken as independent. Which targets calibrated the new form is not in it.

    Raises
    ------
    InputError
        For fewer than three common items that discriminate.
    """
    fit = fit_unidimensional(responses, model, priors)
    link = link_calibrations(old, (fit.items, fit.parameters), method=method)
    theta, weights = normal_grid(0.0, fit.latent_sd)
    variance = link.intercept_error**2 + theta**2 * link.slope_error**2
    slope = _score_slope(old[1], link.abilities(theta))
    return RenewedForm(
        fit.items,
        link.parameters(fit.parameters),
        fit.targets,
        link.abilities(fit.abilities.estimates),
        link.errors(np.ma.filled(fit.abilities.standard_errors, fit.latent_sd)),
        link,
        float(np.sqrt(weights @ variance)),
        float(np.sqrt(weights @ (variance * slope**2))),
        (*fit.warnings, *link.warnings),
    )


def _score_slope(parameters: ItemParameters, theta: FloatArray) -> FloatArray:
    """Derivative of the mean expected outcome over the items by the ability, shape ``(Q,)``."""
    step = 1e-4
    highest = np.maximum(parameters.categories - 1, 1)

    def score(places: FloatArray) -> FloatArray:
        found: FloatArray = (expected_scores(parameters, places[:, None]) / highest).mean(axis=1)
        return found

    return (score(theta + step) - score(theta - step)) / (2 * step)
