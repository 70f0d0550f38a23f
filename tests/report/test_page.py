"""The page stands alone, runs nothing, and can be read without seeing it."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise

import pytest
from pages import Element, judgements, read_page, table

from safemetry.report import compose_report

LOADING = {
    "base",
    "embed",
    "form",
    "iframe",
    "img",
    "input",
    "link",
    "object",
    "picture",
    "script",
    "source",
    "use",
    "image",
    "foreignobject",
    "video",
}


def one_judge() -> str:
    return compose_report(table(judgements(judges=["human"]))).to_html()


def panel() -> str:
    return compose_report(table(judgements(intents=["harmful", "benign", "contested"]))).to_html()


def two_benchmarks() -> str:
    rows = [*judgements(benchmark="tokens"), *judgements(["alpha"], benchmark=None)]
    return compose_report(table(rows)).to_html()


@pytest.fixture(scope="module", params=[one_judge, panel, two_benchmarks])
def text(request: pytest.FixtureRequest) -> str:
    return request.param()


@pytest.fixture
def page(text: str) -> Element:
    return read_page(text)


def test_nothing_is_loaded_and_nothing_runs(text: str, page: Element):
    assert not LOADING & {element.tag for element in page.walk()}
    for element in page.walk():
        assert not {"style", "src", "srcset", "action", "ping"} & element.attributes.keys()
        assert not [name for name in element.attributes if name.startswith("on")]
        link = element.attributes.get("href", "#")
        assert link.startswith("#"), link
    assert not re.search(r"url\(|@import|expression\(|https?://", page.all("style")[0].text)
    assert "http" not in text.replace("http-equiv", "")


def test_the_policy_allows_the_style_sheet_by_its_digest_and_nothing_else(text: str):
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = (
        meta.attributes["content"]
        for meta in read_page(text).all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert [rule.strip() for rule in policy.split(";")] == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    # Before anything that it is to govern.
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_ids_are_unique_and_every_reference_has_one(page: Element):
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if not re.fullmatch(r"[a-z][a-z0-9_-]*", name)]
    for element in page.walk():
        for name in ("aria-labelledby", "aria-describedby"):
            assert element.attributes.get(name, ids[0]) in ids
        assert element.attributes.get("href", f"#{ids[0]}")[1:] in ids


def test_sections_headings_and_language_make_an_outline(page: Element):
    assert [element.attributes["lang"] for element in page.all("html")] == ["en"]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))
    for section in page.all("section"):
        label = section.attributes["aria-labelledby"]
        (title,) = (e for e in section.walk() if e.attributes.get("id") == label)
        assert title.tag == "h2"
        assert title.text
    assert all(summary.text for summary in page.all("summary"))
    assert all(link.text for link in page.all("a"))


def test_drawings_say_what_they_show(page: Element):
    drawings = page.all("svg")
    assert drawings
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert drawing.attributes["aria-label"].strip()


def test_tables_have_labels_headers_and_regions_that_the_keyboard_reaches(page: Element):
    tables = page.all("table")
    assert tables
    for made in tables:
        assert made.attributes["aria-labelledby"]
        heads = made.all("thead")[0].all("th")
        assert all(head.attributes["scope"] == "col" and head.text for head in heads)
        for row in made.all("tbody")[0].all("tr"):
            assert len(row.children) == len(heads)
            assert row.children[0].attributes.get("scope") == "row"
    regions = [e for e in page.walk() if e.attributes.get("class") == "scroll"]
    assert len(regions) == len(tables)
    for region in regions:
        assert region.attributes["tabindex"] == "0"
        assert region.attributes["role"] == "region"
        assert region.attributes["aria-labelledby"]


def test_the_first_screen_says_how_bad_under_whom_what_is_missing_and_what_is_not_known(text: str):
    page = read_page(text)
    (summary,) = (e for e in page.all("section") if e.attributes.get("class") == "summary")
    said = summary.text
    assert "the true rate may be up to" in said
    assert "judge" in said
    assert "No verdict" in said
    assert "This evidence cannot say" in said
    assert "more limits" in said
