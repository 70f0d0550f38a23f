"""With which chance each response was chosen to be labelled, from a sheet of a label plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.display import undefused
from safemetry.errors import InputError
from safemetry.judges.panel import Panel
from safemetry.readers.source import Source
from safemetry.readers.tables import read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    FloatArray = NDArray[np.float64]

_NEEDED: Final = ("target", "item", "probability")
_OPTIONAL: Final = ("run", "epoch")


@dataclass(frozen=True)
class Sampling:
    """Sampling probabilities of responses.

    Parameters
    ----------
    file
        Where they were read.
    columns
        Which of run, target, item and epoch name a response, in this order.
    probability
        Key -> chance in (0, 1].
    """

    file: str
    columns: tuple[str, ...]
    probability: dict[tuple[str, ...], float]

    def of(self, panel: Panel, needed: BoolArray) -> FloatArray:
        """Chances of the responses of a panel, shape ``(R,)``; 1 where it is not needed.

        Parameters
        ----------
        panel
            The responses.
        needed
            Those whose chance is needed, shape ``(R,)``.

        Raises
        ------
        InputError
            For a response that the sheet does not name.
        """
        found = np.ones(panel.responses)
        by_part = self._without_run() if "run" in self.columns else {}
        for row in np.flatnonzero(needed).tolist():
            key = tuple(_value(panel, name, row) for name in self.columns)
            # A file that was renamed since is another run: the rest of the key may do.
            chance = self.probability.get(key) or by_part.get(key[1:])
            if chance is None:
                named = ", ".join(
                    f"{column} {value!r}" for column, value in zip(self.columns, key, strict=True)
                )
                raise InputError(
                    f"has no row for the response of {named}",
                    file=self.file,
                    fix="give every response with a gold label (and, for --label-next, every "
                    "response) the chance with which it was chosen",
                )
            found[row] = chance
        return found

    def _without_run(self) -> dict[tuple[str, ...], float]:
        """Chances by target, item and epoch, where these say which response is meant."""
        found: dict[tuple[str, ...], float | None] = {}
        for key, chance in self.probability.items():
            found[key[1:]] = None if key[1:] in found else chance
        return {key: chance for key, chance in found.items() if chance is not None}


def read_sampling(path: str) -> Sampling:
    """Read a sheet with ``target, item, probability``, and ``run, epoch`` where they are needed.

    Raises
    ------
    InputError
        Naming row and column, for a sheet without these columns, a probability that is none, or a
        response with two.
    """
    source = Source(path)
    table = read_table(source, columns={*_NEEDED, *_OPTIONAL}, in_memory=True)
    for name in _NEEDED:
        if name not in table.columns:
            raise InputError(
                f"has no column {name}",
                file=source.shown,
                fix="the sheet of a label plan has run, target, item, epoch, probability",
            )
    keys = tuple(name for name in ("run", "target", "item", "epoch") if name in table.columns)
    data = table.to_arrow()
    chances: dict[tuple[str, ...], float] = {}
    columns = [data[name].to_pylist() for name in (*keys, "probability")]
    for row, (*key, given) in enumerate(zip(*columns, strict=True), start=1):
        chance = _chance(given)
        if chance is None:
            raise InputError(
                f"{given!r} is no probability",
                file=source.shown,
                row=row,
                column="probability",
                fix="give a number over 0 and at most 1",
            )
        named = tuple(
            _whole(value) if column == "epoch" else undefused(str(value or ""))
            for column, value in zip(keys, key, strict=True)
        )
        if chances.setdefault(named, chance) != chance:
            raise InputError(
                f"the response {', '.join(named)} has the probabilities {chances[named]:g} "
                f"and {chance:g}",
                file=source.shown,
                row=row,
                column="probability",
                fix="give each response one, and add columns run and epoch where they differ",
            )
    return Sampling(source.shown, keys, chances)


def _whole(value: object) -> str:
    """A whole number as it is written, also where a spreadsheet has made 1.0 of it."""
    text = str(value or "")
    head, point, tail = text.partition(".")
    return head if point and not tail.strip("0") else text


def _chance(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 < found <= 1 else None


def _value(panel: Panel, name: str, row: int) -> str:
    if name == "epoch":
        return str(panel.epoch[row])
    column = {"run": panel.run, "target": panel.target, "item": panel.item}[name]
    return undefused(column.names[int(column.codes[row])])
