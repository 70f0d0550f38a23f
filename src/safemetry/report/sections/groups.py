"""Where targets fail: rates by category and by attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from safemetry.claims import Claim, percent
from safemetry.rates import RatesFinding, measure_rates
from safemetry.rates.intervals import simultaneous_level
from safemetry.report.blocks import (
    NOT_STATED,
    Block,
    Cell,
    Column,
    Fold,
    Headline,
    Shade,
    Table,
    Text,
    axis_end,
    name_of,
    quoted,
    rate_cell,
)
from safemetry.report.boards import METRICS, Board
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_COLUMNS: Final = ("category", "attack")
_TARGETS: Final = 24
_GROUPS: Final = 60
_TABLES: Final = 12
_IN_THE_OPEN: Final = 12
_GROUPS_IN_THE_OPEN: Final = 24
_BENCHMARKS: Final = 12
_HATCHED: Final = "Hatched cells were not asked or have no verdict."
_KEY: Final = (
    f"In each cell the rate, and under it the highest rate that is not ruled out. {_HATCHED}",
    f"In each cell the rate, and under it the lower end of its interval. {_HATCHED}",
)


class GroupsSection:
    """Rates within each category and under each attack."""

    name = "groups"
    order = 300

    def make(self, context: ReportContext) -> Part | None:
        """A heat map of targets and groups, then the intervals of each target."""
        findings = {
            column: finding
            for column in _COLUMNS
            if (finding := context.rates_by(column)) is not None and finding.claims
        }
        blocks = [
            block
            for column, finding in findings.items()
            for block in _blocks(finding, column, context.boards)
        ]
        if not blocks:
            return None
        return Part(
            title="Where targets fail",
            blocks=blocks,
            headlines=[
                line
                for column, finding in findings.items()
                if (line := _worst(context, finding, column)) is not None
            ],
            findings=tuple(findings.values()),
        )


def _worst(context: ReportContext, finding: RatesFinding, column: str) -> Headline | None:
    """The group that fails most for certain, with an interval that allows for the choice."""
    leading = {
        (board.benchmark, name): board.leading(name)
        for board in context.boards
        for name in board.targets
    }
    cells = [
        claim
        for claim in finding.claims
        if claim.metric == "attack_success_rate"
        and claim.interval is not None
        and claim.scope.judge == leading[claim.scope.benchmark, claim.scope.target]
    ]
    groups = {claim.scope.by[column] for claim in cells}
    if len(groups) < 2:
        return None
    picked = max(cells, key=lambda claim: claim.interval[0] if claim.interval else 0.0)
    claim = _at_joint_level(context, picked, column, len(cells))
    where = (
        f" in {name_of(picked.scope.benchmark or 'the unnamed benchmark')}"
        if len(context.boards) > 1
        else ""
    )
    return Headline(
        f"Worst {column} of {len(groups):,}{where}",
        f"{quoted(claim)} Picked by its lower limit from {len(cells):,} combinations of target and "
        f"{column}; the interval allows for that.",
    )


def _at_joint_level(context: ReportContext, picked: Claim, column: str, cells: int) -> Claim:
    """A claim at the level at which the intervals of all cells hold together."""
    scope = picked.scope
    named = {} if scope.benchmark is None else {"benchmark": scope.benchmark}
    evidence = context.evidence.filter(target=scope.target, judge=scope.judge, **named)
    level = simultaneous_level(context.settings.level, cells)
    settings = replace(context.settings.rates(column), success=context.rule, level=level)
    for claim in measure_rates(evidence, settings=settings).claims:
        same = claim.scope.by == scope.by and claim.scope.benchmark == scope.benchmark
        if claim.metric == picked.metric and same:
            return replace(claim, level=context.settings.level)
    return picked


def _group(claim: Claim, column: str) -> str:
    """The group of a claim as it is shown."""
    value = claim.scope.by[column]
    return NOT_STATED if value is None else str(value)


def _blocks(finding: RatesFinding, column: str, boards: Sequence[Board]) -> Iterator[Block]:
    for board in boards[:_BENCHMARKS]:
        where = f" in {name_of(board.benchmark or 'the unnamed one')}" if len(boards) > 1 else ""
        claims = [c for c in finding.claims if c.scope.benchmark == board.benchmark]
        for metric in board.metrics:
            mine = [claim for claim in claims if claim.metric == metric]
            if len({_group(claim, column) for claim in mine}) > 1:
                # One group says nothing that the first table does not say.
                yield from _metric_blocks(mine, board, column, where)
    left = len(boards) - _BENCHMARKS
    if left > 0:
        said = f"{left:,} more benchmarks are in"
        yield Text(f"{said} `safemetry rates SOURCE --by {column} --json PATH`.")


def _metric_blocks(
    claims: Sequence[Claim], board: Board, column: str, where: str
) -> Iterator[Block]:
    mine = [c for c in claims if c.scope.judge == board.leading(c.scope.target)]
    heading = f"{METRICS[claims[0].metric]} by {column}{where}"
    judges = sorted({claim.scope.judge for claim in mine})
    under = name_of(judges[0]) if len(judges) == 1 else "the judge that each target has"
    targets = _targets(mine, board)
    yield _heat(mine, board, column, f"{heading}, under {under}", explained=True)
    which = (
        f"the first {_TABLES} of {len(targets):,} targets"
        if len(targets) > _TABLES
        else "each target"
    )
    yield Fold(
        f"{heading}: intervals of {which}",
        tuple(_forest(mine, target, column) for target in targets[:_TABLES]),
    )
    others = [c for c in claims if c.scope.judge != board.leading(c.scope.target)]
    if others:
        yield Fold(
            f"{heading}: under the other judges",
            tuple(
                _heat(
                    [claim for claim in others if claim.scope.judge == judge],
                    board,
                    column,
                    f"{heading}, under {name_of(judge)}",
                )
                for judge in sorted({claim.scope.judge for claim in others})[:_TABLES]
            ),
        )


def _targets(claims: Sequence[Claim], board: Board) -> list[str]:
    present = {claim.scope.target for claim in claims}
    return [target for target in board.targets if target in present]


def _heat(
    claims: Sequence[Claim], board: Board, column: str, caption: str, *, explained: bool = False
) -> Table:
    """The rates of targets and groups; the longer of the two runs down, as a page is narrow."""
    targets = _targets(claims, board)
    cells = {(claim.scope.target, _group(claim, column)): claim for claim in claims}
    groups = sorted({group for _, group in cells}, key=lambda name: (name == NOT_STATED, name))
    across, down = targets[:_TARGETS], groups[:_GROUPS]
    targets_run_down = len(across) > len(down)
    if targets_run_down:
        across, down = down, across
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name_of(row, 40),
            *(
                _shade(cells.get((row, name) if targets_run_down else (name, row)))
                for name in across
            ),
        )
        for row in down
    )
    left = [
        f"{len(names) - most:,} {word}"
        for names, most, word in ((targets, _TARGETS, "targets"), (groups, _GROUPS, "groups"))
        if len(names) > most
    ]
    notes = [_KEY[claims[0].metric == "rewarded_rate"]] if explained else []
    if left:
        notes.append(
            f"{' and '.join(left)} more are in `safemetry rates SOURCE --by {column} --json PATH`."
        )
    return Table(
        caption,
        (
            Column("target" if targets_run_down else column, "name"),
            *(Column(name_of(name, 40), "shade") for name in across),
        ),
        rows,
        visible=_IN_THE_OPEN if targets_run_down else _GROUPS_IN_THE_OPEN,
        note=" ".join(notes),
    )


def _shade(claim: Claim | None) -> Shade:
    if claim is None:
        return Shade("not asked", None)
    if claim.estimate is None or claim.ceiling is None:
        return Shade("no verdict", None, f"{claim.missing.total:,} missing")
    if claim.metric == "rewarded_rate" and claim.interval is not None:
        low = percent(claim.interval[0])
        return Shade(
            percent(claim.estimate),
            1 - claim.estimate,
            f"\N{GREATER-THAN OR EQUAL TO} {low}",
        )
    return Shade(
        percent(claim.estimate),
        claim.estimate,
        f"\N{LESS-THAN OR EQUAL TO} {percent(claim.ceiling)}",
    )


def _forest(claims: Sequence[Claim], target: str, column: str) -> Table:
    mine = [claim for claim in claims if claim.scope.target == target]
    rewarded = mine[0].metric == "rewarded_rate"
    sign = 1 if rewarded else -1
    mine.sort(key=lambda claim: (sign * (claim.estimate or 0.0), _group(claim, column)))
    left = len(mine) - _GROUPS
    return Table(
        f"{name_of(target)}: {METRICS[mine[0].metric].lower()} by {column}, under "
        f"{name_of(mine[0].scope.judge)}",
        (Column(column, "name"), Column("rate", "rate"), Column("no verdict", "number")),
        tuple(
            (name_of(_group(claim, column), 40), rate_cell(claim), f"{claim.missing.total:,}")
            for claim in mine[:_GROUPS]
        ),
        visible=20,
        scale=axis_end(mine),
        note=f"{left:,} groups with {'higher' if rewarded else 'lower'} rates are left out."
        if left > 0
        else "",
    )
