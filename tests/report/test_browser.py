"""A browser shows the page without a complaint about its policy."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from pages import judgements, read_page, table

from safemetry.report import compose_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
CONSOLE = "CONSOLE"


@pytest.fixture
def shown(tmp_path):
    """Show a page: (what the document became, what the browser complained of)."""
    if BROWSER is None:
        pytest.skip("no Chromium here")

    def show(text: str) -> tuple[str, list[str]]:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        ended = subprocess.run(
            [
                *(
                    BROWSER,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--enable-logging=stderr",
                ),
                *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return ended.stdout, [line for line in ended.stderr.splitlines() if CONSOLE in line]

    return show


def test_the_policy_lets_the_style_sheet_in_and_the_page_is_as_written(shown):
    text = compose_report(table(judgements())).to_html()
    document, complaints = shown(text)
    assert complaints == []
    before, after = (
        [(e.tag, e.attributes.get("id")) for e in read_page(page).all("body")[0].walk()]
        for page in (text, document)
    )
    assert after == before


def test_the_check_sees_what_the_policy_refuses(shown):
    text = compose_report(table(judgements())).to_html()
    _, complaints = shown(text.replace("<style>", "<style> ", 1))
    assert any("Content Security Policy" in line for line in complaints)


def test_a_script_in_a_name_does_not_run(shown):
    rows = [
        row | {"target": "<script>document.title = 'ran'</script>"}
        for row in judgements(["one"], ["j"])
    ]
    document, complaints = shown(compose_report(table(rows)).to_html())
    assert complaints == []
    assert "<title>ran" not in document
