"""Which items measure which dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray


@dataclass(frozen=True)
class Structure:
    """Items and the dimensions that they load on.

    Parameters
    ----------
    dimensions
        Names of the K dimensions.
    mask
        Whether an item loads on a dimension, shape ``(J, K)``; at least one in every row.
    correlated
        Whether the correlations of the abilities are estimated; otherwise they are 0.
    """

    dimensions: tuple[str, ...]
    mask: BoolArray
    correlated: bool = True

    @property
    def simple(self) -> bool:
        """Whether every item loads on one dimension only."""
        return bool((self.mask.sum(axis=1) == 1).all())


def make_structure(
    items: Sequence[str],
    loads_on: Mapping[str, str | Iterable[str]] | Sequence[str | Iterable[str]],
    *,
    correlated: bool = True,
) -> Structure:
    """A structure from the dimension, or the dimensions, of every item.

    Parameters
    ----------
    items
        Names of the J items, in the order of the responses.
    loads_on
        Dimensions of each item: a mapping from its name, or a column in the order of `items`. A
        string is one dimension.
    correlated
        Whether the correlations of the abilities are estimated.

    Raises
    ------
    InputError
        For an item without a dimension, or a dimension with fewer than two items.

    Examples
    --------
    >>> found = make_structure(["p", "q", "r"], ["x", "x", ("x", "y")], correlated=False)
    Traceback (most recent call last):
        ...
    safemetry.errors.InputError: dimension 'y' has 1 item; merge it or leave it out
    >>> make_structure(["p", "q", "r", "s"], ["x", "x", ("x", "y"), "y"]).mask.astype(int)
    array([[1, 0],
           [1, 0],
           [1, 1],
           [0, 1]])
    """
    entries = [_names(entry) for entry in _entries(items, loads_on)]
    without = [name for name, entry in zip(items, entries, strict=True) if not entry]
    if without:
        raise InputError(
            f"{len(without)} items load on no dimension, the first is {without[0]!r}",
            fix="give each item a dimension, or leave it out",
        )
    names = tuple(dict.fromkeys(name for entry in entries for name in entry))
    mask = np.array([[name in entry for name in names] for entry in entries])
    _check(names, mask)
    return Structure(names, mask, correlated)


def bifactor(
    items: Sequence[str],
    group: Mapping[str, str] | Sequence[str],
    *,
    general: str = "general",
) -> Structure:
    """A general dimension for all items and one more for each group, uncorrelated.

    Holzinger & Swineford (1937); Gibbons & Hedeker (1992).

    Parameters
    ----------
    group
        Group of each item: a mapping from its name, or a column in the order of `items`. An empty
        string leaves an item on the general dimension alone.
    """
    entries = [
        (general, *(name for name in _names(entry) if name)) for entry in _entries(items, group)
    ]
    return make_structure(items, entries, correlated=False)


def _entries(
    items: Sequence[str],
    loads_on: Mapping[str, str | Iterable[str]] | Mapping[str, str] | Sequence[str | Iterable[str]],
) -> list[str | Iterable[str]]:
    if isinstance(loads_on, Mapping):
        return [loads_on.get(name, ()) for name in items]
    if len(loads_on) != len(items):
        raise InputError(f"dimensions are given for {len(loads_on)} of {len(items)} items")
    return list(loads_on)


def _names(entry: str | Iterable[str]) -> tuple[str, ...]:
    return ((entry,) if entry else ()) if isinstance(entry, str) else tuple(entry)


def _check(names: tuple[str, ...], mask: BoolArray) -> None:
    for name, count in zip(names, mask.sum(axis=0), strict=True):
        if count < 2:
            raise InputError(f"dimension {name!r} has {count} item", fix="merge it or leave it out")
    for column, name in enumerate(names):
        for other in range(column):
            if (mask[:, column] == mask[:, other]).all():
                raise InputError(
                    f"dimensions {names[other]!r} and {name!r} have the same items",
                    fix="merge them; nothing in the responses tells them apart",
                )
