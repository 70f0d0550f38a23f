"""No result is written over what it was made from, or over another result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from calling import Run

TABLE = "target,item,label,intent\nm,1,comply,harmful\nm,2,refuse,harmful\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    (tmp_path / "link.csv").symlink_to(path)
    return path


@pytest.mark.parametrize("name", ["table.csv", "link.csv"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["rates", "{table}", "--json", "{name}"],
        ["report", "{table}", "--format", "md", "-o", "{name}"],
        ["export", "{table}", "--to", "csv", "-o", "{name}"],
        ["items", "{table}", "--where", "violation", "--json", "{name}"],
    ],
)
def test_the_source_is_not_overwritten(run: Run, table: Path, name: str, arguments: list[str]):
    named = table.with_name(name)
    result = run(*(text.format(table=table, name=named) for text in arguments))
    assert result.code == 2
    assert "which is read; name another file" in result.err
    assert table.read_text() == TABLE


def test_the_map_is_not_overwritten(run: Run, table: Path):
    named = table.with_name("map.yaml")
    named.write_text("intent: harmful\n")
    result = run("report", table, "--map", named, "--format", "md", "-o", named)
    assert result.code == 2
    assert named.read_text() == "intent: harmful\n"


def test_two_results_do_not_share_a_file_by_a_link(run: Run, table: Path):
    page, link = table.with_name("page.html"), table.with_name("link.html")
    page.touch()
    link.symlink_to(page)
    result = run("report", table, "-o", page, "--json", link)
    assert result.code == 2
    assert "-o and --json both name" in result.err
    assert page.read_text() == ""


def test_another_file_beside_the_source_is_written(run: Run, table: Path):
    assert run("report", table, "-o", table.with_name("page.html")).code == 0
