"""What claims are made from: the rows that a rate is about, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from safemetry.claims import Missing, Scope
from safemetry.rates import intervals
from safemetry.rates.clusters import ClusteredRates
from safemetry.rates.codes import FloatArray, IntArray


@dataclass(frozen=True)
class Selection:
    """Rows of the table of counts that a rate is about.

    Parameters
    ----------
    cell
        Group and cluster of each row, numbered.
    group
        Group of each cell.
    missing, scopes
        Of each group.
    """

    cell: IntArray
    group: IntArray
    missing: tuple[Missing, ...]
    scopes: tuple[Scope, ...]

    def totals(self, counts: IntArray | FloatArray) -> FloatArray:
        """Counts of the rows, summed over each cell."""
        return np.bincount(self.cell, weights=counts).astype(np.float64)


@dataclass(frozen=True)
class Measured:
    """The numbers of `ClusteredRates` as Python has them, one entry for each group.

    Claims are made one by one, and reading single elements of arrays would take most of the time.
    """

    events: list[float]
    trials: list[float]
    clusters: list[int]
    estimate: list[float]
    effective_trials: list[float]
    lower: list[float]
    upper: list[float]
    ceiling: list[float]
    method: list[str]
    rule_of_three: list[float]

    @classmethod
    def of(cls, rates: ClusteredRates) -> Measured:
        """The numbers of `rates`, masked ones as None."""
        known = {item.name for item in fields(cls)} - {"rule_of_three"}
        three = intervals.rule_of_three(rates.clusters)
        parts = {name: getattr(rates, name).tolist() for name in known}
        return cls(**parts, rule_of_three=three.tolist())
