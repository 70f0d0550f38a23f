"""Many dimensions by variational Bayes: a normal posterior for each target and each item.

The log-odds of a response are a'theta + d with theta ~ N(0, Phi) and (a, d) from a prior that is
learned (`hierarchy`). The posterior is approximated by a product of normals, one for each target
and one for each item, whose updates are matrix products (Jaakkola & Jordan 2000; Cho, Wang,
Zhang & Xu 2021). The first cycles use the quadratic bound of the logistic function, which never
fails but is loose; the others use the expectation of its derivatives under the posterior (Knowles &
Minka 2011; Khan & Lin 2017), by MacKay's (1992) approximation. After each cycle location and scale
move from the abilities to the items, so that they need not travel there through many cycles (Liu,
Rubin & Wu 1998).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse.linalg import svds
from scipy.special import expit

from safemetry.irt.multidimensional import hierarchy
from safemetry.irt.multidimensional.hierarchy import Group, HierarchicalPrior
from safemetry.irt.multidimensional.moments import (
    chances,
    item_moments,
    log_odds_moments,
    target_moments,
)
from safemetry.irt.multidimensional.symmetric import inverse, triangle
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses

_BOUND_CYCLES = 10
_DENSE = 500
_FEWEST_CYCLES = 16
_MOST_DAMPING = 0.1
_LEAST_DAMPING = 0.5


@dataclass(frozen=True)
class VariationalSettings:
    """How a variational fit is made.

    Parameters
    ----------
    prior
        Of the items.
    correlated
        Whether the correlations of the abilities are estimated, in a confirmatory fit; otherwise
        they are 0.
    free_slopes
        Whether slopes are estimated; otherwise all items of a dimension share one.
    cycles
        Most cycles.
    tolerance
        Root mean square change of the predicted probabilities at which a fit has converged.
    """

    prior: HierarchicalPrior = field(default_factory=HierarchicalPrior)
    correlated: bool = True
    free_slopes: bool = True
    cycles: int = 300
    tolerance: float = 5e-4


@dataclass(frozen=True)
class VariationalFit:
    """Posterior of targets and items.

    Parameters
    ----------
    abilities, ability_covariance
        Shapes ``(N, K)`` and ``(N, K, K)``.
    items, item_covariance
        Slopes and intercept (last), shapes ``(J, K + 1)`` and ``(J, K + 1, K + 1)``.
    correlations
        Of the abilities, shape ``(K, K)``.
    training_loss
        Mean of -log probability of the fitted responses, in nats, with predictions integrated over
        the posterior.
    trace
        Root mean square change of the predicted probabilities in each cycle.
    """

    abilities: FloatArray
    ability_covariance: FloatArray
    items: FloatArray
    item_covariance: FloatArray
    correlations: FloatArray
    training_loss: float
    converged: bool
    trace: tuple[float, ...]


@dataclass(frozen=True)
class _Cells:
    """The data: 1 for an observed 1, 1 for an observed cell, and the weight of each target."""

    ones: FloatArray
    observed: FloatArray
    weights: FloatArray
    rates: FloatArray


@dataclass(frozen=True)
class _Design:
    """Which slopes there are, shape ``(J, K)``, and which parameters are estimated."""

    mask: BoolArray | None
    free: BoolArray


@dataclass(frozen=True)
class _State:
    m: FloatArray
    V: FloatArray
    mu: FloatArray
    S: FloatArray
    phi: FloatArray
    groups: tuple[Group, ...]
    curvature: FloatArray
    working: FloatArray
    log_odds: FloatArray
    variance: FloatArray
    damping: float


def fit_variational(
    responses: Responses,
    dimensions: int,
    mask: BoolArray | None = None,
    settings: VariationalSettings | None = None,
    rng: np.random.Generator | None = None,
) -> VariationalFit:
    """Fit responses of two categories in K dimensions.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    dimensions
        K.
    mask
        Which slopes are not 0, shape ``(J, K)``, in a confirmatory fit; None lets all items load on
        all dimensions, with uncorrelated abilities on the principal axes of the slopes.
    rng
        Starts from random abilities; None starts from the singular vectors of the responses.
    """
    settings = settings or VariationalSettings()
    cells = _cells(responses)
    items = len(responses.items)
    free = np.ones((items, dimensions + 1), np.bool_)
    if mask is not None:
        free[:, :-1] = mask
    if not settings.free_slopes:
        free[:, :-1] = False
    design = _Design(mask, free)
    state = _start(cells, design, dimensions, settings.prior, rng)
    trace: list[float] = []
    before: FloatArray | None = None
    converged = False
    for cycle in range(settings.cycles):
        exact = cycle >= _BOUND_CYCLES
        state = _item_step(state, cells, design, settings.prior)
        state = _localise(state, cells, exact=exact)
        state = _target_step(state)
        state = _standardise(state, cells, design, settings)
        state = _localise(state, cells, exact=exact)
        state = _learn(state, design, settings, split=cycle == _BOUND_CYCLES)
        chance = chances(state.log_odds, state.variance)
        if before is not None:
            trace.append(_change(chance, before, cells))
            state = replace(state, damping=_damping(state.damping, trace))
            if cycle >= _FEWEST_CYCLES and trace[-1] < settings.tolerance:
                converged = True
                break
        before = chance
    return _finish(state, cells, settings, converged=converged, trace=tuple(trace))


def _cells(responses: Responses) -> _Cells:
    observed = responses.observed.astype(np.float64)
    ones = (responses.codes == 1).astype(np.float64)
    weights = responses.weights
    rates = (weights @ ones + 0.5) / (weights @ observed + 1.0)
    return _Cells(ones, observed, weights, rates)


def _start(
    cells: _Cells,
    design: _Design,
    dimensions: int,
    prior: HierarchicalPrior,
    rng: np.random.Generator | None,
) -> _State:
    targets, items = cells.ones.shape
    rates = cells.rates
    residual = (cells.ones - rates) * cells.observed / np.sqrt(rates * (1 - rates))
    if design.mask is None:
        m = _singular_start(residual, dimensions, rng)
    else:
        m = residual @ design.mask / np.sqrt(1 + cells.observed @ design.mask)
        if rng is not None:
            m = m + m.std() * rng.standard_normal(m.shape)
        m = m / np.maximum(m.std(axis=0), 1e-6)
    mu = np.zeros((items, dimensions + 1))
    mu[:, -1] = np.log(rates / (1 - rates))
    if not design.free[:, :-1].any():
        mu[:, :-1] = 1.0 if design.mask is None else design.mask
    return _State(
        m=m,
        V=np.tile(0.1 * np.eye(dimensions), (targets, 1, 1)),
        mu=mu,
        S=np.zeros((items, dimensions + 1, dimensions + 1)),
        phi=np.eye(dimensions),
        groups=hierarchy.start_groups(design.free, prior),
        curvature=0.25 * cells.observed,
        working=cells.ones - 0.5 * cells.observed,
        log_odds=np.zeros_like(cells.ones),
        variance=np.zeros_like(cells.ones),
        damping=_LEAST_DAMPING,
    )


def _singular_start(
    residual: FloatArray, dimensions: int, rng: np.random.Generator | None
) -> FloatArray:
    """Leading singular vectors, or a random part of the space of twice as many."""
    targets, items = residual.shape
    wanted = min(2 * dimensions + 2, targets, items)
    if min(targets, items) > _DENSE:
        # From the same vector every time, one that does not depend on the order of the rows.
        found = svds(residual, wanted, v0=np.ones(min(targets, items)))[0][:, ::-1]
        left = np.asarray(found, np.float64)
    elif items < targets:
        left = residual @ np.linalg.eigh(residual.T @ residual)[1][:, ::-1]
        left = left / np.maximum(np.linalg.norm(left, axis=0), 1e-12)
    else:
        left = np.linalg.eigh(residual @ residual.T)[1][:, ::-1]
    if rng is not None:
        wide = left[:, :wanted]
        left = np.linalg.qr(wide @ rng.standard_normal((wide.shape[1], dimensions)))[0]
    m = np.zeros((targets, dimensions))
    kept = min(dimensions, left.shape[1])
    m[:, :kept] = left[:, :kept] * np.sqrt(targets)
    flipped: FloatArray = m * np.where(residual.sum(axis=1) @ m < 0, -1.0, 1.0)
    return flipped


def _item_step(state: _State, cells: _Cells, design: _Design, prior: HierarchicalPrior) -> _State:
    """Posterior of the items, given that of the targets."""
    items, size = state.mu.shape
    shape = triangle(size)
    extended, second = target_moments(state.m, state.V)
    if (cells.weights != 1).any():
        extended, second = extended * cells.weights[:, None], second * cells.weights[:, None]
    precision, shift = hierarchy.item_priors(state.groups, items, size, prior)
    information = shape.unpack(state.curvature.T @ second)
    pull = state.working.T @ extended
    if design.free.all():
        S = inverse(information + precision)
        return replace(state, mu=_apply(S, pull + shift), S=S)
    fixed = np.where(design.free, 0.0, state.mu)
    pull = np.where(design.free, pull - _apply(information, fixed) + shift, 0.0)
    both = design.free[:, :, None] & design.free[:, None, :]
    S = inverse(np.where(both, information, 0.0) + precision)
    return replace(state, mu=_apply(S, pull) + fixed, S=np.where(both, S, 0.0))


def _target_step(state: _State) -> _State:
    """Posterior of the targets, given that of the items."""
    size = state.mu.shape[1]
    moments = state.curvature @ item_moments(state.mu, state.S)
    information = triangle(size).unpack(moments)
    V = inverse(information[:, :-1, :-1] + inverse(state.phi))
    pull = state.working @ state.mu[:, :-1] - information[:, :-1, -1]
    return replace(state, m=_apply(V, pull), V=V)


def _localise(state: _State, cells: _Cells, *, exact: bool) -> _State:
    """Working responses and curvatures of the cells at the current posterior.

    The working response w makes the gradient of a target or item w - curvature x log-odds. A
    curvature moves only part of the way to its new value: items that separate the targets well
    would otherwise make it alternate between two.
    """
    log_odds, variance = log_odds_moments(state.m, state.V, state.mu, state.S)
    if exact:
        flatter = 1 / np.sqrt(1 + (np.pi / 8) * variance)
        chance = expit(log_odds * flatter)
        new = chance * (1 - chance) * flatter * cells.observed
        curvature = state.curvature + state.damping * (new - state.curvature)
        working = (cells.ones - chance) * cells.observed + curvature * log_odds
    else:
        xi = np.sqrt(np.maximum(np.square(log_odds) + variance, 1e-10))
        curvature = np.tanh(0.5 * xi) / (2 * xi) * cells.observed
        working = cells.ones - 0.5 * cells.observed
    return replace(
        state, log_odds=log_odds, variance=variance, curvature=curvature, working=working
    )


def _standardise(
    state: _State, cells: _Cells, design: _Design, settings: VariationalSettings
) -> _State:
    """Move location and scale of the abilities into the items: no log-odds change.

    Abilities are left with mean 0 and, in an exploratory fit, uncorrelated with variance 1 on the
    principal axes of the slopes; in a confirmatory one with variance 1 and their correlations, and
    where slopes are shared with the variance that these imply.
    """
    weights = cells.weights / cells.weights.sum()
    location = weights @ state.m
    away = state.m - location
    moment = (away * weights[:, None]).T @ away + np.tensordot(weights, state.V, axes=1)
    phi = state.phi
    size = state.mu.shape[1]
    slopes = state.mu[:, :-1]
    scale = np.sqrt(np.diag(moment))
    if not settings.free_slopes:
        change = np.eye(size - 1)
        phi = moment if settings.correlated else np.diag(np.diag(moment))
    elif design.mask is None:
        change = np.linalg.cholesky(moment)
        spread = slopes.T @ slopes + state.S[:, :-1, :-1].sum(axis=0)
        axes = np.linalg.eigh(change.T @ spread @ change)[1][:, ::-1]
        change = change @ (axes * np.where((slopes @ change @ axes).sum(axis=0) < 0, -1.0, 1.0))
    else:
        change = np.diag(scale)
        if settings.correlated:
            phi = moment / np.outer(scale, scale)
    back = inverse(change)
    moving = np.eye(size)
    moving[:-1, :-1] = change.T
    moving[-1, :-1] = location
    return replace(
        state,
        m=away @ back.T,
        V=back @ state.V @ back.T,
        mu=state.mu @ moving.T,
        S=moving @ state.S @ moving.T,
        phi=phi,
        groups=tuple(hierarchy.move(group, moving) for group in state.groups),
    )


def _learn(state: _State, design: _Design, settings: VariationalSettings, *, split: bool) -> _State:
    """One step of the prior of the items."""
    groups = state.groups
    if split:
        groups = tuple(hierarchy.split(group, state.mu, settings.prior) for group in groups)
    weight = design.free.sum(axis=0)
    centre = (state.mu * design.free).sum(axis=0) / np.maximum(weight, 1)
    learned = (
        hierarchy.learn(group, state.mu, state.S, centre, settings.prior) for group in groups
    )
    return replace(state, groups=tuple(learned))


def _finish(
    state: _State,
    cells: _Cells,
    settings: VariationalSettings,
    *,
    converged: bool,
    trace: tuple[float, ...],
) -> VariationalFit:
    fit = VariationalFit(
        abilities=state.m,
        ability_covariance=state.V,
        items=state.mu,
        item_covariance=state.S,
        correlations=state.phi,
        training_loss=_training_loss(state, cells),
        converged=converged,
        trace=trace,
    )
    return fit if settings.free_slopes else _unit_variance(fit)


def _unit_variance(fit: VariationalFit) -> VariationalFit:
    """Shared slopes of 1 and free variances as slopes and variances of 1."""
    scale = np.sqrt(np.diag(fit.correlations))
    items = fit.items.copy()
    items[:, :-1] *= scale
    return replace(
        fit,
        abilities=fit.abilities / scale,
        ability_covariance=fit.ability_covariance / np.outer(scale, scale),
        items=items,
        correlations=fit.correlations / np.outer(scale, scale),
    )


def _training_loss(state: _State, cells: _Cells) -> float:
    chance = chances(state.log_odds, state.variance)
    right = np.where(cells.ones > 0, chance, 1 - chance)
    weight = cells.observed * cells.weights[:, None]
    return float(-(weight * np.log(np.maximum(right, 1e-12))).sum() / weight.sum())


def _change(new: FloatArray, old: FloatArray, cells: _Cells) -> float:
    square = np.square(new - old) * cells.observed
    return float(np.sqrt(square.sum() / cells.observed.sum()))


def _damping(now: float, trace: list[float]) -> float:
    """More damping whenever a cycle moves further than the one before."""
    if len(trace) > _BOUND_CYCLES + 3 and trace[-1] > trace[-2]:
        return max(_MOST_DAMPING, 0.8 * now)
    return min(_LEAST_DAMPING, 1.02 * now)


def _apply(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    found: FloatArray = (matrices @ vectors[:, :, None])[:, :, 0]
    return found
