"""Repeated runs: the answers of every run and epoch by themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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
        Codes of shape ``(T, N, J)``, -1 where missing, with T at most `MOST_RUNS`; and a sentence
        where a target has more.
    """
    wanted = evidence.filter(target=list(targets))
    parts, cut = _parts(wanted)
    found = []
    for part in parts:
        own = wanted.filter(epoch=str(part.epoch), **({"run": part.runs} if part.runs else {}))
        try:
            found.append(arranged(read_responses(own, **reading).responses, targets, items))
        except InputError:  # nothing in these runs has an outcome
            continue
    said = None
    if cut:
        said = (
            f"Re-runs are compared over the first {MOST_RUNS} runs and epochs of each target: "
            f"{cut:,} {'has' if cut == 1 else 'have'} more."
        )
    empty = np.full((1, len(targets), len(items)), MISSING, np.int8)
    return (_packed(np.stack(found))[:MOST_RUNS] if found else empty), said


@dataclass
class _Part:
    """Runs of one epoch that no two targets share, read at once."""

    epoch: int
    runs: list[str]
    targets: set[str]


def _parts(evidence: Evidence) -> tuple[list[_Part], int]:
    """The first runs of every target, in few parts; and how many targets have more.

    Targets often have runs of their own name. Read one by one, ten targets from ten files would be
    read ten times.
    """
    members: dict[tuple[str, int], set[str]] = {}
    table = groups(evidence.rows, ["target", "run", "epoch"])
    for target, run, epoch in zip(*(column.to_pylist() for column in table.columns), strict=True):
        members.setdefault((run or "", epoch), set()).add(target)
    counts: Counter[str] = Counter()
    parts: list[_Part] = []
    for run, epoch in sorted(members):
        own = members[run, epoch]
        if all(counts[target] >= MOST_RUNS for target in own):
            counts.update(own)
            continue
        counts.update(own)
        alike = (part for part in parts if run and part.epoch == epoch and not part.targets & own)
        part = next(alike, None)
        if part is None:
            parts.append(_Part(epoch, [run] if run else [], set(own)))
        else:
            part.runs.append(run)
            part.targets |= own
    return parts, sum(count > MOST_RUNS for count in counts.values())


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
