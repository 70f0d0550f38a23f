"""Likelihood of responses where a curve has asymptotes or several ordered categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from safemetry.irt.parameters import FloatArray, IntArray, ItemModel
from safemetry.irt.unidimensional.likelihood import indicator_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.irt.unidimensional.grid import Lattice, Posterior

LEAST_CHANCE = 1e-290
CHUNK_ENTRIES = 1 << 19
DIFFERENCE = 1e-5


class CategoryCells:
    """Responses to items of a 3PL, 4PL or graded model.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    weights
        Shape ``(N,)``.
    model
        ``THREE_PL``, ``FOUR_PL`` or ``GRADED``.
    categories
        Number of categories of each item, shape ``(J,)``.
    """

    def __init__(
        self,
        codes: NDArray[np.int8],
        weights: FloatArray,
        model: ItemModel,
        categories: IntArray,
    ) -> None:
        kind = indicator_type(codes.size)
        self.weights = weights
        self.model = model
        self.categories = categories
        self.given: list[NDArray[Any]] = [
            np.equal(codes, category).astype(kind) for category in range(int(categories.max()))
        ]

    def log_likelihood(self, natural: FloatArray, lattice: Lattice) -> FloatArray:
        """See `likelihood.Cells`."""
        found = np.zeros((self.weights.size, lattice.nodes.size))
        for part in self._chunks(natural, lattice.nodes.size):
            chances = self._chances(natural, lattice.nodes, part)[0]
            for indicator, chance in zip(self.given, np.log(chances), strict=True):
                found += indicator[:, part] @ chance.T.astype(indicator.dtype, copy=False)
        return found

    def expected(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """See `likelihood.Cells`: Fisher scoring, so that the information is never negative."""
        return self._sums(natural, posterior, observed=False)

    def observed(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """See `likelihood.Cells`: central differences of the gradient at fixed counts."""
        return self._sums(natural, posterior, observed=True)

    def projected_scores(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """See `likelihood.Cells`."""
        scores = np.zeros((projection.shape[0], *natural.shape))
        for part in self._chunks(natural, nodes.size):
            chances, slopes = self._chances(natural, nodes, part)
            for row, derivative in enumerate(slopes):
                for indicator, change in zip(self.given, derivative / chances, strict=True):
                    scores[:, row, part] += indicator[:, part] * (projection @ change)
        return scores

    def score_sums(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """See `likelihood.Cells`."""
        found = np.empty(natural.shape)
        shares = (projection * self.weights[:, None]).T.astype(self.given[0].dtype)
        for part in self._chunks(natural, nodes.size):
            counts = np.stack([shares @ indicator[:, part] for indicator in self.given])
            chances, derivative = self._chances(natural, nodes, part)
            found[:, part] = np.einsum("kcqj,cqj->kj", derivative, counts / chances)
        return found

    def ability_slopes(self, natural: FloatArray, nodes: FloatArray) -> FloatArray:
        """See `likelihood.Cells`."""
        found = np.zeros((self.weights.size, nodes.size))
        steps = len(self.given) if self.model is ItemModel.GRADED else 2
        for part in self._chunks(natural, nodes.size):
            chances, derivative = self._chances(natural, nodes, part)
            slopes = derivative[1:steps].sum(axis=0) * natural[0, part] / chances
            for indicator, slope in zip(self.given, slopes, strict=True):
                found += indicator[:, part] @ slope.T.astype(indicator.dtype)
        return found

    def _chunks(self, natural: FloatArray, nodes: int) -> list[slice]:
        width = max(1, CHUNK_ENTRIES // (nodes * len(self.given) * natural.shape[0]))
        return [
            slice(start, min(start + width, natural.shape[1]))
            for start in range(0, natural.shape[1], width)
        ]

    def _chances(
        self, natural: FloatArray, nodes: FloatArray, part: slice
    ) -> tuple[FloatArray, FloatArray]:
        if self.model is ItemModel.GRADED:
            return graded_curves(natural[:, part], nodes, self.categories[part], len(self.given))
        return asymptote_curves(natural[:, part], nodes)

    def _sums(
        self, natural: FloatArray, posterior: Posterior, *, observed: bool
    ) -> tuple[FloatArray, FloatArray]:
        rows, items = natural.shape
        gradient = np.empty((rows, items))
        information = np.empty((rows, rows, items))
        nodes = posterior.nodes
        shares = (posterior.weights * self.weights[:, None]).T.astype(self.given[0].dtype)
        for part in self._chunks(natural, nodes.size):
            counts = np.stack([shares @ indicator[:, part] for indicator in self.given])
            chances, derivative = self._chances(natural, nodes, part)
            gradient[:, part] = np.einsum("kcqj,cqj->kj", derivative, counts / chances)
            if observed:
                information[:, :, part] = self._curvature(natural, nodes, part, counts)
            else:
                weighted = derivative * (counts.sum(axis=0) / chances)
                information[:, :, part] = np.einsum("kcqj,lcqj->klj", derivative, weighted)
        return gradient, information

    def _curvature(
        self, natural: FloatArray, nodes: FloatArray, part: slice, counts: FloatArray
    ) -> FloatArray:
        rows = natural.shape[0]
        found = np.empty((rows, rows, counts.shape[2]))
        for row in range(rows):
            sides = []
            step = DIFFERENCE * np.maximum(1.0, np.abs(natural[row]))
            for sign in (1.0, -1.0):
                moved = natural.copy()
                moved[row] += sign * step
                chances, derivative = self._chances(moved, nodes, part)
                sides.append(np.einsum("kcqj,cqj->kj", derivative, counts / chances))
            found[row] = (sides[1] - sides[0]) / (2 * step[part])
        symmetric: FloatArray = (found + found.transpose(1, 0, 2)) / 2
        return symmetric


def asymptote_curves(natural: FloatArray, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Chances of 0 and 1, ``(2, Q, J)``, and their derivatives, ``(P, 2, Q, J)``.

    Rows of `natural` are a, d and, as far as the model has them, logit g and logit u (Barton &
    Lord 1981).
    """
    eta = np.multiply.outer(nodes, natural[0]) + natural[1]
    above, below = expit(eta), expit(-eta)
    lower = expit(natural[2]) if len(natural) > 2 else np.zeros(natural.shape[1])
    upper = expit(natural[3]) if len(natural) > 3 else np.ones_like(lower)
    span = upper - lower
    beyond = expit(-natural[3]) if len(natural) > 3 else np.zeros_like(lower)
    chances = np.maximum(np.stack([beyond + span * below, lower + span * above]), LEAST_CHANCE)
    slope = span * above * below
    rise = [slope * nodes[:, None], slope]
    if len(natural) > 2:
        rise.append(lower * (1 - lower) * below)
    if len(natural) > 3:
        rise.append(upper * beyond * above)
    derivative = np.stack(rise)
    return chances, np.stack([-derivative, derivative], axis=1)


def graded_curves(
    natural: FloatArray, nodes: FloatArray, categories: IntArray, width: int
) -> tuple[FloatArray, FloatArray]:
    """Chances of each category, ``(C, Q, J)``, and their derivatives, ``(C, C, Q, J)``.

    Rows of `natural` are a, d_1 .. d_{C-1} (Samejima 1969). Categories that an item lacks have the
    chance 1 (they never occur) and no derivative.
    """
    slopes, steps = natural[0], natural[1:]
    eta = np.multiply.outer(nodes, slopes) + steps[:, None, :]
    above, below = expit(eta), expit(-eta)
    density = above * below
    shape = (width, *eta.shape[1:])
    chances = np.ones(shape)
    derivative = np.zeros((width, *shape))
    exists = np.arange(width)[:, None] < categories
    chances[0] = below[0]
    for category in range(1, width):
        last = categories == category + 1
        chances[category] = above[category - 1]
        if category < width - 1:
            gap = -np.expm1(np.minimum(steps[category] - steps[category - 1], 0.0))
            between = above[category - 1] * below[category] * gap
            chances[category] = np.where(last, above[category - 1], between)
    for category in range(width):
        change = np.zeros(eta.shape[1:])
        if category > 0:
            change += density[category - 1]
            derivative[category, category] = density[category - 1] * exists[category]
        if category < width - 1:
            following = density[category] * exists[category + 1]
            change -= following
            derivative[category + 1, category] = -following
        derivative[0, category] = change * nodes[:, None] * exists[category]
    chances = np.where(exists[:, None, :], np.maximum(chances, LEAST_CHANCE), 1.0)
    return chances, derivative
