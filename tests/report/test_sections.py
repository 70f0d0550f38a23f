"""Sections are found wherever they are installed, and a broken one stops nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import judgements, read_page, table

from safemetry.report import Part, Table, Text, compose_report
from safemetry.report.blocks import Column
from safemetry.report.section import GROUP, installed_sections

DOCUMENTED = Path(__file__).parents[2] / "docs" / "report.md"
OURS = ["balance", "claims", "groups", "coverage", "missing", "judges", "instruments"]
SECTION = """
    from safemetry.report import Part, Text

    class Section:
        name = {name!r}
        order = {order}
        def make(self, context):
            return Part(title="Added", blocks=[Text("A section of its own.")])
"""


@pytest.fixture
def install(install_package):
    """Install a package that declares sections, for one test."""

    def put(package: str, code: str, **points: str) -> None:
        install_package(GROUP, package, code, **points)
        installed_sections.cache_clear()

    yield put
    installed_sections.cache_clear()


def composed():
    return compose_report(table(judgements()))


def test_ours_stand_in_their_order():
    assert list(composed().parts) == OURS


@pytest.mark.parametrize(("order", "place"), [(50, 0), (250, 2), (10_000, len(OURS))])
def test_a_section_of_another_package_takes_its_place(install, order, place):
    install("added", SECTION.format(name="added", order=order), added="added:Section")
    report = composed()
    names = list(report.parts)
    assert names.index("added") == place
    assert [name for name in names if name != "added"] == OURS
    page = read_page(report.to_html())
    (section,) = (e for e in page.all("section") if e.attributes.get("id") == "added")
    assert section.text == "Added A section of its own."
    assert "#added" in [link.attributes["href"] for link in page.all("a")]
    assert "## Added\n\nA section of its own." in report.to_markdown()
    assert "added" in [entry["name"] for entry in report.to_dict()["sections"]]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("class Section: pass\n", "TypeError: it lacks name, order or make"),
        (SECTION.format(name="other", order=1), "TypeError: it calls itself 'other'"),
        (SECTION.format(name="broken", order="'first'"), "its order is no whole number"),
        (
            """
            class Section:
                name, order = "broken", 1
                def make(self, context):
                    raise KeyError("a\\x1bb")
            """,
            "it failed (KeyError: 'a\\x1bb')",
        ),
        (
            """
            class Section:
                name, order = "broken", 1
                def make(self, context):
                    return "text"
            """,
            "it failed (TypeError: it made a str and no Part)",
        ),
        (
            """
            from safemetry.report import Part
            class Section:
                name, order = "broken", 1
                def make(self, context):
                    return Part(title="x", blocks=["text"])
            """,
            "it failed (TypeError: a str is no block of a report)",
        ),
    ],
)
def test_a_broken_section_is_named_and_stops_nothing(install, code, said):
    install("broken_section", code, broken="broken_section:Section")
    report = composed()
    assert list(report.parts) == OURS
    (warning,) = (text for text in report.warnings if "left out" in text)
    assert warning.startswith("The section broken was left out: ")
    assert said in warning
    assert "The section broken was left out" in read_page(report.to_html()).all("body")[0].text


@pytest.mark.parametrize(
    "name", ["limits", "end", "main", "summary", "balance", "a-1", "balance-title", "Ü", "x<b>"]
)
def test_a_name_that_would_break_an_anchor_is_refused(install, name):
    install("added", SECTION.format(name=name, order=1), **{name: "added:Section"})
    report = composed()
    assert list(report.parts) == OURS
    assert len([text for text in report.warnings if "left out" in text]) == 1
    ids = [e.attributes["id"] for e in read_page(report.to_html()).walk() if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_a_section_with_nothing_to_say_leaves_no_trace(install):
    code = """
    class Section:
        name, order = "silent", 1
        def make(self, context):
            return None
    """
    install("silent", code, silent="silent:Section")
    report = composed()
    assert list(report.parts) == OURS
    assert "silent" not in report.to_html()


def test_a_table_has_a_cell_for_each_column():
    with pytest.raises(ValueError, match="rows of other lengths"):
        Table("t", (Column("a"), Column("b")), (("1",),))


def test_what_is_said_to_be_a_block_is_one():
    with pytest.raises(TypeError, match="a dict is no block"):
        Part(title="x", blocks=[Text("y"), {}])


def documented_example() -> str:
    """The section that docs/report.md shows."""
    text = DOCUMENTED.read_text(encoding="utf-8")
    return text.partition("```python\n# languages.py\n")[2].partition("```")[0]


def test_the_section_of_the_documentation_works(install):
    install("languages", documented_example(), languages="languages:LanguagesSection")
    assert "languages" not in composed().parts
    rows = [
        {**row, "language": "nl" if index % 4 < 2 else "en"}
        for index, row in enumerate(judgements(lost=0, judges=["j"]))
    ]
    report = compose_report(
        table([row | {"item": f"{row['item']}{row['language']}"} for row in rows])
    )
    assert not report.warnings
    assert list(report.parts)[3] == "languages"
    page = read_page(report.to_html())
    (section,) = (e for e in page.all("section") if e.attributes.get("id") == "languages")
    assert len(section.all("tr")) == 1 + 2 * 3
    assert {row.children[0].text for row in section.all("tbody")[0].all("tr")} == {"en", "nl"}
