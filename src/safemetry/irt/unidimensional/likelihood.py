"""Likelihood of responses along the ability lattice, as matrix products.

For two-parameter items with all cells observed the log-likelihood of target i at ability t is
t (Y a)_i + (Y d)_i - sum_j log(1 + exp(a_j t + d_j)): two matrix-vector products and one sum per
node, whatever the number of targets. A missing cell costs one product with the mask.

Parameters are held in *natural* rows of an array of shape ``(P, J)``: a, then d (or d_1 .. d_{C-1}
for graded items), then logit g and logit u where the model has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.special import expit

from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.irt.unidimensional.grid import Lattice, Posterior

SINGLE_PRECISION_CELLS = 6_000_000
"""Above this many cells indicator matrices are kept in single precision (0 and 1 are exact)."""

SINGLE_PRECISION_SCORES = 2_000_000

ROW_BLOCK = 512
FINE_STEPS = 16
CHUNK_ENTRIES = 1 << 16


class Cells(Protocol):
    """Responses in the form that a family of models needs."""

    weights: FloatArray

    def log_likelihood(self, natural: FloatArray, lattice: Lattice) -> FloatArray:
        """Of each target at each node, shape ``(N, Q)``."""
        ...

    def expected(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """Gradient ``(P, J)`` and expected information ``(P, P, J)`` of the completed data."""
        ...

    def observed(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """Gradient ``(P, J)`` and observed information ``(P, P, J)`` of the completed data."""
        ...

    def projected_scores(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """Scores of each cell, summed over nodes with weights ``(N, Q)``; shape ``(N, P, J)``."""
        ...

    def score_sums(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """The weighted sum of `projected_scores` over targets, ``(P, J)``."""
        ...

    def ability_slopes(self, natural: FloatArray, nodes: FloatArray) -> FloatArray:
        """Derivative of each target's log-likelihood by ability, at each node, ``(N, Q)``."""
        ...


def indicator_type(cells: int) -> type[np.floating[Any]]:
    """Precision of a matrix of zeros and ones."""
    return np.float32 if cells > SINGLE_PRECISION_CELLS else np.float64


def score_type(cells: int) -> type[np.floating[Any]]:
    """Precision of scores by cell: single where there are so many that their size tells."""
    return np.float32 if cells > SINGLE_PRECISION_SCORES else np.float64


def products(matrix: NDArray[Any], columns: FloatArray) -> FloatArray:
    """``matrix @ columns`` in double precision, by blocks of rows where the matrix is single."""
    if matrix.dtype == np.float64:
        return matrix @ columns
    found = np.empty((matrix.shape[0], columns.shape[1]))
    for start in range(0, matrix.shape[0], ROW_BLOCK):
        block = matrix[start : start + ROW_BLOCK]
        found[start : start + ROW_BLOCK] = block.astype(np.float64) @ columns
    return found


class LogisticCells:
    """Responses 0 and 1 to items with a slope and an intercept.

    Parameters
    ----------
    codes
        Shape ``(N, J)``, -1 where missing.
    weights
        Shape ``(N,)``.
    """

    def __init__(self, codes: NDArray[np.int8], weights: FloatArray) -> None:
        kind = indicator_type(codes.size)
        self.weights = weights
        self.ones: NDArray[Any] = np.equal(codes, 1).astype(kind)
        seen = codes >= 0
        self.seen: NDArray[Any] | None = None if seen.all() else seen.astype(kind)
        self.successes: FloatArray = products(self.ones.T, weights[:, None])[:, 0]
        self._chances: FloatArray | None = None

    def log_likelihood(self, natural: FloatArray, lattice: Lattice) -> FloatArray:
        """See `Cells`; keeps the chances for the next call of `expected`."""
        slopes, intercepts = natural
        chances, softplus = chance_table(slopes, intercepts, lattice, by_item=self.seen is not None)
        self._chances = chances
        sums = products(self.ones, natural.T)
        found: FloatArray = np.multiply.outer(sums[:, 0], lattice.nodes)
        found += sums[:, 1:]
        if self.seen is None:
            found -= softplus
        else:
            found -= self.seen @ softplus.T.astype(self.seen.dtype, copy=False)
        return found

    def expected(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """See `Cells`: for this family the expected and the observed information agree."""
        nodes = posterior.nodes
        chances = self._chances_at(natural, nodes)
        shares = posterior.weights * self.weights[:, None]
        mean = products(self.ones.T, (shares @ nodes)[:, None])[:, 0]
        powers = np.stack([nodes * nodes, nodes, np.ones_like(nodes)])
        if self.seen is None:
            counts = shares.sum(axis=0)
            gradient = np.stack([mean, self.successes]) - (powers[1:] * counts) @ chances
            powers *= counts
            squares = np.multiply(chances, chances)
            second = powers @ chances - powers @ squares
        else:
            counts = (shares.T.astype(self.seen.dtype) @ self.seen).astype(np.float64)
            counts *= chances
            gradient = np.stack([mean, self.successes]) - powers[1:] @ counts
            second = powers @ counts
            counts *= chances
            second -= powers @ counts
        information = np.stack([second[:2], second[1:]])
        return gradient, information

    def observed(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """See `Cells`."""
        return self.expected(natural, posterior)

    def projected_scores(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """See `Cells`."""
        kind = score_type(self.ones.size)
        chances = self._chances_at(natural, nodes).astype(kind, copy=False)
        scores = np.empty((projection.shape[0], 2, natural.shape[1]), kind)
        for row, weighting in enumerate((projection * nodes, projection)):
            np.matmul(weighting.astype(kind, copy=False), chances, out=scores[:, row])
            if self.seen is not None:
                scores[:, row] *= self.seen
            np.subtract(
                self.ones * weighting.sum(axis=1).astype(kind)[:, None],
                scores[:, row],
                out=scores[:, row],
            )
        return scores

    def score_sums(
        self, natural: FloatArray, nodes: FloatArray, projection: FloatArray
    ) -> FloatArray:
        """See `Cells`."""
        chances = self._chances_at(natural, nodes)
        shares = projection * self.weights[:, None]
        powers = np.stack([nodes, np.ones_like(nodes)])
        gained = products(self.ones.T, shares @ powers.T).T
        if self.seen is None:
            whole: FloatArray = gained - (powers * shares.sum(axis=0)) @ chances
            return whole
        counts = (shares.T.astype(self.seen.dtype) @ self.seen).astype(np.float64)
        found: FloatArray = gained - powers @ (counts * chances)
        return found

    def ability_slopes(self, natural: FloatArray, nodes: FloatArray) -> FloatArray:
        """See `Cells`."""
        weighted = self._chances_at(natural, nodes) * natural[0]
        gained = products(self.ones, natural[:1].T)
        if self.seen is None:
            whole: FloatArray = gained - weighted.sum(axis=1)
            return whole
        lost: FloatArray = (self.seen @ weighted.T.astype(self.seen.dtype)).astype(np.float64)
        found: FloatArray = gained - lost
        return found

    def _chances_at(self, natural: FloatArray, nodes: FloatArray) -> FloatArray:
        """Chances of a 1, ``(Q, J)``: the latest table where it still holds.

        The nodes may have been moved along with the items since: that changes no chance.
        """
        held = self._chances
        if held is not None and len(held) == nodes.size:
            ends = expit(np.multiply.outer(nodes[[0, -1]], natural[0]) + natural[1])
            if np.allclose(held[[0, -1]], ends, rtol=0, atol=1e-12):
                return held
        found: FloatArray = expit(np.multiply.outer(nodes, natural[0]) + natural[1])
        return found


def chance_table(
    slopes: FloatArray, intercepts: FloatArray, lattice: Lattice, *, by_item: bool
) -> tuple[FloatArray, FloatArray]:
    """Chances of a 1 at every node, and log(1 + exp(a t + d)).

    The nodes are equally spaced, so exp(a t + d) is a geometric progression: it takes Q / 16 + 16
    exponentials an item instead of Q. Logarithms are taken of products of up to 16 factors.

    Parameters
    ----------
    slopes, intercepts
        Shape ``(J,)``; the size of a t + d must stay below 600 on the lattice.
    lattice
        Of Q nodes.
    by_item
        Whether the logarithm is wanted for each item, ``(Q, J)``, or summed over items, ``(Q,)``.
    """
    nodes, count = lattice.nodes, slopes.size
    starts = nodes[::FINE_STEPS]
    offsets = np.arange(FINE_STEPS) * lattice.spacing
    chances = np.empty((nodes.size, count))
    softplus = np.empty((nodes.size, count)) if by_item else np.zeros(nodes.size)
    padded = starts.size * FINE_STEPS
    width = max(16, CHUNK_ENTRIES // padded)
    for first in range(0, count, width):
        part = slice(first, min(first + width, count))
        slope, intercept = slopes[part], intercepts[part]
        coarse = np.exp(np.multiply.outer(starts, slope) + intercept)
        fine = np.exp(np.multiply.outer(offsets, slope))
        odds = (coarse[:, None, :] * fine[None]).reshape(padded, -1)[: nodes.size]
        above = odds + 1
        np.divide(odds, above, out=chances[:, part])
        if by_item:
            np.log(above, out=softplus[:, part])
        else:
            softplus += _log_of_products(above)
    return chances, softplus


def _log_of_products(factors: FloatArray) -> FloatArray:
    """Row sums of the logarithm of factors >= 1, with one logarithm for up to 16 of them."""
    largest = float(np.log(factors.max()))
    found = np.zeros(factors.shape[0])
    for _ in range(4):
        if 2 * largest > 600 or factors.shape[1] < 2:
            break
        if factors.shape[1] % 2:
            found += np.log(factors[:, -1])
        half = factors.shape[1] // 2
        factors = factors[:, :half] * factors[:, half : 2 * half]
        largest *= 2
    found += np.log(factors).sum(axis=1)
    return found
