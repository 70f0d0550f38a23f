"""Statistics of very many patterns of responses to the same items.

Patterns of logistic items are scored by a matrix product and by look-ups on the lattice of
abilities: l_z and l_z* depend on a pattern through sum a x and sum d x, the order statistics
through sums of ranks and of logits. Only infit, outfit and CUSUM look at every cell. For other
models the functions for any model are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from safemetry.audits.person_fit.curves import curves
from safemetry.audits.person_fit.cusum import cusum
from safemetry.audits.person_fit.likelihood_statistics import likelihood_fit
from safemetry.audits.person_fit.order_statistics import (
    easiest_first,
    order_fit,
    popularity_logits,
    scalability,
)
from safemetry.audits.person_fit.reestimation import LogisticAbilities
from safemetry.audits.person_fit.residual_statistics import LEAST_VARIANCE, mean_squares
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters

Scores = Mapping[str, tuple[FloatArray, BoolArray]]
"""Statistic -> its values and where they are known, both shape ``(R,)``."""

Patterns = NDArray[Any]


@dataclass(frozen=True)
class Reference:
    """Those with whom a pattern is compared.

    Parameters
    ----------
    patterns
        Chances of passing of K typical persons, shape ``(K, J)``.
    weights
        Their shares, shape ``(K,)``.
    """

    patterns: FloatArray
    weights: FloatArray

    @property
    def popularity(self) -> FloatArray:
        """Share of the reference that passes each item, shape ``(J,)``."""
        found: FloatArray = np.clip(self.weights @ self.patterns / self.weights.sum(), 0.0, 1.0)
        return found

    def select(self, chosen: BoolArray) -> Reference:
        """The reference on some items."""
        return Reference(self.patterns[:, chosen], self.weights)


class Scorer(Protocol):
    """Scores patterns over the items of one target."""

    def score(self, patterns: Patterns, theta: FloatArray) -> Scores:
        """Statistics of patterns ``(R, J)`` at abilities ``(R,)``."""
        ...


class GeneralScorer:
    """Scores patterns of any model, cell by cell.

    Parameters
    ----------
    parameters, reference
        Of the items of one target.
    statistics
        Which to compute.
    """

    def __init__(
        self, parameters: ItemParameters, reference: Reference, statistics: Sequence[str]
    ) -> None:
        self._parameters, self._reference = parameters, reference
        self._wanted = frozenset(statistics)

    def score(self, patterns: Patterns, theta: FloatArray) -> Scores:
        """Statistics of patterns ``(R, J)`` at abilities ``(R,)``; -1 is a missing response."""
        codes = np.asarray(patterns, np.int8)
        found: dict[str, tuple[FloatArray, BoolArray]] = {}
        if self._wanted & {"l_z", "l_z_star"}:
            likely = likelihood_fit(codes, self._parameters, theta)
            found["l_z"] = likely.l_z, likely.known
            found["l_z_star"] = likely.l_z_star, likely.star_known
        if self._wanted & {"infit", "outfit"}:
            squares = mean_squares(codes, self._parameters, theta)
            found["infit"] = squares.infit, squares.known
            found["outfit"] = squares.outfit, squares.known
        if self._wanted & {"guttman", "guttman_normed", "u3"}:
            order = order_fit(codes, self._reference.popularity)
            found["guttman"] = order.errors, order.known
            found["guttman_normed"] = order.normed, order.known
            found["u3"] = order.u3, order.known
        if "h_t" in self._wanted:
            going = scalability(codes, self._reference.patterns, self._reference.weights)
            found["h_t"] = going.h_t, going.known
        if "cusum" in self._wanted:
            away = codes - curves(self._parameters, theta).expected
            seen = codes >= 0
            sums = cusum(np.where(seen, away, 0.0), seen.sum(axis=1)).largest
            found["cusum"] = np.asarray(sums, np.float64), np.asarray(seen.any(axis=1), np.bool_)
        return {name: value for name, value in found.items() if name in self._wanted}


class LogisticScorer:
    """Scores patterns of logistic items; the same values as `GeneralScorer` up to about 1e-3.

    Parameters
    ----------
    parameters, reference
        Of the J items of one target.
    statistics
        Which to compute.
    abilities, row
        Tables of sums over the items, and the target's row in them.
    """

    def __init__(
        self,
        parameters: ItemParameters,
        reference: Reference,
        statistics: Sequence[str],
        abilities: LogisticAbilities,
        row: int,
    ) -> None:
        self._wanted = frozenset(statistics)
        self._tables, self._row = abilities.tables, row
        self._slopes = parameters.slopes[:, 0].astype(np.float32)
        self._steps = parameters.intercepts[:, 0].astype(np.float32)
        self._size = size = parameters.items
        popularity = reference.popularity
        order = easiest_first(popularity)
        logits = popularity_logits(popularity)
        ranks = np.empty(size)
        ranks[order] = np.arange(size) - (size - 1) / 2
        count = np.arange(size + 1)
        others = reference.patterns.mean(axis=1)
        shared = reference.weights @ (reference.patterns - others[:, None]) / size
        own = count[:, None] / size
        self._bound = (np.minimum(own, others) - own * others) @ reference.weights
        self._easiest = np.concatenate([[0.0], np.cumsum(logits[order])])
        self._hardest = np.concatenate([[0.0], np.cumsum(logits[order][::-1])])
        self._weights = np.column_stack(
            [np.ones(size), self._slopes, self._steps, ranks, logits, shared]
        ).astype(np.float32)

    def score(self, patterns: Patterns, theta: FloatArray) -> Scores:
        """Statistics of complete patterns ``(R, J)``, single precision, at abilities ``(R,)``."""
        sums = np.asarray(patterns @ self._weights, np.float64).T
        found = self._likelihoods(sums, theta) | self._orders(sums)
        if self._wanted & {"infit", "outfit", "cusum"}:
            found |= self._residuals(patterns, theta)
        return {name: value for name, value in found.items() if name in self._wanted}

    def _likelihoods(
        self, sums: FloatArray, theta: FloatArray
    ) -> dict[str, tuple[FloatArray, BoolArray]]:
        if not self._wanted & {"l_z", "l_z_star"}:
            return {}
        tables = [self._tables.at(self._row, which, theta) for which in (0, 1, 3, 4, 5)]
        expected_a, expected_d, square_a, product, square_d = tables
        away_a, away_d = sums[1] - expected_a, sums[2] - expected_d
        variance = theta**2 * square_a + 2 * theta * product + square_d
        informed = square_a > 1e-12
        factor = product / np.where(informed, square_a, 1.0)
        rest = square_d - factor * product
        known = variance > 1e-12
        star_known = informed & (rest > 1e-9 * variance) & (rest > 1e-12)
        plain = (theta * away_a + away_d) / np.sqrt(np.where(known, variance, 1.0))
        star = (away_d - factor * away_a) / np.sqrt(np.where(star_known, rest, 1.0))
        return {
            "l_z": (np.where(known, plain, 0.0), known),
            "l_z_star": (np.where(star_known, star, 0.0), star_known),
        }

    def _orders(self, sums: FloatArray) -> dict[str, tuple[FloatArray, BoolArray]]:
        score = np.rint(sums[0]).astype(np.int64)
        size = self._size
        known = (score > 0) & (score < size)
        passed = score * (size - 1) / 2 - score * (score - 1) / 2
        errors = np.rint(sums[3] + passed)
        most = np.where(known, score * (size - score), 1)
        easiest, hardest = self._easiest[score], self._hardest[score]
        wide = known & (easiest - hardest > 1e-12)
        u3 = (easiest - sums[4]) / np.where(wide, easiest - hardest, 1.0)
        bound = self._bound[score]
        along = known & (bound > 1e-12)
        return {
            "guttman": (errors, wide),
            "guttman_normed": (np.where(known, errors / most, 0.0), wide),
            "u3": (np.where(wide, np.clip(u3, 0.0, 1.0), 0.0), wide),
            "h_t": (np.where(along, sums[5] / np.where(along, bound, 1.0), 0.0), along),
        }

    def _residuals(
        self, patterns: Patterns, theta: FloatArray
    ) -> dict[str, tuple[FloatArray, BoolArray]]:
        chance = theta.astype(np.float32)[:, None] * self._slopes
        chance += self._steps
        np.negative(chance, out=chance)
        np.exp(chance, out=chance)
        chance += 1
        np.reciprocal(chance, out=chance)
        away = patterns - chance
        everyone = np.ones(len(patterns), bool)
        found: dict[str, tuple[FloatArray, BoolArray]] = {}
        if "cusum" in self._wanted:
            largest = cusum(away, self._size).largest
            found["cusum"] = np.asarray(largest, np.float64), everyone
        if self._wanted & {"infit", "outfit"}:
            away *= away
            chance *= 1 - chance
            np.maximum(chance, np.float32(LEAST_VARIANCE), out=chance)
            mass = chance.sum(axis=1, dtype=np.float32)
            infit = away.sum(axis=1, dtype=np.float32) / mass
            away /= chance
            outfit = away.mean(axis=1, dtype=np.float32)
            found["infit"] = np.asarray(infit, np.float64), everyone
            found["outfit"] = np.asarray(outfit, np.float64), everyone
        return found
