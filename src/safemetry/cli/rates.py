"""Commands that count: rates, compare, plan, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.options import (
    POSITIVE,
    SHARE,
    Shared,
    Whole,
    command,
    listing,
    names_option,
)

if TYPE_CHECKING:
    from safemetry.claims import Claim
    from safemetry.cli.tables import Table
    from safemetry.evidence.evidence import Evidence
    from safemetry.rates import ComparisonFinding, CoverageFinding, RatesFinding

_COMPLEMENTS: Final = {"safe_recall": "attack_success_rate", "help_rate": "over_refusal_rate"}
"""Rates that say nothing beyond another one, which the tables show in their place."""
_SENTENCES: Final = 6

_success = click.option(
    "--success",
    metavar="RULE",
    help="comply, non_refusal or at_least:x, then /each, /majority or /unanimous. "
    "[default: comply]",
)
_judge = click.option("--judge", metavar="NAME", help="Only this judge.")
_cluster = click.option(
    "--cluster",
    metavar="COL",
    default="behaviour",
    show_default=True,
    help="Item column whose values are independent.",
)
_level = click.option(
    "--level", type=SHARE, metavar="P", default=0.95, show_default=True, help="Confidence."
)


@command(
    "rates",
    examples=(
        "safemetry rates logs/ --by category --success non_refusal",
        "safemetry rates results.csv --judge judge-1 --volume 1e7 --json rates.json",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@names_option("--by", "by", metavar="COL,...", help="Columns to group by: category,attack.")
@_success
@_judge
@names_option("--metric", "metrics", metavar="NAME,...", help="Only these rates.")
@_cluster
@click.option("--volume", type=POSITIVE, metavar="N", help="Requests to project the rates onto.")
@_level
@click.option("--exact", is_flag=True, help="Clopper-Pearson intervals, as gates use.")
@click.option(
    "--inference",
    type=click.Choice(["sampled", "fixed"]),
    default="sampled",
    show_default=True,
    help="Whether the items are a sample or all of interest.",
)
@click.option(
    "--population",
    type=Whole(1),
    metavar="N",
    help="Independent items in the finite population that these were drawn from.",
)
@names_option(
    "--any-of", "any_of", metavar="K,...", help="Also the success of K attempts on one behaviour."
)
def rates(
    sources: tuple[str, ...],
    shared: Shared,
    success: str | None,
    judge: str | None,
    any_of: tuple[str, ...],
    inference: str,
    **options: Any,
) -> None:
    """Say how often each target went along, refused or helped, and how sure that is.

    Every rate comes with its interval, its ceiling (the highest rate that the evidence does not
    rule out), its denominator and what was missing.
    """
    from safemetry.cli.output import deliver
    from safemetry.evidence.success import SuccessRule
    from safemetry.rates import RateSettings, measure_rates

    settings = RateSettings(
        success=SuccessRule.parse(success) if success else None,
        any_of=tuple(_whole(text) for text in any_of),
        inference="sampled" if inference == "sampled" else "fixed items",
        **options,
    )
    finding = measure_rates(shared.evidence(sources, judge=judge), settings=settings)
    given = {
        "judge": judge,
        "population": settings.population,
        "volume": settings.volume,
        "metrics": settings.metrics,
        "any_of": settings.any_of,
    }
    finding = replace(finding, settings={**given, **finding.settings})
    deliver(finding, shared, _rate_tables(finding), *_rate_lines(finding))


def _whole(text: str) -> int:
    if not text.isdigit():
        raise click.UsageError(f"--any-of {text!r} is not a whole number.")
    return int(text)


def _shown(finding: RatesFinding) -> list[Claim]:
    """The claims that the tables show: all, but for complements of others that nobody asked for."""
    present = {claim.metric for claim in finding.claims}
    left_out = (
        set()
        if finding.settings["metrics"]
        else {name for name, other in _COMPLEMENTS.items() if other in present}
    )
    return [claim for claim in finding.claims if claim.metric not in left_out]


def _rate_tables(finding: RatesFinding) -> list[Table]:
    """One table per metric: who, under which judge, how often, how sure, what was missing."""
    claims = _shown(finding)
    return [
        _rate_table(metric, [claim for claim in claims if claim.metric == metric], finding)
        for metric in dict.fromkeys(claim.metric for claim in claims)
    ]


def _rate_table(metric: str, claims: Sequence[Claim], finding: RatesFinding) -> Table:
    from safemetry.claims import count, percent
    from safemetry.cli.output import Column, cell, table

    judges = {claim.scope.judge for claim in claims}
    benchmarks = {claim.scope.benchmark for claim in claims}
    by = [name for name in claims[0].scope.by if name not in {"target", "judge", "benchmark"}]
    title = f"{metric} (success: {finding.settings['success']}"
    title += f"; judge: {cell(*judges)})" if len(judges) == 1 else ")"
    made = table(
        title,
        *([Column("benchmark")] if len(benchmarks) > 1 else []),
        Column("target"),
        *([Column("judge")] if len(judges) > 1 else []),
        *(Column(name) for name in by),
        Column("rate", "right"),
        Column(f"{100 * claims[0].level:g}% interval", "right"),
        Column("ceiling", "right"),
        Column("events/trials", "right"),
        Column("missing", "right"),
        *(
            [Column("if missing", "right", optional=True)]
            if any(claim.missing.total for claim in claims)
            else []
        ),
    )
    for claim in claims:
        cells = [
            *([cell(claim.scope.benchmark)] if len(benchmarks) > 1 else []),
            cell(claim.scope.target),
            *([cell(claim.scope.judge)] if len(judges) > 1 else []),
            *(cell(claim.scope.by[name]) for name in by),
            "unknown" if claim.estimate is None else percent(claim.estimate),
            _range(claim.interval),
            "" if claim.ceiling is None else percent(claim.ceiling),
            f"{count(claim.events)}/{count(claim.trials)}",
            count(claim.missing.total),
            _range(claim.bounds_if_missing),
        ]
        made.add_row(*cells[: len(made.columns)])
    return made


def _range(ends: tuple[float, float] | None) -> str:
    """Two fractions as percentages with one sign."""
    from safemetry.claims import percent

    if ends is None:
        return ""
    return f"{percent(ends[0]).removesuffix('%')}-{percent(ends[1])}"


def _rate_lines(finding: RatesFinding) -> list[str]:
    if not finding.claims:
        why = (
            f"all {finding.unclassified:,} judge calls are on items of unknown intent"
            if finding.unclassified
            else "nothing here belongs to one of the rates"
        )
        return [f"No rate could be computed: {why}."]
    return [
        *_unknown_lines(finding.claims),
        *_missing_lines(finding),
        *_worst_lines(finding),
        *_projection_lines(_shown(finding)),
        *_any_of_k_lines(finding),
        *_complement_lines(finding),
    ]


def _unknown_lines(claims: Iterable[Claim]) -> list[str]:
    """Why rates are unknown."""
    reasons: dict[tuple[str, str], int] = {}
    for claim in claims:
        if claim.estimate is None:
            key = (claim.metric, claim.why.get("estimate", "not computed"))
            reasons[key] = reasons.get(key, 0) + 1
    return [
        f"{metric} is unknown in {number:,} {'row' if number == 1 else 'rows'}: {reason}."
        for (metric, reason), number in reasons.items()
    ]


def _missing_lines(finding: RatesFinding) -> list[str]:
    """Missing verdicts by reason; each response counts once, whatever it is divided into."""
    reasons: dict[str, int] = {}
    seen = set()
    for claim in finding.claims:
        is_harmful = claim.metric in {"attack_success_rate", "safe_recall"}
        scope = claim.scope
        key = (scope.benchmark, scope.target, scope.judge, *scope.by.items(), is_harmful)
        divided_by = {"refusal_precision", "discrimination_rate"}
        if claim.metric not in divided_by and key not in seen:
            seen.add(key)
            for reason, number in claim.missing.by_reason.items():
                reasons[reason] = reasons.get(reason, 0) + number
    listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reasons.items()))
    return [f"Missing verdicts by reason: {listed}."] if listed else []


def _worst_lines(finding: RatesFinding, most: int = 12) -> list[str]:
    """The group in which each target fails most; named among many, so with wider intervals."""
    from safemetry.claims import count, percent

    lines = []
    for cell in finding.worst[:most]:
        claim = cell.claim
        if claim.estimate is None or claim.interval is None or claim.ceiling is None:
            continue
        group = ", ".join(f"{name} {value}" for name, value in claim.scope.by.items())
        lines.append(
            f"Highest {claim.metric} of {claim.scope.target} (judge {claim.scope.judge}) among "
            f"{cell.cells:,} groups: {percent(claim.estimate)}, {count(claim.events)}/"
            f"{count(claim.trials)}, {count(claim.missing.total)} missing, in {group} "
            f"(simultaneous interval {_range(claim.interval)}, ceiling {percent(claim.ceiling)})."
        )
    if len(finding.worst) > most:
        lines.append(f"... and {len(finding.worst) - most:,} more; --json has them.")
    return lines


def _projection_lines(claims: Iterable[Claim]) -> list[str]:
    from safemetry.claims import count

    lines = []
    for claim in claims:
        if claim.projection is not None and claim.metric in {
            "attack_success_rate",
            "over_refusal_rate",
        }:
            low, high = claim.projection.interval
            group = "".join(f", {name} {value}" for name, value in claim.scope.by.items())
            lines.append(
                f"At {count(claim.projection.volume)} requests like these, {claim.metric} of "
                f"{claim.scope.target} (judge {claim.scope.judge}{group}) means "
                f"{claim.projection.estimate:,.0f} ({low:,.0f} to {high:,.0f}, at most "
                f"{claim.projection.ceiling:,.0f})."
            )
    return lines


def _any_of_k_lines(finding: RatesFinding) -> list[str]:
    from safemetry.claims import percent

    lines = []
    for entry in finding.any_of_k:
        group = "".join(f", {name} {value}" for name, value in entry.by.items())
        once = "unknown" if entry.per_attempt is None else percent(entry.per_attempt)
        said = (
            f"unknown ({entry.why.get('estimate', 'not computed')})"
            if entry.estimate is None
            else f"{percent(entry.estimate)} of {entry.behaviours:,} behaviours"
        )
        if entry.interval is not None:
            said += f" (interval {_range(entry.interval)})"
        behaviours = "behaviour" if entry.left_out == 1 else "behaviours"
        left_out = f"; {entry.left_out:,} {behaviours} had fewer" if entry.left_out else ""
        tries = (
            f"at least one of {entry.attempts} attempts" if entry.attempts > 1 else "one attempt"
        )
        lines.append(
            f"{entry.target} (judge {entry.judge}{group}), success in {tries}: {said}; "
            f"{once} per attempt{left_out}."
        )
    return lines


def _complement_lines(finding: RatesFinding) -> list[str]:
    present = dict.fromkeys(claim.metric for claim in finding.claims)
    shown = {claim.metric for claim in _shown(finding)}
    pairs = [f"{name} = 1 - {_COMPLEMENTS[name]}" for name in present if name not in shown]
    return [f"Not shown: {' and '.join(pairs)}; --json and --metric have them."] if pairs else []


@command(
    "compare",
    examples=(
        "safemetry compare study/ --baseline model-1 --candidate model-2",
        "safemetry compare --baseline old.eval --candidate new.eval --by category",
        "safemetry compare study/ --baseline run:may --candidate run:june",
    ),
)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option(
    "--baseline", required=True, metavar="SIDE", help="A target, run:ID, or a source of its own."
)
@click.option(
    "--candidate", required=True, metavar="SIDE", help="A target, run:ID, or a source of its own."
)
@names_option("--by", "by", metavar="COL,...", help="Columns to compare within: category.")
@_success
@_judge
@_cluster
@_level
@click.option(
    "--power",
    type=SHARE,
    metavar="P",
    default=0.8,
    show_default=True,
    help="Power of the minimum detectable difference.",
)
@click.option("--shared-items", is_flag=True, help="Compare on the items that both sides have.")
def compare(
    sources: tuple[str, ...],
    shared: Shared,
    baseline: str,
    candidate: str,
    success: str | None,
    judge: str | None,
    **options: Any,
) -> None:
    """Compare two targets or releases on the same items.

    The two sides must have the same items, judge and success rule; if they do not, the command
    says what differs. A side is a target or a run of SOURCE, or a source of its own.
    """
    from safemetry.cli.output import deliver
    from safemetry.errors import InputError, ScopeMismatchError
    from safemetry.evidence.success import SuccessRule
    from safemetry.rates import CompareSettings, compare_rates

    settings = CompareSettings(
        success=SuccessRule.parse(success) if success else None, seed=shared.seed, **options
    )
    whole = shared.evidence(sources) if sources else None
    sides = [
        _side(shared, whole, name, side, judge)
        for name, side in (("baseline", baseline), ("candidate", candidate))
    ]
    try:
        finding = compare_rates(None, *sides, settings=settings)
    except ScopeMismatchError as error:
        if error.parts.keys() & {"items"} and not settings.shared_items:
            raise InputError(str(error), fix="compare with --shared-items") from error
        raise
    given = {"baseline": baseline, "candidate": candidate, "judge": judge, "sources": sources}
    finding = replace(finding, settings={**given, **finding.settings})
    deliver(finding, shared, [_comparison_table(finding)], *_comparison_lines(finding))


def _side(
    shared: Shared, whole: Evidence | None, name: str, side: str, judge: str | None
) -> Evidence:
    """The evidence of a side: a part of what was read, or a source of its own."""
    from safemetry.cli.options import only_judge
    from safemetry.errors import InputError
    from safemetry.rates import select_side

    if whole is not None and (side in whole.targets_seen or side.startswith("run:")):
        found = select_side(whole, side)
        return found if judge is None else only_judge(found, judge)
    if Path(side).exists() or "://" in side:
        return shared.evidence((side,), judge=judge)
    if whole is None:
        raise InputError(
            f"--{name}: there is no file or folder {side!r}",
            fix="where it is a target or a run, name the SOURCE that holds it",
        )
    raise InputError(
        f"--{name}: {side!r} is neither a target nor a file",
        fix=f"the targets are {listing(whole.targets_seen)}; a run is written run:ID",
    )


def _comparison_table(finding: ComparisonFinding) -> Table:
    from safemetry.claims import count, percent
    from safemetry.cli.output import Column, cell, table

    entries = finding.comparisons
    by = list(entries[0].by)
    judges = {entry.judge for entry in entries}
    first = entries[0]
    title = (
        f"{cell(first.candidate_name)} minus {cell(first.baseline_name)}, in "
        f"percentage points (success: {finding.settings['success']}"
    )
    title += f"; judge: {cell(*judges)})" if len(judges) == 1 else ")"
    made = table(
        title,
        *([Column("judge")] if len(judges) > 1 else []),
        *(Column(name) for name in by),
        Column("metric"),
        Column("diff", "right"),
        Column(f"{100 * first.level:g}% interval", "right"),
        Column("p", "right"),
        Column("detectable", "right"),
        Column("pairs", "right"),
        Column("unpaired", "right"),
        Column("baseline", "right", optional=True),
        Column("candidate", "right", optional=True),
    )
    for entry in entries:
        ends = [
            "unknown"
            if side.estimate is None
            else f"{percent(side.estimate)} of {count(side.trials)}"
            for side in (entry.baseline, entry.candidate)
        ]
        low, high = entry.interval or (0.0, 0.0)
        made.add_row(
            *([cell(entry.judge)] if len(judges) > 1 else []),
            *(cell(entry.by[name]) for name in by),
            entry.metric,
            "unknown" if entry.difference is None else f"{100 * entry.difference:+.1f}",
            "" if entry.interval is None else f"{100 * low:+.1f} to {100 * high:+.1f}",
            "" if entry.p_adjusted is None else f"{entry.p_adjusted:.2g}",
            "" if entry.minimum_detectable is None else f"{100 * entry.minimum_detectable:.1f}",
            count(entry.pairs),
            count(entry.unpaired),
            *ends,
        )
    return made


def _comparison_lines(finding: ComparisonFinding) -> list[str]:
    """Every comparison in words where there are few, else how many differ."""
    entries = finding.comparisons
    if len(entries) <= _SENTENCES:
        return [entry.sentence() for entry in entries]
    level = entries[0].level
    known = [entry for entry in entries if entry.p_adjusted is not None]
    different = sum(entry.conclusion == "differs" for entry in known)
    undecided = sum(entry.conclusion == "undecided" for entry in known)
    said = (
        f"{different} of {len(known)} comparisons differ at {100 * level:g}% confidence (p "
        "adjusted by Holm over the groups of a metric and judge). A difference under the "
        "detectable one would mostly be missed."
    )
    lines = [said]
    if undecided:
        lines.append(f"{undecided} undecided: test and interval disagree, too little evidence.")
    for metric in dict.fromkeys(entry.metric for entry in entries if entry.difference is None):
        reasons = [
            entry.why.get("difference", "not computed")
            for entry in entries
            if entry.metric == metric and entry.difference is None
        ]
        lines.append(f"{metric} is unknown in {len(reasons):,} rows: {reasons[0]}.")
    return lines


@command(
    "plan",
    examples=(
        "safemetry plan --ceiling 0.001 --failures 1",
        "safemetry plan --ceiling 0.1% --volume 1e7",
        "safemetry plan study/",
    ),
)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--ceiling", type=SHARE, metavar="P", help="Failure rate to stay under.")
@click.option(
    "--failures",
    type=Whole(0),
    metavar="N",
    default=0,
    show_default=True,
    help="Failures that may happen.",
)
@click.option(
    "--confidence", type=SHARE, metavar="P", default=0.95, show_default=True, help="One-sided."
)
@click.option("--volume", type=POSITIVE, metavar="N", help="Requests to project the ceiling onto.")
@click.option("--success", metavar="RULE", help="Success rule, with a SOURCE. [default: comply]")
def plan(
    sources: tuple[str, ...],
    shared: Shared,
    ceiling: float | None,
    failures: int,
    confidence: float,
    volume: float | None,
    success: str | None,
) -> None:
    """Say how many trials a statement needs.

    With --ceiling: the fewest independent trials after which the failure rate is known to be low
    enough. With a SOURCE: where the variance of its outcomes lies, and whether more items or more
    repeats of each would make a target's rate more precise.
    """
    from safemetry.cli.output import deliver, table
    from safemetry.rates import plan_repeats, plan_trials

    if ceiling is None and not sources:
        raise click.UsageError("Give --ceiling, such as --ceiling 0.001, or a SOURCE.")
    if ceiling is not None and sources:
        raise click.UsageError("Give either --ceiling or a SOURCE, not both.")
    if ceiling is not None:
        planned = plan_trials(ceiling, failures=failures, confidence=confidence, volume=volume)
        deliver(planned, shared, [], planned.sentence())
        return
    finding = plan_repeats(shared.evidence(sources), success=success)
    made = table(
        f"Precision of a target's rate at the same number of responses "
        f"(success: {finding.settings['success']})",
        ("items", "right"),
        ("repeats", "right"),
        ("standard error", "right"),
    )
    for row in finding.plans:
        error = row["standard_error"]
        made.add_row(
            f"{row['items']:,}", str(row["epochs"]), "unknown" if error is None else f"{error:.4f}"
        )
    reasons = list(dict.fromkeys(row["why"].get("standard_error", "") for row in finding.plans))
    lines = [finding.sentence(), *(f"Unknown: {reason}." for reason in reasons if reason)]
    deliver(finding, shared, [made], *lines)


@command(
    "coverage",
    examples=("safemetry coverage study/", "safemetry coverage logs/ --judge judge-1 --json -"),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@_success
@_judge
@_level
def coverage(
    sources: tuple[str, ...], shared: Shared, success: str | None, judge: str | None, level: float
) -> None:
    """Show which categories were tried under which attacks, and which never were."""
    from safemetry.cli.output import deliver
    from safemetry.rates import cover

    finding = cover(shared.evidence(sources, judge=judge), success=success, level=level)
    finding = replace(finding, settings={**finding.settings, "judge": judge})
    deliver(finding, shared, _coverage_tables(finding), finding.sentence())


def _coverage_tables(finding: CoverageFinding) -> list[Table]:
    """The cells that were tried, and the ones that never were, whoever would have judged them."""
    from safemetry.claims import percent
    from safemetry.cli.output import Column, cell, table

    judges = {entry.judge for entry in finding.grid}
    title = f"Harmful items tried (success: {finding.settings['success']}"
    title += f"; judge: {cell(*judges)})" if len(judges) == 1 else ")"
    tried = table(
        title,
        Column("category"),
        Column("attack"),
        *([Column("judge")] if len(judges) > 1 else []),
        Column("items", "right"),
        Column("violations/trials", "right"),
        Column("missing", "right"),
        Column("ceiling", "right"),
    )
    for entry in finding.grid:
        if entry.tested:
            tried.add_row(
                cell(entry.category),
                cell(entry.attack),
                *([cell(entry.judge)] if len(judges) > 1 else []),
                f"{entry.items:,}",
                f"{entry.violations:,}/{entry.trials:,}",
                f"{entry.missing:,}",
                "unknown" if entry.ceiling is None else percent(entry.ceiling),
            )
    seen = {(entry.category, entry.attack) for entry in finding.grid if entry.tested}
    never = table("Never tried", Column("category"), Column("attack"))
    for category, attack in dict.fromkeys((entry.category, entry.attack) for entry in finding.grid):
        if (category, attack) not in seen:
            never.add_row(cell(category), cell(attack))
    return [made for made in (tried, never) if made.rows]
