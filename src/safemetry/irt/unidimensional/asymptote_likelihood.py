"""The 3PL and 4PL where it counts: what every cycle of EM asks for, with one exponential a node.

With two categories the chance of a 0 is one less that of a 1, and so are its derivatives. A cycle
then takes a quarter of the time of the general case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from safemetry.irt.parameters import FloatArray
from safemetry.irt.unidimensional.category_likelihood import LEAST_CHANCE, CategoryCells

if TYPE_CHECKING:
    from safemetry.irt.unidimensional.grid import Lattice, Posterior

CHUNK_ENTRIES = 1 << 15
"""Nodes times items in one chunk: a few tables of this size stay in the cache."""


class AsymptoteCells(CategoryCells):
    """Responses 0 and 1 to items of a 3PL or 4PL model; parameters as in `CategoryCells`."""

    def log_likelihood(self, natural: FloatArray, lattice: Lattice) -> FloatArray:
        """See `likelihood.Cells`."""
        found = np.zeros((self.weights.size, lattice.nodes.size))
        for part in self._slices(natural, lattice.nodes.size):
            _, _, failed, passed = _curve(natural[:, part], lattice.nodes)
            for indicator, chance in zip(self.given, (failed, passed), strict=False):
                np.log(chance, out=chance)
                found += indicator[:, part] @ chance.T.astype(indicator.dtype, copy=False)
        return found

    def expected(self, natural: FloatArray, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """See `likelihood.Cells`: Fisher scoring, so that the information is never negative."""
        rows, items = natural.shape
        gradient, information = np.empty((rows, items)), np.empty((rows, rows, items))
        nodes = posterior.nodes
        powers = np.stack([nodes * nodes, nodes, np.ones_like(nodes)])
        shares = (posterior.weights * self.weights[:, None]).T.astype(self.given[0].dtype)
        for part in self._slices(natural, nodes.size):
            lower, upper, span = _asymptotes(natural[:, part])
            above, below, failed, passed = _curve(natural[:, part], nodes)
            zeros, ones = (
                (shares @ indicator[:, part]).astype(np.float64, copy=False)
                for indicator in self.given[:2]
            )
            residual = ones / passed - zeros / failed
            weight = (ones + zeros) / (passed * failed)
            slope = span * above * below
            # Derivatives of the chance by d and by the logits of the asymptotes; by a it is the
            # first times the ability.
            rises = [slope, lower * (1 - lower) * below, upper * (1 - upper) * above][: rows - 1]
            gradient[:2, part] = powers[1:] @ (slope * residual)
            weighted = slope * weight
            second = powers @ (slope * weighted)
            information[0, 0, part], information[1, 1, part] = second[0], second[2]
            information[0, 1, part] = information[1, 0, part] = second[1]
            for row, rise in enumerate(rises[1:], start=2):
                gradient[row, part] = (rise * residual).sum(axis=0)
                cross = powers[1:] @ (rise * weighted)
                information[:2, row, part] = information[row, :2, part] = cross
                for other in range(2, row + 1):
                    both = (rise * rises[other - 1] * weight).sum(axis=0)
                    information[row, other, part] = information[other, row, part] = both
        return gradient, information

    def _slices(self, natural: FloatArray, nodes: int) -> list[slice]:
        width = max(8, CHUNK_ENTRIES // nodes)
        return [
            slice(start, min(start + width, natural.shape[1]))
            for start in range(0, natural.shape[1], width)
        ]


def _asymptotes(natural: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lower and upper asymptotes, and the distance between them."""
    lower: FloatArray = expit(natural[2])
    upper: FloatArray = expit(natural[3]) if len(natural) > 3 else np.ones_like(lower)
    return lower, upper, upper - lower


def _curve(
    natural: FloatArray, nodes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The logistic function, one less it, and the chances of 0 and 1; each of shape ``(Q, J)``.

    Slopes and intercepts are bounded (`coordinates`), so that the exponential does not overflow.
    """
    lower, _, span = _asymptotes(natural)
    beyond = expit(-natural[3]) if len(natural) > 3 else np.zeros_like(lower)
    odds = np.multiply.outer(nodes, natural[0])
    odds += natural[1]
    np.exp(odds, out=odds)
    below = 1 / (1 + odds)
    above = np.multiply(odds, below, out=odds)
    failed = np.maximum(beyond + span * below, LEAST_CHANCE)
    passed = np.maximum(lower + span * above, LEAST_CHANCE)
    return above, below, failed, passed
