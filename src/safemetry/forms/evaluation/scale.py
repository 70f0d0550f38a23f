"""Items calibrated on some targets, with what is known of items that did not vary there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import logit

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemModel, ItemParameters
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

FINE: Final = 1e-6
"""Tolerance of a fit, in log-likelihood for each response: .3 for 300,000 moves no score."""

ROUGH: Final = 1e-5
"""The same for the fits that leave a fold of targets out."""


@dataclass(frozen=True)
class Scale:
    """Parameters of all J items from some targets.

    Parameters
    ----------
    parameters
        Of J items; one that did not vary has slope 0 and the chance (n + 1/2) / (n + 1) of the only
        response that its n targets gave.
    sd
        Of the ability.
    selectable
        Items that may stand in a form, shape ``(J,)``.
    known
        Items that at least one target answered; the others are in no score.
    converged
        Whether the calibration was.
    """

    parameters: ItemParameters
    sd: float
    selectable: BoolArray
    known: BoolArray
    converged: bool


def calibrate_scale(
    codes: Codes,
    categories: IntArray,
    priors: ItemPriors,
    *,
    minority: int = 1,
    start: Scale | None = None,
    tolerance: float = FINE,
) -> Scale:
    """Calibrate the items that vary, and keep the others as constants.

    Parameters
    ----------
    codes
        Of the calibration targets, shape ``(N, J)``.
    categories
        Of each item as the study declares them, shape ``(J,)``; more than two for any item means
        the graded model.
    priors
        Of the item parameters.
    minority
        Responses other than the most frequent one, without which an item may not be selected.
    start
        A calibration of the same items to begin with.
    tolerance
        Of the fit, in log-likelihood for each response.

    Raises
    ------
    InputError
        Where fewer than two items vary.
    """
    seen = codes >= 0
    counts = np.stack([(codes == code).sum(axis=0) for code in range(int(categories.max()))])
    answered = counts.sum(axis=0)
    rarer = answered - counts.max(axis=0)
    varies = rarer > 0
    if varies.sum() < 2:
        raise InputError(
            f"{int(varies.sum())} of {codes.shape[1]} items tell the calibration targets apart",
            fix="give more targets, or items that they answer differently",
        )
    graded = bool(categories.max() > 2)
    model = ItemModel.GRADED if graded else ItemModel.TWO_PL
    rows = seen[:, varies].any(axis=1)
    used = np.ascontiguousarray(codes[rows][:, varies])
    begin = start.parameters.select(varies) if start is not None and not graded else None
    gain = tolerance * int((used >= 0).sum())
    fit = fit_unidimensional(
        make_responses(used), model, priors, errors=False, start=begin, tolerance=gain
    )
    parameters = _widened(fit.parameters, varies, counts, int(categories.max()))
    return Scale(
        parameters, fit.latent_sd, varies & (rarer >= minority), answered > 0, fit.converged
    )


def _widened(
    fitted: ItemParameters, varies: BoolArray, counts: FloatArray | IntArray, categories: int
) -> ItemParameters:
    """The fitted items among those that did not vary."""
    size = len(varies)
    steps = np.full((size, categories - 1), -np.inf)
    slopes = np.zeros((size, 1))
    lower, upper = np.zeros(size), np.ones(size)
    slopes[varies] = fitted.slopes
    steps[varies, : fitted.intercepts.shape[1]] = fitted.intercepts
    lower[varies], upper[varies] = fitted.lower, fitted.upper
    only, many = counts.argmax(axis=0), counts.sum(axis=0)
    certain = logit((many + 0.5) / (many + 1))
    reached = np.arange(1, categories)[None, :] <= only[:, None]
    constant = np.where(reached, certain[:, None], -certain[:, None])
    steps[~varies] = constant[~varies]
    return ItemParameters(slopes, steps, lower, upper)
