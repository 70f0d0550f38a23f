"""Markdown renders as it was meant, by a parser that knows CommonMark and tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pages import judgements, read_page, table

from safemetry.report import compose_report
from safemetry.report.markdown import escaped

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
NAMES = (
    "[x](javascript:alert(1))",
    "![x](http://example.org/x.png)",
    "<script>alert(1)</script>",
    "<http://example.org>",
    "a|b`c`|",
    "*bold* __it__ ~~s~~",
    "# heading",
    "- item",
    "+ item",
    "1. item",
    "2) item",
    "> quote",
    "---",
    "===",
    "&lt;&#60;",
    "back\\slash\\",
    "$x$",
    "[^1]: note",
    "[ref]: http://example.org",
)


def rendered(text: str):
    html = PARSER.render(text).replace("<hr />", "").replace("<br />", "")
    return read_page(f"<!doctype html><div>{html}</div>")


def tags(text: str) -> set[str]:
    return {element.tag for element in rendered(text).walk()} - {"", "div"}


@pytest.fixture(scope="module")
def report():
    return compose_report(table(judgements()))


def test_every_table_of_the_report_is_a_table(report):
    page = rendered(report.to_markdown())
    tables = page.all("table")
    asked = read_page(report.to_html()).all("table")
    assert len(tables) == len(asked)
    for made in tables:
        width = len(made.all("thead")[0].all("th"))
        assert all(len(row.children) == width for row in made.all("tbody")[0].all("tr"))
    assert "|" not in "".join(paragraph.text for paragraph in page.all("p"))


def test_headings_are_those_of_the_page(report):
    written = rendered(report.to_markdown())
    assert [h.text for h in written.all("h1")] == [report.title]
    titles = [part.title for part in report.parts.values()]
    ends = ["What this evidence cannot say", "How it was measured"]
    assert [h.text for h in written.all("h2")] == [*titles, *ends]


def test_it_says_what_the_page_says(report):
    written = rendered(report.to_markdown()).all("div")[0].text
    for line in report.headlines:
        assert line.text in written
    for fact in report.facts:
        assert f"{fact.label}: {fact.value}" in written
    for limit in report.limits:
        assert limit in written


def test_it_has_no_markup_but_its_own(report):
    known = {"h1", "h2", "h3", "p", "ul", "li", "strong", "em"}
    assert tags(report.to_markdown()) <= known | {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_as_it_is(name):
    for place in ("{}", "- {}", "before {} after"):
        page = rendered(place.format(escaped(name)))
        assert name in page.text
        assert {e.tag for e in page.walk()} <= {"", "div", "p", "ul", "li"}
    cell = rendered(f"| a | b |\n| --- | --- |\n| {escaped(name)} | 1 |").all("td")[0]
    assert cell.text == name
    assert not cell.children


@pytest.mark.parametrize("name", ["https://example.org", "www.example.org", "@someone", "a@b.nl"])
def test_an_address_becomes_no_link_where_renderers_look_for_them(name):
    assert not re.search(rf"(?<!\\){re.escape(name)}", escaped(name))
    assert rendered(escaped(name)).text == name


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
def test_no_text_becomes_markup(text):
    page = rendered(f"- {escaped(text)}")
    assert {e.tag for e in page.walk()} <= {"", "div", "ul", "li"}
    assert page.text == " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_report_about_hostile_names_has_the_same_structure(name, report):
    rows = [
        row | {"target": name if row["target"] == "alpha" else row["target"], "judge": row["judge"]}
        for row in judgements()
    ]
    hostile = compose_report(table(rows))
    assert tags(hostile.to_markdown()) == tags(report.to_markdown())
    assert len(rendered(hostile.to_markdown()).all("tr")) == len(
        rendered(report.to_markdown()).all("tr")
    )
