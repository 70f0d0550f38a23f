"""Calibrated items with what is uncertain about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.finding import CalibrationFinding
from safemetry.irt.information import item_information, normal_grid
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemParameters, reaching
from safemetry.irt.priors import LogNormal
from safemetry.irt.store import StoredCalibration
from safemetry.irt.unidimensional.marginal import UnidimensionalFit


@dataclass(frozen=True)
class Calibrated:
    """J items in one dimension, the errors of their parameters, and the population of abilities.

    Parameters
    ----------
    items
        Names, all different.
    parameters
        Estimates, in one dimension.
    slope_errors, intercept_errors
        Standard errors of a and d, shapes ``(J,)`` and ``(J, C - 1)``; 0 where a parameter is
        fixed or its error unknown. Asymptotes count as known.
    correlations
        Of the errors of a and d, shape ``(J,)``.
    latent_mean, latent_sd
        Of the abilities in the population.
    slope_prior_sd
        Standard deviation of log a in the prior of the calibration, None for no prior: how far the
        slopes were drawn together already.
    remarks
        What is unknown of the errors, in sentences.
    """

    items: tuple[str, ...]
    parameters: ItemParameters
    slope_errors: FloatArray
    intercept_errors: FloatArray
    correlations: FloatArray
    latent_mean: float = 0.0
    latent_sd: float = 1.0
    slope_prior_sd: float | None = None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        size = self.parameters.items
        if self.parameters.dimensions != 1:
            raise InputError(
                f"these items lie in {self.parameters.dimensions} dimensions",
                fix="person fit needs a calibration in one dimension",
            )
        if len(self.items) != size or len(set(self.items)) < size or not size:
            raise InputError("a calibration has one name for each item, all different")
        shapes = (size,), self.parameters.intercepts.shape, (size,)
        given = self.slope_errors, self.intercept_errors, self.correlations
        for values, shape in zip(given, shapes, strict=True):
            if values.shape != shape or not np.isfinite(values).all():
                raise InputError(f"errors of items have shape {values.shape} and not {shape}")
        if min(self.slope_errors.min(), self.intercept_errors.min()) < 0:
            raise InputError("a standard error is below 0")
        if np.abs(self.correlations).max() > 1:
            raise InputError("a correlation is not between -1 and 1")
        if not self.latent_sd > 0:
            raise InputError(f"a standard deviation of {self.latent_sd:g} is not above 0")

    @classmethod
    def make(  # noqa: PLR0913 - what may be left out
        cls,
        items: tuple[str, ...],
        parameters: ItemParameters,
        *,
        slope_errors: FloatArray | None = None,
        intercept_errors: FloatArray | None = None,
        correlations: FloatArray | None = None,
        latent_mean: float = 0.0,
        latent_sd: float = 1.0,
        slope_prior_sd: float | None = None,
        remarks: tuple[str, ...] = (),
    ) -> Self:
        """Items whose errors may be left out.

        Parameters
        ----------
        items, parameters, latent_mean, latent_sd, slope_prior_sd, remarks
            As in the class.
        slope_errors, intercept_errors
            Without them the parameters count as known.
        correlations
            Without them those that the information in the population implies.
        """
        steps = parameters.intercepts.shape
        return cls(
            items,
            parameters,
            np.zeros(steps[0]) if slope_errors is None else slope_errors,
            np.zeros(steps) if intercept_errors is None else intercept_errors,
            implied_correlations(parameters, latent_mean, latent_sd)
            if correlations is None
            else correlations,
            latent_mean,
            latent_sd,
            slope_prior_sd,
            remarks,
        )

    @classmethod
    def of_calibration(cls, calibration: StoredCalibration | CalibrationFinding) -> Self:
        """The items of a calibration in one dimension, with its columns ``se_a`` and ``se_d``."""
        stored = (
            calibration.stored() if isinstance(calibration, CalibrationFinding) else calibration
        )
        parameters = stored.parameters
        slopes = _column(stored.item_columns.get("se_a"), parameters.items)
        steps = _column(stored.item_columns.get("se_d"), parameters.items)
        known = steps > 0
        remarks = []
        if not known.all():
            remarks.append(
                f"{int((~known).sum()):,} of {len(known):,} items have no standard error: their "
                "parameters count as known, so that false positives may be more frequent."
            )
        return cls.make(
            stored.items,
            parameters,
            slope_errors=slopes,
            intercept_errors=np.where(np.isfinite(parameters.intercepts), steps[:, None], 0.0),
            latent_mean=float(stored.mean[0]),
            latent_sd=float(np.sqrt(stored.covariance[0, 0])),
            slope_prior_sd=_prior_sd(stored.settings),
            remarks=tuple(remarks),
        )

    @classmethod
    def of_fit(cls, fit: UnidimensionalFit) -> Self:
        """The items of a fit in one dimension, with the correlations of its errors."""
        errors, parameters = fit.errors, fit.parameters
        slope = np.ma.filled(errors.slopes[:, 0], 0.0)
        covariance = np.ma.filled(errors.covariance[:, :2, :2], 0.0)
        spread = np.sqrt(np.maximum(covariance[:, 0, 0] * covariance[:, 1, 1], 0.0))
        free = (slope > 0) & (spread > 0)
        share = covariance[:, 0, 1] / np.where(free, spread, 1.0)
        prior = fit.priors.slope
        return cls(
            fit.items,
            parameters,
            slope,
            np.ma.filled(errors.intercepts, 0.0),
            np.where(free, np.clip(share, -0.999, 0.999), 0.0),
            0.0,
            fit.latent_sd,
            prior.sd if isinstance(prior, LogNormal) else None,
        )

    def select(self, chosen: BoolArray | IntArray) -> Calibrated:
        """Some of the items."""
        places = np.arange(len(self.items))[chosen]
        return replace(
            self,
            items=tuple(self.items[place] for place in places),
            parameters=self.parameters.select(places),
            slope_errors=self.slope_errors[places],
            intercept_errors=self.intercept_errors[places],
            correlations=self.correlations[places],
        )

    def population_curves(self, points: int = 31) -> tuple[FloatArray, FloatArray]:
        """Chances of a 1 of typical members of the population, ``(K, J)``, and their weights."""
        places, weights = normal_grid(self.latent_mean, self.latent_sd)
        kept = np.linspace(0, len(places) - 1, points).round().astype(np.int64)
        shares = weights[kept] / weights[kept].sum()
        return reaching(self.parameters, places[kept, None])[0], shares


def implied_correlations(
    parameters: ItemParameters, latent_mean: float = 0.0, latent_sd: float = 1.0
) -> FloatArray:
    """Correlation of the errors of a and d that the information in the population implies.

    For logit P = a theta + d an answer at theta informs about (a, d) as w (theta^2, theta; theta,
    1), and the correlation in the inverse of the mean is -E(w theta) / sqrt(E(w theta^2) E(w))
    (Lord 1980, section 12.2). Shape ``(J,)``.
    """
    nodes, weights = normal_grid(latent_mean, latent_sd)
    slopes = np.where(parameters.slopes[:, 0] == 0, 1.0, parameters.slopes[:, 0])
    moved = ItemParameters(
        slopes[:, None], parameters.intercepts, parameters.lower, parameters.upper
    )
    linear = item_information(moved, nodes) / slopes**2
    total, first, second = (weights * nodes**power @ linear for power in (0, 1, 2))
    spread = np.sqrt(np.maximum(total * second, 1e-300))
    found: FloatArray = np.clip(-first / spread, -0.999, 0.999)
    return found


def _column(values: Any, size: int) -> FloatArray:
    """Numbers of a column with 0 where unknown."""
    if values is None:
        return np.zeros(size)
    return np.array([0.0 if value is None else float(value) for value in values])


def _prior_sd(settings: Mapping[str, Any]) -> float | None:
    """The standard deviation of log a in the prior that a calibration recorded."""
    priors = settings.get("priors")
    slope = priors.get("slope") if isinstance(priors, Mapping) else None
    if isinstance(slope, Mapping) and slope.get("kind") == "log-normal":
        return float(slope["sd"])
    return None
