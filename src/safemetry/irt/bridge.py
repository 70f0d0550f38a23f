"""A second opinion: the same responses fitted with the PyPI package `mirt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp

from safemetry.errors import InputError
from safemetry.extras import require
from safemetry.irt.information import normal_grid, total_information
from safemetry.irt.matching import as_points, check_items
from safemetry.irt.parameters import (
    FloatArray,
    ItemModel,
    ItemParameters,
    category_probabilities,
)
from safemetry.irt.responses import Responses

_NAMES: Final = {
    ItemModel.TWO_PL: "2PL",
    ItemModel.THREE_PL: "3PL",
    ItemModel.FOUR_PL: "4PL",
    ItemModel.GRADED: "GRM",
}
_BOX: Final = 6.0
"""Difficulties are kept within +/- 6 by mirt 1.2."""
_CLOSE: Final = 0.5
"""Units of log-likelihood that do not matter for any decision."""


@dataclass(frozen=True)
class CrossCheck:
    """Two fits of the same responses.

    Parameters
    ----------
    peer
        Package and version.
    items, targets
        Names.
    log_likelihood, peer_log_likelihood
        Of both estimates, on one lattice fine enough for the narrowest posterior.
    peer_stated
        The log-likelihood that the peer states, on its own nodes.
    slope_differences, intercept_differences
        Ours less theirs, shapes ``(J,)`` and ``(J, C - 1)``; 0 beyond the last category.
    ability_differences
        Ours less theirs (posterior means), shape ``(N,)``.
    peer_parameters
        What the peer found.
    warnings
        What the differences mean.
    """

    peer: str
    items: tuple[str, ...]
    targets: tuple[str, ...]
    log_likelihood: float
    peer_log_likelihood: float
    peer_stated: float
    slope_differences: FloatArray
    intercept_differences: FloatArray
    ability_differences: FloatArray
    peer_parameters: ItemParameters
    warnings: tuple[str, ...]

    def summary(self) -> Mapping[str, float]:
        """The differences in a few numbers."""
        return {
            "log_likelihood": self.log_likelihood - self.peer_log_likelihood,
            "slope_rms": float(np.sqrt(np.mean(self.slope_differences**2))),
            "slope_max": float(np.abs(self.slope_differences).max()),
            "intercept_rms": float(np.sqrt(np.mean(self.intercept_differences**2))),
            "intercept_max": float(np.abs(self.intercept_differences).max()),
            "ability_rms": float(np.sqrt(np.mean(self.ability_differences**2))),
            "ability_max": float(np.abs(self.ability_differences).max()),
        }


def cross_check(
    responses: Responses,
    parameters: ItemParameters,
    abilities: FloatArray,
    model: ItemModel,
    *,
    nodes: int = 61,
) -> CrossCheck:
    """Fit the same responses with the Python package `mirt` and report the differences.

    Both fits should be without priors. The log-likelihoods are computed here at both estimates, on
    the same fine lattice, since that of a fixed grid can be off by hundreds with many items.

    Parameters
    ----------
    responses
        Of targets that weigh 1 each.
    parameters, abilities
        Our estimates in one dimension; abilities are posterior means, shape ``(N,)`` or ``(N, 1)``.
    model
        ``2pl``, ``3pl``, ``4pl`` or ``grm``.
    nodes
        Quadrature nodes of the peer.

    Raises
    ------
    MissingExtraError
        Where `mirt` is not installed.
    InputError
        For another model, several dimensions, or weights: the peer has none.
    """
    check_items(responses, parameters)
    points = as_points(abilities, 1, len(responses.targets))[:, 0]
    if parameters.dimensions != 1:
        raise InputError("the cross-check compares fits in one dimension")
    if model not in _NAMES:
        raise InputError(
            f"the peer has no model like {model.value}: it fixes the slope and the variance at 1",
            fix="cross-check the 2pl of the same responses",
        )
    if not np.array_equal(responses.weights, np.ones(len(responses.weights))):
        raise InputError("the peer has no weights", fix="repeat the rows instead")
    mirt = require("mirt")
    fit = mirt.fit_mirt(
        responses.codes.astype(np.int64),
        _NAMES[model],
        n_quadpts=nodes,
        max_iter=5000,
        compute_standard_errors=False,
    )
    theirs = _parameters_of(fit.model.parameters, parameters)
    scores = mirt.fscores(fit, responses.codes.astype(np.int64), method="EAP", n_quadpts=nodes)
    ability_differences = points - np.asarray(scores.theta, np.float64).reshape(-1)
    ladder = np.isfinite(parameters.intercepts)
    values = (
        marginal_log_likelihood(responses, parameters),
        marginal_log_likelihood(responses, theirs),
    )
    return CrossCheck(
        f"mirt {mirt.__version__}",
        responses.items,
        responses.targets,
        *values,
        float(fit.log_likelihood),
        (parameters.slopes - theirs.slopes)[:, 0],
        np.where(ladder, parameters.intercepts, 0.0) - np.where(ladder, theirs.intercepts, 0.0),
        ability_differences,
        theirs,
        tuple(_warnings(*values, float(fit.log_likelihood), theirs, converged=bool(fit.converged))),
    )


def marginal_log_likelihood(
    responses: Responses, parameters: ItemParameters, *, mean: float = 0.0, sd: float = 1.0
) -> float:
    """Log-likelihood with the ability integrated over N(mean, sd), one dimension.

    The lattice is as fine as the narrowest posterior needs.
    """
    theta, density = normal_grid(mean, sd)
    sharpest = float(total_information(parameters, theta).max()) * sd**2
    theta, density = normal_grid(mean, sd, spacing=min(0.2, 0.75 / np.sqrt(1 + sharpest)))
    total = np.zeros((len(responses.targets), len(theta)))
    for code, chance in enumerate(category_probabilities(parameters, theta[:, None])):
        chosen = (responses.codes == code).astype(np.float64)
        total += chosen @ np.log(np.maximum(chance, np.finfo(np.float64).tiny)).T
    return float(responses.weights @ logsumexp(total + np.log(density), axis=1))


def _parameters_of(found: Mapping[str, Any], ours: ItemParameters) -> ItemParameters:
    """The peer's parameters as ours: d = -a b, with thresholds for graded items."""
    slopes = np.asarray(found["discrimination"], np.float64).reshape(-1, 1)
    places = found["thresholds"] if "thresholds" in found else found["difficulty"]
    steps = np.asarray(places, np.float64).reshape(len(slopes), -1)
    width = ours.intercepts.shape[1]
    intercepts = np.full((len(slopes), width), -np.inf)
    intercepts[:, : steps.shape[1]] = (-slopes * steps)[:, :width]
    intercepts[~np.isfinite(ours.intercepts)] = -np.inf
    lower, upper = (
        np.asarray(found.get(name, np.full(len(slopes), value)), np.float64)
        for name, value in (("guessing", 0.0), ("upper", 1.0))
    )
    return ItemParameters(slopes, intercepts, lower, upper)


def _warnings(
    ours: float, theirs: float, stated: float, parameters: ItemParameters, *, converged: bool
) -> Sequence[str]:
    found = []
    if not converged:
        found.append("The peer did not converge, so the comparison says little.")
    if theirs > ours + _CLOSE:
        found.append(
            f"The peer's estimates have a log-likelihood {theirs - ours:.2f} higher than ours: "
            "unless priors held ours back, our fit has not reached the optimum."
        )
    if abs(stated - theirs) > _CLOSE:
        found.append(
            f"The peer states a log-likelihood of {stated:.2f} where its own estimates have "
            f"{theirs:.2f}: its nodes are too far apart for these responses."
        )
    difficulties = parameters.difficulties[np.isfinite(parameters.difficulties)]
    boxed = int((np.abs(difficulties) > _BOX - 1e-6).sum())
    if boxed:
        found.append(
            f"{boxed} difficulties of the peer lie at its limit of {_BOX:g}; where these items are "
            "concerned the estimates cannot agree."
        )
    return found
