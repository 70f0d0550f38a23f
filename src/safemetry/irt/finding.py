"""What `calibrate` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from safemetry.findings import Finding
from safemetry.irt.parameters import FloatArray, ItemModel, ItemParameters
from safemetry.irt.store import StoredCalibration

SOURCES: Final = (
    (
        "Bock, R. D. & Aitkin, M. (1981). Marginal maximum likelihood estimation of item "
        "parameters: application of an EM algorithm. Psychometrika 46, 443-459."
    ),
    (
        "Samejima, F. (1969). Estimation of latent ability using a response pattern of graded "
        "scores. Psychometrika Monograph 17."
    ),
    (
        "Warm, T. A. (1989). Weighted likelihood estimation of ability in item response theory. "
        "Psychometrika 54, 427-450."
    ),
    (
        "Jaakkola, T. S. & Jordan, M. I. (2000). Bayesian parameter estimation via variational "
        "methods. Statistics and Computing 10, 25-37."
    ),
)
_ONE_STEP: Final = "the item has several thresholds"
_NO_ERROR: Final = "no standard error of items in several dimensions"


@dataclass(frozen=True, kw_only=True)
class CalibrationFinding(Finding):
    """Items and targets on one scale, or on several.

    Parameters
    ----------
    model
        Item model.
    items, item_parameters
        Names and parameters of the J items that were calibrated.
    left_out
        Item -> why it was not calibrated.
    item_errors
        Standard errors of `a`, `d`, `b`, `g`, `u`: arrays with J rows, masked where unknown; empty
        where there are none.
    no_errors
        Why standard errors are unknown.
    targets, abilities, ability_errors
        Names of N targets, their abilities and standard errors, shape ``(N, K)``.
    dimensions
        Names of the K dimensions.
    theta_method
        ``map``, ``eap`` or ``wle``.
    loadings
        Standardised loadings, shape ``(J, K)``.
    factor_correlations
        Shape ``(K, K)``.
    latent_sd
        Standard deviation of the abilities (Rasch), else 1.
    loglik, loglik_kind
        Marginal log-likelihood without the priors, and how it was computed.
    parameters
        Free parameters.
    aic, bic, bic_n, bic_responses
        Criteria; `bic` with n the number of targets, `bic_responses` with the responses.
    converged
        Whether the fit met its tolerance.
    prior_sensitivity
        The same fit with other priors.
    """

    command: ClassVar[str] = "calibrate"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    model: ItemModel
    items: tuple[str, ...]
    item_parameters: ItemParameters
    left_out: Mapping[str, str]
    item_errors: Mapping[str, np.ma.MaskedArray[Any, Any]]
    no_errors: str
    targets: tuple[str, ...]
    abilities: FloatArray
    ability_errors: np.ma.MaskedArray[Any, Any]
    dimensions: tuple[str, ...]
    theta_method: str
    loadings: FloatArray
    factor_correlations: FloatArray
    latent_sd: float
    loglik: float | None
    loglik_kind: str | None
    parameters: int
    aic: float | None
    bic: float | None
    bic_n: float
    bic_responses: float | None
    converged: bool
    prior_sensitivity: tuple[Mapping[str, Any], ...] | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per item."""
        return self.item_rows()

    def item_rows(self) -> list[dict[str, Any]]:
        """Parameters and standard errors of each item, those left out last."""
        numbers = {name: values.tolist() for name, values in self._columns().items()}
        rows = []
        for place, item in enumerate(self.items):
            row = {name: self._entry(values[place]) for name, values in numbers.items()}
            rows.append(self._explained({"item": item, **row}))
        unknown = dict.fromkeys(numbers)
        for item, why in self.left_out.items():
            rows.append({"item": item, **unknown, "why": dict.fromkeys(numbers, why)})
        return rows

    def _columns(self) -> dict[str, Any]:
        """Arrays with a row for each item; masked, or not a number, where unknown."""
        found = self.item_parameters
        steps = np.ma.masked_invalid(found.intercepts)
        difficulties = np.ma.masked_invalid(
            found.difficulties if found.dimensions == 1 else np.full_like(found.intercepts, np.nan)
        )
        errors = self.item_errors
        nothing = np.ma.masked_array(np.zeros(len(self.items)), mask=True)
        graded = steps.shape[1] > 1
        return {
            "a": found.slopes if found.dimensions > 1 else found.slopes[:, 0],
            "d": steps if graded else steps[:, 0],
            "b": nothing if graded else difficulties[:, 0],
            "se_a": errors["a"][:, 0] if "a" in errors else nothing,
            "se_d": (errors["d"] if graded else errors["d"][:, 0]) if "d" in errors else nothing,
            "se_b": nothing if graded or "b" not in errors else errors["b"][:, 0],
            "g": found.lower,
            "u": found.upper,
            "thresholds": difficulties if graded else nothing,
        }

    @staticmethod
    def _entry(value: Any) -> Any:
        """A list loses the entries that are unknown at its end: categories that an item lacks."""
        if not isinstance(value, list):
            return value
        known = [entry for entry in value if entry is not None]
        return known or None

    def _explained(self, row: dict[str, Any]) -> dict[str, Any]:
        reasons = {
            "b": _ONE_STEP if self.item_parameters.intercepts.shape[1] > 1 else "the slope is 0",
            "thresholds": "the item has two categories",
        }
        if len(self.dimensions) > 1:
            reasons |= dict.fromkeys(("b", "thresholds"), "the item lies in several dimensions")
        why = {
            name: reasons.get(name, self.no_errors or _NO_ERROR)
            for name, value in row.items()
            if value is None
        }
        return row | ({"why": why} if why else {})

    def ability_rows(self) -> list[dict[str, Any]]:
        """Ability and standard error of each target, the highest first."""
        single = len(self.dimensions) == 1
        thetas, errors = self.abilities.tolist(), self.ability_errors.tolist()
        rows = []
        for target, theta, error in zip(self.targets, thetas, errors, strict=True):
            value = error[0] if single else error
            row = {"target": target, "theta": theta[0] if single else theta, "se": value}
            if value is None or (not single and None in value):
                row["why"] = {"se": "the responses say nothing of it"}
            rows.append(row)
        return sorted(rows, key=lambda row: (-np.sum(row["theta"]), row["target"]))

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        several = len(self.dimensions) > 1
        why = dict(self.why)
        return {
            "items": self.item_rows(),
            "dimensions": list(self.dimensions),
            "loadings": [
                {"item": item, "loadings": values}
                for item, values in zip(self.items, self.loadings.tolist(), strict=True)
            ],
            "abilities": self.ability_rows(),
            "theta_method": self.theta_method,
            "latent_sd": self.latent_sd,
            "loglik": self.loglik,
            "loglik_kind": self.loglik_kind,
            "parameters": self.parameters,
            "aic": self.aic,
            "bic": self.bic,
            "bic_n": self.bic_n,
            "bic_responses": self.bic_responses,
            "converged": self.converged,
            "factor_correlations": self.factor_correlations.tolist() if several else [[1.0]],
            "prior_sensitivity": None
            if self.prior_sensitivity is None
            else [dict(row) for row in self.prior_sensitivity],
            **({"why": why} if why else {}),
        }

    def sentence(self) -> str:
        """What was calibrated, and how well it went."""
        size = f"{len(self.items):,} items and {len(self.targets):,} targets"
        where = f"{len(self.dimensions)} dimension{'s' if len(self.dimensions) > 1 else ''}"
        left = f"; {len(self.left_out):,} items were left out" if self.left_out else ""
        fit = (
            "log-likelihood not computed"
            if self.loglik is None
            else f"log-likelihood {self.loglik:,.1f}"
        )
        end = "converged" if self.converged else "did not converge: do not use it"
        return f"{self.model} model of {size} in {where}: {fit}, {end}{left}."

    def chart(self) -> Any:
        """Items and targets on one scale, or the abilities where there are several."""
        from safemetry.irt.charts import ability_forest, wright_map

        if len(self.dimensions) == 1:
            return wright_map(self.abilities[:, 0], self.item_parameters)
        return ability_forest(
            self.targets,
            self.abilities[:, 0],
            self.ability_errors[:, 0],
            axis=self.dimensions[0],
        )

    def stored(self) -> StoredCalibration:
        """What `save_calibration` writes."""
        errors = {
            name: values.tolist() if values.ndim == 1 else values[:, 0].tolist()
            for name, values in self.item_errors.items()
            if values.ndim == 1 or values.shape[1] == 1
        }
        return StoredCalibration(
            model=self.model,
            items=self.items,
            parameters=self.item_parameters,
            targets=self.targets,
            abilities=self.abilities,
            errors=self.ability_errors,
            covariance=self.factor_correlations * self.latent_sd**2,
            mean=np.zeros(len(self.dimensions)),
            settings=dict(self.settings) | {"theta_method": self.theta_method},
            results={
                "loglik": self.loglik,
                "loglik_kind": self.loglik_kind,
                "parameters": self.parameters,
                "converged": self.converged,
                "left_out": dict(self.left_out),
            },
            warnings=self.warnings,
            item_columns={f"se_{name}": values for name, values in errors.items()},
        )
