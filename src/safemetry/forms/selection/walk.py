"""A random walk over the forms that keep constraints, for those too entangled to draw at once."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from safemetry.forms.selection.limits import Limits
from safemetry.irt.parameters import IntArray

_FIRST_STEPS: Final = 100
_STEPS: Final = 20
"""Proposals per item of the form, before the first form and between forms."""


class Walk:
    """Metropolis steps between forms that differ in one or two items (Metropolis et al. 1953).

    A step takes out an item and puts in one with the same place in every quota of a fixed number;
    or takes out two and puts in two that keep these quotas together, which moves between the cells
    of crossed quotas (Diaconis & Sturmfels 1998). A step that breaks a quota with a range or an
    exclusion is not taken, and one whose reverse is proposed less often is taken less often (the
    ratio of Hastings 1970). In the long run all forms that can be reached are equally likely.

    Parameters
    ----------
    limits
        What forms must keep.
    form
        A form that does, to start from.
    rng
        Source of randomness.
    """

    def __init__(self, limits: Limits, form: IntArray, rng: np.random.Generator) -> None:
        self._rng = rng
        self._least, self._most = limits.least.tolist(), limits.most.tolist()
        self._totals: list[int] = limits.totals(form).tolist()
        self._rows = [limits.rows_of(item).tolist() for item in range(len(limits.names))]
        # A sum of random numbers, one for each fixed quota: equal sums are equal memberships.
        numbers = np.random.default_rng(0).integers(1, 2**48, len(limits.least))
        fixed = limits.belongs @ np.where(limits.least == limits.most, numbers, 0)
        self._keys: list[int] = fixed.tolist()
        free = limits.allowed.copy()
        free[limits.required] = False
        self._required = limits.required
        self._free: list[int] = np.flatnonzero(free).tolist()
        self._inside: list[int] = [item for item in form.tolist() if free[item]]
        self._outside: dict[int, list[int]] = {}
        self._place: dict[int, int] = {}
        for item in set(self._free) - set(self._inside):
            self._put_out(item)
        self._started = False

    def next_form(self) -> IntArray:
        """A form some way from the last one, sorted."""
        steps = (_STEPS if self._started else _FIRST_STEPS) * len(self._inside)
        self._started = True
        if self._place:
            for kind, *where in self._rng.random((steps, 6)).tolist():
                if kind < 0.5 or len(self._inside) < 2:
                    self._one(where)
                else:
                    self._two(where)
        return np.sort(np.concatenate([np.array(self._inside, np.int64), self._required]))

    def _one(self, where: list[float]) -> None:
        place = int(where[0] * len(self._inside))
        offered = self._outside.get(self._keys[self._inside[place]])
        if offered:
            self._exchange([place], [offered[int(where[1] * len(offered))]])

    def _two(self, where: list[float]) -> None:
        size, keys = len(self._inside), self._keys
        places = [int(where[0] * size), int(where[1] * (size - 1))]
        places[1] += places[1] >= places[0]
        first, second = (keys[self._inside[place]] for place in places)
        enters = self._free[int(where[2] * len(self._free))]
        wanted = first + second - keys[enters]
        offered = self._outside.get(wanted)
        if enters not in self._place or not offered:
            return
        follows = offered[int(where[3] * len(offered))]
        # In reverse the second item that leaves is drawn among all that are then outside and alike.
        leaving, entering = Counter((first, second)), Counter((keys[enters], wanted))
        back = len(self._outside.get(second, ())) + leaving[second] - entering[second]
        if follows != enters and where[4] * back < len(offered):
            self._exchange(places, [enters, follows])

    def _exchange(self, places: list[int], enter: list[int]) -> None:
        """Take the items at some places out and put others in, unless that breaks a limit."""
        change: Counter[int] = Counter()
        for place in places:
            change.subtract(self._rows[self._inside[place]])
        for item in enter:
            change.update(self._rows[item])
        for row, step in change.items():
            if not self._least[row] <= self._totals[row] + step <= self._most[row]:
                return
        for row, step in change.items():
            self._totals[row] += step
        for place, item in zip(places, enter, strict=True):
            self._take_in(item)
            self._put_out(self._inside[place])
            self._inside[place] = item

    def _put_out(self, item: int) -> None:
        alike = self._outside.setdefault(self._keys[item], [])
        self._place[item] = len(alike)
        alike.append(item)

    def _take_in(self, item: int) -> None:
        alike, place = self._outside[self._keys[item]], self._place.pop(item)
        last = alike.pop()
        if last != item:
            alike[place] = last
            self._place[last] = place
