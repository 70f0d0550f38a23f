"""Observed information of item parameters, and standard errors from it.

The information in the observed responses is that in the completed data less what is lost by not
knowing the abilities (Louis 1982, eq. 3.2): I = B - sum_i Cov_i(score), where B has one block an
item and Cov_i is over the posterior of target i. Scores are smooth in ability, so each covariance
is a short sum over polynomials that are orthonormal under the posterior: I = B - C'C with a few
rows of C a target. With few parameters I is dense; with many it is inverted by Woodbury's identity
in the space of targets; with very many only the two directions matter in which the items move
together (location and scale of the abilities), and C is never held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.unidimensional.coordinates import Layout
from safemetry.irt.unidimensional.grid import Posterior
from safemetry.irt.unidimensional.likelihood import Cells
from safemetry.irt.unidimensional.penalty import Penalty

DENSE_PARAMETERS = 1500
WIDE = 4  # parameters a target from which the space of targets is the smaller one
MANY_ITEMS = 1000
"""From here on only shifts and stretches count as lost: standard errors are then at most .3% (5,000
items) or 1.2% (1,500 items) too small, on average .05% and .2% (192 targets)."""

HELD_ENTRIES = 3_000_000
MOST_POLYNOMIALS = 12
NEGLIGIBLE = 1e-5
SINGULAR = 1e-9
"""A parameter is flat if estimating the others leaves less than this share of its information."""


@dataclass(frozen=True)
class CompleteInformation:
    """Curvature of the completed data and the priors: one block an item.

    Parameters
    ----------
    layout
        Of the parameters.
    blocks
        Shape ``(P, P, J)``.
    """

    layout: Layout
    blocks: FloatArray

    def _regular(self) -> FloatArray:
        """Blocks with 1 on the diagonal where there is no parameter, items first."""
        held = self.blocks.copy()
        rows, items = np.nonzero(~self.layout.exists)
        held[rows, rows, items] = 1.0
        return held.transpose(2, 0, 1)

    def solve(self, flat: FloatArray) -> FloatArray:
        """The inverse applied to rows of ``(M, number of parameters)``."""
        if self.layout.tied:
            return self._solve_tied(flat)
        spread = np.stack([self.layout.spread(row) for row in flat])
        regular = self._regular()
        if regular.shape[1] == 2:
            inverse = _inverse_of_pairs(regular)
            first = spread[:, 0] * inverse[:, 0, 0] + spread[:, 1] * inverse[:, 0, 1]
            second = spread[:, 0] * inverse[:, 1, 0] + spread[:, 1] * inverse[:, 1, 1]
            return self.layout.flatten(np.stack([first, second], axis=1))
        solved = np.linalg.solve(regular, spread.transpose(2, 1, 0))
        found: FloatArray = solved.transpose(2, 1, 0).astype(np.float64)
        return self.layout.flatten(found)

    def _solve_tied(self, flat: FloatArray) -> FloatArray:
        slope, both, step = self.blocks[0, 0].sum(), self.blocks[0, 1], self.blocks[1, 1]
        rest = slope - (both * both / step).sum()
        first = (flat[:, 0] - flat[:, 1:] @ (both / step)) / rest
        others = (flat[:, 1:] - first[:, None] * both) / step
        return np.concatenate([first[:, None], others], axis=1)

    def dense(self) -> FloatArray:
        """The whole matrix."""
        layout = self.layout
        if layout.tied:
            count = self.blocks.shape[2]
            found = np.zeros((count + 1, count + 1))
            found[0, 0] = self.blocks[0, 0].sum()
            found[0, 1:] = found[1:, 0] = self.blocks[0, 1]
            found[np.arange(1, count + 1), np.arange(1, count + 1)] = self.blocks[1, 1]
            return found
        rows, items = np.nonzero(layout.exists)
        same = items[:, None] == items
        return np.where(same, self.blocks[rows[:, None], rows, items[:, None]], 0.0)

    def inverse_pairs(self) -> FloatArray:
        """Diagonal blocks of the inverse, shape ``(J, P, P)``; 0 where there is no parameter."""
        layout = self.layout
        if layout.tied:
            slope, both, step = self.blocks[0, 0].sum(), self.blocks[0, 1], self.blocks[1, 1]
            first = 1 / (slope - (both * both / step).sum())
            cross = -first * both / step
            return np.stack(
                [
                    np.stack([np.full_like(both, first), cross], axis=1),
                    np.stack([cross, 1 / step + first * (both / step) ** 2], axis=1),
                ],
                axis=1,
            )
        exists = layout.exists.T
        regular = self._regular()
        if regular.shape[1] == 2:
            return _inverse_of_pairs(regular)
        found: FloatArray = np.linalg.inv(regular).astype(np.float64)
        found *= exists[:, :, None] * exists[:, None, :]
        return found


def _inverse_of_pairs(matrices: FloatArray) -> FloatArray:
    determinant = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] * matrices[:, 1, 0]
    found = np.empty_like(matrices)
    found[:, 0, 0], found[:, 1, 1] = matrices[:, 1, 1], matrices[:, 0, 0]
    found[:, 0, 1], found[:, 1, 0] = -matrices[:, 0, 1], -matrices[:, 1, 0]
    return found / determinant[:, None, None]


def complete_information(
    cells: Cells, layout: Layout, penalty: Penalty, working: FloatArray, posterior: Posterior
) -> tuple[FloatArray, CompleteInformation]:
    """Gradient of the penalised marginal log-likelihood, ``(P, J)``, and B with its priors."""
    natural = layout.natural(working)
    gradient, blocks = cells.observed(natural, posterior)
    gradient, blocks = layout.to_working(gradient, blocks, natural, exact=True)
    slope, curvature = penalty.derivatives(working, exact=True)
    return gradient - slope, CompleteInformation(layout, blocks + curvature)


def lost_scores(
    cells: Cells,
    layout: Layout,
    working: FloatArray,
    posterior: Posterior,
    scale: FloatArray,
) -> Iterator[FloatArray]:
    """Rows of C, one ``(N, number of parameters)`` for each polynomial in turn.

    Parameters
    ----------
    cells, layout, working, posterior
        The fit.
    scale
        Diagonal of B, by which a polynomial is judged negligible.
    """
    natural = layout.natural(working)
    nodes, weights = posterior.nodes, posterior.weights
    sd = np.maximum(posterior.sd, 1e-12)[:, None]
    centred = (nodes - posterior.mean[:, None]) / sd
    before, current = np.zeros_like(weights), np.ones_like(weights)
    roots = np.sqrt(cells.weights)[:, None]
    for _ in range(min(MOST_POLYNOMIALS, nodes.size - 1)):
        following = centred * current
        following -= np.einsum("iq,iq,iq->i", weights, following, current)[:, None] * current
        following -= np.einsum("iq,iq,iq->i", weights, following, before)[:, None] * before
        norm = np.sqrt(np.einsum("iq,iq,iq->i", weights, following, following))[:, None]
        following = np.where(norm > 1e-10, following / np.maximum(norm, 1e-10), 0.0)
        before, current = current, following
        scores = cells.projected_scores(natural, nodes, weights * current * roots)
        if layout.logarithmic:
            scores[:, 0] *= natural[0]
        rows = layout.flatten(scores)
        yield rows
        if (np.einsum("ij,ij->j", rows, rows) / scale).max() < NEGLIGIBLE:
            return


@dataclass(frozen=True)
class ItemCovariance:
    """Covariances of the working parameters of each item, ``(J, P, P)``, or why there are none."""

    blocks: FloatArray | None
    why: str | None = None


def dense_information(
    cells: Cells,
    layout: Layout,
    penalty: Penalty,
    working: FloatArray,
    posterior: Posterior,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gradient ``(n,)``, observed information ``(n, n)`` and the diagonal of B, ``(n,)``."""
    gradient, complete = complete_information(cells, layout, penalty, working, posterior)
    information = complete.dense()
    scale = np.diagonal(information).copy()
    judged = np.maximum(scale, 1e-12)
    for rows in lost_scores(cells, layout, working, posterior, judged):
        information -= rows.T @ rows
    common = layout.flatten(penalty.common(working))
    information -= common.T @ common
    return layout.flatten(gradient), information, scale


def item_covariance(
    cells: Cells,
    layout: Layout,
    penalty: Penalty,
    working: FloatArray,
    posterior: Posterior,
    free: BoolArray,
) -> ItemCovariance:
    """Covariance of each item's working parameters from the observed information.

    Parameters
    ----------
    cells, layout, penalty, working, posterior
        The fit at its optimum.
    free
        Free parameters that are not at a bound, shape ``(n,)``; the others are held.
    """
    try:
        wide = layout.parameter_count > WIDE * cells.weights.size and bool(free.all())
        if layout.parameter_count <= DENSE_PARAMETERS and not wide:
            information = dense_information(cells, layout, penalty, working, posterior)[1]
            return ItemCovariance(_dense_covariance(layout, information, free))
        complete = complete_information(cells, layout, penalty, working, posterior)[1]
        few_items = layout.categories.size < MANY_ITEMS
        if few_items and cells.weights.size * layout.parameter_count <= HELD_ENTRIES:
            return ItemCovariance(
                _target_space(cells, layout, penalty, working, posterior, complete)
            )
        return ItemCovariance(_two_directions(cells, layout, penalty, working, posterior, complete))
    except LinAlgError:
        return ItemCovariance(
            None,
            "the likelihood is flat in some direction (more parameters than responses can tell)",
        )


def _dense_covariance(layout: Layout, information: FloatArray, free: BoolArray) -> FloatArray:
    part = information[np.ix_(free, free)]
    scale = 1 / np.sqrt(np.maximum(np.diagonal(part), 1e-300))
    root = cholesky(part * scale[:, None] * scale, lower=True)
    if np.diagonal(root).min() ** 2 < SINGULAR:
        raise LinAlgError
    inverse = cho_solve((root, True), np.eye(len(part))) * scale[:, None] * scale
    whole = np.zeros_like(information)
    whole[np.ix_(free, free)] = inverse
    place = layout.spread(np.arange(1, len(whole) + 1, dtype=np.float64)).astype(np.int64) - 1
    blocks: FloatArray = whole[place.T[:, :, None], place.T[:, None, :]]
    exists = layout.exists.T
    return blocks * exists[:, :, None] * exists[:, None, :]


def _add_outer(layout: Layout, blocks: FloatArray, rows: FloatArray) -> FloatArray:
    """Blocks plus the sum over rows of their outer product within each item."""
    found = blocks.copy()
    spread = np.stack([layout.spread(row) for row in rows])
    for first in range(layout.rows):
        for second in range(layout.rows):
            products = np.einsum("mj,mj->j", spread[:, first], spread[:, second])
            found[:, first, second] += products
    return found


def _scale(complete: CompleteInformation) -> FloatArray:
    diagonal = np.einsum("ppj->pj", complete.blocks)
    return np.maximum(complete.layout.flatten(diagonal), 1e-12)


def _target_space(
    cells: Cells,
    layout: Layout,
    penalty: Penalty,
    working: FloatArray,
    posterior: Posterior,
    complete: CompleteInformation,
) -> FloatArray:
    scores = list(lost_scores(cells, layout, working, posterior, _scale(complete)))
    lost = np.concatenate([*scores, layout.flatten(penalty.common(working))])
    solved = complete.solve(lost)
    inner = np.eye(len(lost)) - solved @ lost.T
    root = cholesky((inner + inner.T) / 2, lower=True, overwrite_a=True)
    rows = solve_triangular(root, solved, lower=True)
    return _add_outer(layout, complete.inverse_pairs(), rows)


def _two_directions(
    cells: Cells,
    layout: Layout,
    penalty: Penalty,
    working: FloatArray,
    posterior: Posterior,
    complete: CompleteInformation,
) -> FloatArray:
    """Only shifts and stretches of all abilities count as lost; exact along these two.

    A shift of the abilities by e moves log L(t) as d + a e does, so that the score along it is the
    derivative of log L by ability; along a stretch it is t times that.
    """
    natural = layout.natural(working)
    directions = np.zeros((2, *layout.exists.shape))
    directions[0, 1 : 1 + layout.steps] = natural[0]
    directions[1, 0] = 1.0 if layout.logarithmic else natural[0]
    flat = layout.flatten(directions * layout.exists)
    if layout.tied:
        flat[1, 0] = directions[1, 0, 0]
    slopes = cells.ability_slopes(natural, posterior.nodes)
    common = layout.flatten(penalty.common(working))
    lost = (flat @ common.T) @ common
    for row, moved in enumerate((slopes, slopes * posterior.nodes)):
        mean = np.einsum("iq,iq->i", posterior.weights, moved)[:, None]
        shared = cells.score_sums(natural, posterior.nodes, posterior.weights * (moved - mean))
        if layout.logarithmic:
            shared[0] *= natural[0]
        lost[row] += layout.flatten(shared)
    solved = complete.solve(lost)
    inner = flat @ lost.T - solved @ lost.T
    root = cholesky((inner + inner.T) / 2, lower=True)
    return _add_outer(layout, complete.inverse_pairs(), solve_triangular(root, solved, lower=True))
