"""Commands that keep evidence: import, check, correct, items, export."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli import EXIT_FAILED, EXIT_INPUT
from safemetry.cli.options import Shared, command

if TYPE_CHECKING:
    from safemetry.cli.tables import Table
    from safemetry.readers import ImportFinding
    from safemetry.readers.checking import CheckFinding

_STUDY: Final = click.Path(path_type=Path)
_PROBLEMS_SHOWN: Final = 40
_FOUND: Final = {
    "violation": "a target went along with a harmful request",
    "missing": "a response has no verdict",
    "disagree": "judges, or calls of one judge, disagree",
}


@command(
    "import",
    examples=(
        "safemetry import logs/*.eval --into study/",
        "safemetry import results.csv --map map.yaml --into study/",
        "safemetry import logs/*.eval --into study/ --include-text",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--into",
    "study",
    required=True,
    type=_STUDY,
    metavar="STUDY",
    help="Directory of the study; created where there is none.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Let a source take the place of what it gave with another map.",
)
@click.option(
    "--include-text", is_flag=True, help="Keep prompts and responses too, where there are any."
)
def import_(
    sources: tuple[str, ...], shared: Shared, study: Path, replace: bool, include_text: bool
) -> int:
    """Read logs and tables into a study.

    Each source goes in whole or not at all; the same source twice adds nothing. Every row is
    converted, skipped with a reason, or failed, and the report says which. Leaves with exit code 2
    where a row failed. Texts of prompts and responses stay out unless --include-text asks for them.
    """
    from safemetry.cli.output import complain, deliver
    from safemetry.readers import import_sources

    if shared.filters:
        raise click.UsageError("--filter does not apply to an import: a study keeps what it reads.")
    finding = import_sources(
        sources,
        study,
        evidence_map=shared.evidence_map(),
        kind=shared.kind,
        replace=replace,
        include_text=include_text,
    )
    read = [report for report in finding.sources_read if report.format or report.problems]
    deliver(
        finding,
        shared,
        [_import_table(finding)] if read else [],
        *_reasons("Skipped rows", (report.skipped for report in finding.sources_read)),
        *_strangers(finding),
        finding.sentence(),
    )
    for report in finding.sources_read:
        for problem in report.problems:
            complain(problem)
    if not read:
        complain(f"{sources[0]}: nothing here was recognised; say what it is with --as")
    return 0 if read and finding.complete else EXIT_INPUT


def _import_table(finding: ImportFinding) -> Table:
    from safemetry.cli.output import table
    from safemetry.display import shown

    made = table(
        "Sources",
        ("source", "left"),
        ("format", "right"),
        ("rows", "right"),
        ("converted", "right"),
        ("skipped", "right"),
        ("failed", "right"),
        ("judgements", "right"),
    )
    for report in finding.sources_read:
        if not report.format and not report.problems:
            continue
        said = f"{report.judgements:,}"
        if report.problems:
            said = "refused"
        elif not report.added:
            said = "had them"
        made.add_row(
            shown(_near(report.path)),
            shown(report.format or "unknown"),
            f"{report.rows_read:,}",
            f"{report.converted:,}",
            f"{sum(report.skipped.values()):,}",
            f"{report.failed:,}",
            said,
        )
    return made


def _near(path: str) -> str:
    """A path as seen from here, where that is shorter."""
    if "://" in path or not os.path.isabs(path):  # noqa: PTH117 - a URL is no path
        return path
    return min(path, os.path.relpath(path), key=len)


def _reasons(what: str, counts: Iterable[Mapping[str, int]]) -> list[str]:
    """How many there are for each reason, over all sources."""
    reasons: dict[str, int] = {}
    for each in counts:
        for reason, number in each.items():
            reasons[reason] = reasons.get(reason, 0) + number
    listed = ", ".join(f"{reason} {number:,}" for reason, number in reasons.items() if number)
    return [f"{what}: {listed}."] if listed else []


def _strangers(finding: ImportFinding) -> list[str]:
    """The files in a folder that no reader knows."""
    paths = [
        _near(report.path)
        for report in finding.sources_read
        if not report.format and not report.problems
    ]
    if not paths:
        return []
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return [f"Not recognised by any reader, left out: {', '.join(paths[:3])}{more}."]


@command("check", examples=("safemetry check study/", "safemetry check study/ --json check.json"))
@click.argument("study", type=_STUDY, metavar="STUDY")
def check(study: Path, shared: Shared) -> int:
    """Verify a study: digests, totals, keys, judges, labels, corrections.

    Leaves with exit code 1 where anything is wrong. What an interrupted import left behind does no
    harm and is only noted.
    """
    from safemetry.cli.output import deliver
    from safemetry.errors import InputError
    from safemetry.evidence.check import check_study
    from safemetry.readers.checking import CheckFinding

    if not (study / "study.json").exists() and not (study / "imports").is_dir():
        problem = "is no study" if study.exists() else "no such folder"
        raise InputError(problem, file=str(study), fix="name a folder that safemetry import made")
    finding = CheckFinding(settings={"study": str(study)}, problems=tuple(check_study(study)))
    deliver(finding, shared, [], *_problem_lines(finding), finding.sentence())
    return EXIT_FAILED if finding.failed else 0


def _problem_lines(finding: CheckFinding) -> list[str]:
    lines = []
    for problem in finding.problems[:_PROBLEMS_SHOWN]:
        word = "note" if problem.is_note else "problem"
        lines += [
            f"{problem.kind} ({word}) in {problem.file}",
            f"  {problem.detail}",
            f"  To do: {problem.fix}",
            "",
        ]
    if len(finding.problems) > _PROBLEMS_SHOWN:
        lines += [f"... and {len(finding.problems) - _PROBLEMS_SHOWN:,} more: use --json", ""]
    return lines


@command(
    "correct",
    examples=("safemetry correct study/ fixes.csv --by 'A. Reviewer' --why misread",),
)
@click.argument("study", type=_STUDY, metavar="STUDY")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--by", "who", required=True, metavar="NAME", help="Who corrects.")
@click.option("--why", required=True, metavar="TEXT", help="Why.")
def correct(study: Path, file: Path, who: str, why: str, shared: Shared) -> None:
    """Correct judgements without editing them.

    FILE is a table with one correction a row: the columns of the key (target, item, judge, ...),
    `field` and `value`. The evidence stays as it was; corrections are applied when it is read.
    """
    from safemetry.cli.output import deliver
    from safemetry.errors import InputError
    from safemetry.evidence.corrections import correct as apply_corrections
    from safemetry.evidence.study import Study
    from safemetry.readers.checking import CorrectionFinding

    if not file.is_file():
        raise InputError("no such file", file=str(file), fix="name the table of corrections")
    count = apply_corrections(Study.open(study), file, who=who, why=why)
    finding = CorrectionFinding(
        settings={"study": str(study), "file": str(file), "by": who, "why_corrected": why},
        corrected=count,
    )
    deliver(finding, shared, [], finding.sentence())


@command(
    "items",
    examples=(
        "safemetry items study/ --where violation --filter target=model-1",
        "safemetry items study/ --where disagree --json disputed.json",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--where",
    required=True,
    type=click.Choice(list(_FOUND)),
    help="What happened on the item, for any target and judge.",
)
@click.option("--success", metavar="RULE", help="Success rule. [default: comply]")
@click.option("--judge", metavar="NAME", help="Only this judge.")
def items(
    sources: tuple[str, ...], shared: Shared, where: str, success: str | None, judge: str | None
) -> None:
    """List the ids of items that broke, went unjudged or divide the judges.

    Ids only: the text of a prompt or response is not shown.
    """
    from safemetry.cli.output import deliver, table
    from safemetry.display import shown
    from safemetry.rates import find_items

    evidence = shared.evidence(sources, judge=judge)
    finding = find_items(evidence, where, success=success)  # type: ignore[arg-type]
    finding = replace(finding, settings={**finding.settings, "judge": judge})
    made = table(f"Items on which {_FOUND[where]}", ("item", "left"))
    for item in finding.items:
        made.add_row(shown(item))
    total = len(set(evidence.items["item"].to_pylist()))
    line = f"{len(finding.items):,} of {total:,} items: {_FOUND[where]}"
    if where != "missing":
        line += f" (success: {finding.settings['success']})"
    deliver(finding, shared, [made] if finding.items else [], line + ".")


@command(
    "export",
    examples=(
        "safemetry export study/ --to csv -o judgements.csv",
        "safemetry export study/ --to parquet --filter target=model-1",
        "safemetry export study/ --to eee -o records/",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="STUDY")
@click.option(
    "--to",
    "to",
    required=True,
    type=click.Choice(["parquet", "csv", "eee"]),
    help="Format; eee is Every Eval Ever.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File, or for eee a new folder. [default: judgements.FORMAT, or eee]",
)
@click.option(
    "--success",
    metavar="RULE",
    help="For eee: comply or non_refusal, for the rates in the records. [default: comply]",
)
def export(
    sources: tuple[str, ...],
    to: str,
    output: Path | None,
    success: str | None,
    shared: Shared,
) -> None:
    """Write the judgements, corrections applied.

    As a tidy table; cells of a CSV that a spreadsheet would run as a formula get a leading
    apostrophe. As records of Every Eval Ever 0.3: one for each run, target and benchmark, with
    rates, and a line for each judgement. No text of a prompt or response is written.
    """
    from safemetry.cli.output import deliver
    from safemetry.errors import InputError
    from safemetry.readers.checking import ExportFinding

    if success is not None and to != "eee":
        raise click.UsageError("--success applies to --to eee: a table holds no rates.")
    path = output or Path("eee" if to == "eee" else f"judgements.{to}")
    if to != "eee" and path.is_dir():
        raise InputError("is a folder", file=str(path), fix="name a file")
    if not path.parent.is_dir():
        raise InputError("its folder does not exist", file=str(path), fix="make it, or name one")
    evidence = shared.evidence(sources)
    settings: dict[str, Any] = {"to": to, "sources": sources}
    warnings: tuple[str, ...] = ()
    if to == "eee":
        from safemetry.rates.every_eval_ever import export_records

        exported = export_records(evidence, path, success=success)
        rows, warnings = exported.rows, exported.warnings
        settings |= {"success": exported.success, "records": exported.records}
    else:
        from safemetry.evidence.export import export_table

        table = evidence.rows.collect("pyarrow").to_arrow()
        rows = export_table(table, path, to=to)  # type: ignore[arg-type]
    finding = ExportFinding(settings=settings, warnings=warnings, path=str(path), rows=rows)
    deliver(finding, shared, [], finding.sentence())
