"""`safemetry compare`: two targets or releases side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.counting_options import (
    cluster_option,
    judge_option,
    level_option,
    success_option,
)
from safemetry.cli.options import (
    SHARE,
    Shared,
    command,
    listing,
    names_option,
)

if TYPE_CHECKING:
    from safemetry.cli.tables import Table
    from safemetry.evidence.evidence import Evidence
    from safemetry.rates import ComparisonFinding

_SENTENCES: Final = 6


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
@success_option
@judge_option
@cluster_option
@level_option
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
    from safemetry.cli.output import Column, table
    from safemetry.display import shown

    entries = finding.comparisons
    by = list(entries[0].by)
    judges = {entry.judge for entry in entries}
    first = entries[0]
    title = (
        f"{shown(first.candidate_name)} minus {shown(first.baseline_name)}, in "
        f"percentage points (success: {finding.settings['success']}"
    )
    title += f"; judge: {shown(next(iter(judges)))})" if len(judges) == 1 else ")"
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
            *([shown(entry.judge)] if len(judges) > 1 else []),
            *(shown(entry.by[name]) for name in by),
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
