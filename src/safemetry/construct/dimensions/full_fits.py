"""Fits to all responses: likelihoods, information criteria, and the check that models nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.models import CandidateModel
from safemetry.irt.diagnostics.nesting import find_nesting_failures
from safemetry.irt.information_criteria import InformationCriteria, information_criteria
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses
from safemetry.irt.structure import Structure
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.tasks import Task, TaskSettings, run_tasks

MARGINAL: Final = "marginal_lattice"


@dataclass(frozen=True)
class FullFit:
    """One model fitted to all responses, from its best start.

    Parameters
    ----------
    model
        Which.
    targets, items
        Names.
    responses
        Number of responses.
    slopes, intercepts, lower
        Item parameters, shapes ``(J, K)``, ``(J,)`` and ``(J,)``.
    correlations
        Of the dimensions, shape ``(K, K)``.
    abilities
        Posterior means, shape ``(N, K)``.
    loglik, loglik_error, loglik_kind
        Log-likelihood with the abilities integrated out and without priors, its numerical error,
        and how it was computed.
    parameters
        Free parameters without those of the priors.
    converged
        Whether the best start met the tolerance.
    settings
        Item model, priors and starts.
    warnings
        What a reader of the numbers must know.
    """

    model: CandidateModel
    targets: tuple[str, ...]
    items: tuple[str, ...]
    responses: int
    slopes: FloatArray
    intercepts: FloatArray
    lower: FloatArray
    correlations: FloatArray
    abilities: FloatArray
    loglik: float
    loglik_error: float
    loglik_kind: str
    parameters: int
    converged: bool
    settings: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def structure(self) -> Structure | None:
        """The structure of a confirmatory model."""
        return self.model.structure

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions; numbers where they were explored."""
        structure = self.model.structure
        if structure is not None:
            return structure.dimensions
        return tuple(f"axis {place}" for place in range(1, self.model.dimensions + 1))

    @property
    def criteria(self) -> InformationCriteria:
        """AIC and BIC; approximate, because every fit has priors."""
        return information_criteria(
            self.loglik, self.parameters, len(self.targets), self.responses, approximate=True
        )


@dataclass(frozen=True)
class NestingFailure:
    """A model that fits the same responses worse than one that it contains, and is not ranked.

    Parameters
    ----------
    nested, nesting
        Names of the smaller and the larger model.
    shortfall
        By how much the log-likelihood of the larger one falls short, above 0.
    likely_cause
        ``"optimisation"`` or ``"optimisation or prior"``.
    sentence
        The failure in words, with advice.
    """

    nested: str
    nesting: str
    shortfall: float
    likely_cause: str
    sentence: str


def full_fits(
    responses: Responses,
    models: Sequence[CandidateModel],
    *,
    restarts: int = 5,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> tuple[FullFit, ...]:
    """Fit every model to all responses, the best of several starts, as independent tasks.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    models
        With names that differ.
    restarts
        Starts of a variational fit, at least 1.
    seed
        Of the random starts.
    tasks
        Workers, resuming, progress.
    """
    found = run_tasks(
        fit_in_full,
        [Task(f"{model.name}, all responses", {"model": model}) for model in models],
        seed=seed,
        shared={"responses": responses, "restarts": restarts, "seed": seed},
        settings=tasks,
    )
    return tuple(
        FullFit(
            model=model,
            targets=responses.targets,
            items=responses.items,
            responses=int(responses.observed.sum()),
            **parts,
        )
        for model, parts in zip(models, found, strict=True)
    )


def fit_in_full(
    rng: np.random.Generator,  # noqa: ARG001 - starts are numbered
    responses: Responses,
    restarts: int,
    seed: int,
    model: CandidateModel,
) -> dict[str, Any]:
    """Run in a worker: one model on all responses, as plain values."""
    if model.marginal:
        return _marginal(responses, model)
    settings = DimensionalSettings(model=model.item_model, restarts=restarts, seed=seed)
    fit = fit_multidimensional(responses, model.dims, settings)
    if fit.loglik is None or fit.loglik_error is None or fit.loglik_kind is None:
        msg = "the likelihood was asked for"
        raise RuntimeError(msg)
    return {
        "slopes": fit.parameters.slopes,
        "intercepts": fit.parameters.intercepts[:, 0],
        "lower": fit.parameters.lower,
        "correlations": fit.factor_correlations,
        "abilities": fit.abilities,
        "loglik": float(fit.loglik),
        "loglik_error": float(fit.loglik_error),
        "loglik_kind": str(fit.loglik_kind.value),
        "parameters": int(fit.parameter_count),
        "converged": bool(fit.converged),
        "settings": dict(fit.settings),
        "warnings": fit.warnings,
    }


def nesting_failures(fits: Sequence[FullFit]) -> tuple[NestingFailure, ...]:
    """Models that fit worse than one nested in them: 1PL in 2PL in 3PL, few dimensions in many.

    Parameters
    ----------
    fits
        To the same responses.
    """
    names = [fit.model.name for fit in fits]
    rows = []
    for failure in find_nesting_failures(fits):
        nested, nesting = names[failure.nested], names[failure.nesting]
        rows.append(
            NestingFailure(
                nested=nested,
                nesting=nesting,
                shortfall=failure.shortfall,
                likely_cause=failure.likely_cause,
                sentence=(
                    f"{nesting} fits the responses worse (by {failure.shortfall:.1f} in "
                    f"log-likelihood) than {nested}, which it contains: its prior or a failed "
                    "optimisation did that, and it is not ranked."
                ),
            )
        )
    return tuple(rows)


def _marginal(responses: Responses, model: CandidateModel) -> dict[str, Any]:
    fit = fit_unidimensional(responses, model.item_model, errors=False)
    return {
        "slopes": fit.parameters.slopes,
        "intercepts": fit.parameters.intercepts[:, 0],
        "lower": fit.parameters.lower,
        "correlations": np.eye(1),
        "abilities": fit.abilities.estimates[:, None],
        "loglik": float(fit.loglik),
        "loglik_error": 0.0,
        "loglik_kind": MARGINAL,
        "parameters": int(fit.parameter_count),
        "converged": bool(fit.converged),
        "settings": {
            "model": str(fit.model.value),
            "priors": {"kind": "ItemPriors", **asdict(fit.priors)},
        },
        "warnings": fit.warnings,
    }
