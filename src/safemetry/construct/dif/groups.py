"""Which groups of targets are large enough to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray

SMALLEST_GROUP = 10
"""Against 20 others in three bands, one changed answer of a group of 10 moves the effect of an item
by .9 on the delta scale (median over simulated items), of a group of 8 by 1.0 and of a group of 5
by 1.4: below 10 one answer turns a negligible difference into a moderate one, which begins at 1."""


@dataclass(frozen=True)
class GroupPair:
    """Two groups of targets.

    Parameters
    ----------
    reference, focal
        Their names; the reference group is the larger one.
    rows
        Positions of their targets among all, ascending, shape ``(n,)``.
    is_focal
        Which of those belong to the focal group, shape ``(n,)``.
    """

    reference: str
    focal: str
    rows: np.ndarray[tuple[int], np.dtype[np.intp]]
    is_focal: BoolArray

    @property
    def names(self) -> tuple[str, str]:
        """Reference and focal group."""
        return self.reference, self.focal

    @property
    def sizes(self) -> tuple[int, int]:
        """Targets of the reference and of the focal group."""
        focal = int(self.is_focal.sum())
        return len(self.rows) - focal, focal


@dataclass(frozen=True)
class RefusedGroup:
    """A group that is not compared.

    Parameters
    ----------
    group, targets
        Its name and size.
    why
        The reason, with advice.
    """

    group: str
    targets: int
    why: str


@dataclass(frozen=True)
class Grouping:
    """The comparisons that a grouping of targets allows.

    Parameters
    ----------
    pairs
        All pairs of groups that are large enough, largest groups first.
    refused
        Groups that are too small.
    ungrouped
        Targets without a group.
    """

    pairs: tuple[GroupPair, ...]
    refused: tuple[RefusedGroup, ...]
    ungrouped: tuple[str, ...]


def group_pairs(
    targets: Sequence[str], groups: Mapping[str, str], minimum: int = SMALLEST_GROUP
) -> Grouping:
    """Pair the groups that have enough targets.

    Parameters
    ----------
    targets
        Names of the N targets.
    groups
        Target -> its group; targets that it lacks, or whose group is empty, belong to none.
    minimum
        Fewest targets of a group, at least 2.

    Raises
    ------
    InputError
        Where no two groups have enough targets.

    Examples
    --------
    >>> found = group_pairs("abcdefg", dict(zip("abcdefg", "xxxxyyz")), minimum=2)
    >>> [pair.names for pair in found.pairs], found.refused[0].group
    ([('x', 'y')], 'z')
    """
    if minimum < 2:
        raise InputError(f"groups of {minimum} cannot be compared", fix="ask for 2 or more targets")
    labels = [groups.get(name) or None for name in targets]
    sizes = Counter(label for label in labels if label is not None)
    # Ties in alphabetical order, so that the order of the rows decides nothing.
    ordered = sorted(sizes, key=lambda name: (-sizes[name], name))
    large = [name for name in ordered if sizes[name] >= minimum]
    refused = tuple(
        RefusedGroup(name, sizes[name], _too_small(sizes[name], minimum))
        for name in ordered
        if sizes[name] < minimum
    )
    if len(large) < 2:
        found = ", ".join(f"{name} {sizes[name]}" for name in ordered[:6]) or "none"
        raise InputError(
            f"{len(large)} of {len(ordered)} groups have {minimum} targets or more (sizes: "
            f"{found}{', ...' if len(ordered) > 6 else ''})",
            fix="merge groups, add targets, or lower the minimum and read the result as a sketch",
        )
    column = np.array([label if label is not None else "" for label in labels])
    pairs = []
    for reference, focal in combinations(large, 2):
        rows = np.flatnonzero((column == reference) | (column == focal))
        pairs.append(GroupPair(reference, focal, rows, column[rows] == focal))
    ungrouped = tuple(name for name, label in zip(targets, labels, strict=True) if label is None)
    return Grouping(tuple(pairs), refused, ungrouped)


def _too_small(size: int, minimum: int) -> str:
    return (
        f"{size} {'target' if size == 1 else 'targets'}, fewer than {minimum}: in so small a group "
        "one answer can turn a negligible difference into a moderate one; merge it with a related "
        "group or add targets"
    )
