"""Commands that keep evidence: import, check, correct, items, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safemetry.cli import EXIT_FAILED, EXIT_INPUT
from safemetry.cli.options import Shared, example, shared_options

if TYPE_CHECKING:
    from safemetry.readers import ImportFinding

_SHOWN = 40


@click.command("import", epilog=example("safemetry import logs/*.eval --into study/"))
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--into",
    "study",
    required=True,
    type=click.Path(path_type=Path),
    metavar="STUDY",
    help="Directory of the study; created where there is none.",
)
@shared_options
def import_(sources: tuple[str, ...], shared: Shared, study: Path) -> int:
    """Read logs and tables into a study.

    Each source goes in whole or not at all; the same source twice adds nothing. Every row is
    converted, skipped with a reason, or failed, and the report says which.
    """
    from safemetry.cli.output import deliver, note
    from safemetry.readers import import_sources

    if shared.filters:
        raise click.UsageError("--filter does not apply to an import: a study keeps what it reads")
    finding = import_sources(sources, study, evidence_map=shared.evidence_map(), kind=shared.kind)
    deliver(finding, shared, [_import_table(finding)], *_skipped_lines(finding), finding.sentence())
    for report in finding.sources_read:
        for problem in report.problems:
            click.echo(f"Error: {problem}", err=True)
    if not any(report.format for report in finding.sources_read):
        note("Nothing here was recognised; say what it is with --as.")
        return EXIT_INPUT
    return 0 if finding.complete else EXIT_INPUT


def _import_table(finding: ImportFinding) -> Any:
    from safemetry.cli.output import cell, table

    made = table(
        "Sources",
        ("source", "left"),
        ("format", "left"),
        ("rows", "right"),
        ("converted", "right"),
        ("skipped", "right"),
        ("failed", "right"),
        ("judgements", "right"),
    )
    for report in finding.sources_read[:_SHOWN]:
        known = report.format and not report.problems and not report.added
        made.add_row(
            cell(Path(report.path).name),
            cell(report.format or "(none)"),
            f"{report.rows_read:,}",
            f"{report.converted:,}",
            f"{sum(report.skipped.values()):,}",
            f"{report.failed:,}",
            "there already" if known else f"{report.judgements:,}",
        )
    if len(finding.sources_read) > _SHOWN:
        made.caption = f"{len(finding.sources_read) - _SHOWN:,} more sources: use --json"
    return made


def _skipped_lines(finding: ImportFinding) -> list[str]:
    """Why rows were skipped, over all sources."""
    reasons: dict[str, int] = {}
    for report in finding.sources_read:
        for reason, number in report.skipped.items():
            reasons[reason] = reasons.get(reason, 0) + number
    listed = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items() if number)
    return [f"Skipped rows: {listed}."] if listed else []


@click.command(epilog=example("safemetry check study/"))
@click.argument("study", type=click.Path(path_type=Path), metavar="STUDY")
@shared_options
def check(study: Path, shared: Shared) -> int:
    """Verify a study: digests, totals, keys, judges, labels, corrections, orphans.

    Leaves with exit code 1 where anything is wrong.
    """
    from safemetry.cli.output import cell, deliver, table
    from safemetry.evidence.check import check_study
    from safemetry.readers.checking import CheckFinding

    finding = CheckFinding(settings={"study": str(study)}, problems=tuple(check_study(study)))
    made = table("Problems", ("kind", "left"), ("file", "left"), ("what", "left"), ("fix", "left"))
    for problem in finding.problems[:_SHOWN]:
        made.add_row(
            cell(problem.kind), cell(problem.file), cell(problem.detail), cell(problem.fix)
        )
    deliver(finding, shared, [made] if finding.problems else [], finding.sentence())
    return EXIT_FAILED if finding.failed else 0


@click.command(
    epilog=example("safemetry correct study/ fixes.csv --by 'A. Reviewer' --why 'misread'")
)
@click.argument("study", type=click.Path(path_type=Path), metavar="STUDY")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--by", "who", required=True, metavar="NAME", help="Who corrects.")
@click.option("--why", required=True, metavar="TEXT", help="Why.")
@shared_options
def correct(study: Path, file: Path, who: str, why: str, shared: Shared) -> None:
    """Correct judgements without editing them.

    FILE is a table with the columns of the key (target, item, judge, ...), `field` and `value`,
    one row per correction. The evidence stays as it was; corrections are applied when it is read.
    """
    from safemetry.cli.output import deliver
    from safemetry.evidence.corrections import correct as apply_corrections
    from safemetry.evidence.study import Study
    from safemetry.readers.checking import CorrectionFinding

    count = apply_corrections(Study.open(study), file, who=who, why=why)
    finding = CorrectionFinding(
        settings={"study": str(study), "file": str(file), "by": who, "why_corrected": why},
        corrected=count,
    )
    deliver(finding, shared, [], finding.sentence())


@click.command(epilog=example("safemetry items study/ --where violation --filter target=model-1"))
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--where",
    required=True,
    type=click.Choice(["violation", "missing", "disagree"]),
    help="What happened on the item, for any target and judge.",
)
@click.option("--success", metavar="RULE", help="Success rule. [default: comply]")
@click.option("--judge", help="Only this judge.")
@shared_options
def items(
    sources: tuple[str, ...], shared: Shared, where: str, success: str | None, judge: str | None
) -> None:
    """List the ids of items that broke, were not judged, or divide the judges."""
    from safemetry.cli.output import cell, deliver, table
    from safemetry.rates import find_items

    evidence = shared.evidence(sources)
    if judge is not None:
        evidence = evidence.filter(judge=judge)
    finding = find_items(evidence, where, success=success)  # type: ignore[arg-type]
    made = table(f"Items: {where}", ("item", "left"))
    for item in finding.items[:_SHOWN]:
        made.add_row(cell(item))
    if len(finding.items) > _SHOWN:
        made.caption = f"{len(finding.items) - _SHOWN:,} more items: use --json"
    deliver(finding, shared, [made] if finding.items else [], finding.sentence())


@click.command(epilog=example("safemetry export study/ --to csv -o judgements.csv"))
@click.argument("sources", nargs=-1, required=True, metavar="STUDY")
@click.option("--to", "to", required=True, type=click.Choice(["parquet", "csv"]), help="Format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to. [default: judgements.FORMAT]",
)
@shared_options
def export(sources: tuple[str, ...], to: str, output: Path | None, shared: Shared) -> None:
    """Write the tidy judgements table, corrections applied.

    Cells of a CSV that a spreadsheet would run as a formula get a leading apostrophe.
    """
    from safemetry.cli.output import deliver
    from safemetry.evidence.export import export_table
    from safemetry.readers.checking import ExportFinding

    path = output or Path(f"judgements.{to}")
    table = shared.evidence(sources).rows.collect("pyarrow").to_arrow()
    export_table(table, path, to=to)  # type: ignore[arg-type]
    finding = ExportFinding(
        settings={"to": to, "sources": sources}, path=str(path), rows=table.num_rows
    )
    deliver(finding, shared, [], finding.sentence())
