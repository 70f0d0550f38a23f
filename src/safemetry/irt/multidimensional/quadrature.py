"""Marginal likelihood of a few dimensions and few items, exactly, on a fixed lattice.

The abilities are integrated out by the rectangle rule on a lattice whose spacing is tied to the
narrowest posterior (`grid`), and the likelihood or posterior is maximised by quasi-Newton steps
with exact gradients (Bock & Aitkin 1981 for the marginal likelihood; Fisher's identity for the
gradient). Item parameters of 32 items and two dimensions take a second or two; where posteriors are
narrow, as with hundreds of items, the lattice grows beyond use and `variational` is the method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from safemetry.errors import InputError
from safemetry.irt.multidimensional.integration import posterior_modes
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray
from safemetry.irt.priors import LogNormal, Normal
from safemetry.irt.responses import Responses

_REACH = 6.0
_SPACING = 0.9
_FINE_ENOUGH = 0.9
_REFINEMENTS = 4
_STEP = 1e-4
_MOST_NODES = 20_000
_MOST_CELLS = 2e8


@dataclass(frozen=True)
class QuadratureFit:
    """Item parameters at the maximum of the marginal likelihood or posterior.

    Parameters
    ----------
    slopes, intercepts
        Shapes ``(J, K)`` and ``(J,)``; exploratory slopes on an arbitrary rotation.
    correlations
        Of the abilities, shape ``(K, K)``.
    item_covariance
        Of slopes and intercept (last), shape ``(J, K + 1, K + 1)``, from the observed information.
        None where an exploratory fit has several dimensions (its rotation is free), or where the
        information has no inverse (an estimate on a boundary).
    loglik
        Marginal log-likelihood on the lattice, without the priors.
    nodes
        Number of nodes of the lattice.
    converged
        Whether the gradient vanished and the lattice is fine enough for the posteriors at the end.
    gradient
        Largest derivative of the objective left.
    trace
        Objective after each step on the last lattice.
    """

    slopes: FloatArray
    intercepts: FloatArray
    correlations: FloatArray
    item_covariance: FloatArray | None
    loglik: float
    converged: bool
    nodes: int
    gradient: float
    trace: tuple[float, ...]


@dataclass(frozen=True)
class QuadratureStart:
    """Where a fit starts, and what is estimated.

    Parameters
    ----------
    slopes, intercepts, correlations
        Starting values, shapes ``(J, K)``, ``(J,)`` and ``(K, K)``.
    mask
        Which slopes are not 0, shape ``(J, K)``; None for an exploratory fit.
    correlated, free_slopes
        Whether correlations, and a slope for each item, are estimated.
    """

    slopes: FloatArray
    intercepts: FloatArray
    correlations: FloatArray
    mask: BoolArray | None = None
    correlated: bool = True
    free_slopes: bool = True


def fit_quadrature(
    responses: Responses,
    start: QuadratureStart,
    *,
    slope: Normal | LogNormal | None = None,
    intercept: Normal | None = None,
    steps: int = 2000,
) -> QuadratureFit:
    """Maximise the marginal likelihood, or with priors the marginal posterior.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    slope, intercept
        Priors of the parameters of each item; a normal prior of slopes only, since slopes of
        several dimensions may be negative.
    steps
        Most quasi-Newton steps.

    Raises
    ------
    InputError
        Where the lattice would need more than 20,000 nodes, or for a log-normal prior of slopes.
    """
    if isinstance(slope, LogNormal):
        raise InputError(
            "slopes of several dimensions may be negative", fix="give them a normal prior, or none"
        )
    priors = _Priors(slope, intercept)
    spacing = _spacing(responses, start)
    size, targets = start.slopes.shape[1], len(responses.targets)
    if _too_many(spacing, size, targets):
        raise InputError(
            f"posteriors are as narrow as {spacing / _SPACING:.2g}, which needs "
            f"{_count(spacing, size):,} nodes",
            fix="use the variational method",
        )
    fit = _maximise(responses, start, spacing, priors, steps)
    for _ in range(_REFINEMENTS):
        start = replace(
            start, slopes=fit.slopes, intercepts=fit.intercepts, correlations=fit.correlations
        )
        needed = _spacing(responses, start)
        if needed > _FINE_ENOUGH * spacing:
            return replace(fit, item_covariance=_item_covariance(responses, start, spacing, priors))
        if _too_many(needed, size, targets):
            break
        spacing = needed
        fit = _maximise(responses, start, spacing, priors, steps)
    return replace(fit, converged=False)


@dataclass(frozen=True)
class _Priors:
    slope: Normal | None
    intercept: Normal | None


def _maximise(
    responses: Responses,
    start: QuadratureStart,
    spacing: float,
    priors: _Priors,
    steps: int,
) -> QuadratureFit:
    """The fit on one lattice."""
    layout = _layout(start)
    nodes, log_weights = _lattice(spacing, start.slopes.shape[1])
    objective = _Objective(responses, layout, nodes, log_weights, priors)
    trace: list[float] = []
    found = minimize(
        objective,
        layout.pack(start),
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: trace.append(-float(intermediate_result.fun)),
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 40, "ftol": 1e-13, "gtol": 2e-4},
    )
    slopes, intercepts, root, _ = layout.unpack(found.x)
    gradient = float(np.abs(found.jac).max())
    return QuadratureFit(
        slopes=slopes,
        intercepts=intercepts,
        correlations=root @ root.T,
        item_covariance=None,
        loglik=objective.likelihood(slopes @ root, intercepts)[0],
        converged=bool(gradient < 0.05),
        nodes=len(nodes),
        gradient=gradient,
        trace=tuple(trace),
    )


def _item_covariance(
    responses: Responses, end: QuadratureStart, spacing: float, priors: _Priors
) -> FloatArray | None:
    """Inverse observed information, its derivatives by central differences of the gradient."""
    items, size = end.slopes.shape
    if end.mask is None and size > 1:
        return None
    layout = _layout(end)
    objective = _Objective(responses, layout, *_lattice(spacing, size), priors)
    x = layout.pack(end)
    information = np.empty((len(x), len(x)))
    for row, moved in zip(information, _STEP * np.eye(len(x)), strict=True):
        row[:] = (objective(x + moved)[1] - objective(x - moved)[1]) / (2 * _STEP)
    information = (information + information.T) / 2
    if np.linalg.eigvalsh(information)[0] <= 0:
        return None
    covariance = np.linalg.inv(information)
    places = np.full((items, size + 1), -1)
    numbers = np.arange(len(layout.rows)) if layout.free_slopes else layout.columns
    places[layout.rows, layout.columns] = numbers
    places[:, -1] = layout.slopes + np.arange(items)
    both = (places >= 0)[:, :, None] & (places >= 0)[:, None, :]
    found: FloatArray = np.where(both, covariance[places[:, :, None], places[:, None, :]], 0.0)
    return found


@dataclass(frozen=True)
class _Layout:
    """How the parameters lie in one vector: slopes, intercepts, rows of the Cholesky factor."""

    rows: IntArray
    columns: IntArray
    items: int
    size: int
    below: tuple[IntArray, IntArray]
    free_slopes: bool

    @property
    def slopes(self) -> int:
        return len(self.rows) if self.free_slopes else self.size

    def pack(self, start: QuadratureStart) -> FloatArray:
        slopes = start.slopes[self.rows, self.columns]
        if not self.free_slopes:
            totals = np.bincount(self.columns, slopes, self.size)
            slopes = totals / np.bincount(self.columns, np.ones_like(slopes), self.size)
        root = np.linalg.cholesky(start.correlations)
        tails = (root / np.diag(root)[:, None])[self.below]
        return np.concatenate([slopes, start.intercepts, tails])

    def unpack(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Slopes, intercepts, the Cholesky factor, and the lengths of its rows before scaling."""
        slopes = np.zeros((self.items, self.size))
        values = x[: self.slopes]
        slopes[self.rows, self.columns] = values if self.free_slopes else values[self.columns]
        intercepts = x[self.slopes : self.slopes + self.items]
        rows = np.eye(self.size)
        rows[self.below] = x[self.slopes + self.items :]
        lengths = np.linalg.norm(rows, axis=1)
        return slopes, intercepts, rows / lengths[:, None], lengths

    def gradient(
        self,
        by_slopes: FloatArray,
        by_intercepts: FloatArray,
        by_root: FloatArray,
        root: FloatArray,
        lengths: FloatArray,
    ) -> FloatArray:
        """Derivatives by the vector, from those by its parts."""
        slopes = by_slopes[self.rows, self.columns]
        if not self.free_slopes:
            slopes = np.asarray(np.bincount(self.columns, slopes, self.size), np.float64)
        along = (by_root * root).sum(axis=1, keepdims=True)
        tails = ((by_root - along * root) / lengths[:, None])[self.below]
        return np.concatenate([slopes, by_intercepts, tails])


def _layout(start: QuadratureStart) -> _Layout:
    items, size = start.slopes.shape
    mask = np.ones((items, size), np.bool_) if start.mask is None else start.mask
    rows, columns = np.nonzero(mask)
    tied = start.mask is None or not start.correlated
    below = np.tril_indices(0 if tied else size, -1)
    return _Layout(rows, columns, items, size, below, start.free_slopes)


@dataclass(frozen=True)
class _Objective:
    """Minus the log posterior and its gradient."""

    responses: Responses
    layout: _Layout
    nodes: FloatArray
    log_weights: FloatArray
    priors: _Priors

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        layout = self.layout
        slopes, intercepts, root, lengths = layout.unpack(x)
        value, by_effective, by_intercepts = self.likelihood(slopes @ root, intercepts)
        by_slopes = by_effective @ root.T
        by_root = slopes.T @ by_effective
        free = slopes[layout.rows, layout.columns]
        energy, pull = _prior(free, self.priors.slope)
        by_slopes[layout.rows, layout.columns] += pull
        value += energy
        energy, pull = _prior(intercepts, self.priors.intercept)
        gradient = layout.gradient(by_slopes, by_intercepts + pull, by_root, root, lengths)
        return -(value + energy), -gradient

    def likelihood(
        self, slopes: FloatArray, intercepts: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Log-likelihood and its derivatives for uncorrelated abilities."""
        codes = self.responses.codes
        weights = self.responses.weights
        ones = (codes == 1).astype(np.float64)
        linear = self.nodes @ slopes.T + intercepts
        chance = expit(linear)
        log_odds = np.logaddexp(0, linear)
        complete = self.responses.complete
        observed = None if complete else self.responses.observed.astype(np.float64)
        height = ones @ linear.T + self.log_weights
        height -= log_odds.sum(axis=1) if observed is None else observed @ log_odds.T
        top = logsumexp(height, axis=1, keepdims=True)
        share = np.exp(height - top) * weights[:, None]
        passed = share.T @ ones
        seen = share.sum(axis=0)[:, None] if observed is None else share.T @ observed
        left = passed - seen * chance
        return float(weights @ top[:, 0]), left.T @ self.nodes, left.sum(axis=0)


def _prior(values: FloatArray, prior: Normal | None) -> tuple[float, FloatArray]:
    """Log density, up to a constant, and its gradient; an open mean is the mean of the values."""
    if prior is None:
        return 0.0, np.zeros_like(values)
    away = values - (values.mean() if prior.mean is None else prior.mean)
    return -0.5 * float(np.square(away / prior.sd).sum()), -away / prior.sd**2


def _spacing(responses: Responses, start: QuadratureStart) -> float:
    """Spacing of the lattice that the narrowest posterior asks for."""
    root = np.linalg.cholesky(start.correlations)
    identity = np.eye(len(root))
    spread = posterior_modes(responses, start.slopes @ root, start.intercepts, identity)[1]
    return _SPACING * float(np.sqrt(np.linalg.eigvalsh(spread)[:, 0].min()))


def _count(spacing: float, size: int) -> int:
    return int((2 * int(np.ceil(_REACH / spacing)) + 1) ** size)


def _too_many(spacing: float, size: int, targets: int) -> bool:
    count = _count(spacing, size)
    return count > _MOST_NODES or count * targets > _MOST_CELLS


def _lattice(spacing: float, size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes of the standard normal, shape ``(Q, K)``, and their log weights."""
    half = int(np.ceil(_REACH / spacing))
    axis = spacing * np.arange(-half, half + 1)
    nodes = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
    nodes = nodes[np.linalg.norm(nodes, axis=1) <= _REACH + spacing]
    logs = -0.5 * np.square(nodes).sum(axis=1)
    return nodes, logs - logsumexp(logs)
