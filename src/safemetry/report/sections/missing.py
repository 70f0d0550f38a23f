"""Responses without a verdict: how many, why, and what they could change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from safemetry.claims import Claim, percent
from safemetry.report.blocks import Block, Column, Fact, Table, Text, name_of
from safemetry.report.boards import METRICS
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_ROWS: Final = 400


class MissingSection:
    """What was lost, by reason, and the rates if all of it had been good or bad."""

    name = "missing"
    order = 500

    def make(self, context: ReportContext) -> Part | None:
        """A table of the rates that miss a verdict, the largest share first."""
        claims = [claim for claim in context.rates.claims if claim.metric in METRICS]
        if not claims:
            return None
        total = sum(claim.missing.total for claim in claims)
        asked = total + sum(claim.trials for claim in claims)
        incomplete = [claim for claim in claims if claim.missing.total]
        incomplete.sort(key=_order)
        blocks: list[Block] = (
            [_reasons(incomplete), _bounds(incomplete)]
            if incomplete
            else [Text("Every verdict that was asked for was given.")]
        )
        widest = max(incomplete, key=_width, default=None)
        note = (
            "of the verdicts that were asked for"
            if total
            else "every verdict that was asked for was given"
        )
        if widest is not None and widest.bounds_if_missing is not None:
            low, high = widest.bounds_if_missing
            note += (
                f"; they could move the {METRICS[widest.metric].lower()} of "
                f"{name_of(widest.scope.target, 40)} anywhere from {percent(low)} to "
                f"{percent(high)}"
            )
        return Part(
            title="What is missing",
            blocks=blocks,
            facts=[Fact("No verdict", percent(total / asked) if total else "none", note)],
            limits=[f"What {total:,} missing verdicts would have shown."] if total else [],
        )


def _share(claim: Claim) -> float:
    asked = claim.missing.total + claim.trials
    return claim.missing.total / asked if asked else 1.0


def _width(claim: Claim) -> float:
    ends = claim.bounds_if_missing
    return ends[1] - ends[0] if ends else 0.0


def _order(claim: Claim) -> tuple[object, ...]:
    scope = claim.scope
    return (-_share(claim), claim.metric, scope.benchmark or "", scope.target, scope.judge)


def _reasons(claims: Sequence[Claim]) -> Table:
    totals: dict[str, int] = {}
    judges: dict[str, set[str]] = {}
    for claim in claims:
        for reason, number in claim.missing.by_reason.items():
            totals[reason] = totals.get(reason, 0) + number
            judges.setdefault(reason, set()).add(claim.scope.judge)
    return Table(
        "Verdicts that are missing, by reason",
        (Column("reason", "name"), Column("verdicts", "number"), Column("under")),
        tuple(
            (name_of(reason), f"{totals[reason]:,}", _listed(judges[reason]))
            for reason in sorted(totals, key=lambda name: (-totals[name], name))
        ),
    )


def _listed(names: set[str]) -> str:
    shown = [name_of(name, 24) for name in sorted(names)]
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _bounds(claims: Sequence[Claim]) -> Table:
    several: Mapping[str, bool] = {
        name: len({getattr(claim.scope, name) for claim in claims}) > 1
        for name in ("benchmark", "judge")
    }
    shown = [name for name, needed in several.items() if needed]
    rows = [
        (
            name_of(claim.scope.target),
            *(name_of(getattr(claim.scope, name)) for name in shown),
            METRICS[claim.metric].lower(),
            f"{claim.missing.total:,} ({percent(_share(claim))})",
            "unknown" if claim.estimate is None else percent(claim.estimate),
            "unknown"
            if claim.bounds_if_missing is None
            else " to ".join(percent(end) for end in claim.bounds_if_missing),
        )
        for claim in claims[:_ROWS]
    ]
    return Table(
        "Each rate as measured, and if all that is missing had been good or had been bad",
        (
            Column("target", "name"),
            *(Column(name) for name in shown),
            Column("rate of"),
            Column("missing", "number"),
            Column("measured", "number"),
            Column("if missing", "number"),
        ),
        tuple(rows),
        note=f"{len(claims) - _ROWS:,} rates that miss less are left out."
        if len(claims) > _ROWS
        else "",
    )
