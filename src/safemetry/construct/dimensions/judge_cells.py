"""The cells that several judges labelled, aligned by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from safemetry.irt.responses import MISSING, Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray


def common_cells(
    responses: Mapping[str, Responses], structure: Mapping[str, str] | None = None
) -> dict[str, Responses]:
    """The cells that every judge labelled, with items that vary under each of them.

    Parameters
    ----------
    responses, structure
        As in `by_judge`.

    Returns
    -------
    dict
        Judge -> responses of the same targets and items, with the same missing cells.
    """
    given = list(responses.values())
    known = set.intersection(*(set(held.targets) for held in given))
    asked = set.intersection(*(set(held.items) for held in given))
    if structure is not None:
        asked &= {item for item, dimension in structure.items() if dimension}
    targets = [name for name in given[0].targets if name in known]
    items = [name for name in given[0].items if name in asked]
    aligned = {judge: _aligned(held, targets, items) for judge, held in responses.items()}
    labelled = np.logical_and.reduce([codes != MISSING for codes in aligned.values()])
    varies = np.ones(len(items), np.bool_)
    for codes in aligned.values():
        passed = ((codes == 1) & labelled).sum(axis=0)
        varies &= (passed > 0) & (passed < labelled.sum(axis=0))
    rows = labelled[:, varies].any(axis=1)
    weights = dict(zip(given[0].targets, given[0].weights, strict=True))
    kept = tuple(name for name, keep in zip(targets, rows, strict=True) if keep)
    return {
        judge: Responses(
            np.where(labelled, codes, np.int8(MISSING))[rows][:, varies],
            kept,
            tuple(name for name, keep in zip(items, varies, strict=True) if keep),
            np.array([weights[name] for name in kept]),
        )
        for judge, codes in aligned.items()
    }


def _aligned(held: Responses, targets: Sequence[str], items: Sequence[str]) -> NDArray[np.int8]:
    row = {name: place for place, name in enumerate(held.targets)}
    column = {name: place for place, name in enumerate(held.items)}
    rows = np.array([row[name] for name in targets], np.int64)
    columns = np.array([column[name] for name in items], np.int64)
    found: NDArray[np.int8] = held.codes[np.ix_(rows, columns)]
    return found
