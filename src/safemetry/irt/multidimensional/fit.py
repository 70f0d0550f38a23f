"""Fit responses in several dimensions, exploratory or by a structure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import joblib
import numpy as np

from safemetry.errors import InputError
from safemetry.irt.multidimensional.hierarchy import HierarchicalPrior
from safemetry.irt.multidimensional.integration import LikelihoodKind, Marginal, integrate
from safemetry.irt.multidimensional.quadrature import QuadratureStart, fit_quadrature
from safemetry.irt.multidimensional.result import HeldOut, MultidimensionalFit, score_held_out
from safemetry.irt.multidimensional.settings import DimensionalSettings, resolved
from safemetry.irt.multidimensional.variational import (
    VariationalFit,
    VariationalSettings,
    fit_variational,
)
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel, ItemParameters
from safemetry.irt.priors import NO_PRIORS, ItemPriors
from safemetry.irt.responses import Responses
from safemetry.irt.structure import Structure

_SAME_DIMENSION = 0.98
_EMPTY_DIMENSION = 0.1


def fit_multidimensional(
    responses: Responses,
    dims: int | Structure,
    settings: DimensionalSettings | None = None,
    *,
    held_out: BoolArray | None = None,
) -> MultidimensionalFit:
    """Fit the multidimensional two-parameter logistic model (Reckase 2009).

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    dims
        Number of dimensions K of an exploratory fit, or the structure of a confirmatory one.
    held_out
        Cells to be predicted and not fitted, shape ``(N, J)``.

    Returns
    -------
    MultidimensionalFit
        Exploratory: uncorrelated abilities of variance 1 on the principal axes of the slopes; turn
        them with `MultidimensionalFit.rotated`. Confirmatory: abilities of variance 1 with their
        estimated correlations.

    Raises
    ------
    InputError
        For items of more than two categories, more dimensions than targets or items, a structure
        of other items, or a 1PL model of several dimensions without a structure.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> rng = np.random.default_rng(1)
    >>> theta = rng.standard_normal((200, 2))
    >>> slopes = np.repeat(np.eye(2), 15, axis=0) * 1.5
    >>> codes = (rng.random((200, 30)) < 1 / (1 + np.exp(-theta @ slopes.T))).astype(int)
    >>> fit = fit_multidimensional(make_responses(codes), 2)
    >>> np.abs(fit.rotated("varimax").loadings.loadings).round(1)[[0, 29]]
    array([[0.7, 0. ],
           [0. , 0.6]])
    """
    settings = settings or DimensionalSettings()
    size = _check(responses, dims, settings, held_out)
    structure = dims if isinstance(dims, Structure) else None
    training = responses if held_out is None else responses.without(held_out)
    starts = _restarts(training, size, structure, settings)
    best = min(starts, key=lambda start: start.training_loss)
    if settings.method == "quadrature":
        found = _by_quadrature(training, best, structure, settings)
    else:
        found = _by_variation(training, best, settings)
    marginal = found.marginal
    fit = MultidimensionalFit(
        targets=responses.targets,
        items=responses.items,
        dimensions=_names(size, structure),
        structure=structure,
        parameters=found.parameters,
        item_covariance=found.item_covariance,
        factor_correlations=found.correlations,
        abilities=found.abilities,
        ability_covariance=found.ability_covariance,
        loglik=None if marginal is None else marginal.loglik,
        loglik_error=None if marginal is None else marginal.error,
        loglik_kind=None if marginal is None else marginal.kind,
        parameter_count=count_parameters(len(responses.items), dims, settings.model),
        responses=int(training.observed.sum()),
        restart_losses=tuple(start.training_loss for start in starts),
        converged=found.converged,
        trace=found.trace,
        held_out=None,
        settings=resolved(settings),
        warnings=_warnings(training, found, structure),
    )
    return fit if held_out is None else replace(fit, held_out=_score(responses, fit, held_out))


def count_parameters(items: int, dims: int | Structure, model: ItemModel | str) -> int:
    """Free parameters: J (K + 1) - K (K - 1) / 2 of an exploratory 2PL, as many as are free else.

    Parameters
    ----------
    items
        J.
    dims
        K, or the structure.
    model
        ``"2pl"`` or ``"1pl"``.
    """
    if not isinstance(dims, Structure):
        slopes = 1 if model == ItemModel.ONE_PL else items * dims - dims * (dims - 1) // 2
        return items + slopes
    size = len(dims.dimensions)
    slopes = size if model == ItemModel.ONE_PL else int(dims.mask.sum())
    return items + slopes + (size * (size - 1) // 2 if dims.correlated else 0)


@dataclass(frozen=True)
class _Estimate:
    parameters: ItemParameters
    item_covariance: FloatArray | None
    correlations: FloatArray
    abilities: FloatArray
    ability_covariance: FloatArray
    marginal: Marginal | None
    converged: bool
    trace: tuple[float, ...]


def _check(
    responses: Responses,
    dims: int | Structure,
    settings: DimensionalSettings,
    held_out: BoolArray | None,
) -> int:
    """The number of dimensions, if the request can be met."""
    targets, items = responses.codes.shape
    if (responses.categories > 2).any():
        place = int(np.argmax(responses.categories > 2))
        raise InputError(
            f"item {responses.items[place]!r} has {responses.categories[place]} categories",
            fix="several dimensions need outcomes 0 and 1; declare a boundary",
        )
    if held_out is not None and held_out.shape != (targets, items):
        raise InputError(f"the mask of held-out cells is not of shape {targets} x {items}")
    if isinstance(dims, Structure):
        if len(dims.mask) != items:
            raise InputError(f"the structure has {len(dims.mask)} items, the responses {items}")
        return len(dims.dimensions)
    if not 1 <= dims <= min(targets - 1, items):
        raise InputError(
            f"{dims} dimensions are asked of {targets} targets and {items} items",
            fix="ask for at least 1, fewer than there are targets, and no more than items",
        )
    if settings.model == ItemModel.ONE_PL and dims > 1:
        raise InputError(
            "with one slope for all items nothing tells several dimensions apart",
            fix="give a structure, or use the 2pl",
        )
    return dims


def _restarts(
    responses: Responses, size: int, structure: Structure | None, settings: DimensionalSettings
) -> list[VariationalFit]:
    """The variational fit from each start; quadrature starts from the best of them."""
    priors = settings.priors
    options = VariationalSettings(
        prior=priors if isinstance(priors, HierarchicalPrior) else HierarchicalPrior(),
        correlated=structure is not None and structure.correlated,
        free_slopes=settings.model != ItemModel.ONE_PL,
    )
    mask = None if structure is None else structure.mask
    numbers = range(settings.first_start, settings.first_start + settings.restarts)
    generators = [
        np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(number,)))
        if number
        else None
        for number in numbers
    ]
    if settings.restarts == 1:
        return [fit_variational(responses, size, mask, options, generators[0])]
    found: list[VariationalFit] = joblib.Parallel(n_jobs=settings.jobs)(
        joblib.delayed(fit_variational)(responses, size, mask, options, generator)
        for generator in generators
    )
    return found


def _by_variation(
    responses: Responses, best: VariationalFit, settings: DimensionalSettings
) -> _Estimate:
    slopes, intercepts = best.items[:, :-1], best.items[:, -1]
    marginal = None
    if settings.likelihood:
        marginal = integrate(responses, slopes, intercepts, best.correlations, seed=settings.seed)
    return _Estimate(
        parameters=_parameters(slopes, intercepts),
        item_covariance=best.item_covariance,
        correlations=best.correlations,
        abilities=best.abilities,
        ability_covariance=best.ability_covariance,
        marginal=marginal,
        converged=best.converged,
        trace=best.trace,
    )


def _by_quadrature(
    responses: Responses,
    best: VariationalFit,
    structure: Structure | None,
    settings: DimensionalSettings,
) -> _Estimate:
    priors = settings.priors if isinstance(settings.priors, ItemPriors) else NO_PRIORS
    start = QuadratureStart(
        slopes=best.items[:, :-1],
        intercepts=best.items[:, -1],
        correlations=best.correlations,
        mask=None if structure is None else structure.mask,
        correlated=structure is not None and structure.correlated,
        free_slopes=settings.model != ItemModel.ONE_PL,
    )
    fit = fit_quadrature(responses, start, slope=priors.slope, intercept=priors.intercept)
    slopes = fit.slopes
    if structure is None:
        slopes = _principal(slopes)
    marginal = integrate(responses, slopes, fit.intercepts, fit.correlations)
    marginal = replace(marginal, loglik=fit.loglik, kind=LikelihoodKind.GRID)
    return _Estimate(
        parameters=_parameters(slopes, fit.intercepts),
        item_covariance=fit.item_covariance,
        correlations=fit.correlations,
        abilities=marginal.mean,
        ability_covariance=marginal.covariance,
        marginal=marginal,
        converged=fit.converged,
        trace=fit.trace,
    )


def _principal(slopes: FloatArray) -> FloatArray:
    """Slopes on their principal axes, largest first, each with a sum of at least 0."""
    axes = np.linalg.eigh(slopes.T @ slopes)[1][:, ::-1]
    turned = slopes @ axes
    found: FloatArray = turned * np.where(turned.sum(axis=0) < 0, -1.0, 1.0)
    return found


def _parameters(slopes: FloatArray, intercepts: FloatArray) -> ItemParameters:
    items = len(intercepts)
    return ItemParameters(slopes, intercepts[:, None], np.zeros(items), np.ones(items))


def _names(size: int, structure: Structure | None) -> tuple[str, ...]:
    if structure is not None:
        return structure.dimensions
    return tuple(f"axis {place}" for place in range(1, size + 1))


def _warnings(
    responses: Responses, found: _Estimate, structure: Structure | None
) -> tuple[str, ...]:
    said = []
    if not found.converged:
        said.append(
            "The fit did not converge: compare several restarts, or ask for fewer dimensions."
        )
    answered = responses.observed.sum(axis=0)
    passed = (responses.codes == 1).sum(axis=0)
    constant = int(((passed == 0) | (passed == answered)).sum())
    if constant:
        said.append(
            f"{constant} items have no response, or the same one from every target: what is said "
            "about them comes from the prior, or without one has no finite best value."
        )
    empty = int((~responses.observed.any(axis=1)).sum())
    if empty:
        said.append(
            f"{empty} targets have no response: their abilities are those of the population."
        )
    said.extend(_dimension_warnings(found, structure))
    return tuple(said)


def _dimension_warnings(found: _Estimate, structure: Structure | None) -> list[str]:
    said = []
    slopes = found.parameters.slopes
    size = slopes.shape[1]
    if structure is None:
        strength = np.sqrt(np.square(slopes).mean(axis=0))
        empty = int((strength < _EMPTY_DIMENSION).sum())
        if empty:
            said.append(
                f"{empty} of {size} dimensions are empty (root mean square slope below "
                f"{_EMPTY_DIMENSION}): the responses support {size - empty}, with this prior."
            )
        return said
    for column, name in enumerate(structure.dimensions):
        for other in range(column):
            value = float(found.correlations[column, other])
            if abs(value) > _SAME_DIMENSION:
                said.append(
                    f"Dimensions {structure.dimensions[other]!r} and {name!r} correlate "
                    f"{value:.3f}: the responses do not tell them apart."
                )
    against = int((slopes * structure.mask < 0).any(axis=1).sum())
    if against:
        said.append(
            f"{against} items run against a dimension that they load on (negative slope): check "
            "their keys."
        )
    return said


def _score(responses: Responses, fit: MultidimensionalFit, held_out: BoolArray) -> HeldOut | None:
    cells = held_out & responses.observed
    if not cells.any():
        return None
    return score_held_out(
        responses.codes.astype(np.float64),
        cells,
        fit.probabilities(integrated=True),
        fit.probabilities(integrated=False),
    )
