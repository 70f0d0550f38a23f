"""Commands that count: rates, compare, plan, coverage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safemetry.cli.options import Shared, comma_list, example, shared_options

if TYPE_CHECKING:
    from rich.table import Table

    from safemetry.evidence.evidence import Evidence
    from safemetry.rates import ComparisonFinding, CoverageFinding, RatesFinding

_SHOWN = 40


@click.command(epilog=example("safemetry rates logs/ --by category --success non_refusal"))
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--by", callback=comma_list, help="Columns to group by, such as category,attack.")
@click.option(
    "--success",
    metavar="RULE",
    help="comply, non_refusal or at_least:x, then /each, "
    "/majority or /unanimous. [default: comply]",
)
@click.option("--judge", help="Only this judge.")
@click.option("--metric", "metrics", callback=comma_list, help="Only these rates.")
@click.option(
    "--cluster",
    default="behaviour",
    show_default=True,
    help="Item column whose values are independent.",
)
@click.option("--volume", type=float, help="Requests to project the rates onto.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence.")
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
    type=click.IntRange(min=1),
    help="Independent items in the finite population sampled from.",
)
@click.option(
    "--any-of",
    "any_of",
    callback=comma_list,
    metavar="K,...",
    help="Success of K attempts on one behaviour.",
)
@shared_options
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

    Every rate comes with its interval, its ceiling (the highest failure rate that the evidence
    does not rule out), its denominator and what was missing.
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
    evidence = shared.evidence(sources)
    if judge is not None:
        evidence = evidence.filter(judge=judge)
    finding = measure_rates(evidence, settings=settings)
    deliver(finding, shared, _rate_tables(finding), *_rate_lines(finding))


def _whole(text: str) -> int:
    if not text.isdigit():
        raise click.UsageError(f"--any-of {text!r} is not a whole number")
    return int(text)


def _rate_tables(finding: RatesFinding) -> list[Table]:
    """One table per metric: who, under which judge, how often, how sure, what was missing."""
    from safemetry.claims import count, percent
    from safemetry.cli.output import cell, table

    tables = []
    for metric in dict.fromkeys(claim.metric for claim in finding.claims):
        claims = [claim for claim in finding.claims if claim.metric == metric]
        judges = {claim.scope.judge for claim in claims}
        benchmarks = {claim.scope.benchmark for claim in claims}
        by = list(claims[0].scope.by)
        title = f"{metric}  (success: {finding.settings['success']}"
        title += f"; judge: {cell(*judges)})" if len(judges) == 1 else ")"
        made = table(
            title,
            *([("benchmark", "left")] if len(benchmarks) > 1 else []),
            ("target", "left"),
            *([("judge", "left")] if len(judges) > 1 else []),
            *((name, "left") for name in by),
            ("rate", "right"),
            ("interval", "right"),
            ("ceiling", "right"),
            ("events/trials", "right"),
            ("missing", "right"),
        )
        for claim in claims[:_SHOWN]:
            unknown = claim.estimate is None or claim.interval is None or claim.ceiling is None
            made.add_row(
                *([cell(claim.scope.benchmark)] if len(benchmarks) > 1 else []),
                cell(claim.scope.target),
                *([cell(claim.scope.judge)] if len(judges) > 1 else []),
                *(cell(claim.scope.by[name]) for name in by),
                "unknown" if unknown else percent(claim.estimate or 0.0),
                "" if unknown else "{}-{}".format(*map(percent, claim.interval or ())),
                "" if unknown else percent(claim.ceiling or 0.0),
                f"{count(claim.events)}/{count(claim.trials)}",
                count(claim.missing.total),
            )
        if len(claims) > _SHOWN:
            made.caption = f"{len(claims) - _SHOWN:,} more rows: use --json"
        tables.append(made)
    return tables


def _rate_lines(finding: RatesFinding) -> list[str]:
    from safemetry.claims import count, percent

    lines = []
    reasons: dict[str, int] = {}
    seen = set()
    for claim in finding.claims:
        key = (
            claim.scope.benchmark,
            claim.scope.target,
            claim.scope.judge,
            *claim.scope.by.items(),
            claim.metric in {"attack_success_rate", "safe_recall"},
        )
        if (
            claim.metric in {"attack_success_rate", "help_rate", "refusal_rate", "rewarded_rate"}
            and key not in seen
        ):
            seen.add(key)
            for reason, number in claim.missing.by_reason.items():
                reasons[reason] = reasons.get(reason, 0) + number
    if reasons:
        listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reasons.items()))
        lines.append(f"Missing verdicts by reason: {listed}.")
    for claim in finding.claims:
        if claim.projection is not None and claim.metric in {
            "attack_success_rate",
            "over_refusal_rate",
        }:
            low, high = claim.projection.interval
            lines.append(
                f"At {count(claim.projection.volume)} requests, {claim.metric} of "
                f"{claim.scope.target} (judge {claim.scope.judge}) means "
                f"{claim.projection.estimate:,.0f} ({low:,.0f} to {high:,.0f}, at most "
                f"{claim.projection.ceiling:,.0f})."
            )
    for entry in finding.any_of_k:
        said = "unknown" if entry.estimate is None else percent(entry.estimate)
        once = "unknown" if entry.per_attempt is None else percent(entry.per_attempt)
        lines.append(
            f"{entry.target} (judge {entry.judge}): {said} of {entry.behaviours:,} behaviours fall "
            f"to one of {entry.attempts} attempts; {once} per attempt."
        )
    return lines


@click.command(epilog=example("safemetry compare study/ --baseline model-1 --candidate model-2"))
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--baseline", required=True, help="A target, run:ID or a source.")
@click.option("--candidate", required=True, help="A target, run:ID or a source.")
@click.option("--by", callback=comma_list, help="Columns to compare within, such as category.")
@click.option("--success", metavar="RULE", help="Success rule. [default: comply]")
@click.option("--judge", help="Only this judge.")
@click.option(
    "--cluster",
    default="behaviour",
    show_default=True,
    help="Item column whose values are independent.",
)
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence.")
@click.option(
    "--power",
    type=float,
    default=0.8,
    show_default=True,
    help="Power of the minimum detectable difference.",
)
@click.option("--shared-items", is_flag=True, help="Compare on the items that both sides have.")
@shared_options
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
    says what differs.
    """
    from safemetry.cli.output import deliver
    from safemetry.evidence.success import SuccessRule
    from safemetry.rates import CompareSettings, compare_rates

    settings = CompareSettings(
        success=SuccessRule.parse(success) if success else None, seed=shared.seed, **options
    )
    whole = shared.evidence(sources) if sources else None
    sides = [_side(shared, whole, side, judge) for side in (baseline, candidate)]
    finding = compare_rates(None, *sides, settings=settings)
    deliver(finding, shared, [_comparison_table(finding)], *finding.sentence().splitlines())


def _side(shared: Shared, whole: Evidence | None, side: str, judge: str | None) -> Evidence:
    from safemetry.rates import select_side

    known = whole is not None and (side in whole.targets_seen or side.startswith("run:"))
    if known or (whole is not None and not Path(side).exists() and "://" not in side):
        found = select_side(whole, side)
    else:
        found = shared.evidence((side,))
    return found if judge is None else found.filter(judge=judge)


def _comparison_table(finding: ComparisonFinding) -> Table:
    from safemetry.claims import count
    from safemetry.cli.output import cell, table

    by = list(finding.comparisons[0].by)
    made = table(
        f"candidate - baseline, in points  (success: {finding.settings['success']})",
        ("metric", "left"),
        ("judge", "left"),
        *((name, "left") for name in by),
        ("diff", "right"),
        ("interval", "right"),
        ("p", "right"),
        ("detectable", "right"),
        ("pairs", "right"),
        ("unpaired", "right"),
    )
    for entry in finding.comparisons:
        unknown = entry.difference is None or entry.interval is None or entry.p_adjusted is None
        least = entry.minimum_detectable
        made.add_row(
            entry.metric,
            cell(entry.judge),
            *(cell(entry.by[name]) for name in by),
            "unknown" if unknown else f"{100 * (entry.difference or 0):+.1f}",
            "" if unknown else "[{:+.1f},{:+.1f}]".format(*(100 * x for x in entry.interval or ())),
            "" if unknown else f"{entry.p_adjusted:.2g}",
            "" if least is None else f"{100 * least:.1f}",
            count(entry.pairs),
            count(entry.unpaired),
        )
    return made


@click.command(epilog=example("safemetry plan --ceiling 0.001 --failures 1"))
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--ceiling", type=float, help="Failure rate to stay under.")
@click.option(
    "--failures",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Failures that may happen.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="One-sided.")
@click.option("--volume", type=float, help="Requests to project the ceiling onto.")
@click.option("--success", metavar="RULE", help="Success rule, with a source.")
@shared_options
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

    With --ceiling: the fewest trials after which the failure rate is known to be low enough. With
    a SOURCE: where the variance of its outcomes lies, and whether more items or more repeats of
    each would make a target's rate more precise.
    """
    from safemetry.cli.output import deliver, table
    from safemetry.rates import plan_repeats, plan_trials

    if (ceiling is None) == (not sources):
        raise click.UsageError("give either --ceiling or a SOURCE")
    if ceiling is not None:
        planned = plan_trials(ceiling, failures=failures, confidence=confidence, volume=volume)
        deliver(planned, shared, [], planned.sentence())
        return
    finding = plan_repeats(shared.evidence(sources), success=success)
    made = table(
        "Precision of a target's rate at the same number of responses",
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


@click.command(epilog=example("safemetry coverage study/"))
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--success", metavar="RULE", help="Success rule. [default: comply]")
@click.option("--judge", help="Only this judge.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence.")
@shared_options
def coverage(
    sources: tuple[str, ...], shared: Shared, success: str | None, judge: str | None, level: float
) -> None:
    """Show which categories were tried under which attacks, and which never were."""
    from safemetry.cli.output import deliver
    from safemetry.rates import cover

    evidence = shared.evidence(sources)
    if judge is not None:
        evidence = evidence.filter(judge=judge)
    finding = cover(evidence, success=success, level=level)
    deliver(finding, shared, [_coverage_table(finding)], finding.sentence())


def _coverage_table(finding: CoverageFinding) -> Table:
    from safemetry.claims import percent
    from safemetry.cli.output import cell, table

    judges = {entry.judge for entry in finding.grid}
    made = table(
        f"Harmful items tried  (success: {finding.settings['success']})",
        ("category", "left"),
        ("attack", "left"),
        *([("judge", "left")] if len(judges) > 1 else []),
        ("violations/trials", "right"),
        ("missing", "right"),
        ("ceiling", "right"),
    )
    for entry in finding.grid[:200]:
        made.add_row(
            cell(entry.category),
            cell(entry.attack),
            *([cell(entry.judge)] if len(judges) > 1 else []),
            f"{entry.violations:,}/{entry.trials:,}" if entry.tested else "never tested",
            f"{entry.missing:,}" if entry.tested else "",
            "unknown" if entry.ceiling is None else percent(entry.ceiling),
        )
    if len(finding.grid) > 200:
        made.caption = f"{len(finding.grid) - 200:,} more rows: use --json"
    return made
