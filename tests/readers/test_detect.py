"""Formats are told by content, and readers of other packages are asked too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers import Source, import_sources, known_readers, read_evidence
from safemetry.readers.detect import GROUP, detect, files_below, installed_readers, reader_named

TIDY = "target,item,label\nm,1,comply\n"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "readers.md"


def found(path, **entries) -> str | None:
    reader = detect(Source(str(path)), EvidenceMap(**entries))
    return reader and reader.name


@pytest.mark.parametrize("name", ["table.csv", "table", "table.json", "table.parquet"])
def test_the_name_of_a_file_says_nothing(tmp_path, name):
    (tmp_path / name).write_text(TIDY)
    assert found(tmp_path / name) == "tidy"


@pytest.mark.parametrize(
    ("file", "reader"),
    [
        ("garak/test.report.jsonl", "garak"),
        ("inspect/log_formats.eval", "inspect"),
        ("inspect/log_formats.json", "inspect"),
        ("helm/air_bench_2024_gpt-4o", "helm"),
        ("lm_eval/samples_*.jsonl", "lm-eval"),
        ("promptfoo/output.jsonl", "promptfoo"),
        ("promptfoo/output.csv", None),
        ("pyrit/pyrit_1.1.0_memory_sqlite.db", "pyrit"),
        ("pyrit/pyrit_0.11.0_export_conversations.json", "pyrit"),
        ("jailbreakbench/attack-artifacts_PAIR_black_box_*.json", "jailbreakbench"),
        ("jailbreakbench/attack-artifacts_PAIR_attack-info.json", None),
    ],
)
def test_real_logs_are_told_apart_without_their_names(shared, tmp_path, file, reader):
    (source,) = (shared / "formats").glob(file)
    if source.is_dir():
        assert found(source) == reader
        return
    shutil.copy(source, tmp_path / "log")
    assert found(tmp_path / "log") == reader


def test_where_two_formats_fit_both_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("target,item,label,human_1,human_2\nm,1,comply,comply,refuse\n")
    with pytest.raises(InputError, match="tidy and labels; say which with --as tidy or --as lab"):
        read_evidence(str(path))
    assert read_evidence(str(path), kind="tidy").instruments.keys() == {"judge"}
    assert read_evidence(str(path), kind="labels").instruments.keys() == {"human_1", "human_2"}


def test_an_unknown_reader_is_named_with_those_there_are(tmp_path):
    (tmp_path / "a.csv").write_text(TIDY)
    with pytest.raises(InputError, match="no reader 'nothing'; use one of study, tidy, labels"):
        read_evidence(str(tmp_path / "a.csv"), kind="nothing")


def test_a_table_is_recognised_however_damaged_its_rows(tmp_path):
    for text in (
        "target,item,label\nm,1\n",
        'target,item,label\nm,"1,comply\n',
        "target,item,label,item\nm,1,comply,2\n",
        '{"target": "m", "item": "1", "label": "comply"}\n{"tar',
    ):
        (tmp_path / "a").write_text(text)
        assert found(tmp_path / "a") == "tidy" or text.startswith("target,item,label,item")
        with pytest.raises(InputError):
            read_evidence(str(tmp_path / "a"))


def test_files_of_a_folder_come_in_a_stable_order(tmp_path):
    for name in ("b", "a/c", ".hidden/x", "a/.y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)] == ["a/c", "b"]


# --- readers of other packages ----------------------------------------------------------------


@pytest.fixture
def install(install_package):
    """Install a package that declares readers, for one test."""

    def put(package: str, code: str, **points: str) -> None:
        install_package(GROUP, package, code, **points)
        installed_readers.cache_clear()

    yield put
    installed_readers.cache_clear()


def documented_example() -> str:
    """The reader that docs/readers.md shows."""
    text = DOCUMENTED.read_text(encoding="utf-8")
    return text.partition("```python\n# simple_log.py\n")[2].partition("```")[0]


def simple_log(tmp_path) -> Path:
    path = tmp_path / "run.simple"
    lines = [
        {"simple_log": 1, "model": "m"},
        {"prompt": "p1", "verdict": "unsafe"},
        {"prompt": "p2", "verdict": "safe"},
        {"note": "half time"},
        {"prompt": "p3", "verdict": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_reader_of_the_documentation_works(tmp_path, install):
    install("simple_log", documented_example(), simple="simple_log:SimpleLogReader")
    assert "simple" in known_readers()
    path = simple_log(tmp_path)
    evidence = read_evidence(str(path))
    rows = evidence.rows.sort("source_row").collect("pyarrow").to_arrow()
    assert rows["label"].to_pylist() == ["comply", "refuse", None]
    assert rows["reason"].to_pylist() == [None, None, "grader_failed"]
    finding = import_sources([str(path)], tmp_path / "study")
    (report,) = finding.sources_read
    assert (report.format, report.rows_read, report.converted) == ("simple", 5, 3)
    assert dict(report.skipped) == {"head": 1, "note": 1}
    assert finding.complete


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        ("class Reader: pass\n", "TypeError: it lacks name, version, recognises or read"),
        (
            """
            class Reader:
                name, version = "other", 1
                def recognises(self, source): return False
                def read(self, source, evidence_map): ...
            """,
            "TypeError: it calls itself 'other'",
        ),
    ],
)
def test_a_broken_reader_stops_only_those_who_ask_for_it(tmp_path, install, code, said):
    install("broken_reader", code, broken="broken_reader:Reader")
    path = tmp_path / "a.csv"
    path.write_text(TIDY)
    evidence = read_evidence(str(path))
    assert len(evidence.warnings) == 1
    assert "'broken'" in evidence.warnings[0]
    assert "broken_reader" in evidence.warnings[0]
    assert said in evidence.warnings[0]
    assert import_sources([str(path)], tmp_path / "study").warnings == evidence.warnings
    assert read_evidence(str(path), kind="tidy").warnings == ()
    with pytest.raises(InputError, match="the reader 'broken' cannot be used") as caught:
        reader_named("broken")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["garak", "tidy", "study"])
def test_a_name_that_is_taken_stays_with_its_owner(tmp_path, install, name):
    code = f"""
    class Reader:
        name, version = {name!r}, 1
        def recognises(self, source): return True
        def read(self, source, evidence_map): raise AssertionError
    """
    before = known_readers()
    install("another", code, **{name: "another:Reader"})
    assert {name: type(reader) for name, reader in known_readers().items()} == {
        name: type(reader) for name, reader in before.items()
    }
    (warning,) = installed_readers().warnings()
    assert f"{name} of another" in warning


def test_a_reader_of_another_package_that_fails_is_named(tmp_path, install):
    code = """
    class Reader:
        name, version = "fragile", 1
        def recognises(self, source):
            return 1 / (b"x" in source.head)
        def read(self, source, evidence_map):
            raise KeyError("field")
    """
    install("fragile_reader", code, fragile="fragile_reader:Reader")
    (tmp_path / "a.csv").write_text(TIDY)
    assert found(tmp_path / "a.csv") == "tidy"
    (tmp_path / "b").write_text("nothing")
    with pytest.raises(InputError, match=r"'fragile' of fragile_reader failed .ZeroDivisionError"):
        read_evidence(str(tmp_path / "b"))
    (tmp_path / "c").write_text("x")
    with pytest.raises(InputError, match=r"'fragile' of fragile_reader failed .KeyError: 'field'"):
        read_evidence(str(tmp_path / "c"))
    finding = import_sources([str(tmp_path / "c"), str(tmp_path / "a.csv")], tmp_path / "study")
    assert [bool(report.problems) for report in finding.sources_read] == [True, False]
