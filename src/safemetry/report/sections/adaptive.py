"""How adaptive tests went: the finding of `adapt` as a part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.findings import Finding
from safemetry.report.blocks import (
    Block,
    Column,
    Fact,
    Figure,
    Headline,
    Table,
    Text,
    name_of,
)
from safemetry.report.section import Part
from safemetry.report.sections.construct_tables import UNKNOWN, number
from safemetry.report.sections.forms import minus, reasons

Row = Mapping[str, Any]

TITLE: Final = "Adaptive tests"
_LONG: Final = 1500
_MOST_ROWS: Final = 400
_STOPS: Final = {
    "classified": "decided",
    "precision": "precise enough",
    "budget": "out of budget",
    "exhausted": "no item left",
}
_DECISIONS: Final = {"above": "above", "below": "below", "cannot_tell": "cannot tell"}
_SIMULATED: Final = (
    "How live tests go: these sessions were replayed on answers that were there already, so that "
    "the order of the items could not change an answer."
)
_SAMPLE: Final = (
    "How other targets do: these are a convenience sample, and errors are smaller than they would "
    "be for targets unlike those that the items were calibrated on."
)
_COMPARED: Final = (
    "Whether two targets differ on an item: they were given different items, and are compared "
    "only through the calibration."
)


def adaptive_part(finding: Finding) -> Part:
    """Adaptive tests as a part of a report.

    Parameters
    ----------
    finding
        An `AdaptFinding`, or another finding with its keys; a part of it that is None is named with
        its reason.
    """
    data = finding.to_dict()
    lead = name_of(finding.sentence(), _LONG)
    blocks: list[Block] = [Text(lead)] if lead else []
    blocks += _traces(data)
    blocks += _by_items(data)
    blocks += _evaluation(data)
    blocks += _sessions(data)
    blocks += reasons(data, {"evaluation": "Errors against the ability from all items"})
    return Part(
        title=TITLE,
        blocks=blocks,
        facts=[*_facts(data)],
        headlines=[Headline("Adaptive tests", lead)] if lead else [],
        limits=[_SIMULATED, _SAMPLE, _COMPARED],
        findings=[finding],
    )


def cut_of(settings: Row) -> float | None:
    """The ability that sessions decide about; None without one."""
    classified = settings.get("classification")
    cut = classified.get("cut") if isinstance(classified, Mapping) else settings.get("cut")
    return float(cut) if isinstance(cut, int | float) else None


def _facts(data: Row) -> Iterator[Fact]:
    found: Row = data.get("evaluation") or {}
    pool = data.get("pool")
    if found.get("mean_length") is not None and pool:
        yield Fact(
            "Items for each target",
            f"{found['mean_length']:.1f}",
            f"on average, {found.get('shortest', 0):,} to {found.get('longest', 0):,}, of {pool:,}",
        )
    if found.get("decided") is not None:
        wrong = found.get("wrong")
        note = "no decision" if wrong is None else f"{percent(wrong)} differ from all items"
        yield Fact("Decided", percent(found["decided"]), note)
    rows: Sequence[Row] = found.get("by_items") or ()
    if rows:
        last = rows[-1]
        yield Fact(
            "Error of the full score",
            percent(last["rmse"]),
            f"root mean square after {last['items']:,} items; random items "
            f"{_rate(last.get('random_rmse'))}",
        )


def _traces(data: Row) -> Iterator[Block]:
    sessions = [session for session in data.get("sessions") or () if session.get("theta")]
    if not sessions:
        return
    cut = cut_of(data.get("settings") or {})

    def draw(width: int) -> Any:
        from safemetry.forms.charts.traces import traces_chart

        return traces_chart(sessions, cut=cut, width=width)

    last = sorted(_first(session["theta"][-1]) for session in sessions)
    line = "" if cut is None else f" The dashed line is the cut, {minus(cut)}."
    several = " The first dimension is shown." if _dimensions(sessions) > 1 else ""
    chosen = min(len(sessions), 12)
    yield Figure(
        "Ability after each item",
        f"{len(sessions):,} sessions, {chosen} of them from the lowest to the highest with their "
        f"error (1.96 standard errors on each side). They end at abilities from "
        f"{minus(last[0])} to {minus(last[-1])}.{line}{several}",
        draw,
    )


def _first(value: Any) -> float:
    return float(value[0] if isinstance(value, Sequence) else value)


def _dimensions(sessions: Sequence[Row]) -> int:
    value = sessions[0]["theta"][-1]
    return len(value) if isinstance(value, Sequence) else 1


def _by_items(data: Row) -> Iterator[Block]:
    rows: Sequence[Row] = (data.get("evaluation") or {}).get("by_items") or ()
    if not rows:
        return
    drawn = [{**row, "method": "adaptive"} for row in rows if row.get("rmse") is not None]

    def draw(width: int) -> Any:
        from safemetry.forms.charts.budget import budget_chart

        return budget_chart(drawn, method="adaptive", width=width)

    said = "; ".join(
        f"{row['items']:,} items {percent(row['rmse'])}, random {_rate(row.get('random_rmse'))}"
        for row in drawn
    )
    if len(drawn) > 1:
        yield Figure(
            "Error of the predicted full score",
            f"{said}. The grey band holds 90% of tests of random items.",
            draw,
        )
    yield Table(
        "Full score predicted after some items",
        tuple(
            Column(head, "number")
            for head in ("items", "error (rms)", "mean absolute", "rank correlation", "random")
        ),
        tuple(
            (
                number(row["items"]),
                _rate(row.get("rmse")),
                _rate(row.get("mae")),
                number(row.get("spearman"), 2),
                _rate(row.get("random_rmse")),
            )
            for row in rows
        ),
    )


def _evaluation(data: Row) -> Iterator[Block]:
    found: Row = data.get("evaluation") or {}
    if not found:
        return
    said = []
    if found.get("rmse") is not None and found.get("bias") is not None:
        said.append(
            f"Against the ability from all items the last estimate is off by {found['rmse']:.2f} "
            f"(root mean square), {found['bias']:+.2f} on average."
        )
    if found.get("highest_exposure") is not None:
        said.append(
            f"The item that was given most was in {percent(found['highest_exposure'])} of the "
            f"sessions; {found.get('never_given', 0):,} of {data.get('pool') or 0:,} were never "
            "given."
        )
    if found.get("overlap") is not None:
        said.append(f"Two sessions share {percent(found['overlap'])} of their items on average.")
    stops: Mapping[str, int] = found.get("stops") or {}
    if stops:
        ends = ", ".join(
            f"{_STOPS.get(name, name_of(name, 24))} {n:,}" for name, n in stops.items()
        )
        said.append(f"Sessions ended: {ends}.")
    if said:
        yield Text(" ".join(said))


def _sessions(data: Row) -> Iterator[Block]:
    sessions: Sequence[Row] = data.get("sessions") or ()
    if not sessions:
        return
    known = set(data.get("in_sample") or ())
    decided = any(session.get("decision") is not None for session in sessions)
    columns = [Column("target", "name"), Column("items", "number"), Column("ability", "number")]
    columns += [Column("error", "number"), Column("ended")]
    columns += [Column("decision")] if decided else []
    columns += [Column("calibrated on")] if known else []
    rows = []
    for session in sessions[:_MOST_ROWS]:
        row = [
            name_of(session["target"], 40),
            number(len(session.get("items") or ())),
            _last(session.get("theta")),
            _last(session.get("se")),
            _STOPS.get(str(session.get("stop")), name_of(session.get("stop"), 24)),
        ]
        if decided:
            side = str(session.get("decision"))
            row.append(_DECISIONS.get(side, name_of(session.get("decision"), 24)))
        if known:
            row.append("yes" if session["target"] in known else "no")
        rows.append(tuple(row))
    more = len(sessions) - len(rows)
    yield Table(
        "Sessions",
        tuple(columns),
        tuple(rows),
        note=f"{more:,} more sessions are in the JSON." if more else "",
    )


def _last(values: Sequence[Any] | None) -> str:
    if not values:
        return UNKNOWN
    last = values[-1]
    parts = last if isinstance(last, Sequence) else [last]
    return ", ".join(UNKNOWN if value is None else minus(value) for value in parts)


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)
