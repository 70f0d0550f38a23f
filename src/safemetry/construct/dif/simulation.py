"""Statistics of matrices simulated from a fitted one-dimensional model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtr

from safemetry.construct.dif.abilities import AbilityPosteriors, AbilityTables
from safemetry.construct.dif.choices import Statistic, absolute_statistic
from safemetry.construct.dif.groups import GroupPair

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

SCORE: Final = "score"
"""Name of the tables of abilities from all items."""

_STEP_CELLS: Final = 2_000_000
"""Cells of the simulated matrices that are held at once."""


@dataclass(frozen=True)
class NullModel:
    """Where simulated answers come from: no item differs between groups of equal ability.

    Parameters
    ----------
    slopes, intercepts
        Of J items, shape ``(J,)``.
    observed
        Cells that hold a response, shape ``(N, J)``; the others are missing in every simulation.
    posteriors
        From which the abilities of a matrix are drawn.
    tables
        From which they are estimated again, by name.
    cluster
        Of each target, from 0, shape ``(N,)``.
    shared
        rho of each cluster, see `duplicates.shared_answers`, shape ``(C,)``. Targets of a cluster
        have answers, and errors of their abilities, in common to that degree.
    """

    slopes: FloatArray
    intercepts: FloatArray
    observed: BoolArray
    posteriors: AbilityPosteriors
    tables: Mapping[str, AbilityTables]
    cluster: IntArray
    shared: FloatArray

    def draw(self, matrices: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Simulated codes, shape ``(matrices, N, J)``.

        Parameters
        ----------
        matrices
            B, at least 1.
        rng
            Source of randomness.
        """
        theta = self.posteriors.quantiles(self._shares(matrices, rng)).astype(np.float32)
        chance = theta[:, :, None] * self.slopes.astype(np.float32)
        chance += self.intercepts.astype(np.float32)
        # In place: these arrays are the largest of the whole analysis.
        np.negative(chance, out=chance)
        with np.errstate(over="ignore"):
            np.exp(chance, out=chance)
        chance += 1
        np.reciprocal(chance, out=chance)
        number = rng.random(chance.shape, dtype=np.float32)
        self._copy(number, rng)
        codes: NDArray[np.int8] = (number < chance).view(np.int8)
        if not self.observed.all():
            codes[:, ~self.observed] = -1
        return codes

    def _shares(self, matrices: int, rng: np.random.Generator) -> FloatArray:
        """Uniform numbers, correlated within clusters as the answers are (a normal copula)."""
        own = rng.standard_normal((matrices, len(self.cluster)))
        if (self.shared > 0).any():
            common = rng.standard_normal((matrices, len(self.shared)))[:, self.cluster]
            rho = self.shared[self.cluster]
            own = np.sqrt(rho) * common + np.sqrt(1 - rho) * own
        found: FloatArray = ndtr(own)
        return found

    def _copy(self, number: NDArray[np.float32], rng: np.random.Generator) -> None:
        """Give the targets of a cluster some random numbers in common."""
        matrices, _, items = number.shape
        for label in np.flatnonzero(self.shared > 0):
            rows = np.flatnonzero(self.cluster == label)
            common = rng.random((matrices, 1, items), dtype=np.float32)
            joins = rng.random((matrices, len(rows), items), dtype=np.float32)
            joined = joins < np.sqrt(np.float32(self.shared[label]))
            number[:, rows] = np.where(joined, common, number[:, rows])


@dataclass(frozen=True)
class Comparison:
    """A statistic of all items for two groups, and what was observed.

    Parameters
    ----------
    statistic
        How it is computed.
    pair
        The two groups.
    tables
        Name of the tables of abilities that targets are matched on.
    observed
        Absolute statistics of the items, shape ``(J,)``; 0 where undefined.
    simulations
        Matrices that the threshold comes from.
    """

    statistic: Statistic
    pair: GroupPair
    tables: str
    observed: FloatArray
    simulations: int


def simulate_statistics(
    rng: np.random.Generator,
    *,
    nulls: Mapping[str, NullModel],
    comparisons: Mapping[str, Sequence[Comparison]],
    null: str,
    start: int,
    matrices: int,
) -> dict[str, Any]:
    """One task: statistics of consecutive simulated matrices under one null.

    Parameters
    ----------
    rng
        Source of randomness.
    nulls, comparisons
        Null models by name, and the comparisons that are made in the matrices of each.
    null
        Which one is simulated.
    start, matrices
        Number of the first matrix, and how many are simulated. A comparison with `simulations` at
        or below `start` is left out.

    Returns
    -------
    dict
        ``maxima``: for each comparison the largest statistic of each matrix; ``at_least``: for each
        comparison how many matrices have a statistic as large as the observed one, by item.
    """
    model = nulls[null]
    wanted = [place for place in comparisons[null] if place.simulations > start]
    step = max(1, _STEP_CELLS // model.observed.size)
    maxima: list[list[FloatArray]] = [[] for _ in wanted]
    at_least = [np.zeros(len(model.slopes), np.int64) for _ in wanted]
    for begin in range(0, matrices, step):
        codes = model.draw(min(step, matrices - begin), rng)
        abilities: dict[str, FloatArray] = {}
        for place, comparison in enumerate(wanted):
            name = comparison.tables
            tables = model.tables[name]
            if name not in abilities:
                abilities[name] = tables.abilities(codes)
            values = absolute_statistic(
                comparison.statistic, codes, abilities[name], comparison.pair, tables
            )
            maxima[place].append(values.max(axis=1))
            reached = values >= comparison.observed - comparison.statistic.tolerance
            at_least[place] += reached.sum(axis=0)
    return {"maxima": [np.concatenate(parts) for parts in maxima], "at_least": at_least}


def chunk_starts(simulations: int, cells: int) -> list[tuple[int, int]]:
    """First matrix and number of matrices of each task; they do not depend on the workers.

    Parameters
    ----------
    simulations
        Of a null.
    cells
        Of one matrix.

    Examples
    --------
    >>> chunk_starts(500, 100_000)
    [(0, 250), (250, 250)]
    """
    size = int(np.clip(25_000_000 // max(cells, 1), 50, 500))
    size = min(250 * max(size // 250, 1), simulations) if size >= 250 else size
    return [(start, min(size, simulations - start)) for start in range(0, simulations, size)]
