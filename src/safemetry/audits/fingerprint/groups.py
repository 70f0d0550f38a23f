"""Known targets that these items do not tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from safemetry.audits.fingerprint.likelihood import RatioTable
from safemetry.audits.fingerprint.roster import Roster
from safemetry.irt.parameters import BoolArray, FloatArray


@dataclass(frozen=True)
class Separation:
    """How far the known targets can be told apart.

    Parameters
    ----------
    tails
        Shape ``(R, R)``, symmetric: twice the smaller of the chances that a re-run of one of the
        two looks as little like it as the other does; 1 on the diagonal.
    ratios
        Log-likelihood ratio that the two are one target, against the second being some other target
        of the population, shape ``(R, R)``, symmetric (the smaller of both directions).
    level
        Pairs with a tail of at most this are told apart.
    """

    tails: FloatArray
    ratios: FloatArray
    level: float

    @property
    def linked(self) -> BoolArray:
        """Pairs that are not told apart, shape ``(R, R)``; true on the diagonal."""
        found: BoolArray = self.tails > self.level
        return found


@dataclass(frozen=True)
class TargetGroup:
    """Known targets of which no two are told apart.

    Parameters
    ----------
    targets
        Two or more names.
    least_tail
        Smallest p value of a pair: above the level, and the nearer to it the less firm the group.
    least_ratio
        Smallest log-likelihood ratio of a pair that they are one target, against another target of
        the population with the same ability.
    alike
        Whether that is evidence of likeness (at least -log level). If not, they are only not told
        apart: on these items any target of their ability answers like that.
    beside
        Targets outside that are not told apart from some of the group.
    """

    targets: tuple[str, ...]
    least_tail: float
    least_ratio: float
    alike: bool
    beside: tuple[str, ...]


def separate(roster: Roster, level: float, studies: int, rng: np.random.Generator) -> Separation:
    """Which known targets can be told apart by the answers that are there.

    Each target's answers are held against re-runs of every other: the share of simulated re-runs
    (as many runs as the target has) whose likelihood ratio is as low. Both directions count, at
    half the level each. Items that a target did not answer count as if it had answered as expected
    of the other: they separate nothing.

    Parameters
    ----------
    roster
        R known targets.
    level
        Error rate: two runs of one target are told apart with at most this chance.
    studies
        Simulated re-runs of each target.
    rng
        Source of randomness.
    """
    count = len(roster.names)
    tails, ratios = np.ones((count, count)), np.zeros((count, count))
    table = RatioTable.of(roster.chances, roster.population)
    shares, answered, runs = roster.shares, roster.answered, roster.runs
    for known in range(count):
        own = table.only(known)
        filled = np.where(answered[..., None], shares, roster.chances[known])
        ratios[known] = own.ratios(filled[..., 1:])[:, 0]
        for number in np.unique(runs):
            null = own.ratios(roster.simulate(known, studies, int(max(number, 1)), rng))[:, 0]
            rows = runs == number
            below = np.searchsorted(np.sort(null), ratios[known, rows] + 1e-6, side="right")
            tails[known, rows] = (1 + below) / (studies + 1)
    both = np.minimum(1.0, 2 * np.minimum(tails, tails.T))
    np.fill_diagonal(both, 1.0)
    return Separation(both, np.minimum(ratios, ratios.T), level)


def target_groups(names: tuple[str, ...], separation: Separation) -> tuple[TargetGroup, ...]:
    """Groups in which no two targets are told apart, the largest first.

    By complete linkage: a chain of pairs is no group where its ends are told apart; the pairs that
    cross groups are in `beside`.
    """
    if len(names) < 2:
        return ()
    distance = 1 - separation.tails
    tree = linkage(squareform(distance, checks=False), method="complete")
    label = fcluster(tree, 1 - separation.level - 1e-9, criterion="distance")
    made = []
    for one in np.unique(label):
        members = np.flatnonzero(label == one)
        if len(members) < 2:
            continue
        pairs = list(combinations(members, 2))
        least = float(min(separation.ratios[pair] for pair in pairs))
        touched = separation.linked[members].any(axis=0) & (label != one)
        made.append(
            TargetGroup(
                tuple(names[place] for place in members),
                float(min(separation.tails[pair] for pair in pairs)),
                least,
                bool(least >= -np.log(separation.level)),
                tuple(names[place] for place in np.flatnonzero(touched)),
            )
        )
    made.sort(key=lambda group: (-len(group.targets), group.targets))
    return tuple(made)
