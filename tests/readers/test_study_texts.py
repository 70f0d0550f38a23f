"""Texts in a study: kept only if asked for, verified like the rest, and read back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from safemetry.cli import main
from safemetry.errors import InputError
from safemetry.evidence.check import check_study
from safemetry.evidence.corrections import correct
from safemetry.evidence.study import Study
from safemetry.evidence.study_commits import import_name, options_digest
from safemetry.evidence.study_import import Incoming
from safemetry.evidence.study_tables import TABLES
from safemetry.readers import ImportFinding, import_sources, read_evidence, read_texts
from safemetry.readers.tidy import TidyReader

MARKER = "MARKERTEXT"


def row(item: str, epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "target": "m",
        "item": item,
        "epoch": epoch,
        "label": "comply",
        "intent": "harmful",
        "prompt": f"{MARKER} asks for the token {item}",
        "response": f"{MARKER} keeps it {item} {epoch}",
        **more,
    }


ROWS = [row("a"), row("a", 2), row("b"), row("b", judge="second")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"judge": "first", **entry}) + "\n" for entry in ROWS))
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "study"


def add(source: Path, study: Path, *, include_text: bool = True, **more: Any) -> ImportFinding:
    finding = import_sources([str(source)], study, include_text=include_text, **more)
    assert finding.complete, finding.sources_read
    return finding


def kinds(study: Path) -> list[str]:
    return [problem.kind for problem in check_study(study)]


def files_with_text(folder: Path) -> list[str]:
    """Files that hold the marker, Parquet parts looked into."""
    import pyarrow.parquet as pq

    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = (
            str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text()
        )
        if MARKER in content:
            found.append(path.relative_to(folder).parts[0])
    return found


# --- keeping them -----------------------------------------------------------------------------


def test_a_plain_import_keeps_no_text_and_has_the_name_that_it_always_had(source, study):
    finding = add(source, study, include_text=False)
    assert finding.sources_read[0].texts == 0
    assert files_with_text(study) == []
    assert not (study / "texts").exists()
    (commit,) = Study.open(study).commits()
    origin = commit.origin
    assert origin is not None
    assert origin.other_options == {}
    options = options_digest(origin.evidence_map, {})
    assert commit.name == import_name(origin.digest, "tidy", TidyReader.version, options)
    assert list(read_texts(str(study))) == []


def test_an_import_with_texts_gives_back_the_texts_of_the_source(source, study):
    finding = add(source, study)
    assert finding.sources_read[0].texts == 3
    assert "with the texts of 3 responses" in finding.sentence()
    texts = read_texts(str(study))
    assert list(texts) == list(read_texts(str(source)))
    assert texts.without == []
    assert files_with_text(study) == ["texts"]
    assert kinds(study) == []


def test_texts_change_no_judgement(source, study, tmp_path):
    add(source, study)
    add(source, tmp_path / "plain", include_text=False)
    one, two = (
        read_evidence(str(path)).rows.sort("source_row").collect("pyarrow").to_arrow()
        for path in (study, tmp_path / "plain")
    )
    assert one.equals(two)


def test_sources_without_texts_are_imported_and_say_so(study, tmp_path):
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("model,a,b\nm,0,1\n")
    (report,) = add(matrix, study).sources_read
    assert report.added
    assert report.texts == 0
    assert any("texts are not read from the format matrix" in said for said in report.warnings)
    texts = read_texts(str(study))
    assert list(texts) == []
    assert "--include-text" in texts.without[0]
    assert kinds(study) == []


def test_a_source_whose_texts_are_damaged_leaves_nothing(source, study, monkeypatch):
    def damaged(*_: Any) -> Any:
        raise InputError("is damaged", file=str(source))
        yield

    monkeypatch.setattr(TidyReader, "texts", damaged)
    finding = import_sources([str(source)], study, include_text=True)
    assert not finding.complete
    assert not study.exists()


def test_only_texts_of_judged_responses_are_kept_and_each_once(source, study, monkeypatch):
    texts = TidyReader.texts

    def more(self: TidyReader, *given: Any) -> Any:
        for text in texts(self, *given):
            yield text
            yield replace(text, response="a second text of the same response")
            yield replace(text, item="unjudged")

    monkeypatch.setattr(TidyReader, "texts", more)
    add(source, study)
    monkeypatch.undo()
    assert list(read_texts(str(study))) == list(read_texts(str(source)))
    assert kinds(study) == []


def test_many_texts_are_written_a_few_at_a_time(study, tmp_path, monkeypatch):
    monkeypatch.setattr("safemetry.readers.importing._TEXT_ROWS", 7)
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(row(f"i{n}")) + "\n" for n in range(100)))
    assert add(path, study).sources_read[0].texts == 100
    assert [text.item for text in read_texts(str(study))] == [f"i{n}" for n in range(100)]


# --- the same source again --------------------------------------------------------------------


def test_the_same_source_with_texts_twice_adds_nothing(source, study):
    add(source, study)
    assert not add(source, study).sources_read[0].added
    assert len(Study.open(study).history()) == 1


def test_texts_can_be_added_to_what_was_imported_without(source, study, tmp_path):
    add(source, study, include_text=False)
    fixes = tmp_path / "fixes.csv"
    fixes.write_text("target,item,epoch,judge,field,value\nm,a,1,first,label,refuse\n")
    assert correct(Study.open(study), fixes, who="A. Reviewer", why="misread") >= 1
    finding = add(source, study)
    assert finding.sources_read[0].added
    assert finding.sources_read[0].texts == 3
    assert len(list(read_texts(str(study)))) == 3
    rows = read_evidence(str(study)).rows.collect("pyarrow").to_arrow().to_pylist()
    assert len(rows) == len(ROWS)
    labels = {(r["item"], r["epoch"], r["judge"]): r["label"] for r in rows}
    assert labels["a", 1, "first"] == "refuse"
    assert kinds(study) == []


def test_a_plain_import_of_what_is_held_with_texts_adds_nothing(source, study):
    add(source, study)
    finding = add(source, study, include_text=False)
    assert not finding.sources_read[0].added
    assert len(list(read_texts(str(study)))) == 3


def test_a_newer_reader_without_texts_says_that_they_are_gone(source, study, monkeypatch):
    add(source, study)
    monkeypatch.setattr(TidyReader, "version", TidyReader.version + 1)
    (report,) = add(source, study, include_text=False).sources_read
    assert report.added
    assert any("texts" in said and "no longer read" in said for said in report.warnings)
    assert list(read_texts(str(study))) == []
    assert add(source, study).sources_read[0].texts == 3
    assert len(list(read_texts(str(study)))) == 3


# --- check ------------------------------------------------------------------------------------


def test_a_changed_byte_of_a_text_is_found_and_its_reading_refused(source, study):
    add(source, study)
    (part,) = (study / "texts").glob("*.parquet")
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 1
    part.write_bytes(content)
    assert "changed_part" in kinds(study)
    assert read_evidence(str(study)).targets_seen == ("m",)
    with pytest.raises(InputError, match="damaged"):
        list(read_texts(str(study)))


def test_a_lost_part_of_texts_is_found(source, study):
    add(source, study)
    (part,) = (study / "texts").glob("*.parquet")
    part.unlink()
    assert "missing_part" in kinds(study)


def test_a_text_without_a_response_is_found(source, study, monkeypatch):
    stray = {"run": "log.jsonl", "target": "m", "item": "zz", "epoch": 1}
    batch = pa.RecordBatch.from_pylist(
        [{**stray, "prompt": MARKER, "response": MARKER}], TABLES["texts"]
    )
    monkeypatch.setattr(Incoming, "_texts", lambda *_: iter([batch]))
    add(source, study)
    (problem,) = check_study(study)
    assert problem.kind == "orphan_text"
    assert "'zz'" in problem.detail
    assert MARKER not in problem.detail
    assert problem.file.startswith("texts/")


# --- the command line -------------------------------------------------------------------------


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([*map(str, arguments), "--quiet"])
    return int(left.value.code or 0)


def test_texts_go_from_a_log_through_a_study_into_a_report_and_nowhere_else(
    source, study, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = tmp_path / "import.json"
    assert call("import", source, "--into", study, "--include-text", "--json", done) == 0
    assert json.loads(done.read_text())["sources"][0]["texts"] == 3
    assert MARKER not in done.read_text()
    assert call("check", study) == 0
    out = tmp_path / "out"
    out.mkdir()
    for kind in ("csv", "parquet"):
        assert call("export", study, "--to", kind, "-o", out / f"judgements.{kind}") == 0
    for command in (["rates"], ["items", "--where", "violation"], ["report"]):
        assert call(*command, study, "--json", out / f"{command[0]}.json") == 0
    assert call("report", study, "-o", out / "report.html") == 0
    assert files_with_text(out) == []
    assert call("report", study, "-o", tmp_path / "full.html", "--include-text") == 0
    assert MARKER in (tmp_path / "full.html").read_text()


def test_a_report_on_a_study_without_texts_says_why_it_shows_none(source, study, tmp_path):
    assert call("import", source, "--into", study) == 0
    page = tmp_path / "full.html"
    assert call("report", study, "-o", page, "--include-text") == 0
    text = page.read_text()
    assert MARKER not in text
    assert "keeps no texts" in text
