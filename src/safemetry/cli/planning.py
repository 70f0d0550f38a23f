"""What to test next: plan and coverage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from safemetry.cli.counting_options import (
    judge_option,
    level_option,
    success_option,
)
from safemetry.cli.options import (
    POSITIVE,
    SHARE,
    Shared,
    Whole,
    command,
)

if TYPE_CHECKING:
    from safemetry.cli.tables import Table
    from safemetry.rates import CoverageFinding


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
@success_option
@judge_option
@level_option
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
    from safemetry.cli.output import Column, table
    from safemetry.display import shown

    judges = {entry.judge for entry in finding.grid}
    title = f"Harmful items tried (success: {finding.settings['success']}"
    title += f"; judge: {shown(next(iter(judges)))})" if len(judges) == 1 else ")"
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
                shown(entry.category),
                shown(entry.attack),
                *([shown(entry.judge)] if len(judges) > 1 else []),
                f"{entry.items:,}",
                f"{entry.violations:,}/{entry.trials:,}",
                f"{entry.missing:,}",
                "unknown" if entry.ceiling is None else percent(entry.ceiling),
            )
    seen = {(entry.category, entry.attack) for entry in finding.grid if entry.tested}
    never = table("Never tried", Column("category"), Column("attack"))
    for category, attack in dict.fromkeys((entry.category, entry.attack) for entry in finding.grid):
        if (category, attack) not in seen:
            never.add_row(shown(category), shown(attack))
    return [made for made in (tried, never) if made.rows]
