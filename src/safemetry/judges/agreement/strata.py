"""Parts of a panel in which a figure is computed on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from safemetry.judges.panel import Column, Panel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

By = Literal["category", "target"]

ALL: Final = "all"
UNKNOWN: Final = "unclassified"


@dataclass(frozen=True)
class Stratum:
    """Some responses of a panel.

    Parameters
    ----------
    intent
        The intent of their items, ``all`` for items of any intent together, ``unclassified`` where
        it is unknown.
    by
        ``all``, or the property that they share besides, ``category`` or ``target``.
    value
        Of that property; ``all`` where there is none.
    rows
        Their positions.
    """

    intent: str
    by: str
    value: str
    rows: IntArray

    def renamed(self, intent: str) -> Stratum:
        """The same responses under another intent."""
        return Stratum(intent, self.by, self.value, self.rows)


def by_intent(panel: Panel) -> Iterator[Stratum]:
    """One stratum for each intent that occurs."""
    for name, rows in _split(panel.intent, np.arange(panel.responses), UNKNOWN):
        yield Stratum(name, ALL, ALL, rows)


def divided(panel: Panel, stratum: Stratum, by: Sequence[By]) -> Iterator[Stratum]:
    """A stratum by category or target; nothing where the property has one value there."""
    for name in by:
        column: Column = getattr(panel, name)
        parts = list(_split(column, stratum.rows, UNKNOWN))
        if len(parts) > 1:
            for value, rows in parts:
                yield Stratum(stratum.intent, name, value, rows)


def _split(column: Column, rows: IntArray, unknown: str) -> Iterator[tuple[str, IntArray]]:
    if not len(rows):
        return
    codes = column.codes[rows]
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    for code, part in zip(found, np.split(order, starts[1:]), strict=True):
        yield (column.names[code] if code >= 0 else unknown), rows[part]
