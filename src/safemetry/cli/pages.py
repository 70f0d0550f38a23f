"""Audits written as pages: the option, its check, and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from safemetry.evidence.evidence import Evidence
    from safemetry.findings import Finding
    from safemetry.report.section import Part

_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md"}

page_option: Final = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the audit as a page: .html or .md.",
)


def require_page(path: Path | None) -> None:
    """Refuse a file whose ending says no form.

    Raises
    ------
    click.UsageError
        With the endings that do.
    """
    if path is not None and path.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"{str(path)!r} ends in none of {', '.join(_SUFFIXES)}.")


def is_markdown(path: Path) -> bool:
    """Whether the ending of a file asks for Markdown."""
    return _SUFFIXES[path.suffix.lower()] == "md"


def write_page(
    finding: Finding,
    part: Callable[[Any], Part],
    evidence: Evidence,
    path: Path | None,
    *,
    title: str,
    counts: str,
) -> list[str]:
    """Write a finding as a page where one was asked for; the line that says so.

    Parameters
    ----------
    finding
        The finding.
    part
        Makes the part of the page from it.
    evidence
        Whose sources stand in the subtitle.
    path
        The file; None for no page.
    title, counts
        Of the page, and what stands beside the sources.
    """
    from safemetry.cli.output import write_text

    if path is None:
        return []
    write_text(page_text(finding, part(finding), evidence, path, title=title, counts=counts), path)
    return [f"The page is in {path}."]


def page_text(
    finding: Finding, part: Part, evidence: Evidence, path: Path, *, title: str, counts: str
) -> str:
    """A finding as a page of one part, in the form that the ending of the file asks for."""
    from safemetry.report.report import Report

    sources = ", ".join(Path(name).name for name in evidence.sources)
    parts: dict[str, Any] = {finding.command: part}
    report = Report(
        title=title,
        subtitle=f"{sources} \N{MIDDLE DOT} {counts}",
        parts=parts,
        settings=finding.settings,
        warnings=finding.warnings,
    )
    return report.to_markdown() if is_markdown(path) else report.to_html()
