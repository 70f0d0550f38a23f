"""Maximum of the penalised marginal likelihood: parameter-expanded EM, then Newton.

A cycle of EM (Bock & Aitkin 1981) takes one Newton step per item on the completed data. Plain EM
crawls where items are many, because all items together must agree on the location and the scale of
the abilities. Each cycle therefore also finds the best mean and standard deviation of the
abilities, which only reweights the lattice, and moves the items so that the abilities are standard
normal again (parameter-expanded EM; Liu, Rubin & Wu 1998). With few items information is missing
for every item, and Newton steps on the marginal likelihood finish the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.unidimensional.coordinates import Layout
from safemetry.irt.unidimensional.grid import (
    COARSE,
    FINE,
    REACH,
    ROUGH,
    TAIL,
    Lattice,
    Posterior,
    discretisation_error,
    make_lattice,
    make_posterior,
)
from safemetry.irt.unidimensional.likelihood import Cells
from safemetry.irt.unidimensional.penalty import Penalty
from safemetry.irt.unidimensional.population import population_step
from safemetry.irt.unidimensional.uncertainty import dense_information

NEWTON_COST = 3e9
CHEAP_PARAMETERS = 200
NEWTON_PARAMETERS = 1200
MOST_CYCLES = 300
SLOW_CYCLES = 25
MOST_REFUSED = 8
LEAST_INNER = 1e-3
NEAR = 5.0
SLACK = 1e-12
COARSE_ERROR = 2e-5  # of a target's log-evidence on the coarse lattice
COARSE_GAIN = 100.0  # expected gain of a step below which the coarse lattice is used
FINE_GAIN = 0.01
ALIGNED = 0.9  # cosine of two steps that may be extrapolated
FASTEST_RATIO = 0.9
LATTICE_GAIN = 1e-3
NEWTON_SHARE = 1e-4  # of the tolerance: one more step costs little and doubles the digits
HALF_LATTICE_ERROR = 0.06


@dataclass(frozen=True)
class TraceEntry:
    """One step of the optimiser.

    Parameters
    ----------
    cycle
        Counted from 1.
    step
        ``em`` or ``newton``.
    loglik, objective
        Marginal log-likelihood before the step, and the same less the penalty of the priors.
    expected_gain
        Half the Newton decrement: what the step is expected to add to the objective.
    nodes
        Abilities in the lattice.
    """

    cycle: int
    step: str
    loglik: float
    objective: float
    expected_gain: float
    nodes: int


@dataclass(frozen=True)
class Optimum:
    """Where the optimiser stopped.

    Parameters
    ----------
    working
        Parameters, ``(P, J)``.
    lattice, posterior
        Those of the estimate.
    loglik, objective
        Marginal log-likelihood, and the same less the penalty.
    converged
        Whether another step would have added less than the tolerance.
    trace
        Steps in order.
    held
        Free parameters at a bound, shape ``(n,)``.
    discretisation
        Largest change of a target's log-evidence with half the nodes.
    """

    working: FloatArray
    lattice: Lattice
    posterior: Posterior
    loglik: float
    objective: float
    converged: bool
    trace: tuple[TraceEntry, ...]
    held: BoolArray
    discretisation: float


@dataclass
class _Search:
    """What the two optimisers share."""

    cells: Cells
    layout: Layout
    penalty: Penalty
    working: FloatArray
    narrowest: float
    tolerance: float
    node_factor: float
    low: float = -REACH
    high: float = REACH
    share: float = ROUGH
    trace: list[TraceEntry] = field(default_factory=list)

    def lattice(self) -> Lattice:
        steepest = float(np.abs(self.layout.natural(self.working)[0]).max())
        return make_lattice(
            self.narrowest / self.node_factor,
            self.low,
            self.high,
            steepest=steepest * self.node_factor,
            share=self.share,
        )

    def evaluate(self, working: FloatArray) -> tuple[Lattice, FloatArray]:
        lattice = self.lattice()
        return lattice, self.cells.log_likelihood(self.layout.natural(working), lattice)

    def follow(self, posterior: Posterior) -> None:
        """Fit the range and the spacing of the next lattice to a posterior."""
        self.narrowest = float(np.clip(posterior.sd.min(), 1e-3, 1.0))
        reach = TAIL * posterior.sd
        self.low = max(-REACH, float((posterior.mean - reach).min()))
        self.high = min(REACH, float((posterior.mean + reach).max()))
        if self.high - self.low < 1.0:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def loglik(self, posterior: Posterior) -> float:
        return float(self.cells.weights @ posterior.log_evidence)

    def record(self, step: str, loglik: float, objective: float, gain: float, nodes: int) -> None:
        self.trace.append(
            TraceEntry(len(self.trace) + 1, step, loglik, objective, float(gain), nodes)
        )


def maximise(
    cells: Cells,
    layout: Layout,
    penalty: Penalty,
    start: FloatArray,
    narrowest: float,
    *,
    tolerance: float,
    node_factor: float = 1.0,
) -> Optimum:
    """The maximum, from a start.

    Parameters
    ----------
    cells, layout, penalty
        The problem.
    start
        Working parameters, ``(P, J)``.
    narrowest
        First guess of the standard deviation of the narrowest posterior.
    tolerance
        Stop when a step is expected to add less than this to the log-likelihood.
    node_factor
        How many times finer than needed the lattice is.
    """
    search = _Search(cells, layout, penalty, start, narrowest, tolerance, node_factor)
    count = layout.parameter_count
    cost = cells.weights.size * count * count
    can_newton = count <= NEWTON_PARAMETERS
    cheap = count <= CHEAP_PARAMETERS and cost <= NEWTON_COST
    patience = SLOW_CYCLES if can_newton and not cheap else MOST_CYCLES
    converged = _expand_and_step(search, patience, until=NEAR if cheap else tolerance)
    if can_newton and not (converged and not cheap):
        converged = _newton(search)
    return _finish(search, converged=converged)


def _expand_and_step(search: _Search, cycles: int, *, until: float) -> bool:
    """Parameter-expanded EM until a step is expected to add less than `until`."""
    layout, penalty, cells = search.layout, search.penalty, search.cells
    origin, step = search.working, np.zeros_like(search.working)
    best, refused, jumped = -np.inf, 0, False
    for cycle in range(cycles):
        lattice, log_likelihood = search.evaluate(search.working)
        shift, log_scale = population_step(
            log_likelihood,
            lattice,
            cells.weights,
            lambda m, s: penalty.value(layout.moved(search.working, m, s)),
        )
        nodes = (lattice.nodes - shift) * np.exp(-log_scale)
        posterior = make_posterior(log_likelihood, nodes, lattice.spacing * np.exp(-log_scale))
        working = layout.moved(search.working, shift, log_scale)
        loglik = search.loglik(posterior)
        objective = loglik - penalty.value(working)
        slack = SLACK * abs(best) + COARSE_ERROR * cells.weights.sum()
        if objective < best - slack and np.abs(step).max() > 1e-10:
            refused += 1
            if refused > MOST_REFUSED:
                search.working = origin
                return False
            step = step / 4
            search.working = layout.clipped(origin + step)
            continue
        best, refused = objective, 0
        natural = layout.natural(working)
        gradient, information = cells.expected(natural, posterior)
        gradient, information = layout.to_working(gradient, information, natural, exact=False)
        latest, gain = _item_steps(search, working, gradient, information)
        further = 1.0 if jumped else _extrapolation(latest, step)
        step, jumped = further * latest, further > 1.0
        step *= layout.longest_step(working, step)
        search.record("em", loglik, objective, gain, lattice.nodes.size)
        origin, search.working = working, layout.clipped(working + step)
        search.follow(posterior)
        share = _share(gain, until)
        if share < search.share:
            search.share = share
            best = -np.inf  # another lattice, another rounding of the objective
        elif 0 <= gain < until and cycle > 0:
            return True
    return False


def _extrapolation(step: FloatArray, before: FloatArray) -> float:
    """How far to go where steps shrink in one direction (Aitken's delta squared).

    Steps in the same direction, each `ratio` times the one before, add up to 1 / (1 - ratio) times
    the first.
    """
    length, along = float((before * before).sum()), float((step * before).sum())
    ratio = along / length if length > 0 else 0.0
    aligned = along > ALIGNED * np.sqrt(length * float((step * step).sum()))
    return 1 / (1 - min(ratio, FASTEST_RATIO)) if aligned and ratio > 0 else 1.0


def _share(gain: float, until: float) -> float:
    """Spacing that a step's gain deserves: far from the optimum a rough integral will do."""
    if gain < max(FINE_GAIN, until):
        return FINE
    return COARSE if gain < max(COARSE_GAIN, until) else ROUGH


def _item_steps(
    search: _Search, working: FloatArray, gradient: FloatArray, information: FloatArray
) -> tuple[FloatArray, float]:
    """One Newton step of each item on the completed data, and the gain it promises."""
    layout = search.layout
    slope, curvature = search.penalty.derivatives(working, exact=False)
    gradient = (gradient - slope) * layout.exists
    diagonal = np.einsum("ppj->pj", information)
    matrices = information + curvature
    rows = np.arange(layout.rows)
    matrices[rows, rows] += 1e-8 * diagonal + 1e-8
    low, high = layout.bounds()
    stuck = ((working <= low) & (gradient < 0)) | ((working >= high) & (gradient > 0))
    fixed = stuck | ~layout.exists
    if layout.tied:
        fixed[0] = True
    gradient = np.where(fixed, 0.0, gradient)
    matrices = np.where(fixed[:, None] | fixed[None, :], 0.0, matrices)
    matrices[rows, rows] = np.where(fixed, 1.0, matrices[rows, rows])
    common = np.where(fixed, 0.0, search.penalty.common(working))
    solved = _solve_items(matrices, np.concatenate([gradient[None], common]))
    step = solved[0]
    # The means of the priors move along with the items (Woodbury's identity).
    inner = np.eye(len(common)) - np.einsum("mpj,npj->mn", common, solved[1:])
    if len(common) and np.linalg.eigvalsh(inner)[0] > LEAST_INNER:
        along = np.linalg.solve(inner, np.einsum("mpj,pj->m", common, step))
        step = step + np.tensordot(along, solved[1:], 1)
    gain = float((gradient * step).sum()) / 2
    return step * layout.longest_step(working, step), gain


def _solve_items(matrices: FloatArray, sides: FloatArray) -> FloatArray:
    """Solutions ``(M, P, J)`` of one system an item, with matrices ``(P, P, J)``."""
    if len(matrices) > 2:
        columns = np.linalg.solve(matrices.transpose(2, 0, 1), sides.transpose(2, 1, 0))
        many: FloatArray = columns.transpose(2, 1, 0).astype(np.float64)
        return many
    (saa, sad), (_, sdd) = matrices
    first, second = sides[:, 0], sides[:, 1]
    pair = np.stack([sdd * first - sad * second, saa * second - sad * first], axis=1)
    found: FloatArray = pair / (saa * sdd - sad * sad)
    return found


def _newton(search: _Search) -> bool:
    """Damped Newton steps on the penalised marginal log-likelihood."""
    layout, penalty = search.layout, search.penalty
    search.share = FINE
    damping = 0.0
    gain = np.inf
    for _ in range(MOST_CYCLES):
        if gain > LATTICE_GAIN:  # afterwards one lattice, so that objectives compare exactly
            lattice, values = search.evaluate(search.working)
            posterior = make_posterior(values, lattice.nodes, lattice.spacing)
        loglik = search.loglik(posterior)
        objective = loglik - penalty.value(search.working)
        gradient, information, scale = dense_information(
            search.cells, layout, penalty, search.working, posterior
        )
        free = ~at_bound(layout, search.working, gradient)
        for _attempt in range(40):
            step, gain, damping = _damped(gradient, information, scale, free, damping)
            share = layout.longest_step(search.working, layout.spread(step)).min()
            if damping == 0.0 and share == 1.0 and gain < search.tolerance * NEWTON_SHARE:
                break
            trial = layout.clipped(search.working + share * layout.spread(step))
            values = search.cells.log_likelihood(layout.natural(trial), lattice)
            after = make_posterior(values, lattice.nodes, lattice.spacing)
            reached = search.loglik(after) - penalty.value(trial)
            if reached > objective - SLACK * abs(objective):
                break
            damping = max(10 * damping, 1e-3)
        else:
            return False
        search.record("newton", loglik, objective, gain, lattice.nodes.size)
        if gain < search.tolerance * NEWTON_SHARE and damping < 1e-2:
            return True
        search.working, posterior = trial, after
        damping = damping / 10 if damping > 1e-6 else 0.0
        search.follow(posterior)
    return False


def _damped(
    gradient: FloatArray,
    information: FloatArray,
    scale: FloatArray,
    free: BoolArray,
    damping: float,
) -> tuple[FloatArray, float, float]:
    """A step along (I + damping diag(B))^-1 g, more damped where that is not positive definite."""
    step = np.zeros_like(gradient)
    if not free.any():
        return step, 0.0, damping
    part, size = information[np.ix_(free, free)], np.maximum(np.abs(scale[free]), 1e-8)
    for _ in range(40):
        try:
            factor = cho_factor(part + np.diag((damping + 1e-12) * size))
            step[free] = cho_solve(factor, gradient[free])
            return step, float(gradient @ step) / 2, damping
        except LinAlgError:
            damping = max(10 * damping, 1e-3)
    step[free] = gradient[free] / size
    return step, float(gradient @ step) / 2, damping


def at_bound(layout: Layout, working: FloatArray, gradient: FloatArray) -> BoolArray:
    """Free parameters that rest on a bound, shape ``(n,)``; `gradient` is flat."""
    low, high = layout.bounds()
    below, above = working <= low + 1e-9, working >= high - 1e-9
    if layout.tied:
        below = np.concatenate([below[0, :1], below[1]])
        above = np.concatenate([above[0, :1], above[1]])
    else:
        below, above = below[layout.exists], above[layout.exists]
    found: BoolArray = (below & (gradient <= 0)) | (above & (gradient >= 0))
    return found


def _finish(search: _Search, *, converged: bool) -> Optimum:
    """The estimate on a lattice that has been checked against its own half."""
    search.share = FINE
    for _ in range(4):
        lattice, log_likelihood = search.evaluate(search.working)
        posterior = make_posterior(log_likelihood, lattice.nodes, lattice.spacing)
        error = discretisation_error(log_likelihood, lattice)
        wide = posterior.edge_mass > 1e-6 and search.high - search.low < 2 * REACH
        if error < HALF_LATTICE_ERROR and not wide:
            break
        if wide:
            search.low, search.high = -REACH, REACH
        else:
            search.share /= 1.7
    loglik = search.loglik(posterior)
    objective = loglik - search.penalty.value(search.working)
    held = np.zeros(search.layout.parameter_count, bool)
    low, high = search.layout.bounds()
    resting = (search.working <= low + 1e-9) | (search.working >= high - 1e-9)
    if search.layout.tied:
        held = np.concatenate([resting[0, :1], resting[1]])
    else:
        held = resting[search.layout.exists]
    return Optimum(
        search.working,
        lattice,
        posterior,
        loglik,
        objective,
        converged,
        tuple(search.trace),
        held,
        error,
    )
