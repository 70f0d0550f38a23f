"""Which models are compared with which, over the same splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safemetry.construct.dimensions.held_out import ModelLosses
from safemetry.construct.dimensions.paired import PairedDifference, paired_difference

BEST = "best of several dimensions against best of one"


@dataclass(frozen=True)
class Separation:
    """Whether every model with several dimensions beats every one with one dimension.

    Parameters
    ----------
    pairs
        Pairs of a model with several dimensions and one with one.
    won_every_split
        Pairs in which the former predicts better in every split.
    closest
        The pair with the smallest gain in any split.
    complete
        Whether all pairs are won in every split.
    """

    pairs: int
    won_every_split: int
    closest: PairedDifference
    complete: bool


@dataclass(frozen=True)
class Contrasts:
    """Paired differences between models.

    Parameters
    ----------
    losses
        Of all models.
    ranked
        Of those that passed the nesting check.
    responses
        Number of responses, held out or not.
    level
        Of the intervals.
    """

    losses: tuple[ModelLosses, ...]
    ranked: tuple[ModelLosses, ...]
    responses: int
    level: float = 0.95

    def pair(self, kind: str, baseline: ModelLosses, candidate: ModelLosses) -> PairedDifference:
        """One model against another."""
        held_out = float(np.mean([loss.cells for loss in baseline.best]))
        return paired_difference(
            kind,
            (baseline.model.name, baseline.log_losses),
            (candidate.model.name, candidate.log_losses),
            test_to_train=held_out / (self.responses - held_out),
            level=self.level,
        )

    def best(self, *, several: bool) -> ModelLosses | None:
        """The best ranked model with several dimensions, or with one; None where there is none."""
        chosen = [found for found in self.ranked if (found.model.dimensions > 1) is several]
        return lowest(chosen) if chosen else None

    def comparisons(self) -> tuple[PairedDifference, ...]:
        """Several dimensions against one, one dimension more, structures against explorations."""
        one, several = self.best(several=False), self.best(several=True)
        found = []
        if one is not None and several is not None:
            found.append(self.pair(BEST, one, several))
        if one is not None:
            found += [
                self.pair("several dimensions against best of one", one, other)
                for other in self.losses
                if other.model.dimensions > 1 and other is not several
            ]
        explored = {
            other.model.dimensions: other
            for other in self.losses
            if not other.model.marginal and other.model.structure is None
        }
        found += [
            self.pair("one dimension more", explored[size - 1], explored[size])
            for size in sorted(explored)
            if size - 1 in explored
        ]
        kind = "structure against as many explored dimensions"
        found += [
            self.pair(kind, explored[other.model.dimensions], other)
            for other in self.losses
            if other.model.structure is not None and other.model.dimensions in explored
        ]
        return tuple(found)

    def separation(self) -> Separation | None:
        """Every ranked model with several dimensions against every one with one."""
        pairs = [
            self.pair("several dimensions against one", one, several)
            for one in self.ranked
            for several in self.ranked
            if one.model.dimensions == 1 < several.model.dimensions
        ]
        if not pairs:
            return None
        won = sum(found.wins == len(found.splits) for found in pairs)
        closest = min(pairs, key=lambda found: min(found.splits))
        return Separation(len(pairs), won, closest, won == len(pairs))

    def as_good_as_best(self) -> tuple[str, ...]:
        """Ranked models whose difference from the best of all has an interval that includes 0."""
        if not self.ranked:
            return ()
        best = lowest(self.ranked)
        against = [self.pair("best of all", other, best) for other in self.ranked]
        return tuple(
            found.baseline
            for found in against
            if found.baseline != best.model.name
            and (found.interval is None or found.interval[0] <= 0)
        )


def lowest(losses: Sequence[ModelLosses]) -> ModelLosses:
    """The model with the lowest mean held-out loss."""
    return min(losses, key=lambda found: found.mean)
