"""Several processes write to one study at once, or die while they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import duckdb
import pytest

from safemetry.evidence.check import check_study
from safemetry.evidence.study import Study

WRITER = """
import sys, time
from pathlib import Path
import pyarrow as pa
from safemetry.evidence import schema, study_commits
from safemetry.evidence.study import Accounting, Import, Study

folder, start, name, judge, mode = sys.argv[1:]
rows = [
    {"run": name, "target": "t", "item": str(number), "epoch": 1, "judge": judge, "call": 1,
     "label": "comply", "status": "ok", "intent": "harmful", "source_row": number}
    for number in range(200)
]
source = Import(
    judgements=pa.Table.from_pylist(rows, schema.JUDGEMENTS), source=name, source_digest=name,
    reader="tidy", reader_version=1, accounting=Accounting(rows_read=200, converted=200),
)
if mode == "dies":
    def stop(*_):
        Path(start + ".parts").touch()
        time.sleep(60)
    study_commits.publish = stop
Path(start + "." + name + judge + "." + mode + str(time.time_ns())).touch()
while not Path(start).exists():
    time.sleep(0.001)
study = Study.open_or_create(folder)
print(study.add(source).added)
"""


def launch(folder, start, name, judge="j", mode="writes"):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(start), name, judge, mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "a writer did not come so far"
        time.sleep(0.005)


def results(writers):
    said = []
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, err
        said.append(out.strip())
    return said


def rows(study):
    with duckdb.connect() as connection:
        return study.tidy(connection).aggregate("count(*)").fetchall()[0][0]


def test_writers_of_different_sources_all_land(tmp_path):
    start = tmp_path / "start"
    writers = [launch(tmp_path / "study", start, f"source {number}") for number in range(4)]
    wait_for(lambda: len(list(tmp_path.glob("start.*"))) == 4)
    start.touch()
    assert results(writers) == ["True"] * 4
    study = Study.open(tmp_path / "study")
    assert len(study.commits()) == 4
    assert rows(study) == 800
    assert check_study(study.path) == []


def test_of_writers_of_one_source_one_lands(tmp_path):
    start = tmp_path / "start"
    writers = [launch(tmp_path / "study", start, "one") for _ in range(4)]
    wait_for(lambda: len(list(tmp_path.glob("start.*"))) == 4)
    start.touch()
    assert sorted(results(writers)) == ["False", "False", "False", "True"]
    study = Study.open(tmp_path / "study")
    assert rows(study) == 200
    assert check_study(study.path) == []


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_writer_that_dies_before_its_commit_leaves_parts_that_nobody_reads(tmp_path):
    start = tmp_path / "start"
    study = Study.create(tmp_path / "study")
    start.touch()
    writer = launch(study.path, start, "one", mode="dies")
    wait_for((tmp_path / "start.parts").exists)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert study.commits() == []
    assert rows(study) == 0
    # With no import at all, the same files may be what is left of a study that lost its commits.
    (problem,) = check_study(study.path)
    assert problem.kind == "lost_commits"
    assert "5 parts" in problem.detail
    assert "import its source again" in problem.fix
    # The source comes in as if nothing had happened.
    assert results([launch(study.path, start, "one")]) == ["True"]
    assert rows(study) == 200
    problems = check_study(study.path)
    assert [problem.kind for problem in problems] == ["orphan"] * 5
    assert all(problem.is_note for problem in problems)


def test_two_who_create_a_study_at_once_agree_on_its_classes(tmp_path):
    script = """
import sys, time
from pathlib import Path
from safemetry.evidence.study import Study
folder, start, first = sys.argv[1:]
Path(start + "." + first).touch()
while not Path(start).exists():
    time.sleep(0.001)
print(*Study.open_or_create(folder, (first, "last")).classes)
"""
    start = tmp_path / "start"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "study"), str(start), name],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b", "c")
    ]  # fmt: skip
    wait_for(lambda: len(list(tmp_path.glob("start.*"))) == 3)
    start.touch()
    assert len(set(results(writers))) == 1
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == ["imports", "study.json"]
    json.loads((tmp_path / "study" / "study.json").read_text())
