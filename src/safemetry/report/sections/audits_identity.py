"""Which known target this is, and whether an endpoint is still itself, as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Block, Column, Figure, Table, Text, name_of
from safemetry.report.sections.audits_misfit import rate_text, signed
from safemetry.report.sections.construct_tables import UNKNOWN, number

Row = Mapping[str, Any]

_MOST_ROWS: Final = 300
_NAMED: Final = 4
_MOST_LOG: Final = 300.0
_ENDS: Final = {
    "different": "The endpoint does not answer as it did.",
    "same": "The endpoint answers as it did, within the margin.",
    "cannot_tell": "Whether the endpoint answers as it did cannot be told.",
}
_LEADS: Final = {
    "same": "The answers are those of a known target: ",
    "different": "The target is none of the known ones.",
    "cannot_tell": "Which known target this is, or whether it is one, cannot be told: ",
}


def fingerprint_blocks(data: Row) -> Iterator[Block]:
    """Each known target beside this one, and how all agree."""
    rows: Sequence[Row] = data.get("fingerprint") or ()
    yield from _identity(data)
    if rows:
        yield _table(rows)
    yield from _matrix(data)


def _identity(data: Row) -> Iterator[Block]:
    found: Row = data.get("identity") or {}
    verdict = found.get("verdict")
    if not verdict:
        return
    lead = _LEADS.get(str(verdict), f"{name_of(verdict, 60)}: ")
    names: Sequence[str] = found.get("references") or ()
    if lead.endswith(": "):
        more = f" and {len(names) - 6:,} more" if len(names) > 6 else ""
        listed = ", ".join(name_of(name, 40) for name in names[:6]) + more
        lead = f"{lead}{listed}." if listed else f"{lead.removesuffix(': ')}."
    why = found.get("why")
    reason = next(iter(why.values()), "") if isinstance(why, Mapping) else why or ""
    said = name_of(reason, 600)
    end = f" {said[0].upper()}{said[1:].rstrip('.')}." if said else ""
    yield Text(f"{lead}{end}")


def _table(rows: Sequence[Row]) -> Table:
    kept = rows[:_MOST_ROWS]
    return Table(
        "Known targets, the most likely first",
        (
            Column("known target", "name"),
            Column("agreement", "number"),
            Column("interval"),
            Column("informative items", "number"),
            Column("log-likelihood ratio", "number"),
            Column("verdict"),
            Column("not told apart from"),
        ),
        tuple(
            (
                name_of(row["reference"], 40),
                rate_text(row.get("agreement")),
                _ends(row.get("interval")),
                number(row.get("informative_items")),
                signed(row.get("log_likelihood_ratio"), 1),
                _verdict(row),
                _group(row),
            )
            for row in kept
        ),
        note="Agreement on informative items only. Log-likelihood ratio: a run of the known target "
        "again against some other target; above 0 speaks for the known one."
        + (f" {len(rows) - len(kept):,} more are in the JSON." if len(rows) > len(kept) else ""),
    )


def _verdict(row: Row) -> str:
    verdict = row.get("verdict")
    if verdict:
        return name_of(str(verdict).replace("_", " "), 24)
    why = row.get("why") or {}
    reason = next(iter(why.values()), "not computed") if isinstance(why, Mapping) else str(why)
    return f"unknown: {name_of(reason, 120)}"


def _group(row: Row) -> str:
    given = row.get("group") or ()
    names = [given] if isinstance(given, str) else list(given)
    others = [name_of(name, 30) for name in names if name != row["reference"]]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return ", ".join(others[:_NAMED]) + more


def _matrix(data: Row) -> Iterator[Block]:
    found: Row = data.get("agreement_matrix") or {}
    names, pairs = found.get("names") or [], found.get("pairs") or []
    if len(names) < 2 or not pairs:
        return
    target = data.get("target")
    known = {frozenset((row["first"], row["second"])): row["agreement"] for row in pairs}
    values = [[known.get(frozenset((one, other))) for other in names] for one in names]

    def draw(width: int) -> Any:
        from safemetry.audits.charts.agreement import agreement_chart

        return agreement_chart(names, values, target=target, width=width)

    low, high = (end(pairs, key=lambda row: row["agreement"]) for end in (min, max))
    yield Figure(
        "Agreement of targets on informative items",
        f"Hundredths; targets that agree stand together. The most: {_pair(high)}; the least: "
        f"{_pair(low)}.",
        draw,
    )


def _pair(row: Row) -> str:
    return (
        f"{name_of(row['first'], 40)} and {name_of(row['second'], 40)}, "
        f"{percent(row['agreement'])} of {row['items']:,} items"
    )


def stream_blocks(data: Row) -> Iterator[Block]:
    """The evidence after each answer of a sequential check."""
    found: Row = data.get("stream") or {}
    values, threshold = _evidence(found, "e_values"), found.get("threshold")
    if threshold is None and found.get("log_threshold") is not None:
        threshold = math.exp(found["log_threshold"])
    if not values or not threshold:
        return
    stopped = found.get("stopped_at")
    same = [_exponential(value) for value in found.get("log_e_same") or ()]
    limit = float(threshold)

    def draw(width: int) -> Any:
        from safemetry.audits.charts.stream import stream_chart

        return stream_chart(values, limit, stopped_at=stopped, same=same, width=width)

    verdict = str(found.get("verdict"))
    end = _ENDS.get(verdict, f"Verdict: {name_of(verdict.replace('_', ' '), 60)}.")
    end += "" if stopped is None else f" {stopped:,} answers were enough to say so."
    both = " The dashed line is the evidence that it is the same within the margin." if same else ""
    yield Figure(
        "Whether the endpoint still answers like its past",
        f"{end} Highest evidence of a change in {len(values):,} answers: {max(values):.3g}. An "
        f"endpoint that has not changed reaches {limit:.4g} with a chance of at most "
        f"{percent(min(1.0, found.get('level') or 1 / limit))}, however often one looks.{both}",
        draw,
    )


def _evidence(found: Row, name: str) -> list[float]:
    """E-values, given as they are or as logarithms."""
    logs = found.get(f"log_{name}")
    if logs:
        return [_exponential(value) for value in logs]
    return [float(value) for value in found.get(name) or () if value is not None]


def _exponential(value: float) -> float:
    """Within what an axis can show."""
    return math.exp(min(max(float(value), -_MOST_LOG), _MOST_LOG))


def _ends(given: Sequence[float] | None) -> str:
    return UNKNOWN if not given else f"{percent(given[0])} to {percent(given[1])}"
