"""An import accounts for every row, and leaves either all of a source or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError, MissingExtraError
from safemetry.evidence.check import check_study
from safemetry.evidence.study import Study
from safemetry.readers import import_sources, read_evidence

TIDY = "target,item,label\nm,1,comply\nm,2,refuse\nm,3,\n"
DAMAGED = "target,item,label\nm,1,comply\nm,2\n"
UNKNOWN = "target,item,label\nm,1,comply\nm,2,maybe\n"


@pytest.fixture
def study(tmp_path) -> Path:
    return tmp_path / "study"


def put(folder: Path, name: str, text: str = TIDY) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def accounted(finding) -> bool:
    return all(
        report.rows_read == report.converted + sum(report.skipped.values()) + report.failed
        for report in finding.sources_read
    )


def test_every_row_is_converted(tmp_path, study):
    finding = import_sources([put(tmp_path, "a.csv")], study)
    (report,) = finding.sources_read
    assert (report.format, report.rows_read, report.converted, report.failed) == ("tidy", 3, 3, 0)
    assert report.judgements == 3
    assert report.added
    assert finding.complete
    assert finding.sentence() == f"3 judgements added to {study}."
    assert not [problem for problem in check_study(study) if not problem.is_note]
    assert len(read_evidence(str(study)).rows.collect().to_arrow()) == 3


def test_the_result_is_json(tmp_path, study):
    sources = [put(tmp_path, "a.csv"), put(tmp_path, "b.csv", DAMAGED), put(tmp_path, "c", "words")]
    finding = import_sources(sources, study)
    result = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    assert [source["format"] for source in result["sources"]] == ["tidy", "tidy", None]
    assert result["sources"][2]["why"]["format"]
    assert {"path", "format", "rows_read", "converted", "skipped", "failed"} <= set(
        result["sources"][0]
    )


def test_the_same_source_twice_adds_nothing(tmp_path, study):
    source = put(tmp_path, "a.csv")
    first = import_sources([source], study)
    second = import_sources([source], study)
    assert [r.added for r in (*first.sources_read, *second.sources_read)] == [True, False]
    assert second.complete
    assert second.sentence() == f"0 judgements added to {study}; 1 source was there already."
    both = import_sources([source, put(tmp_path, "copy/of.csv"), source], tmp_path / "other")
    assert [r.added for r in both.sources_read] == [True, False, False]


@pytest.mark.parametrize("text", [DAMAGED, UNKNOWN])
def test_a_damaged_file_stops_no_other(tmp_path, study, text):
    put(tmp_path, "logs/a.csv")
    put(tmp_path, "logs/b.csv", text)
    put(tmp_path, "logs/c.csv", TIDY.replace("\nm,", "\nn,"))
    put(tmp_path, "logs/notes.md", "Words.\n")
    finding = import_sources([str(tmp_path / "logs")], study)
    assert [report.added for report in finding.sources_read] == [True, False, True, False]
    assert not finding.complete
    assert accounted(finding)
    assert "b.csv" in finding.sources_read[1].problems[0]
    assert finding.sources_read[1].failed == finding.sources_read[1].rows_read
    assert dict(finding.sources_read[3].skipped) == {"not recognised by any reader": 0}
    assert not finding.sources_read[3].problems
    assert finding.sentence().endswith("; 1 source refused, of which nothing was written.")
    assert read_evidence(str(study)).targets_seen == ("m", "n")
    assert not [problem for problem in check_study(study) if not problem.is_note]


def test_files_that_are_no_source_do_not_make_an_import_incomplete(tmp_path, study):
    put(tmp_path, "logs/a.csv")
    put(tmp_path, "logs/README.md", "Words.\n")
    assert import_sources([str(tmp_path / "logs")], study).complete


def test_files_that_cannot_be_read_do(tmp_path, study):
    put(tmp_path, "logs/a.csv")
    (tmp_path / "logs" / "dead").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "logs" / "pipe")
    (tmp_path / "logs" / "cut.parquet").write_bytes(b"PAR1cut")
    finding = import_sources([str(tmp_path / "logs"), str(tmp_path / "absent")], study)
    assert not finding.complete
    assert [bool(report.problems) for report in finding.sources_read] == [False] + [True] * 4


@pytest.mark.parametrize("text", [DAMAGED, UNKNOWN, "", "words", TIDY + "m,1,comply\n"])
def test_where_all_is_refused_there_is_no_study(tmp_path, study, text):
    finding = import_sources([put(tmp_path, "a.csv", text)], study)
    assert not finding.complete
    assert accounted(finding)
    assert not study.exists()


def test_a_study_that_was_there_stays_as_it_was(tmp_path, study):
    import_sources([put(tmp_path, "a.csv")], study)
    before = sorted(path.name for path in study.rglob("*"))
    import_sources([put(tmp_path, "b.csv", UNKNOWN)], study)
    assert sorted(path.name for path in study.rglob("*")) == before
    empty = tmp_path / "empty"
    Study.create(empty)
    import_sources([put(tmp_path, "b.csv", UNKNOWN)], empty)
    assert Study.is_study(empty)


def test_one_judgement_twice_is_refused_whole(tmp_path, study):
    first = import_sources([put(tmp_path, "a/r.csv")], study)
    assert first.complete
    second = import_sources([put(tmp_path, "b/r.csv", TIDY + "m,4,comply\n")], study)
    (report,) = second.sources_read
    assert "is in the study already" in report.problems[0]
    assert (report.rows_read, report.converted, report.failed) == (4, 0, 4)
    assert len(read_evidence(str(study)).rows.collect().to_arrow()) == 3


def test_two_files_of_one_name_are_two_runs(tmp_path, study):
    put(tmp_path, "logs/a/r.csv")
    put(tmp_path, "logs/b/r.csv", TIDY + "m,4,comply\n")
    finding = import_sources([str(tmp_path / "logs")], study)
    assert finding.complete
    rows = read_evidence(str(study)).rows.collect().to_arrow()
    assert set(rows["run"].to_pylist()) == {"a/r.csv", "b/r.csv"}


def test_another_folder_or_other_classes_are_refused_before_anything_is_read(tmp_path, study):
    source = put(tmp_path, "logs/a.csv")
    with pytest.raises(InputError, match="exists and is no study"):
        import_sources([source], tmp_path / "logs")
    with pytest.raises(InputError, match="exists and is no study"):
        import_sources([source], source)
    import_sources([source], study)
    with pytest.raises(
        InputError, match=r"the study has the classes refuse, evasive, comply .*map"
    ):
        import_sources([source], study, evidence_map={"classes": ["safe", "unsafe"]})
    with pytest.raises(InputError, match="cannot be imported into a study"):
        import_sources([source], study, kind="study")
    (report,) = import_sources([str(study)], tmp_path / "other").sources_read
    assert "is a study itself" in report.problems[0]


def test_the_study_in_the_folder_that_is_imported_is_left_out(tmp_path):
    put(tmp_path, "a.csv")
    for _ in range(2):
        finding = import_sources([str(tmp_path)], tmp_path / "study")
        assert finding.complete
    assert len(read_evidence(str(tmp_path / "study")).rows.collect().to_arrow()) == 3


def test_the_rule_and_the_scales_of_a_matrix_are_kept(tmp_path, study):
    import_sources([put(tmp_path, "m.csv", "model,a,b\nm,1,0\nn,,1\n")], study)
    evidence = read_evidence(str(study))
    assert str(evidence.default_rule) == "at_least:1"
    assert evidence.instruments["matrix"].scale.higher_is == "safer"


def test_rows_are_added_in_the_order_of_the_source(tmp_path, study, monkeypatch):
    added = []
    monkeypatch.setattr(Study, "add", lambda _, source, **_options: added.append(source) or 1 / 0)
    n = 30_000
    columns = {"target": ["m"] * n, "item": [f"{i * 7919 % n}" for i in range(n)]}
    columns["label"] = ["comply"] * n
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1_000)
    with pytest.raises(ZeroDivisionError):
        import_sources([str(tmp_path / "a.parquet")], study)
    assert added[0].judgements["source_row"].to_pylist() == list(range(1, n + 1))


def test_an_absent_extra_refuses_its_source_only(tmp_path, study, monkeypatch):
    source = put(tmp_path, "a.csv")

    def absent(reader, source, evidence_map):
        raise MissingExtraError("inspect_ai is not installed; run: pip install safemetry[inspect]")

    monkeypatch.setattr("safemetry.readers.importing.convert", absent)
    (report,) = import_sources([source], study).sources_read
    assert report.problems == ("inspect_ai is not installed; run: pip install safemetry[inspect]",)


def test_an_address_is_imported_once(tmp_path, study):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/logs/a.csv", TIDY.encode())
    for added in (True, False):
        (report,) = import_sources(["memory://logs/a.csv"], study).sources_read
        assert report.added is added
        assert report.path == "memory://logs/a.csv"
    fsspec.filesystem("memory").rm("/", recursive=True)


def test_a_damaged_page_leaves_nothing(tmp_path, study):
    texts = [f"text number {n * 7919 % 1000}" for n in range(1_000)]
    columns = {"target": texts, "item": texts, "label": ["comply"] * 1_000, "session": texts}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd")
    start = pq.read_metadata(path).row_group(0).column(3).dictionary_page_offset + 30
    content = bytearray(path.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    finding = import_sources([str(path)], study)
    assert "is damaged" in finding.sources_read[0].problems[0]
    assert accounted(finding)
    assert not study.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in the units of Linux")
def test_texts_beside_a_large_table_take_no_memory(tmp_path):
    n = 200_000
    codes = pa.array([i % 50 for i in range(n)])
    table = pa.table(
        {
            "target": pa.array([f"model-{k}" for k in range(50)]).take(codes),
            "item": pa.array([f"item-{i // 50}" for i in range(n)]),
            "label": pa.array(["comply"] * n),
            "response": pa.array(["a long text " * 200] * n),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    code = (
        "import sys; from safemetry.readers import import_sources; "
        "assert import_sources(sys.argv[1:2], sys.argv[2]).complete; "
        # The peak of this program: that of `getrusage` begins with the peak of the one that forks.
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.parquet"), str(tmp_path / "study")],
        capture_output=True,
        check=True,
        text=True,
    )
    assert int(done.stdout) < 600_000


def test_the_same_bytes_with_another_map_replace_only_when_asked(tmp_path, study):
    source = tmp_path / "a.csv"
    source.write_text("target,item,label\nm,1,no\n", encoding="utf-8")
    first = {"labels": {"no": "refuse"}}
    second = {"labels": {"no": "evasive"}}
    assert import_sources([str(source)], study, evidence_map=first).complete
    refused = import_sources([str(source)], study, evidence_map=second)
    assert not refused.complete
    assert "--replace" in refused.sources_read[0].problems[0]
    assert import_sources([str(source)], study, evidence_map=second, replace=True).complete
    rows = read_evidence(str(study)).rows.collect("pyarrow").to_arrow()
    assert rows["label"].to_pylist() == ["evasive"]
