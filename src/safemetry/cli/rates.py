"""`safemetry rates`: claims on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.counting_options import (
    cluster_option,
    judge_option,
    level_option,
    success_option,
)
from safemetry.cli.options import (
    POSITIVE,
    Shared,
    Whole,
    command,
    names_option,
)

if TYPE_CHECKING:
    from safemetry.claims import Claim
    from safemetry.cli.tables import Table
    from safemetry.rates import RatesFinding

_COMPLEMENTS: Final = {"safe_recall": "attack_success_rate", "help_rate": "over_refusal_rate"}
"""Rates that say nothing beyond another one, which the tables show in their place."""


@command(
    "rates",
    examples=(
        "safemetry rates logs/ --by category --success non_refusal",
        "safemetry rates results.csv --judge judge-1 --volume 1e7 --json rates.json",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@names_option("--by", "by", metavar="COL,...", help="Columns to group by: category,attack.")
@success_option
@judge_option
@names_option("--metric", "metrics", metavar="NAME,...", help="Only these rates.")
@cluster_option
@click.option("--volume", type=POSITIVE, metavar="N", help="Requests to project the rates onto.")
@level_option
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
    from safemetry.cli.output import Column, table
    from safemetry.display import shown

    judges = {claim.scope.judge for claim in claims}
    benchmarks = {claim.scope.benchmark for claim in claims}
    by = [name for name in claims[0].scope.by if name not in {"target", "judge", "benchmark"}]
    title = f"{metric} (success: {finding.settings['success']}"
    title += f"; judge: {shown(next(iter(judges)))})" if len(judges) == 1 else ")"
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
            *([shown(claim.scope.benchmark)] if len(benchmarks) > 1 else []),
            shown(claim.scope.target),
            *([shown(claim.scope.judge)] if len(judges) > 1 else []),
            *(shown(claim.scope.by[name]) for name in by),
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
