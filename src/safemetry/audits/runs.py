"""Repeated runs: the answers of every run and epoch by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, groups
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import MISSING, Responses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

MOST_RUNS: Final = 40


def answers_of_runs(
    evidence: Evidence, targets: Sequence[str], items: Sequence[str], **reading: Any
) -> tuple[Codes, str | None]:
    """Answers of each run and epoch, for the disagreement of re-runs.

    Parameters
    ----------
    evidence
        The evidence.
    targets, items
        Names of N targets and J items, in whose order the answers are put.
    **reading
        ``success``, ``judge`` and ``graded``, see `read_responses`.

    Returns
    -------
    tuple
        Codes of shape ``(T, N, J)``, -1 where missing, with T at most 40; and a sentence where runs
        were left out.
    """
    table = groups(evidence.rows, ["run", "epoch"])
    pairs = sorted(
        {(run, int(epoch or 1)) for run, epoch in zip(*_columns(table), strict=True)},
        key=lambda pair: (pair[0] or "", pair[1]),
    )
    found = []
    for run, epoch in pairs[:MOST_RUNS]:
        part = (
            evidence.filter(epoch=str(epoch))
            if run is None
            else evidence.filter(run=run, epoch=str(epoch))
        )
        try:
            found.append(arranged(read_responses(part, **reading).responses, targets, items))
        except InputError:  # nothing in this run has an outcome
            continue
    said = None
    if len(pairs) > MOST_RUNS:
        said = f"Re-runs are compared over the first {MOST_RUNS} of {len(pairs):,} runs and epochs."
    empty = np.full((1, len(targets), len(items)), MISSING, np.int8)
    return (_packed(np.stack(found)) if found else empty), said


def arranged(responses: Responses, targets: Sequence[str], items: Sequence[str]) -> Codes:
    """Codes in the order of given targets and items, shape ``(N, J)``; -1 for those not there."""
    found = np.full((len(targets), len(items)), MISSING, np.int8)
    rows = {name: place for place, name in enumerate(responses.targets)}
    ours = [place for place, name in enumerate(targets) if name in rows]
    found[ours] = over_items(responses, items)[[rows[targets[place]] for place in ours]]
    return found


def over_items(responses: Responses, items: Sequence[str]) -> Codes:
    """Codes of all rows in the order of given items; -1 for items that are not there."""
    columns = {name: place for place, name in enumerate(responses.items)}
    mine = [place for place, name in enumerate(items) if name in columns]
    found = np.full((len(responses.codes), len(items)), MISSING, np.int8)
    found[:, mine] = responses.codes[:, [columns[items[place]] for place in mine]]
    return found


def _packed(codes: Codes) -> Codes:
    """Runs of each cell moved to the front, and those that no cell needs dropped.

    Every target may have runs of its own name: ten targets from ten files, one run each, are not
    ten runs of one target.
    """
    order = np.argsort(codes == MISSING, axis=0, kind="stable")
    moved = np.take_along_axis(codes, order, axis=0)
    used = (moved != MISSING).any(axis=(1, 2))
    return np.ascontiguousarray(moved[: max(int(used.sum()), 1)])


def _columns(table: Any) -> tuple[list[Any], list[Any]]:
    return table["run"].to_pylist(), table["epoch"].to_pylist()
