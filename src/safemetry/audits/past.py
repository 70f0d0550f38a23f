"""The past of a target: earlier answers, or a stored ability, and the shift from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.runs import answers_of_runs, over_items
from safemetry.audits.shift.shift import AbilityShift, ability_shift
from safemetry.audits.shift.sides import StoredAbility, stored_ability
from safemetry.audits.shift.union import UnionTest, audit_union
from safemetry.audits.work import AuditWork, some_of
from safemetry.errors import InputError
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import Responses
from safemetry.irt.store import StoredCalibration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

_NO_HISTORY: Final = "neither a stored calibration that knows the target nor earlier answers"
_NO_FIT: Final = "the items are not calibrated"


def earlier_answers(before: Any, target: str, *, graded: bool, **reading: Any) -> Responses | None:
    """Earlier answers of the target, one row for each run."""
    if before is None:
        return None
    if isinstance(before, list):
        parts = [earlier_answers(one, target, graded=graded, **reading) for one in before]
        known = [part for part in parts if part is not None]
        return _joined(known) if known else None
    read = read_responses(before, graded=graded, **reading)
    if target not in read.responses.targets:
        if len(read.responses.targets) != 1:
            raise InputError(
                f"the earlier answers have no target {target!r}",
                fix=f"their targets are {some_of(read.responses.targets)}",
            )
        target = read.responses.targets[0]  # the same endpoint under an earlier name
    if read.evidence is None:
        return read.responses.select_targets(
            np.array([name == target for name in read.responses.targets], bool)
        )
    codes, _ = answers_of_runs(
        read.evidence, [target], read.responses.items, graded=graded, **still_applies(reading)
    )
    runs = codes[:, 0]
    return Responses(
        np.ascontiguousarray(runs), (target,) * len(runs), read.responses.items, np.ones(len(runs))
    )


def _joined(parts: Sequence[Responses]) -> Responses:
    """Runs from several sources, over all their items."""
    items = tuple(dict.fromkeys(item for part in parts for item in part.items))
    rows = [over_items(part, items) for part in parts]
    codes = np.concatenate(rows)
    return Responses(codes, (parts[0].targets[0],) * len(codes), items, np.ones(len(codes)))


def check_common(earlier: Responses | None, responses: Responses) -> None:
    """Refuse earlier answers to other items.

    Raises
    ------
    InputError
        Naming one of each.
    """
    if earlier is not None and not set(earlier.items) & set(responses.items):
        raise InputError(
            "no item was answered both before and now",
            fix="items must have the same names: read from several files, or in several "
            f"benchmarks, they are called {responses.items[0]!r} and {earlier.items[0]!r}",
        )


def still_applies(reading: Mapping[str, Any]) -> dict[str, Any]:
    """What still applies to evidence that was read."""
    return {name: value for name, value in reading.items() if name != "evidence_map"}


def past_ability(
    history: StoredCalibration | None, earlier: Responses | None, target: str
) -> Responses | StoredAbility | str:
    """What the ability is compared with, or why there is nothing."""
    if earlier is not None:
        return earlier
    if history is None or target not in history.targets:
        return _NO_HISTORY
    try:
        return stored_ability(history, target)
    except InputError as error:
        return error.problem


def shift_and_union(
    work: AuditWork,
    calibrated: Calibrated | None,
    past: Responses | StoredAbility | str,
    own: Codes,
    why: dict[str, str],
) -> tuple[AbilityShift | None, UnionTest | None]:
    """Ability against the past, alone and joined with person fit.

    Parameters
    ----------
    work
        The audit.
    calibrated
        Items with their errors; None for nothing.
    past
        What is compared with, or why there is nothing.
    own
        Answers of each run of the target, shape ``(T, J)``.
    why
        Takes the reasons of what is unknown.
    """
    parts = ("ability_shift", "shift_and_fit")
    if isinstance(past, str) or calibrated is None:
        why |= dict.fromkeys(parts, past if isinstance(past, str) else _NO_FIT)
        return None, None
    shift = work.settings.shift()
    known = set(calibrated.items)
    now = work.now
    if isinstance(past, Responses):
        past = past.select_items(np.array([item in known for item in past.items], bool))
        # Earlier answers are single runs, and so are these: a majority of runs is more extreme.
        count = len(own)
        now = Responses(own, (work.target,) * count, now.items, np.ones(count))
    now = now.select_items(np.array([item in known for item in now.items], bool))
    one = now.select_targets(np.array([0]))
    try:
        found = ability_shift(now, past, calibrated, shift, rng=work.rng("shift"))
        union = audit_union(one, past, calibrated, shift, rng=work.rng("union"))
    except InputError as error:
        why |= dict.fromkeys(parts, error.problem)
        return None, None
    return found, union
