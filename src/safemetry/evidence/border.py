"""The border: a table from outside becomes evidence, or one error says where it does not.

A table is admitted in three steps: its columns get our names (`safemetry.evidence.naming`), every
value is checked (`safemetry.evidence.inspection`), and its words become ours
(`safemetry.evidence.translation`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from safemetry.evidence import frames
from safemetry.evidence.arrival import Arrival, Place
from safemetry.evidence.inspection import Group, inspect
from safemetry.evidence.maps import MISSING_PREFIX, EvidenceMap, Scale
from safemetry.evidence.naming import name_columns
from safemetry.evidence.schema import Status
from safemetry.evidence.translation import judge_labels, translate

if TYPE_CHECKING:
    import duckdb
    import narwhals.stable.v2 as nw

__all__ = ["Instrument", "Place", "admit"]


@dataclass(frozen=True)
class Instrument:
    """A judge as it appears in the evidence.

    Parameters
    ----------
    scale
        Range and direction of its score.
    labels
        Classes that it used.
    scored
        Whether it gave any score.
    last_call
        Highest number of a call; None where it is not known.
    reasons
        Reasons that occur; known where `last_call` is.
    last_epoch
        Highest number of an epoch; None where it is not known.
    """

    scale: Scale
    labels: frozenset[str] = frozenset()
    scored: bool = False
    last_call: int | None = None
    reasons: frozenset[str] = frozenset()
    # Whether it is known depends on the type of a column alone.
    last_epoch: int | None = field(default=None, compare=False)


def admit(
    data: Any,
    connection: duckdb.DuckDBPyConnection,
    evidence_map: EvidenceMap,
    *,
    scales: Mapping[str, Scale] | None = None,
    place: Place | str = "table",
    settled: Collection[str] = (),
) -> tuple[nw.LazyFrame[Any], dict[str, Instrument]]:
    """Check a table and give it the columns and types of the judgements table.

    Parameters
    ----------
    data
        Anything that narwhals accepts.
    connection
        Engine for data that is not already on one.
    evidence_map
        What is known about the source.
    scales
        Scales that the format fixes; the map overrides them.
    place
        Name of the source for error messages.
    settled
        Columns whose cells need no check, because they passed the border before; not those of a
        verdict, nor `judge` and `call`.

    Returns
    -------
    tuple
        A lazy frame with the columns of `safemetry.evidence.schema.NAMES`, and every judge that
        occurs.

    Raises
    ------
    InputError
        Naming file, row, column and the fix, for a missing column, a malformed number, an empty
        key, an unknown label, status, reason or intent, a verdict that contradicts its status, or
        a score outside the declared scale.
    """
    where = Place(place) if isinstance(place, str) else place
    named = name_columns(frames.lazy(data, connection), evidence_map, scales or {}, where)
    inspected, groups = inspect(replace(named, settled=frozenset(settled)))
    judges = sorted({group["judge"] for group in groups})
    return translate(inspected, groups), {
        judge: _instrument(inspected, judge, [g for g in groups if g["judge"] == judge])
        for judge in judges
    }


def _instrument(arrival: Arrival, judge: str, groups: Sequence[Group]) -> Instrument:
    """A judge, from the groups of its rows."""
    meant = {arrival.meaning(judge, label) or "" for _, label in judge_labels(groups)}
    reasons = {group["reason"] for group in groups} - {None}
    reasons |= {
        meaning.removeprefix(MISSING_PREFIX)
        for meaning in meant
        if meaning.startswith(MISSING_PREFIX)
    }
    if arrival.map.status is not None:
        reasons |= set(arrival.map.status.values.values()) - {Status.OK}
    return Instrument(
        arrival.scale(judge),
        labels=frozenset(meant.intersection(arrival.map.known_labels)),
        scored=any(group["scored"] for group in groups),
        last_call=_highest(groups, "last_call") if arrival.counts("call") else None,
        reasons=frozenset(str(reason) for reason in reasons),
        last_epoch=_highest(groups, "last_epoch") if arrival.counts("epoch") else None,
    )


def _highest(groups: Sequence[Group], name: str) -> int:
    return max(int(group[name]) for group in groups)
