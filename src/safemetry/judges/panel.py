"""A panel: what several judges said of the same responses, as codes of classes.

Everything in this package starts from it. Names become whole numbers once, batch by batch, so that
18 judges x 1 million responses take 18 MB for each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from safemetry.errors import InputError

BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.int8]
IntArray = NDArray[np.int64]

NO_VERDICT: Final = -1
_CONTEXT: Final = ("intent", "category", "behaviour")


@dataclass(frozen=True)
class Column:
    """A property of each response.

    Parameters
    ----------
    names
        The values that occur.
    codes
        Position in `names` for each response, shape ``(R,)``; -1 where unknown.
    """

    names: tuple[str, ...]
    codes: IntArray

    def select(self, rows: BoolArray | IntArray) -> Column:
        """The property of some responses."""
        return replace(self, codes=self.codes[rows])


@dataclass(frozen=True)
class Panel:
    """Verdicts of J judges on R responses.

    Parameters
    ----------
    judges
        Names.
    classes
        The class order, least compliant first, then the classes outside it.
    ordered
        How many of the classes are in the order.
    calls
        Class of each call, shape ``(C, R, J)``, int8; -1 where there is no verdict.
    can_emit
        Whether a judge's class set has a class, shape ``(J, K)``: as the map declares it, else
        whether the judge ever used the class.
    declared
        Whether the map declares the judge's classes, shape ``(J,)``.
    target, item, run
        Of each response.
    epoch
        Of each response, shape ``(R,)``.
    intent, category, behaviour
        Of each response's item; -1 where unknown.
    missing
        Judge -> reason -> calls without a verdict.
    warnings
        Judges that were left out, and why.
    """

    judges: tuple[str, ...]
    classes: tuple[str, ...]
    ordered: int
    calls: CodeArray
    can_emit: BoolArray
    declared: BoolArray
    target: Column
    item: Column
    run: Column
    epoch: IntArray
    intent: Column
    category: Column
    behaviour: Column
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def responses(self) -> int:
        """Number of responses."""
        return int(self.calls.shape[1])

    @cached_property
    def labels(self) -> CodeArray:
        """The class that most calls of a judge gave, shape ``(R, J)``.

        An even split, like no verdict, is -1.
        """
        return majority(self.calls, len(self.classes))

    @cached_property
    def common(self) -> BoolArray:
        """The responses on which every judge has a verdict, shape ``(R,)``."""
        found: BoolArray = (self.labels != NO_VERDICT).all(axis=1)
        return found

    @cached_property
    def cluster(self) -> IntArray:
        """The independent unit of each response: its behaviour, else its item; shape ``(R,)``."""
        units = np.where(
            self.behaviour.codes >= 0,
            self.behaviour.codes,
            len(self.behaviour.names) + self.item.codes,
        )
        found: IntArray = np.unique(units, return_inverse=True)[1].reshape(-1)
        return found

    def intents(self) -> Iterator[tuple[str | None, BoolArray]]:
        """Each intent that occurs, None last where it is unknown, with its responses ``(R,)``."""
        for place, name in enumerate(self.intent.names):
            yield name, self.intent.codes == place
        unknown = self.intent.codes < 0
        if unknown.any():
            yield None, unknown

    def select(
        self, *, rows: BoolArray | IntArray | None = None, judges: Sequence[str] | None = None
    ) -> Panel:
        """Some responses, or some judges in the given order.

        Raises
        ------
        InputError
            For a judge that is not here.
        """
        part = self
        if judges is not None:
            for name in judges:
                self.place(name)
            places = [self.judges.index(name) for name in judges]
            part = replace(
                part,
                judges=tuple(judges),
                calls=part.calls[:, :, places],
                can_emit=part.can_emit[places],
                declared=part.declared[places],
                missing={name: part.missing.get(name, {}) for name in judges},
            )
        if rows is None:
            return part
        columns = ("target", "item", "run", *_CONTEXT)
        return replace(
            part,
            calls=part.calls[:, rows],
            epoch=part.epoch[rows],
            **{name: getattr(part, name).select(rows) for name in columns},
        )

    def place(self, judge: str) -> int:
        """Position of a judge.

        Raises
        ------
        InputError
            Where it is not here.
        """
        if judge not in self.judges:
            raise InputError(
                f"there is no judge {judge!r}", fix=f"the judges are {', '.join(self.judges[:12])}"
            )
        return self.judges.index(judge)


def majority(calls: CodeArray, classes: int) -> CodeArray:
    """The most frequent class along the first axis; -1 at an even split and without any.

    Parameters
    ----------
    calls
        Shape ``(C, ...)``, -1 where there is no verdict.
    classes
        Number of classes.

    Examples
    --------
    >>> majority(np.array([[0, 1, -1], [0, 2, -1], [1, -1, 2]], np.int8), 3)
    array([ 0, -1,  2], dtype=int8)
    """
    if len(calls) == 1:
        return np.ascontiguousarray(calls[0])
    most = np.zeros(calls.shape[1:], np.int8)
    found = np.full(calls.shape[1:], NO_VERDICT, np.int8)
    for code in range(classes):
        count = (calls == code).sum(axis=0, dtype=np.int8)
        found = np.where(count > most, np.int8(code), np.where(count == most, NO_VERDICT, found))
        most = np.maximum(most, count)
    return np.where(most > 0, found, np.int8(NO_VERDICT)).astype(np.int8)
