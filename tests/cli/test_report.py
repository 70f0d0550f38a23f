"""`safemetry report` writes one whole file, or none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from calling import TARGETS, Evidence, Run, write_csv

START = {"html": "<!doctype html>\n", "md": "# What this evidence supports\n", "json": "{\n"}


def kind_of(text: str) -> str:
    (kind,) = (kind for kind, start in START.items() if text.startswith(start))
    return kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("report.html", "html"),
        ("report.HTM", "html"),
        ("report.md", "md"),
        ("report.json", "json"),
        ("release 2.v1.html", "html"),
    ],
)
def test_the_ending_decides_the_form(name: str, kind: str, evidence: Evidence, run: Run, tmp_path):
    result = run("report", evidence.table, "-o", tmp_path / name)
    assert result.code == 0, result.err
    assert kind_of((tmp_path / name).read_text(encoding="utf-8")) == kind
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", list(START))
def test_the_format_goes_before_the_ending(kind: str, evidence: Evidence, run: Run, tmp_path):
    for name in ("report.html", "report.txt", "report"):
        result = run("report", evidence.table, "-o", tmp_path / name, "--format", kind)
        assert result.code == 0, result.err
        assert kind_of((tmp_path / name).read_text(encoding="utf-8")) == kind


@pytest.mark.parametrize("kind", list(START))
def test_standard_output_holds_the_report_and_nothing_else(
    kind: str, evidence: Evidence, run: Run, tmp_path
):
    to_file = run("report", evidence.table, "-o", tmp_path / "report", "--format", kind)
    to_stdout = run("report", evidence.table, "-o", "-", "--format", kind)
    assert to_file.code == to_stdout.code == 0
    assert to_stdout.out == (tmp_path / "report").read_text(encoding="utf-8")


def test_standard_output_is_html_unless_told_otherwise(evidence: Evidence, run: Run):
    assert kind_of(run("report", evidence.table, "-o", "-").out) == "html"


def test_the_screen_shows_the_first_lines_and_where_the_rest_is(
    evidence: Evidence, run: Run, tmp_path
):
    path = tmp_path / "report.html"
    result = run("report", evidence.table, "-o", path)
    assert result.out.startswith("Most often broken")
    assert result.out.endswith(f"\nThe report is in {path}.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "-o report.html"),
        (["-o", "report.pdf"], "ends in none of .html, .htm, .md, .json; say which with --format"),
        (["-o", "report"], "ends in none of"),
        (["-o", "-", "--json", "-"], "cannot both have stdout"),
        (["-o", "r.json", "--json", "r.json"], "both name 'r.json'"),
        (["-o", "r.html", "--format", "pdf"], "'html', 'md', 'json'"),
        (["-o", "r.html", "--level", "95"], "between 0 and 1"),
        (["-o", "r.html", "--volume", "-1"], "above 0"),
        (["-o", "r.html", "--success", "often"], "'often'"),
        (["-o", "r.html", "--cluster", "kind"], "'kind'"),
        (["-o", "r.html", "--judge", "nobody"], "'nobody'"),
        (["-o", "r.html", "--filter", "target=nobody"], "target=nobody"),
    ],
)
def test_what_cannot_be_done_writes_nothing(
    arguments: list[str], said: str, evidence: Evidence, run: Run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = run("report", evidence.table, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert len(result.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["a file/report.html", "folder.html", "a" * 300 + ".html"])
def test_a_path_that_cannot_be_written_is_named(place: str, evidence: Evidence, run: Run, tmp_path):
    (tmp_path / "a file").write_text("kept")
    (tmp_path / "folder.html").mkdir()
    result = run("report", evidence.table, "-o", tmp_path / place)
    assert result.code == 2
    assert "cannot be written" in result.err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a file", "folder.html"]
    assert (tmp_path / "a file").read_text() == "kept"


def test_a_report_that_fails_leaves_the_one_before(evidence: Evidence, run: Run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    assert run("report", tmp_path / "absent.csv", "-o", path).code == 2
    assert path.read_text() == "before"
    assert run("report", evidence.table, "-o", path).code == 0
    assert kind_of(path.read_text(encoding="utf-8")) == "html"


def test_json_alone_needs_no_file(evidence: Evidence, run: Run):
    result = run("report", evidence.table, "--json", "-")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["sections"][0]["name"] == "balance"
    (rates,) = found["sections"][0]["findings"]
    assert rates["claims"] == json.loads(run("rates", evidence.table, "--json", "-").out)["claims"]


def test_both_json_results_are_the_same(evidence: Evidence, run: Run, tmp_path):
    first, second = tmp_path / "report.json", tmp_path / "result.json"
    assert run("report", evidence.table, "-o", first, "--json", second).code == 0
    assert json.loads(first.read_text()) == json.loads(second.read_text())


def test_quiet_says_nothing(evidence: Evidence, run: Run, tmp_path):
    path = tmp_path / "report.html"
    result = run("report", evidence.table, "-o", path, "--quiet", on_screen=True)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert path.exists()


def test_every_choice_stands_on_the_page(evidence: Evidence, run: Run, tmp_path):
    path = tmp_path / "report.md"
    arguments = [
        *("--title", "Release *2*", "--success", "non_refusal", "--judge", "harmbench-classifier"),
        *("--level", "0.9", "--cluster", "item", "--filter", f"target={TARGETS[0]}"),
    ]
    assert run("report", evidence.table, "-o", path, *arguments).code == 0
    assert path.read_text().startswith("# Release \\*2\\*\n")
    html = run("report", evidence.table, "-o", "-", *arguments).out
    for said in ("non_refusal", "harmbench-classifier", "0.9", "item", TARGETS[0]):
        assert re.search(rf"<dd>[^<]*{re.escape(said)}", html), said
    assert "at 90%" in html


def test_a_volume_reaches_the_claims(evidence: Evidence, run: Run):
    found = json.loads(run("report", evidence.table, "--volume", "1e6", "--json", "-").out)
    claims = found["sections"][0]["findings"][0]["claims"]
    assert {claim["projection"]["volume"] for claim in claims} == {1e6}


def test_several_sources_make_one_report(run: Run, tmp_path):
    rows = [{"target": "m", "item": str(n), "label": "refuse", "intent": "harmful"} for n in "ab"]
    paths = [write_csv(tmp_path / f"{name}.csv", rows) for name in ("one", "two")]
    result = run("report", *paths, "-o", "-", "--format", "md")
    assert result.code == 0, result.err
    assert "4 responses" in result.out


@pytest.mark.parametrize("arguments", [["-o", "-"], ["--json", "-"], ["-o", "report.html"]])
def test_a_closed_pipe_is_quiet(arguments: list[str], evidence: Evidence, tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "safemetry", "report", evidence.table, *arguments],
        check=False,
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")
