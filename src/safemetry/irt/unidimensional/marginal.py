"""Calibration in one dimension by marginal likelihood or marginal posterior mode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.ability import AbilityEstimates
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel, ItemParameters
from safemetry.irt.priors import ItemPriors, LogNormal
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.asymptote_likelihood import AsymptoteCells
from safemetry.irt.unidimensional.calibration_data import CalibrationData, named_list, prepare
from safemetry.irt.unidimensional.category_likelihood import CategoryCells
from safemetry.irt.unidimensional.coordinates import NARROWEST_GAP, STEEPEST, TIED, Layout
from safemetry.irt.unidimensional.item_errors import ItemErrors, item_errors
from safemetry.irt.unidimensional.likelihood import Cells, LogisticCells
from safemetry.irt.unidimensional.optimise import Optimum, TraceEntry, maximise
from safemetry.irt.unidimensional.penalty import Penalty, applicable
from safemetry.irt.unidimensional.starting import flat_start, starting_values
from safemetry.irt.unidimensional.uncertainty import item_covariance

DEFAULT_TOLERANCE = 1e-5
LARGEST_HALF_LATTICE_ERROR = 0.2
SECOND_START_CELLS = 200_000
"""Up to this many cells a second start is tried; the better optimum is kept."""

SAME_OPTIMUM = 0.01


@dataclass(frozen=True)
class UnidimensionalFit:
    """A calibration in one dimension.

    Parameters
    ----------
    targets, items
        Names.
    model, priors
        What was fitted; `priors` are those that the model uses.
    parameters
        Of J items. Rasch items have slope 1.
    latent_sd
        Standard deviation of the abilities: estimated by the Rasch model, else 1.
    errors
        Standard errors and covariances of the parameters.
    loglik
        Marginal log-likelihood at the estimate, without the priors.
    objective
        The same plus the logarithm of the prior densities, up to constants; what was maximised.
    parameter_count
        Free parameters.
    target_count, response_count
        Sum of the weights of the targets, and of the cells that hold a response.
    trace
        Steps of the optimiser.
    converged
        Whether one more step would have gained less than the tolerance.
    warnings
        Boundary states and doubts in plain words, with advice.
    abilities
        Posterior means (EAP) and standard deviations.
    nodes, spacing
        Abilities in the final lattice, and their distance in standard deviations of the abilities.
    """

    targets: tuple[str, ...]
    items: tuple[str, ...]
    model: ItemModel
    priors: ItemPriors
    parameters: ItemParameters
    latent_sd: float
    errors: ItemErrors
    loglik: float
    objective: float
    parameter_count: int
    target_count: float
    response_count: float
    trace: tuple[TraceEntry, ...]
    converged: bool
    warnings: tuple[str, ...]
    abilities: AbilityEstimates
    nodes: int
    spacing: float


def fit_unidimensional(
    responses: Responses,
    model: ItemModel = ItemModel.TWO_PL,
    priors: ItemPriors | None = None,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    start: ItemParameters | None = None,
    allow_negative: bool = False,
    node_factor: float = 1.0,
    errors: bool = True,
) -> UnidimensionalFit:
    """Calibrate items in one dimension.

    Parameters
    ----------
    responses
        Of N >= 2 targets to J items; cells may be missing.
    model
        Item model.
    priors
        Of the item parameters; the defaults of `ItemPriors` if None, `NO_PRIORS` for maximum
        likelihood. A prior on the slope is not used where all items share one slope.
    tolerance
        Stop when a step is expected to add less than this to the log-likelihood.
    start
        Parameters to start from.
    allow_negative
        Whether slopes may be negative (a wrong key, a benchmark that runs the other way). Items
        with a negative slope are always named in `warnings`.
    node_factor
        How many times finer than needed the lattice of abilities is, to check that it does not
        matter.
    errors
        Whether to compute standard errors.

    Returns
    -------
    UnidimensionalFit
        Always finite; what cannot be known is masked, with the reason in `warnings`.

    Raises
    ------
    InputError
        For responses that the model cannot describe (see `calibration_data.prepare`), or settings
        that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from safemetry.irt.responses import make_responses
    >>> rng = np.random.default_rng(1)
    >>> chance = 1 / (1 + np.exp(-rng.normal(size=(300, 1)) - [-1.0, 0.0, 1.0]))
    >>> fit = fit_unidimensional(make_responses((rng.random((300, 3)) < chance).astype(int)))
    >>> fit.converged, fit.parameter_count
    (True, 6)
    """
    chosen = applicable(ItemPriors() if priors is None else priors, model)
    _check(chosen, tolerance, node_factor, allow_negative=allow_negative)
    data, warnings = prepare(responses, model, chosen)
    layout = Layout(model, data.categories, isinstance(chosen.slope, LogNormal), allow_negative)
    penalty = Penalty(layout, chosen)
    cells = _cells(data, model)
    working, narrowest = starting_values(data.codes, data.weights, layout)
    starts = [working]
    if start is not None:
        if start.items != len(responses.items) or start.dimensions != 1:
            raise InputError("the start does not describe the same items in one dimension")
        starts = [layout.working(start)]
    elif data.codes.size <= SECOND_START_CELLS and not layout.tied:
        starts.append(flat_start(working, layout))

    def run(place: FloatArray) -> Optimum:
        return maximise(
            cells, layout, penalty, place, narrowest, tolerance=tolerance, node_factor=node_factor
        )

    reached = sorted((run(place) for place in starts), key=lambda found: found.objective)
    optimum, apart = reached[-1], reached[-1].objective - reached[0].objective
    if apart > SAME_OPTIMUM and all(found.converged for found in reached):
        warnings += (_several_optima(apart),)
    if layout.signed and (optimum.working[0] < 0).mean() > 0.5:
        turned = optimum.working.copy()
        turned[0] *= -1
        again = run(turned)
        optimum = replace(again, trace=optimum.trace + again.trace)
    return _result(responses, data, layout, penalty, cells, optimum, warnings, errors=errors)


def _several_optima(apart: float) -> str:
    return (
        f"two starts ended at different optima, {apart:.2f} apart in log posterior; the better one "
        "is reported: several explanations fit these responses, perhaps because they measure more "
        "than one thing"
    )


def _check(
    priors: ItemPriors, tolerance: float, node_factor: float, *, allow_negative: bool
) -> None:
    if not tolerance > 0:
        raise InputError(f"a tolerance of {tolerance:g} is never reached", fix="use one above 0")
    if node_factor < 1:
        raise InputError(
            "the lattice cannot be coarser than needed", fix="node_factor is 1 or more"
        )
    if allow_negative and isinstance(priors.slope, LogNormal):
        raise InputError(
            "a log-normal prior keeps slopes positive",
            fix="use a normal prior on the slope, or none, to allow negative ones",
        )


def _cells(data: CalibrationData, model: ItemModel) -> Cells:
    if model in TIED or model is ItemModel.TWO_PL:
        return LogisticCells(data.codes, data.weights)
    if model is not ItemModel.GRADED:
        return AsymptoteCells(data.codes, data.weights, model, data.categories)
    return CategoryCells(data.codes, data.weights, model, data.categories)


def _result(
    responses: Responses,
    data: CalibrationData,
    layout: Layout,
    penalty: Penalty,
    cells: Cells,
    optimum: Optimum,
    warnings: tuple[str, ...],
    *,
    errors: bool,
) -> UnidimensionalFit:
    rasch = layout.model is ItemModel.RASCH
    inner = layout.parameters(optimum.working)
    latent_sd = float(inner.slopes[0, 0]) if rasch else 1.0
    slopes = np.ones_like(inner.slopes) if rasch else inner.slopes
    intercepts = inner.intercepts
    if layout.model is ItemModel.GRADED:
        intercepts = data.original_steps(inner.intercepts, slopes[:, 0])
    parameters = ItemParameters(slopes, intercepts, inner.lower, inner.upper)
    covariance = None
    said = list(warnings)
    if errors:
        found = item_covariance(
            cells, layout, penalty, optimum.working, optimum.posterior, ~optimum.held
        )
        covariance = found.blocks
        if found.why:
            said.append(f"standard errors of the items are unknown: {found.why}")
    said += _states(responses.items, layout, optimum)
    posterior, rows = optimum.posterior, data.row_of
    unknown = "not asked for" if not errors else "unknown"
    return UnidimensionalFit(
        targets=responses.targets,
        items=responses.items,
        model=layout.model,
        priors=penalty.priors,
        parameters=parameters,
        latent_sd=latent_sd,
        errors=item_errors(
            layout, optimum.working, optimum.held, covariance, parameters, data.used, unknown
        ),
        loglik=optimum.loglik,
        objective=optimum.objective,
        parameter_count=layout.parameter_count,
        target_count=float(responses.weights.sum()),
        response_count=float(responses.weights @ responses.observed.sum(axis=1)),
        trace=optimum.trace,
        converged=optimum.converged,
        warnings=tuple(said),
        abilities=AbilityEstimates(
            responses.targets,
            "eap",
            latent_sd * posterior.mean[rows],
            np.ma.masked_invalid(latent_sd * posterior.sd[rows]),
            latent_sd,
            np.zeros(len(rows), bool),
        ),
        nodes=optimum.lattice.nodes.size,
        spacing=optimum.lattice.spacing,
    )


def _states(items: tuple[str, ...], layout: Layout, optimum: Optimum) -> list[str]:
    """Boundary states and failures in plain words."""
    working, said = optimum.working, []
    low, high = layout.bounds()
    at_low, at_high = working <= low + 1e-9, working >= high - 1e-9
    slopes = layout.natural(working)[0]

    def report(chosen: BoolArray, state: str, advice: str) -> None:
        if chosen.any():
            said.append(f"{state}: {named_list(items, chosen)}; {advice}")

    if not optimum.converged:
        said.append(
            f"the fit did not converge in {len(optimum.trace)} steps: do not use it; add priors, "
            "or take a model with fewer parameters"
        )
    if optimum.discretisation > LARGEST_HALF_LATTICE_ERROR:
        said.append(
            "the lattice of abilities is coarse for these slopes: repeat with a larger node_factor"
        )
    if layout.tied and at_low[0, 0]:
        said.append("the targets do not differ by more than chance: all abilities are equal")
    elif layout.tied and at_high[0, 0]:
        said.append("the spread of the abilities is at its bound: the items form a ladder")
    elif not layout.tied:
        report(
            at_high[0],
            "almost perfect separation of the targets",
            f"the slope has no largest value and is held at {STEEPEST:g}; a prior on the slope "
            "gives a finite one",
        )
        sign = "at its negative bound" if layout.signed else "at 0"
        against = "" if layout.signed else "; allow negative slopes to see which"
        report(
            at_low[0],
            f"slope held {sign}",
            f"such items run against the others, or do not tell the targets apart{against}",
        )
        report(
            slopes < 0,
            "negative slope",
            "better targets do worse there; look at the key and the intent before using the item",
        )
    report(
        np.asarray((at_low | at_high)[1 : 1 + layout.steps].any(axis=0)),
        "intercept at its bound",
        "a prior on the intercept gives a finite estimate",
    )
    simpler = "the simpler curve fits as well, and the asymptote has no standard error"
    if layout.rows > 1 + layout.steps:
        report(at_low[1 + layout.steps], "lower asymptote at 0", simpler)
    if layout.rows > 2 + layout.steps:
        report(at_high[2 + layout.steps], "upper asymptote at 1", simpler)
    if layout.steps > 1:
        gap = working[1 : layout.steps] - working[2 : 1 + layout.steps]
        close = (gap < 2 * NARROWEST_GAP) & layout.exists[2 : 1 + layout.steps]
        report(
            np.asarray(close.any(axis=0)), "two thresholds fall together", "merge the categories"
        )
    return said
