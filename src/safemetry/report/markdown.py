"""A report as Markdown: the same words and tables, bars left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from safemetry.report import blocks

if TYPE_CHECKING:
    from safemetry.report.report import Report

# The last three would become a link or a mention in some renderers.
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#|~!&$@]|:(?=//)|(?<=www)\.)")
_BLOCK_START: Final = re.compile(r"^(\d+)([.)])|^([+-](?=[\s-]|$)|=)")


def render_markdown(report: Report) -> str:
    """The report as CommonMark with tables; ids cannot become markup."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escaped("<b> a|b *c*"))
    \<b\> a\|b \*c\*
    """
    joined = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _BLOCK_START.sub(
        lambda found: "\\" + found[0] if found[3] else f"{found[1]}\\{found[2]}", joined
    )


def _lines(report: Report) -> Iterator[str]:
    yield from (f"# {escaped(report.title)}", "", escaped(report.subtitle), "")
    for notice in report.notices:
        yield from (f"> **{escaped(notice)}**", "")
    for fact in report.facts:
        yield f"- **{escaped(fact.label)}: {escaped(fact.value)}** {escaped(fact.note)}"
    yield ""
    for line in report.headlines:
        yield f"- **{escaped(line.lead)}:** {escaped(line.text)}"
    yield ""
    for part in report.parts.values():
        yield from (f"## {escaped(part.title)}", "")
        for block in part.blocks:
            yield from _block(block)
    yield from ("## What this evidence cannot say", "")
    yield from _bullets(report.limits)
    if report.warnings:
        yield from ("### Notes on the data", "")
        yield from _bullets([blocks.name_of(warning, 2000) for warning in report.warnings])
    yield from ("## How it was measured", "")
    yield from _bullets(
        [f"{name}: {value}" for name, value in (*report.inventory, *report.versions)]
    )
    yield from _bullets(report.references)


def _bullets(items: Sequence[str]) -> Iterator[str]:
    for item in items:
        yield f"- {escaped(item)}"
    if items:
        yield ""


def _block(block: blocks.Block) -> Iterator[str]:
    match block:
        case blocks.Text(text):
            yield from (escaped(text), "")
        case blocks.Sentences(items, _):
            yield from _bullets(items)
        case blocks.Table():
            yield from _table(block)
        case blocks.Figure(label, description, _):
            yield from (f"*{escaped(label)}.* {escaped(description)}", "")
        case blocks.Excerpt():
            yield from _excerpt(block)
        case blocks.Fold(title, inner):
            yield from (f"### {escaped(title)}", "")
            for part in inner:
                yield from _block(part)


def _excerpt(excerpt: blocks.Excerpt) -> Iterator[str]:
    """A fenced block whose fence is longer than any run of its sign in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", excerpt.text)), default=0))
    yield from (f"*{escaped(excerpt.title)}*", "", f"{fence}text")
    yield from excerpt.text.split("\n")
    yield from (fence, "")
    if excerpt.left_out:
        yield from (f"{excerpt.left_out:,} more characters are left out.", "")


def _table(table: blocks.Table) -> Iterator[str]:
    yield from (f"**{escaped(table.caption)}**", "")
    yield _row([escaped(column.name) for column in table.columns])
    right = {"number"}
    yield _row(["---:" if column.kind in right else "---" for column in table.columns])
    for row in table.rows:
        yield _row([escaped(_text(cell)) for cell in row])
    yield ""
    if table.note:
        yield from (escaped(table.note), "")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: blocks.Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell.text} ({cell.note})" if cell.note else cell.text
