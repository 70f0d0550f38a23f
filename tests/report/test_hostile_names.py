"""Names that others chose are shown, and do nothing."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from pages import Element, read_page, table

from safemetry.claims import percent
from safemetry.display import FORMULA
from safemetry.report import Report, ReportSettings, compose_report

NAMES = {
    "script": "<script>alert(1)</script>",
    "handler": '" onmouseover="alert(1)',
    "quotes": "' onfocus='alert(1)' autofocus='",
    "formula": "=1+1",
    "function": "@SUM(A1)",
    "minus": "-1+cmd|' /C calc'!A0",
    "cdata": "]]>",
    "comment": "<!-- never closed",
    "end": "</style></section><img src=x onerror=alert(1)>",
    "template": "{{7*7}}{% raw %}",
    "terminal": "a\x1b[31mred\x07\x00b\r\n",
    "bidi": "\u202eevil\u2066\u200b",
    "link": "[x](javascript:alert(1))",
    "picture": "![x](http://example.org/x.png)",
    "address": "<http://example.org> www.example.org",
    "table": "a|b`c`|",
    "marks": "*bold* _it_ ~~s~~ # h",
    "entity": "&lt;b&gt; &#60;",
    "break": "first\n\n- second\n\n| a | b |\n|---|---|",
    "list": "1. one",
    "accents": "模型 안전 é \U0001f600",
}
COLUMNS = (
    *("run", "target", "item", "judge", "benchmark", "category", "attack", "behaviour", "pair"),
    *("language", "session", "user_type", "developer", "access"),
)


def rows(**names: str) -> list[dict[str, str | None]]:
    """Two targets on harmful and benign items; some columns hold a name that does harm."""
    made = []
    for target in ("first", "second"):
        for index in range(8):
            row: dict[str, str | None] = {
                "target": target,
                "item": f"item {index}",
                "judge": "judge",
                "category": f"category {index % 2}",
                "attack": f"attack {index % 3}",
                "label": [None, "refuse", "comply"][index % 3],
                "intent": ["harmful", "benign"][index % 2],
            }
            for column, name in names.items():
                if column in {"item", "session", "pair"}:
                    row[column] = f"{name} {index}"
                elif column == "target":
                    row[column] = name if target == "first" else target
                # Beside another value, so that the report groups by it.
                elif column not in {"category", "attack", "behaviour"} or index > 3:
                    row[column] = name
            made.append(row)
    return made


@cache
def everywhere(name: str) -> Report:
    """A report in which targets, items, a judge, a benchmark and a category have one name."""
    columns = ("target", "item", "judge", "benchmark", "category")
    return compose_report(table(rows(**dict.fromkeys(columns, name))), title=name)


@cache
def page_of(name: str) -> Element:
    return read_page(everywhere(name).to_html())


def texts(page: Element) -> str:
    """All that is read on a page, labels included."""
    labels = [element.attributes.get("aria-label", "") for element in page.walk()]
    return " ".join([page.all("body")[0].text, *labels])


@pytest.fixture(scope="module")
def structure():
    """Tags and attribute names of a page about harmless names."""
    return shape(page_of("harmless"))


def shape(page: Element) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (element.tag, tuple(element.attributes))
        for element in page.all("body")[0].walk()
        if element.tag not in {"g", "path", "text"}  # ticks and names of the chart
    ]


@pytest.mark.parametrize("case", list(NAMES))
def test_a_page_has_the_same_elements_whatever_the_names(case, structure):
    assert sorted(shape(page_of(NAMES[case]))) == sorted(structure)


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_carries_markup(column):
    page = read_page(compose_report(table(rows(**{column: NAMES["end"]}))).to_html())
    assert not {"script", "img"} & {element.tag for element in page.walk()}
    assert not [n for e in page.walk() for n in e.attributes if n.startswith("on")]


@pytest.mark.parametrize("case", ["terminal", "bidi"])
def test_what_cannot_be_seen_is_written_out(case):
    report = everywhere(NAMES[case])
    for text in (report.to_html(), report.to_markdown()):
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text
        )
    assert "\\x1b" in report.to_html() or "\\u202e" in report.to_html()


@pytest.mark.parametrize("case", ["formula", "function", "minus"])
def test_no_cell_becomes_a_formula_where_it_is_pasted(case):
    page = page_of(NAMES[case])
    cells = [cell.text for cell in page.all("td", "th", "dd", "li")]
    assert not [text for text in cells if re.match(FORMULA, text) and not text.startswith("'")]
    assert any(text.startswith(f"'{NAMES[case][0]}") for text in cells)


def test_names_are_shown_as_they_are():
    for case in ("script", "template", "entity", "accents", "link"):
        page = page_of(NAMES[case])
        assert NAMES[case] in texts(page), case


def test_a_template_in_a_name_is_not_run():
    assert "49" not in texts(page_of("{{7*7}}"))


def test_names_of_10_kb_leave_the_page_small():
    ends = {column: "x" * 4_000 + column for column in COLUMNS}
    long, short = (compose_report(table(rows(**names))) for names in (ends, {}))
    assert len(long.to_html()) < len(short.to_html()) + 40_000
    assert len(long.to_markdown()) < len(short.to_markdown()) + 20_000
    assert "x" * 100 not in long.to_html()


@pytest.mark.parametrize("case", list(NAMES))
def test_json_holds_every_name_as_it_is(case, assert_sound):
    read = assert_sound(everywhere(NAMES[case]))
    found = json.dumps(read["sections"][0]["findings"], ensure_ascii=False)
    assert json.dumps(NAMES[case], ensure_ascii=False)[1:-1] in found


def test_half_a_character_in_a_title_can_be_written():
    report = compose_report(table(rows()), settings=ReportSettings(title="half \udcff"))
    assert "half \\udcff" in report.to_html()
    report.to_html().encode()
    report.to_markdown().encode()


def test_an_item_without_a_category_is_in_a_group_of_its_own():
    made = rows()
    for row in made:
        if row["item"] == "item 0":
            row["category"] = None
    text = read_page(compose_report(table(made)).to_html()).all("body")[0].text
    assert "not stated" in text
    assert "None" not in text
    assert percent(0) in text
