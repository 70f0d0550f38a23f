"""From evidence to a calibration: `calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.success import SuccessRule
from safemetry.findings import resolved
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.diagnostics.sensitivity import dimensional_sensitivity, prior_sensitivity
from safemetry.irt.finding import CalibrationFinding
from safemetry.irt.information_criteria import criteria
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.result import MultidimensionalFit
from safemetry.irt.multidimensional.rotation import standardised_loadings
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import FloatArray, ItemModel, ItemParameters
from safemetry.irt.priors import ItemPriors
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import Responses
from safemetry.irt.settings import CalibrationSettings
from safemetry.irt.store import responses_digest
from safemetry.irt.structure import Structure, bifactor, make_structure
from safemetry.irt.unidimensional.marginal import fit_unidimensional

_SENSITIVITY_CELLS: Final = 2_000_000
_CONSTANT: Final = "every target gave the same response"
_EMPTY: Final = "no target has a response"


def calibrate(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
    settings: CalibrationSettings | None = None,
    **options: Any,
) -> CalibrationFinding:
    """Put items and targets on one scale, or on several, with an item response model.

    Items to which every target responded alike say nothing of abilities and are left out, by name.

    Parameters
    ----------
    data
        `Responses`, a `ResponseMatrix`, evidence, or a table with the columns of the judgements
        table.
    evidence_map
        A map, or a mapping with its entries.
    success, judge
        Which outcome counts, and whose verdict; see `response_matrix`. The graded model takes the
        ordered outcomes of `ordinal_matrix` instead, with no success rule.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `CalibrationSettings`, such as ``model="1pl"`` or ``dims=3``.

    Raises
    ------
    InputError
        For data, settings or a structure that cannot be used, or where no item is left.

    Examples
    --------
    >>> import numpy as np
    >>> from safemetry.irt.responses import make_responses
    >>> rng = np.random.default_rng(1)
    >>> theta, d = rng.standard_normal((60, 1)), rng.normal(size=30)
    >>> codes = (rng.random((60, 30)) < 1 / (1 + np.exp(-theta - d))).astype(int)
    >>> found = calibrate(make_responses(codes), sensitivity=False)
    >>> found.converged, found.item_parameters.items
    (True, 30)
    """
    chosen = settings or CalibrationSettings(**_typed(options))
    reading = read_responses(
        data,
        evidence_map=evidence_map,
        success=success,
        judge=judge,
        graded=chosen.model is ItemModel.GRADED,
    )
    responses, warnings = reading.responses, reading.warnings
    kept, left_out = _informative(responses)
    if not kept.items:
        raise InputError(
            "no item tells targets apart: each has one response from all of them",
            fix="add targets that differ",
        )
    finding = (
        _in_one_dimension(kept, chosen)
        if chosen.one_dimension
        else _in_several_dimensions(kept, chosen)
    )
    digest = {"responses": responses_digest(responses)}
    return replace(
        finding,
        left_out=left_out,
        settings=resolved({**digest, **finding.settings}, "not used"),
        warnings=(*warnings, *_said(left_out), *finding.warnings),
    )


def _typed(options: Mapping[str, Any]) -> dict[str, Any]:
    named = dict(options)
    if isinstance(named.get("model"), str):
        try:
            named["model"] = ItemModel(named["model"])
        except ValueError as error:
            known = ", ".join(ItemModel)
            raise InputError(f"there is no model {named['model']!r}", fix=f"use {known}") from error
    return named


def _informative(responses: Responses) -> tuple[Responses, dict[str, str]]:
    """The items to which not all targets responded alike, and why the others are left out."""
    seen = np.asarray(responses.observed.any(axis=0))
    reasons = {
        responses.items[place]: _CONSTANT if seen[place] else _EMPTY
        for place in np.flatnonzero(~responses.varies)
    }
    return responses.select_items(responses.varies), reasons


def _said(left_out: Mapping[str, str]) -> list[str]:
    if not left_out:
        return []
    count = len(left_out)
    verb = "item was" if count == 1 else "items were"
    return [f"{count:,} {verb} left out, since all targets responded alike or not at all."]


# --- one dimension -------------------------------------------------------------------------------


def _in_one_dimension(responses: Responses, settings: CalibrationSettings) -> CalibrationFinding:
    fit = fit_unidimensional(
        responses, settings.model, settings.priors, allow_negative=settings.allow_negative
    )
    found = estimate_abilities(
        fit.parameters, responses, method=settings.ability, latent_sd=fit.latent_sd
    )
    measures = criteria(fit)
    table, why = None, {}
    if not settings.sensitivity:
        why["prior_sensitivity"] = "not asked for"
    elif responses.codes.size > _SENSITIVITY_CELLS:
        why["prior_sensitivity"] = (
            f"more than {_SENSITIVITY_CELLS:,} cells; call prior_sensitivity by itself"
        )
    else:
        table = prior_sensitivity(responses, fit, allow_negative=settings.allow_negative)
    errors = fit.errors
    return CalibrationFinding(
        settings=settings.resolved(),
        warnings=tuple(_sentence(said) for said in fit.warnings),
        model=settings.model,
        items=responses.items,
        item_parameters=fit.parameters,
        left_out={},
        item_errors={
            "a": errors.slopes,
            "d": errors.intercepts,
            "b": errors.difficulties,
            "g": errors.lower,
            "u": errors.upper,
        },
        no_errors=errors.why,
        targets=responses.targets,
        abilities=found.estimates[:, None],
        ability_errors=found.standard_errors[:, None],
        dimensions=("ability",),
        theta_method=settings.ability,
        loadings=standardised_loadings(fit.parameters.slopes * fit.latent_sd, np.eye(1)),
        factor_correlations=np.eye(1),
        latent_sd=fit.latent_sd,
        loglik=measures.loglik,
        loglik_kind="adaptive quadrature on a lattice"
        + (", approximate criteria: the fit uses priors" if measures.approximate else ""),
        parameters=measures.parameters,
        aic=measures.aic,
        bic=measures.bic_targets,
        bic_n=fit.target_count,
        bic_responses=measures.bic_responses,
        converged=fit.converged,
        prior_sensitivity=table,
        why=why,
    )


def _sentence(said: str) -> str:
    """A remark as a sentence."""
    return said[:1].upper() + said[1:] + ("" if said.endswith(".") else ".")


# --- several dimensions --------------------------------------------------------------------------


def _in_several_dimensions(
    responses: Responses, settings: CalibrationSettings
) -> CalibrationFinding:
    dims = _dimensions(responses, settings)
    exact = settings.priors is not None
    how = DimensionalSettings(
        model=settings.model,
        method="quadrature" if exact else "variational",
        priors=_normal(settings.priors),
        restarts=settings.restarts,
        seed=settings.seed,
    )
    fit = fit_multidimensional(responses, dims, how)
    table, why = None, {}
    if not settings.sensitivity:
        why["prior_sensitivity"] = "not asked for"
    elif exact:
        why["prior_sensitivity"] = "the fit has the priors that were given, and no learned one"
    else:
        table = dimensional_sensitivity(responses, dims, fit, how)
    parameters, abilities, covariance, loadings, correlations = _turned(fit, settings)
    return CalibrationFinding(
        settings={
            **settings.resolved(),
            "priors": fit.settings["priors"],
            "method": fit.settings["method"],
        },
        warnings=tuple(_sentence(said) for said in fit.warnings),
        model=settings.model,
        items=responses.items,
        item_parameters=parameters,
        left_out={},
        item_errors={},
        no_errors="",
        targets=responses.targets,
        abilities=abilities,
        ability_errors=np.ma.sqrt(np.ma.masked_less(np.einsum("ikk->ik", covariance), 0.0)),
        dimensions=fit.dimensions,
        theta_method="eap",
        loadings=loadings,
        factor_correlations=correlations,
        latent_sd=1.0,
        loglik=fit.loglik,
        loglik_kind=None if fit.loglik_kind is None else str(fit.loglik_kind),
        parameters=fit.parameter_count,
        aic=fit.aic,
        bic=fit.bic(),
        bic_n=float(len(responses.targets)),
        bic_responses=fit.bic("responses"),
        converged=fit.converged,
        prior_sensitivity=table,
        why=why
        | (
            {}
            if fit.loglik is not None
            else dict.fromkeys(
                ("loglik", "loglik_kind", "aic", "bic", "bic_responses"), "not computed"
            )
        ),
    )


def _dimensions(responses: Responses, settings: CalibrationSettings) -> int | Structure:
    if settings.structure is None:
        return settings.dims
    if settings.general:
        return bifactor(responses.items, _one_group_each(settings.structure))
    return make_structure(responses.items, settings.structure)


def _one_group_each(structure: Mapping[str, str | tuple[str, ...]]) -> dict[str, str]:
    groups = {}
    for item, named in structure.items():
        if not isinstance(named, str) and len(named) != 1:
            raise InputError(
                f"item {item!r} has {len(named)} groups",
                fix="give each item one group beside the general dimension",
            )
        groups[item] = named if isinstance(named, str) else named[0]
    return groups


def _normal(priors: ItemPriors | None) -> ItemPriors | None:
    return None if priors is None else replace(priors, lower=None, upper=None)


def _turned(
    fit: MultidimensionalFit, settings: CalibrationSettings
) -> tuple[ItemParameters, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Parameters, abilities, their covariances, loadings and factor correlations as reported."""
    if fit.structure is not None or settings.rotation == "none":
        return (
            fit.parameters,
            fit.abilities,
            fit.ability_covariance,
            fit.loadings(),
            fit.factor_correlations,
        )
    turned = fit.rotated(settings.rotation, seed=settings.seed)
    return (
        replace(fit.parameters, slopes=turned.slopes),
        turned.abilities,
        turned.ability_covariance,
        turned.loadings.loadings,
        turned.loadings.correlations,
    )
