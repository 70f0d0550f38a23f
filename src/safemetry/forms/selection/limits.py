"""Constraints of a form as counts: which items each of them counts, from how many to how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Exclusion, Quota
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import BoolArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Limits:
    """Constraints of one form over the J items of a pool.

    Parameters
    ----------
    length
        Items of the form.
    members
        Which items each of R limits counts, sparse, shape ``(R, J)``.
    belongs
        The same by items, shape ``(J, R)``.
    least, most
        Bounds of each limit, shape ``(R,)``.
    labels
        Each limit in words.
    allowed
        Items that are not forbidden, shape ``(J,)``.
    required
        Positions of the items that must be in the form.
    names
        Of the items.
    quotas
        The first so many limits are quotas, the others exclusions.
    """

    length: int
    members: Any
    belongs: Any
    least: IntArray
    most: IntArray
    labels: tuple[str, ...]
    allowed: BoolArray
    required: IntArray
    names: tuple[str, ...]
    quotas: int

    def totals(self, chosen: IntArray | list[int]) -> IntArray:
        """How many of some items each limit counts, shape ``(R,)``."""
        inside = np.zeros(len(self.names), np.int64)
        inside[chosen] = 1
        found: IntArray = self.members @ inside
        return found

    def rows_of(self, item: int) -> IntArray:
        """Limits that count an item."""
        pointers = self.belongs.indptr
        found: IntArray = self.belongs.indices[pointers[item] : pointers[item + 1]]
        return found

    def may_enter(self, totals: IntArray) -> BoolArray:
        """Items that complete a form which has one place left, shape ``(J,)``.

        Parameters
        ----------
        totals
            Of the items that it has.
        """
        short = totals < self.least
        full = self.belongs @ (totals >= self.most).astype(np.int64)
        wanted = self.belongs @ short.astype(np.int64)
        found: BoolArray = self.allowed & (full == 0) & (wanted == int(short.sum()))
        return found

    def may_leave(self, totals: IntArray) -> BoolArray:
        """Items without which a form of one item too many is complete, shape ``(J,)``.

        Parameters
        ----------
        totals
            Of all its items.
        """
        over = totals > self.most
        needed = self.belongs @ (totals <= self.least).astype(np.int64)
        relieved = self.belongs @ over.astype(np.int64)
        found: BoolArray = (needed == 0) & (relieved == int(over.sum()))
        found[self.required] = False
        return found

    def kept(self, chosen: IntArray | list[int]) -> bool:
        """Whether items keep the limits."""
        totals = self.totals(chosen)
        return bool(((totals >= self.least) & (totals <= self.most)).all())


def limits_of(pool: ItemPool, constraints: Constraints) -> Limits:
    """The limits that constraints set in a pool.

    Items of an exclusion, and forbidden ones, that are not in the pool do not matter.

    Raises
    ------
    InputError
        For more items than the pool has, a property or a required item that it lacks.
    """
    if constraints.length > len(pool.items):
        raise InputError(
            f"{constraints.length:,} items are asked for and the pool has {len(pool.items):,}",
            fix="ask for a shorter form",
        )
    known = {item: place for place, item in enumerate(pool.items)}
    rows, least, most, labels = [], [], [], []
    for quota in constraints.quotas:
        places = np.flatnonzero(constraints.members(pool, quota))
        rows.append(places)
        least.append(quota.least)
        most.append(constraints.length if quota.most is None else quota.most)
        labels.append(_quota_label(quota, len(places)))
    for exclusion in constraints.exclusions:
        places = np.array(sorted(known[i] for i in exclusion.items if i in known), np.int64)
        if len(places) > exclusion.most:
            rows.append(places)
            least.append(0)
            most.append(exclusion.most)
            labels.append(_exclusion_label(exclusion))
    allowed = np.ones(len(pool.items), bool)
    allowed[[known[item] for item in constraints.forbidden if item in known]] = False
    members = _incidence(rows, len(pool.items))
    return Limits(
        constraints.length,
        members,
        csr_array(members.T),
        np.array(least, np.int64),
        np.array(most, np.int64),
        tuple(labels),
        allowed,
        np.unique(pool.places(list(dict.fromkeys(constraints.required)))),
        pool.items,
        len(constraints.quotas),
    )


def by_name(pool: ItemPool) -> tuple[ItemPool, IntArray]:
    """The pool in the order of the names, and the positions that its items had.

    Ties between items are broken by their order; by name, the form does not depend on the order in
    which the items happen to stand.
    """
    order: IntArray = np.array(sorted(range(len(pool.items)), key=pool.items.__getitem__), np.int64)
    return pool.select(order), order


@dataclass(frozen=True)
class ItemClasses:
    """Items that no limit tells apart.

    Parameters
    ----------
    of
        Class of each item, shape ``(J,)``.
    sizes
        Items of each class, shape ``(C,)``.
    rows
        Which limits count each class, sparse, shape ``(R, C)``.
    allowed
        Whether the items of a class may be chosen, shape ``(C,)``.
    """

    of: IntArray
    sizes: IntArray
    rows: Any
    allowed: BoolArray

    def counts(self, chosen: IntArray | list[int]) -> IntArray:
        """How many of some items are of each class, shape ``(C,)``."""
        return np.bincount(self.of[chosen], minlength=len(self.sizes)).astype(np.int64)

    def most(self, limits: Limits) -> IntArray:
        """How many items of each class a form can hold at most, shape ``(C,)``."""
        found = np.minimum(self.sizes, limits.length)
        found[~self.allowed] = 0
        columns = csr_array(self.rows.T)
        for place in range(len(found)):
            rows = columns.indices[columns.indptr[place] : columns.indptr[place + 1]]
            if rows.size:
                found[place] = min(found[place], limits.most[rows].min())
        return found


def classes_of(limits: Limits) -> ItemClasses:
    """The items in classes of the same limits and the same permission."""
    pointers, indices = limits.belongs.indptr, limits.belongs.indices
    numbers: dict[tuple[bytes, bool], int] = {}
    first: list[int] = []
    of = np.empty(len(limits.names), np.int64)
    for item, permitted in enumerate(limits.allowed.tolist()):
        key = (indices[pointers[item] : pointers[item + 1]].tobytes(), permitted)
        if key not in numbers:
            numbers[key] = len(first)
            first.append(item)
        of[item] = numbers[key]
    return ItemClasses(
        of,
        np.bincount(of, minlength=len(first)).astype(np.int64),
        csr_array(csr_array(limits.belongs)[first].T),
        limits.allowed[first],
    )


def _incidence(rows: list[IntArray], items: int) -> Any:
    lengths = [len(row) for row in rows]
    places = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    which = np.repeat(np.arange(len(rows)), lengths)
    ones = np.ones(len(places), np.int64)
    found = csr_array((ones, (which, places)), shape=(len(rows), items))
    found.sort_indices()
    return found


def _quota_label(quota: Quota, available: int) -> str:
    if quota.most is None:
        number = f"at least {quota.least}"
    elif quota.least == quota.most:
        number = f"{quota.least}"
    elif quota.least == 0:
        number = f"at most {quota.most}"
    else:
        number = f"{quota.least} to {quota.most}"
    return f"{number} of {quota.by} {quota.value!r} (the pool has {available:,})"


def _exclusion_label(exclusion: Exclusion) -> str:
    return f"at most {exclusion.most} of {_listed(sorted(exclusion.items))}"


def _listed(names: Iterable[str], most: int = 3) -> str:
    known = list(names)
    said = ", ".join(repr(name) for name in known[:most])
    return said if len(known) <= most else f"{said} and {len(known) - most:,} more"
