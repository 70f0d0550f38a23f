"""Abilities of targets, given calibrated items.

Everything is read off a lattice of abilities, so that a method costs a few matrix products
whatever the number of targets: the posterior for EAP and plausible values, and the derivatives of
the log-likelihood for the mode and for Warm's estimate, whose roots are found on cubics through the
four nearest nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemModel, ItemParameters
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.category_likelihood import (
    CategoryCells,
    asymptote_curves,
    graded_curves,
)
from safemetry.irt.unidimensional.grid import (
    REACH,
    Lattice,
    Posterior,
    discretisation_error,
    make_lattice,
    make_posterior,
)
from safemetry.irt.unidimensional.likelihood import Cells, LogisticCells

METHODS = ("eap", "map", "wle")
WIDE = 10.0
"""Modes and Warm's estimates are sought within this many standard deviations."""

SMOOTH = 0.1
"""Largest distance of nodes for roots: the cubic is then right to about 1e-6."""

HALF_LATTICE_ERROR = 0.06
DIFFERENCE = 1e-4
ITEM_BLOCK = 256


@dataclass(frozen=True)
class AbilityEstimates:
    """Abilities of N targets.

    Parameters
    ----------
    targets
        Names.
    method
        ``eap`` (posterior mean), ``map`` (posterior mode) or ``wle`` (Warm 1989).
    estimates
        Shape ``(N,)``, in the unit of the item parameters.
    standard_errors
        Shape ``(N,)``: the posterior standard deviation, the curvature at the mode, or the inverse
        root of the test information; masked where nothing is known.
    latent_sd
        Standard deviation of the population.
    at_bound
        Where the estimate lies beyond any ability that was looked at, shape ``(N,)``.
    """

    targets: tuple[str, ...]
    method: str
    estimates: FloatArray
    standard_errors: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]
    latent_sd: float
    at_bound: BoolArray


@dataclass(frozen=True)
class _Problem:
    """Items in units of the population's standard deviation, and responses to them."""

    cells: Cells
    natural: FloatArray
    seen: FloatArray | None
    model: ItemModel
    categories: IntArray

    def lattice(self) -> tuple[Lattice, FloatArray]:
        """A lattice that resolves every posterior, and log-likelihoods on it."""
        slopes = self.natural[0]
        most = (slopes * slopes).sum() if self.seen is None else (self.seen @ slopes**2).max()
        narrowest = 1 / np.sqrt(1 + float(most) / 4)
        steepest = float(np.abs(slopes).max())
        for _ in range(4):
            lattice = make_lattice(narrowest, -REACH, REACH, steepest=steepest)
            values = self.cells.log_likelihood(self.natural, lattice)
            if discretisation_error(values, lattice) < HALF_LATTICE_ERROR:
                break
            narrowest /= 2
        return lattice, values

    def smooth_lattice(self) -> tuple[Lattice, FloatArray]:
        """A lattice on which derivatives are smooth, however narrow the posteriors."""
        steepest = max(float(np.abs(self.natural[0]).max()), 1e-9)
        spacing = min(SMOOTH, 3 * SMOOTH / steepest)
        lattice = make_lattice(spacing, -WIDE, WIDE, steepest=0.0, share=1.0)
        return lattice, self.cells.log_likelihood(self.natural, lattice)

    def curves(self, nodes: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        """Chances of each category and their derivatives by ability, ``(C, Q, J)``."""
        natural = self.natural[:, part]
        if self.model is ItemModel.GRADED:
            chances, change = graded_curves(natural, nodes, self.categories[part], len(natural))
            return chances, change[1:].sum(axis=0) * natural[0]
        chances, change = asymptote_curves(natural, nodes)
        return chances, change[1] * natural[0]

    def information(self, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Test information of each target and Warm's J at each node, ``(N, Q)``."""
        shape = (self.cells.weights.size, nodes.size)
        information, skew = np.zeros(shape), np.zeros(shape)
        for start in range(0, self.natural.shape[1], ITEM_BLOCK):
            part = slice(start, start + ITEM_BLOCK)
            chances, change = self.curves(nodes, part)
            ahead = self.curves(nodes + DIFFERENCE, part)[1]
            bend = (ahead - self.curves(nodes - DIFFERENCE, part)[1]) / (2 * DIFFERENCE)
            information += self._summed((change * change / chances).sum(axis=0), part)
            skew += self._summed((change * bend / chances).sum(axis=0), part)
        return information, skew

    def _summed(self, by_item: FloatArray, part: slice) -> FloatArray:
        if self.seen is None:
            whole: FloatArray = by_item.sum(axis=1)
            return whole
        found: FloatArray = self.seen[:, part] @ by_item.T
        return found


def estimate_abilities(
    parameters: ItemParameters,
    responses: Responses,
    *,
    method: str = "eap",
    latent_sd: float = 1.0,
) -> AbilityEstimates:
    """Abilities of targets from their responses to calibrated items.

    Parameters
    ----------
    parameters
        Of J items in one dimension (any model).
    responses
        Of N >= 1 targets to the same items in the same order.
    method
        ``eap``: posterior mean; ``map``: posterior mode; ``wle``: Warm's (1989, eq. 9 and 15)
        weighted likelihood, which uses no population and is nearly unbiased.
    latent_sd
        Standard deviation of the population, whose mean is 0.

    Returns
    -------
    AbilityEstimates
        Finite for every target, also where all responses are the same or none is there.

    Raises
    ------
    InputError
        For an unknown method, several dimensions, or responses that the items cannot give.

    Examples
    --------
    >>> import numpy as np
    >>> from safemetry.irt.responses import make_responses
    >>> items = ItemParameters(
    ...     np.ones((3, 1)), np.array([[1.0], [0.0], [-1.0]]), np.zeros(3), np.ones(3)
    ... )
    >>> estimate_abilities(items, make_responses([[1, 1, 1], [1, 0, -1]])).estimates.round(2)
    array([ 0.96, -0.15])
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}", fix=f"use one of {', '.join(METHODS)}")
    problem = _problem(parameters, responses, latent_sd)
    if method == "eap":
        lattice, values = problem.lattice()
        posterior = make_posterior(values, lattice.nodes, lattice.spacing)
        found, errors = posterior.mean, posterior.sd
        beyond = np.zeros(len(found), bool)
    else:
        roots = _mode if method == "map" else _warm
        found, errors, beyond = roots(problem)
    return AbilityEstimates(
        responses.targets,
        method,
        latent_sd * found,
        np.ma.masked_where(
            ~np.isfinite(errors), latent_sd * np.where(np.isfinite(errors), errors, 0)
        ),
        latent_sd,
        beyond,
    )


def ability_posterior(
    parameters: ItemParameters, responses: Responses, *, latent_sd: float = 1.0
) -> Posterior:
    """Posterior over a lattice; nodes, means and deviations in units of `latent_sd`."""
    problem = _problem(parameters, responses, latent_sd)
    lattice, values = problem.lattice()
    return make_posterior(values, lattice.nodes, lattice.spacing)


def plausible_values(
    parameters: ItemParameters,
    responses: Responses,
    draws: int,
    rng: np.random.Generator,
    *,
    latent_sd: float = 1.0,
) -> FloatArray:
    """Random draws from each target's posterior (Mislevy 1991), shape ``(draws, N)``.

    Parameters
    ----------
    parameters, responses, latent_sd
        As for `estimate_abilities`.
    draws
        How many, at least 1.
    rng
        Source of randomness.
    """
    if draws < 1:
        raise InputError("at least one plausible value must be drawn")
    problem = _problem(parameters, responses, latent_sd)
    coarse, _ = problem.lattice()
    fine = make_lattice(coarse.spacing / 4, -REACH, REACH, steepest=0.0)
    values = problem.cells.log_likelihood(problem.natural, fine)
    posterior = make_posterior(values, fine.nodes, fine.spacing)
    cumulated = np.concatenate(
        [np.zeros((len(values), 1)), np.cumsum(posterior.weights, axis=1)], axis=1
    )
    edges = np.append(fine.nodes - fine.spacing / 2, fine.nodes[-1] + fine.spacing / 2)
    uniform = rng.random((draws, len(values))) * cumulated[:, -1]
    found = np.empty((draws, len(values)))
    for target in range(len(values)):
        found[:, target] = np.interp(uniform[:, target], cumulated[target], edges)
    return latent_sd * found


def _problem(parameters: ItemParameters, responses: Responses, latent_sd: float) -> _Problem:
    if parameters.dimensions != 1:
        raise InputError("these items have several dimensions; one is needed here")
    if parameters.items != len(responses.items):
        raise InputError(
            f"{parameters.items} calibrated items for responses to {len(responses.items)}"
        )
    if not latent_sd > 0:
        raise InputError(f"a standard deviation of {latent_sd:g} is not above 0")
    categories = parameters.categories
    wrong = responses.categories > categories
    if wrong.any():
        name = responses.items[int(np.argmax(wrong))]
        raise InputError(f"item {name} has a response beyond its calibrated categories")
    slopes = parameters.slopes[:, 0] * latent_sd
    seen = None if responses.complete else responses.observed.astype(np.float64)
    asymptotes = bool((parameters.lower > 0).any() or (parameters.upper < 1).any())
    steps = parameters.intercepts.T
    weights = np.ones(len(responses.targets))
    cells: Cells
    if categories.max() > 2:
        if asymptotes:
            raise InputError("items with more than two categories cannot have asymptotes here")
        natural = np.vstack([slopes, np.where(np.isfinite(steps), steps, 0.0)])
        model = ItemModel.GRADED
        cells = CategoryCells(responses.codes, weights, model, categories)
        return _Problem(cells, natural, seen, model, categories)
    with np.errstate(divide="ignore"):
        logits = [
            np.log(parameters.lower) - np.log1p(-parameters.lower),
            np.log(parameters.upper) - np.log1p(-parameters.upper),
        ]
    natural = np.vstack([slopes, steps[:1]])
    if asymptotes:
        natural = np.vstack([natural, logits])
        cells = CategoryCells(responses.codes, weights, ItemModel.FOUR_PL, categories)
        return _Problem(cells, natural, seen, ItemModel.FOUR_PL, categories)
    cells = LogisticCells(responses.codes, weights)
    return _Problem(cells, natural, seen, ItemModel.TWO_PL, categories)


def _mode(problem: _Problem) -> tuple[FloatArray, FloatArray, BoolArray]:
    lattice, values = problem.smooth_lattice()
    nodes = lattice.nodes
    slopes = problem.cells.ability_slopes(problem.natural, nodes) - nodes
    highest = (values - nodes * nodes / 2).argmax(axis=1)
    found, rate, beyond = _root(slopes, lattice, highest)
    curved = np.maximum(-rate, 0.0)
    with np.errstate(divide="ignore"):
        return found, np.where(beyond, np.nan, 1 / np.sqrt(curved)), beyond


def _warm(problem: _Problem) -> tuple[FloatArray, FloatArray, BoolArray]:
    lattice, values = problem.smooth_lattice()
    nodes = lattice.nodes
    information, skew = problem.information(nodes)
    safe = np.maximum(information, 1e-300)
    slopes = problem.cells.ability_slopes(problem.natural, nodes) + skew / (2 * safe)
    falls = (slopes[:, :-1] > 0) & (slopes[:, 1:] <= 0)
    weighted = values + np.log(safe) / 2
    merit = np.where(falls, np.maximum(weighted[:, :-1], weighted[:, 1:]), -np.inf)
    start = merit.argmax(axis=1)
    nowhere = ~falls.any(axis=1)
    upwards = slopes.mean(axis=1) > 0
    start = np.where(nowhere, np.where(upwards, nodes.size - 1, 0), start)
    found, _, beyond = _root(slopes, lattice, start)
    nearest = np.clip(np.rint((found - nodes[0]) / lattice.spacing), 0, nodes.size - 1)
    first = np.clip(nearest.astype(np.int64) - 1, 0, nodes.size - 4)
    values = np.log(safe)[np.arange(len(found))[:, None], first[:, None] + np.arange(4)]
    there = _cubic(values, (found - nodes[first]) / lattice.spacing)
    nothing = information.max(axis=1) < 1e-12
    found = np.where(nothing, 0.0, found)
    errors = np.where(nothing | beyond, np.nan, np.exp(-there / 2))
    return found, errors, beyond | nothing


def _cubic(values: FloatArray, place: FloatArray) -> FloatArray:
    """The cubic through four neighbours, ``(N, 4)``, at `place` steps from the first."""
    one = np.diff(values, axis=1)
    two = np.diff(one, axis=1) / 2
    three = np.diff(two, axis=1)[:, 0] / 3
    inner = two[:, 0] + (place - 2) * three
    found: FloatArray = values[:, 0] + place * (one[:, 0] + (place - 1) * inner)
    return found


def _root(
    slopes: FloatArray, lattice: Lattice, near: np.ndarray[tuple[int, ...], np.dtype[np.intp]]
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Where a falling function crosses 0 beside a node, its derivative there, and failures."""
    nodes, count = lattice.nodes, lattice.nodes.size
    rows = np.arange(len(slopes))
    left = np.where(slopes[rows, near] > 0, near, near - 1)
    beyond = (left < 0) | (left >= count - 1)
    left = np.clip(left, 0, count - 2)
    first = np.clip(left - 1, 0, count - 4)
    values = slopes[rows[:, None], first[:, None] + np.arange(4)]
    low = (left - first).astype(np.float64)
    high = low + 1
    for _ in range(50):
        middle = (low + high) / 2
        above = _cubic(values, middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    place = (low + high) / 2
    rate = (_cubic(values, place + 1e-3) - _cubic(values, place - 1e-3)) / 2e-3 / lattice.spacing
    found = nodes[first] + place * lattice.spacing
    found = np.where(beyond, np.where(near > count // 2, nodes[-1], nodes[0]), found)
    return found, rate, beyond
