"""Evidence to report on, and pages read back as trees."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa

from safemetry.report import Report
from safemetry.report.blocks import Figure, Fold, Table

VOID = frozenset({"meta", "rect"})
CATEGORIES = ("privacy", "cyber", "fraud")
ATTACKS = ("direct", "role_play")


def judgements(
    targets: Sequence[str] = ("alpha", "beta", "gamma"),
    judges: Sequence[str] = ("strict", "lenient"),
    *,
    items: int = 24,
    lost: float = 0.05,
    intents: Sequence[str | None] = ("harmful", "benign"),
    benchmark: str | None = "tokens",
) -> list[dict[str, Any]]:
    """Rows on items whose intents take turns, some of them without a verdict."""
    rng = random.Random(11)
    rows = []
    for place, target in enumerate(targets):
        for index in range(items):
            intent = intents[index % len(intents)]
            number = index // len(intents)
            for judge in judges:
                holds = rng.random() < 0.9 - 0.15 * place - 0.2 * (judge == judges[0])
                label = "refuse" if holds == (intent != "benign") else "comply"
                missing = rng.random() < lost
                rows.append(
                    {
                        "target": target,
                        "item": f"{benchmark}-{index:02d}",
                        "judge": judge,
                        "label": None if missing else label,
                        "status": "missing" if missing else "ok",
                        "reason": "no_response" if missing else None,
                        "category": CATEGORIES[number % 3],
                        "attack": ATTACKS[number % 2],
                        "behaviour": f"behaviour-{number}",
                        "intent": intent,
                        "benchmark": benchmark,
                    }
                )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist(list(rows))


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, *tags: str) -> list[Element]:
        """The elements with one of these tags."""
        return [element for element in self.walk() if element.tag in tags]

    @property
    def text(self) -> str:
        """All text in it, spaces made single."""
        return " ".join("".join(self.texts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.comments: list[str] = []
        self.declarations: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.comments.append(data)


def read_page(text: str) -> Element:
    """A page as a tree; every element is closed where it should be."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is never closed"
    assert [said.lower() for said in reader.declarations] == ["doctype html"]
    assert reader.comments == []
    return reader.root


# --- parts of a report that are made without evidence ---------------------------------------------


def walk(blocks):
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from walk(block.blocks)


def of_kind(part, kind):
    return [block for block in walk(part.blocks) if isinstance(block, kind)]


def captioned(part, start):
    return next(block for block in of_kind(part, Table) if block.caption.startswith(start))


def figure(part, start):
    return next(block for block in of_kind(part, Figure) if block.label.startswith(start))


def cells(made):
    heads = [column.name for column in made.columns]
    return [dict(zip(heads, row, strict=True)) for row in made.rows]


def audit_page(part, finding):
    """The page of one part, after Markdown was made of it too."""
    report = Report(
        title="Audit", subtitle="", parts={finding.command: part}, settings=finding.settings
    )
    report.to_markdown()
    return report.to_html()
