"""What a form must hold: its length, quotas by property, and items that do not go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.pool import ItemPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Quota:
    """How many items of a form have one value of a property.

    Parameters
    ----------
    by, value
        The property and its value; `UNKNOWN` stands for items without one.
    least, most
        Bounds of the number, both included; `most` None for no bound.
    """

    by: str
    value: str
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        if self.least < 0 or (self.most is not None and self.most < self.least):
            raise InputError(
                f"{self.least} to {self.most} items of {self.by} {self.value!r}",
                fix="give bounds from 0, the lower one first",
            )


@dataclass(frozen=True)
class Exclusion:
    """Items of which at most some may stand in one form: twins, or items that give each other away.

    Parameters
    ----------
    items
        Names.
    most
        How many of them may stand in a form.
    """

    items: frozenset[str]
    most: int = 1


@dataclass(frozen=True)
class Constraints:
    """What a form must hold.

    Parameters
    ----------
    length
        Number of items, at least 1.
    quotas, exclusions
        See `Quota` and `Exclusion`.
    required, forbidden
        Items that must, or must not, be in the form.
    """

    length: int
    quotas: tuple[Quota, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InputError(f"a form of {self.length} items", fix="ask for one or more")
        both = sorted({*self.required} & {*self.forbidden})
        if both:
            raise InputError(f"item {both[0]!r} is required and forbidden", fix="say one of them")
        if len(set(self.required)) > self.length:
            raise InputError(
                f"{len(set(self.required))} items are required of a form of {self.length}",
                fix="make the form longer",
            )

    def members(self, pool: ItemPool, quota: Quota) -> NDArray[np.bool_]:
        """Which items of a pool a quota counts, shape ``(J,)``.

        Raises
        ------
        InputError
            For a property that the pool lacks.
        """
        if quota.by not in pool.properties:
            known = ", ".join(sorted(pool.properties)) or "none"
            raise InputError(
                f"items have no property {quota.by!r}", fix=f"the known properties are {known}"
            )
        values = pool.properties[quota.by]
        return np.array(
            [(UNKNOWN if value is None else value) == quota.value for value in values], bool
        )

    def broken(self, pool: ItemPool, chosen: IntArray) -> list[str]:
        """What of this a choice of items does not keep, in sentences; empty where it keeps all."""
        said = []
        names = {pool.items[place] for place in chosen.tolist()}
        if len(names) != self.length:
            said.append(f"{len(names)} items, not {self.length}")
        for quota in self.quotas:
            count = int(self.members(pool, quota)[chosen].sum())
            if count < quota.least or (quota.most is not None and count > quota.most):
                said.append(f"{count} items of {quota.by} {quota.value!r}")
        said += [
            f"{len(one.items & names)} of items of which {one.most} may stand together"
            for one in self.exclusions
            if len(one.items & names) > one.most
        ]
        said += [f"item {item!r} is missing" for item in self.required if item not in names]
        said += [f"item {item!r} is forbidden" for item in self.forbidden if item in names]
        return said


def quotas_of(pool: ItemPool, by: str, length: int) -> tuple[Quota, ...]:
    """Quotas that spread a form over the values of a property as the pool is spread.

    Shares are rounded by largest remainders (Hamilton); where the form is long enough every value
    has one item at least.

    Parameters
    ----------
    pool
        The items.
    by
        A property.
    length
        Items of the form.
    """
    values = pool.properties.get(by)
    if values is None:
        known = ", ".join(sorted(pool.properties)) or "none"
        raise InputError(f"items have no property {by!r}", fix=f"the known properties are {known}")
    counts = Counter(UNKNOWN if value is None else value for value in values)
    names = sorted(counts)
    sizes = np.array([counts[name] for name in names], np.float64)
    exact = length * sizes / sizes.sum()
    given = np.minimum(np.floor(exact), sizes)
    if length >= len(names):
        given = np.maximum(given, 1)
    while given.sum() > length:
        over = np.where(given > 1, given - exact, -np.inf)
        given[int(np.argmax(over))] -= 1
    while given.sum() < min(length, sizes.sum()):
        short = np.where(given < sizes, exact - given, -np.inf)
        given[int(np.argmax(short))] += 1
    return tuple(
        Quota(by, name, int(count), int(count))
        for name, count in zip(names, given.tolist(), strict=True)
    )


def described(constraints: Constraints) -> dict[str, Any]:
    """Constraints as plain values."""

    def names(items: Iterable[str]) -> list[str]:
        return sorted(items)

    return {
        "length": constraints.length,
        "quotas": [vars(quota) for quota in constraints.quotas],
        "exclusions": [
            {"items": names(one.items), "most": one.most} for one in constraints.exclusions
        ],
        "required": list(constraints.required),
        "forbidden": list(constraints.forbidden),
    }
