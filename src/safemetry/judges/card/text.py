"""The report card as text, to be pasted into a model card or the appendix of a paper.

Nothing that a name or a note holds can become markup, a link, or a formula of a spreadsheet.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

from safemetry.display import defused, visible
from safemetry.judges.card.card import Card
from safemetry.judges.card.item import CardItem

TITLE: Final = "Report card of the judges"
_ORIGIN: Final = {"evidence": "", "notes": " (from notes)"}
# The last two would become a link in some renderers.
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#|~!&$@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_BULLET: Final = re.compile(r"^\s*[-+] [^-+@=(|!]*$")
"""A line of a list in plain words, which calls nothing and refers to nothing."""


def card_markdown(card: Card, *, heading: int = 2) -> str:
    """The card as Markdown.

    Parameters
    ----------
    card
        The card.
    heading
        Level of its title, 1 to 5.
    """
    return "\n".join(_markdown(card, _checked(heading))).rstrip() + "\n"


def card_html(card: Card, *, heading: int = 2) -> str:
    """The card as a fragment of HTML, without style or script.

    Parameters
    ----------
    card
        The card.
    heading
        Level of its title, 1 to 5.
    """
    return "\n".join(_html(card, _checked(heading))) + "\n"


def _checked(heading: int) -> int:
    if not 1 <= heading <= 5:
        msg = "the title has a level from 1 to 5"
        raise ValueError(msg)
    return heading


def _summary(card: Card) -> str:
    return (
        f"{card.filled} of {len(card.items)} items are filled. What is marked so comes from notes, "
        "the rest from the evidence."
    )


def _ignored(card: Card) -> str:
    return f"Notes that name nothing here: {', '.join(card.unused)}"


def _heading(item: CardItem) -> str:
    return f"{item.number}. {item.name}: {item.state}"


def _lines(text: str) -> list[str]:
    """Lines of a text, with everything visible that would be acted on or hidden."""
    return [visible(line) for line in text.expandtabs(4).splitlines()]


def _cell(line: str) -> str:
    """A line that becomes a cell where the text is pasted into a spreadsheet."""
    return line if _BULLET.match(line) else defused(line)


def _inline(text: str) -> str:
    return defused(" ".join(" ".join(_lines(text)).split()))


def _markdown(card: Card, heading: int) -> Iterator[str]:
    yield from (f"{'#' * heading} {TITLE}", "", _summary(card), "")
    for item in card.items:
        yield from (f"{'#' * (heading + 1)} {item.number}\\. {item.name}: {item.state}", "")
        yield from (f"*{item.question}*", "")
        for entry in item.entries:
            start = f"- **{_escaped(entry.name)}**{_ORIGIN[entry.origin]}"
            if "\n" in entry.value.strip():
                yield from (f"{start}:", "", *_fenced(entry.value), "")
            else:
                yield f"{start}: {_escaped(entry.value)}"
        yield from (f"- Missing: {_escaped(what)}" for what in item.missing)
        yield ""
    if card.unused:
        yield _escaped(_ignored(card))


def _escaped(text: str) -> str:
    """Text inside a line, so that no sign at its beginning starts a block."""
    return _SPECIAL.sub(r"\\\1", _inline(text))


def _fenced(text: str) -> Iterator[str]:
    """A block inside a list item, whose fence is longer than any run of its sign in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield f"  {fence}text"
    yield from (f"  {line}" for line in _lines(text))
    yield f"  {fence}"


def _html(card: Card, heading: int) -> Iterator[str]:
    yield "<section>"
    yield f"<h{heading}>{TITLE}</h{heading}>"
    yield f"<p>{html.escape(_summary(card))}</p>"
    for item in card.items:
        yield f"<h{heading + 1}>{html.escape(_heading(item))}</h{heading + 1}>"
        yield f"<p><em>{html.escape(item.question)}</em></p>"
        yield "<ul>"
        for entry in item.entries:
            start = f"<li><strong>{html.escape(_inline(entry.name))}</strong>"
            start += f"{_ORIGIN[entry.origin]}:"
            if "\n" in entry.value.strip():
                text = "\n".join(map(_cell, _lines(entry.value)))
                # A parser drops the first line break of a `pre`.
                yield f"{start}\n<pre>\n{html.escape(text)}</pre></li>"
            else:
                yield f"{start} {html.escape(_inline(entry.value))}</li>"
        yield from (f"<li>Missing: {html.escape(_inline(what))}</li>" for what in item.missing)
        yield "</ul>"
    if card.unused:
        yield f"<p>{html.escape(_inline(_ignored(card)))}</p>"
    yield "</section>"
