"""Gold labels: those of one judge, or the majority of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.panel import Panel, majority

if TYPE_CHECKING:
    from numpy.typing import NDArray

    CodeArray = NDArray[np.int8]
    BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Gold:
    """What judges are held against.

    Parameters
    ----------
    judges
        Whose labels they are.
    labels
        Class of each response, shape ``(R,)``; -1 without a verdict or a majority.
    tied
        Whether there are verdicts but no class with more of them than any other, shape ``(R,)``.
    can_emit
        The classes that any of the judges can give, shape ``(K,)``.
    """

    judges: tuple[str, ...]
    labels: CodeArray
    tied: BoolArray
    can_emit: BoolArray


def gold_of(panel: Panel, judges: Sequence[str]) -> Gold:
    """The labels of one judge, or the class that most of several give.

    Parameters
    ----------
    panel
        The verdicts.
    judges
        Names, at least one. Those without a verdict on a response do not count there.

    Raises
    ------
    InputError
        Without a judge, with one that is not in the panel, or one named twice.
    """
    if not judges:
        raise InputError("no judge is named as gold", fix="name at least one")
    if len(set(judges)) < len(judges):
        raise InputError("a judge is named as gold twice", fix="name each once")
    places = [panel.place(name) for name in judges]
    given = panel.labels[:, places]
    labels = majority(np.ascontiguousarray(given.T), len(panel.classes))
    tied = (given >= 0).sum(axis=1) > 0
    tied &= labels < 0
    can_emit: BoolArray = np.asarray(panel.can_emit[places].any(axis=0), bool)
    return Gold(tuple(judges), labels, tied, can_emit)
