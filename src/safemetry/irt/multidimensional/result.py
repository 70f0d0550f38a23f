"""The result of a fit in several dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from safemetry.irt.multidimensional.integration import LikelihoodKind
from safemetry.irt.multidimensional.moments import chances, log_odds_moments
from safemetry.irt.multidimensional.rotation import (
    RotatedLoadings,
    Rotation,
    rotate,
    standardised_loadings,
)
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters
from safemetry.irt.structure import Structure


@dataclass(frozen=True)
class HeldOut:
    """How well cells that the fit did not see are predicted.

    Parameters
    ----------
    cells
        Number of held-out cells with a response.
    log_loss
        Mean of -log probability of what happened, in nats, with predictions integrated over the
        posterior of targets and, in a variational fit, items.
    log_loss_at_mode
        The same with predictions at the posterior mode.
    brier
        Mean squared error of the integrated predictions.
    """

    cells: int
    log_loss: float
    log_loss_at_mode: float
    brier: float


@dataclass(frozen=True)
class RotatedFit:
    """A fit whose factors have been turned; probabilities are unchanged.

    Parameters
    ----------
    loadings
        Standardised loadings and factor correlations.
    slopes
        Shape ``(J, K)``; intercepts do not change.
    abilities, ability_covariance
        Shapes ``(N, K)`` and ``(N, K, K)``.
    """

    loadings: RotatedLoadings
    slopes: FloatArray
    abilities: FloatArray
    ability_covariance: FloatArray


@dataclass(frozen=True, kw_only=True)
class MultidimensionalFit:
    """Items and targets in K dimensions.

    Parameters
    ----------
    targets, items, dimensions
        Names.
    structure
        Which items load on which dimensions; None for an exploratory fit, whose axes are the
        principal axes of the slopes and mean nothing before a rotation.
    parameters
        Of the items: posterior means of a variational fit, maximum of the marginal likelihood or
        posterior of one by quadrature.
    item_covariance
        Of slopes and intercept (last), shape ``(J, K + 1, K + 1)``. Of a variational fit: given the
        abilities, so too small as a standard error. By quadrature: the inverse observed
        information, or None in an exploratory fit of several dimensions and on a boundary.
    factor_correlations
        Shape ``(K, K)``.
    abilities, ability_covariance
        Posterior means and covariances, shapes ``(N, K)`` and ``(N, K, K)``.
    loglik, loglik_error, loglik_kind
        Log-likelihood at the estimate with the abilities integrated out and without priors, its
        numerical error, and how it was computed. None where it was not asked for.
    parameter_count
        Free parameters without those of the priors.
    restart_losses
        Mean of -log probability of the fitted responses after each start.
    converged, trace
        Whether the best restart met the tolerance, and its progress.
    held_out
        None where no cells were held out.
    settings
        Every setting that decided the result.
    warnings
        What a reader of the numbers must know.
    """

    targets: tuple[str, ...]
    items: tuple[str, ...]
    dimensions: tuple[str, ...]
    structure: Structure | None
    parameters: ItemParameters
    item_covariance: FloatArray | None
    factor_correlations: FloatArray
    abilities: FloatArray
    ability_covariance: FloatArray
    loglik: float | None
    loglik_error: float | None
    loglik_kind: LikelihoodKind | None
    parameter_count: int
    responses: int
    restart_losses: tuple[float, ...]
    converged: bool
    trace: tuple[float, ...]
    held_out: HeldOut | None
    settings: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def aic(self) -> float | None:
        """Akaike's criterion on the marginal scale; approximate where there is a prior."""
        if self.loglik is None:
            return None
        return 2 * self.parameter_count - 2 * self.loglik

    def bic(self, cases: str = "targets") -> float | None:
        """Schwarz's criterion with n the number of targets, or of ``"responses"``."""
        if self.loglik is None:
            return None
        n = len(self.targets) if cases == "targets" else self.responses
        return self.parameter_count * float(np.log(n)) - 2 * self.loglik

    def probabilities(self, *, integrated: bool = True) -> FloatArray:
        """Probability of a 1, shape ``(N, J)``.

        Parameters
        ----------
        integrated
            Over the posterior of targets and, in a variational fit, items, by MacKay's (1992)
            approximation; otherwise at the posterior mode.
        """
        slopes = self.parameters.slopes
        items = np.column_stack([slopes, self.parameters.intercepts[:, 0]])
        spread = self.item_covariance
        if spread is None:
            spread = np.zeros((len(items), items.shape[1], items.shape[1]))
        mean, variance = log_odds_moments(self.abilities, self.ability_covariance, items, spread)
        return chances(mean, variance if integrated else np.zeros_like(variance))

    def loadings(self) -> FloatArray:
        """Standardised loadings of the normal-ogive model on the axes of the fit."""
        return standardised_loadings(self.parameters.slopes, self.factor_correlations)

    def rotated(
        self, rotation: Rotation | str = Rotation.OBLIMIN, *, kaiser: bool = False, seed: int = 0
    ) -> RotatedFit:
        """Turn the factors of an exploratory fit to simple structure.

        Raises
        ------
        ValueError
            For a confirmatory fit, whose axes are those of its structure.
        """
        if self.structure is not None:
            raise ValueError("the axes of a confirmatory fit are those of its structure")
        found = rotate(self.loadings(), rotation, kaiser=kaiser, seed=seed)
        turn = found.transform
        return RotatedFit(
            loadings=found,
            slopes=self.parameters.slopes @ np.linalg.inv(turn).T,
            abilities=self.abilities @ turn,
            ability_covariance=turn.T @ self.ability_covariance @ turn,
        )


def score_held_out(
    codes: FloatArray, cells: BoolArray, integrated: FloatArray, at_mode: FloatArray
) -> HeldOut:
    """Losses over the cells of a mask; codes 0 and 1, and predictions, have shape ``(N, J)``."""
    outcomes = codes[cells]
    return HeldOut(
        cells=int(cells.sum()),
        log_loss=_log_loss(outcomes, integrated[cells]),
        log_loss_at_mode=_log_loss(outcomes, at_mode[cells]),
        brier=float(np.square(outcomes - integrated[cells]).mean()),
    )


def _log_loss(outcomes: FloatArray, chance: FloatArray) -> float:
    right = np.where(outcomes > 0, chance, 1 - chance)
    return float(-np.log(np.maximum(right, 1e-12)).mean())
