"""`safemetry report`: everything that the evidence supports, on one page."""

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
from safemetry.cli.options import POSITIVE, Shared, command

if TYPE_CHECKING:
    from safemetry.report import Report

_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_FORMATS: Final = ("html", "md", "json")


@command(
    "report",
    examples=(
        "safemetry report logs/ -o report.html",
        "safemetry report study/ -o report.md --success non_refusal",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write; - for stdout.",
)
@click.option(
    "--format",
    "kind_of_file",
    type=click.Choice(_FORMATS),
    help="What to write. [default: by the ending of FILE; html for stdout]",
)
@click.option("--title", metavar="TEXT", help="Heading of the report.")
@success_option
@judge_option
@cluster_option
@level_option
@click.option("--volume", type=POSITIVE, metavar="N", help="Requests to project the rates onto.")
@click.option(
    "--include-text", is_flag=True, help="Show prompts and responses too, where there are any."
)
def report(
    sources: tuple[str, ...],
    shared: Shared,
    output: Path | None,
    kind_of_file: str | None,
    success: str | None,
    judge: str | None,
    title: str | None,
    **options: Any,
) -> None:
    """Write a report that a decision maker understands and an engineer can check.

    One file that loads nothing: the rates with their uncertainty, safety beside usefulness, where
    targets fail, what was tested, what is missing, and what the evidence cannot say. It holds ids
    and counts; texts of prompts and responses only with --include-text.
    """
    from safemetry.cli.output import deliver, write_text
    from safemetry.evidence.success import SuccessRule
    from safemetry.findings import resolved
    from safemetry.report import ReportSettings, compose_report

    if output is None and shared.json_to is None:
        raise click.UsageError("Name a file to write with -o, such as -o report.html.")
    if str(output) == shared.json_to == "-":
        raise click.UsageError("-o - and --json - cannot both have stdout.")
    kind = kind_of_file or (_kind_by_ending(output) if output is not None else "json")
    if title:
        options["title"] = title
    settings = ReportSettings(success=SuccessRule.parse(success) if success else None, **options)
    evidence = shared.evidence(sources, judge=judge)
    texts = shared.texts(sources) if settings.include_text else None
    finding = compose_report(evidence, texts=texts, settings=settings)
    chosen = {**shared.settings(), "judge": judge, **finding.settings}
    finding = replace(finding, settings=resolved(chosen, "not given"))
    if output is None:
        deliver(finding, shared, [], finding.sentence())
        return
    text = _written(finding, kind)
    shared.busy.stop()
    write_text(text, output)
    on_stdout = str(output) == "-"
    deliver(finding, replace(shared, quiet=shared.quiet or on_stdout), [], *_told(finding, output))


def _kind_by_ending(output: Path) -> str:
    """The form that the ending of a file asks for."""
    if str(output) == "-":
        return "html"
    kind = _SUFFIXES.get(output.suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"{str(output)!r} ends in none of {', '.join(_SUFFIXES)}; say which with --format."
        )
    return kind


def _written(finding: Report, kind: str) -> str:
    """The report in one of its forms."""
    if kind == "json":
        return finding.to_json() + "\n"
    return finding.to_markdown() if kind == "md" else finding.to_html()


def _told(finding: Report, output: Path) -> list[str]:
    """What the screen says: the first lines, and where the rest is."""
    lines = [f"{line.lead}: {line.text}" for line in finding.headlines]
    return [*(lines or [finding.sentence()]), "", f"The report is in {output}."]
