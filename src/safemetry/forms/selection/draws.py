"""Random forms that keep the constraints: the baseline of every other way to choose."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln, logsumexp

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.limits import Limits, by_name, limits_of
from safemetry.forms.selection.programme import first_form
from safemetry.forms.selection.walk import Walk
from safemetry.irt.parameters import FloatArray, IntArray

_TRIES: Final = 20


def select_random(pool: ItemPool, constraints: Constraints, rng: np.random.Generator) -> IntArray:
    """One random form; see `random_forms`, which is faster for many."""
    return random_forms(pool, constraints, 1, rng)[0]


def random_forms(
    pool: ItemPool, constraints: Constraints, count: int, rng: np.random.Generator
) -> list[IntArray]:
    """Random forms, each as likely as any other that keeps the constraints.

    The numbers of items by value of the property with most quotas are drawn from their exact
    distribution, then items within values. Where other quotas or exclusions matter, such a form is
    drawn until it keeps them, which leaves all forms that do equally likely. Where that takes too
    long a random walk over forms is used (`safemetry.forms.selection.walk`): its forms are nearly
    uniform and depend a little on each other.

    Parameters
    ----------
    pool, constraints
        The items, and what each form must hold.
    count
        Number of forms, at least 1.
    rng
        Source of randomness.

    Returns
    -------
    list of numpy.ndarray
        Positions, each of shape ``(length,)``, sorted.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name.
    """
    if count < 1:
        raise InputError(f"{count} random forms", fix="ask for one or more")
    ordered, positions = by_name(pool)
    limits = limits_of(ordered, constraints)
    strata = _strata(limits, constraints)
    found: list[IntArray] = []
    walk: Walk | None = None
    for _ in range(count):
        form = None if walk is not None or strata is None else _by_rejection(limits, strata, rng)
        if form is None:
            if walk is None:
                start = first_form(limits, rng.random(len(limits.names)))
                walk = Walk(limits, start, rng)
            form = walk.next_form()
        found.append(np.sort(positions[form]))
    return found


@dataclass(frozen=True)
class _Strata:
    """Items by value of one property, and how the numbers of a form fall on them.

    Parameters
    ----------
    members
        Items of each value that are free to be chosen.
    offered
        Logarithm of the number of ways to choose 0, 1, ... of them, minus infinity where a quota
        forbids it.
    ways
        Logarithm of the number of ways to choose 0, 1, ... from this value and all later ones.
    """

    members: tuple[IntArray, ...]
    offered: tuple[FloatArray, ...]
    ways: tuple[FloatArray, ...]


def _strata(limits: Limits, constraints: Constraints) -> _Strata | None:
    """Strata by the property with most quotas; None where they alone cannot be kept."""
    counts = Counter(quota.by for quota in constraints.quotas)
    by = min(counts, key=lambda name: (-counts[name], name)) if counts else None
    which = [place for place, quota in enumerate(constraints.quotas) if quota.by == by]
    of = np.full(len(limits.names), -1, np.int64)
    bounds: dict[int, tuple[int, int]] = {-1: (0, limits.length)}
    first: dict[str, int] = {}
    for place in which:
        number = first.setdefault(constraints.quotas[place].value, place)
        of[limits.members.indices[slice(*limits.members.indptr[place : place + 2])]] = number
        low, high = bounds.get(number, (0, limits.length))
        bounds[number] = max(low, int(limits.least[place])), min(high, int(limits.most[place]))
    free = limits.allowed.copy()
    free[limits.required] = False
    taken = Counter(of[limits.required].tolist())
    left = limits.length - len(limits.required)
    members, offered = [], []
    for number, (low, high) in bounds.items():
        places = np.flatnonzero(free & (of == number))
        numbers = np.arange(left + 1)
        possible = (numbers >= low - taken[number]) & (numbers <= high - taken[number])
        possible &= numbers <= len(places)
        safe = np.minimum(numbers, len(places))
        ways = gammaln(len(places) + 1) - gammaln(safe + 1) - gammaln(len(places) - safe + 1)
        members.append(places)
        offered.append(np.where(possible, ways, -np.inf))
    later: list[FloatArray] = [np.where(np.arange(left + 1) == 0, 0.0, -np.inf)]
    for one in reversed(offered):
        later.insert(0, _convolved(one, later[0]))
    if np.isneginf(later[0][left]):
        return None
    return _Strata(tuple(members), tuple(offered), tuple(later))


def _convolved(first: FloatArray, second: FloatArray) -> FloatArray:
    """Logarithm of the sums over i of exp(first[i] + second[m - i]), for every m."""
    size = len(first)
    found = np.full(size, -np.inf)
    for total in range(size):
        terms = first[: total + 1] + second[total::-1]
        if terms.max() > -np.inf:
            found[total] = logsumexp(terms)
    return found


def _by_rejection(limits: Limits, strata: _Strata, rng: np.random.Generator) -> IntArray | None:
    for _ in range(_TRIES):
        left, parts = limits.length - len(limits.required), [limits.required]
        for places, offered, later in zip(
            strata.members, strata.offered, strata.ways[1:], strict=True
        ):
            terms = offered[: left + 1] + later[left::-1]
            chances = np.exp(terms - terms.max())
            number = int(rng.choice(len(chances), p=chances / chances.sum()))
            parts.append(rng.choice(places, number, replace=False, shuffle=False))
            left -= number
        form = np.concatenate(parts)
        if limits.kept(form):
            return form
    return None
