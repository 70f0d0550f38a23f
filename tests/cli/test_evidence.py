"""What import, check, correct, items and export do."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from calling import JUDGES, TARGETS, Evidence, Run, panel


@pytest.fixture
def study(evidence: Evidence, run: Run, tmp_path: Path) -> Path:
    made = tmp_path / "study"
    assert run("import", evidence.table, "--into", made, "--quiet").code == 0
    return made


def test_the_same_source_twice_adds_nothing(evidence: Evidence, study: Path, run: Run):
    result = run("import", evidence.table, "--into", study)
    assert result.code == 0
    assert "0 judgements added" in result.out
    assert "1 source was there already" in result.out
    assert "had them" in result.out


def test_an_import_of_a_folder_names_what_no_reader_knows(
    evidence: Evidence, run: Run, tmp_path: Path
):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "panel.csv").write_bytes(evidence.table.read_bytes())
    (folder / "notes.txt").write_text("remember the milk\n")
    result = run("import", folder, "--into", tmp_path / "study")
    assert result.code == 0
    assert "Not recognised by any reader, left out:" in result.out
    assert "notes.txt" in result.out


def test_a_folder_without_anything_known_is_an_input_error(run: Run, tmp_path: Path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "notes.txt").write_text("remember the milk\n")
    result = run("import", folder, "--into", tmp_path / "study", "--quiet")
    assert (result.code, result.out) == (2, "")
    assert "--as" in result.err


def test_one_refused_source_is_told_and_the_others_stay(
    evidence: Evidence, run: Run, tmp_path: Path
):
    bad = tmp_path / "bad.csv"
    bad.write_text("target,item,label\nm,1,perhaps\n")
    result = run("import", evidence.table, bad, "--into", tmp_path / "study")
    assert result.code == 2
    assert "refused" in result.out
    assert "perhaps" in result.err
    assert run("check", tmp_path / "study").code == 0


def test_check_fails_only_where_something_is_wrong(study: Path, run: Run):
    assert run("check", study).out == "Nothing is wrong.\n"
    (study / "judgements" / "left-behind.parquet").write_bytes(b"")
    noted = run("check", study)
    assert noted.code == 0
    assert "orphan (note)" in noted.out
    assert "To do:" in noted.out
    part = next(path for path in (study / "items").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-10])
    broken = run("check", study, "--json", "-")
    assert broken.code == 1
    problems = json.loads(broken.out)["problems"]
    assert {problem["kind"] for problem in problems} == {"orphan", "changed_part"}
    assert run("check", study, "--quiet").code == 1


def test_a_correction_changes_the_rate_and_not_the_evidence(study: Path, run: Run, tmp_path: Path):
    def events() -> float:
        words = ["--filter", f"target={TARGETS[0]}", "--judge", JUDGES[0], "--json", "-"]
        claims = json.loads(run("rates", study, *words).out)["claims"]
        (found,) = [claim for claim in claims if claim["metric"] == "attack_success_rate"]
        return float(found["events"])

    refused = next(
        row["item"]
        for row in panel()
        if (row["target"], row["judge"], row["label"]) == (TARGETS[0], JUDGES[0], "refuse")
        and row["intent"] == "harmful"
    )
    before, parts = events(), sorted((study / "judgements").iterdir())
    fixes = tmp_path / "fixes.csv"
    fixes.write_text(
        f"target,item,judge,field,value\n{TARGETS[0]},{refused},{JUDGES[0]},label,comply\n"
    )
    result = run("correct", study, fixes, "--by", "A. Reviewer", "--why", "misread")
    assert (result.code, result.out) == (0, "1 correction recorded.\n")
    assert events() == before + 1
    assert sorted((study / "judgements").iterdir()) == parts
    assert run("check", study).code == 0


@pytest.mark.parametrize("where", ["violation", "missing", "disagree"])
def test_items_are_ids_and_nothing_else(where: str, evidence: Evidence, run: Run):
    found = json.loads(run("items", evidence.table, "--where", where, "--json", "-").out)
    known = {row["item"] for row in panel()}
    assert found["items"]
    assert set(found["items"]) <= known
    shown = run("items", evidence.table, "--where", where).out
    assert all(item in shown for item in found["items"])
    assert f"{len(found['items'])} of {len(known)} items: " in shown


def test_violations_are_the_harmful_items_that_some_judge_saw_broken(evidence: Evidence, run: Run):
    found = json.loads(run("items", evidence.table, "--where", "violation", "--json", "-").out)
    broken = {
        row["item"] for row in panel() if row["intent"] == "harmful" and row["label"] == "comply"
    }
    assert set(found["items"]) == broken


def test_violations_among_items_of_unknown_intent_are_not_called_none(evidence: Evidence, run: Run):
    result = run("items", evidence.unclassified, "--where", "violation")
    assert result.code == 0
    assert "unknown intent" in result.err


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_export_writes_every_judgement(to: str, study: Path, run: Run, tmp_path: Path):
    path = tmp_path / f"out.{to}"
    result = run("export", study, "--to", to, "-o", path, "--json", "-")
    found = json.loads(result.out)
    assert (found["rows"], found["path"]) == (len(panel()), str(path))
    if to == "parquet":
        assert pq.read_metadata(path).num_rows == len(panel())
    else:
        with path.open(newline="", encoding="utf-8") as stream:
            assert sum(1 for _ in csv.DictReader(stream)) == len(panel())


def test_export_goes_to_a_file_named_for_the_format(
    study: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run("export", study, "--to", "csv").code == 0
    assert (tmp_path / "judgements.csv").is_file()


def test_export_to_records_reads_back_as_the_same_judgements(
    study: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    found = json.loads(run("export", study, "--to", "eee", "--json", "-").out)
    assert (found["rows"], found["path"]) == (len(panel()), "eee")
    assert found["settings"]["records"] == len(TARGETS)
    assert found["settings"]["success"] == "comply"
    assert len(list((tmp_path / "eee").rglob("*_samples.jsonl"))) == len(TARGETS)
    assert run("import", "eee", "--into", "again", "--quiet").code == 0
    rates = [
        [
            {name: value for name, value in claim.items() if name != "scope"}
            for claim in json.loads(run("rates", name, "--json", "-").out)["claims"]
        ]
        for name in (study, "again")
    ]
    assert rates[0] == rates[1]
    refused = run("export", study, "--to", "eee")
    assert refused.code == 2
    assert "is in use" in refused.err


def test_records_keep_to_the_filter_and_the_rule(study: Path, run: Run, tmp_path: Path):
    words = ["--to", "eee", "--filter", f"target={TARGETS[0]}", "--success", "non_refusal"]
    result = run("export", study, *words, "-o", tmp_path / "out")
    assert (result.code, result.out) == (
        0,
        f"{len(panel()) // len(TARGETS)} judgements written to {tmp_path / 'out'}.\n",
    )
    (record,) = (tmp_path / "out").glob("data/*/*/*/*[0-9a-f].json")
    results = json.loads(record.read_text(encoding="utf-8"))["evaluation_results"]
    assert {r["metric_config"]["metric_parameters"]["success_rule"] for r in results} == {
        "non_refusal"
    }
    assert len(results) == 2 * len(JUDGES)
