"""The check finds every fault that is planted, and none in a sound study."""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from safemetry.evidence import schema, study_commits
from safemetry.evidence.check import check_study
from safemetry.evidence.corrections import correct
from safemetry.evidence.study import Accounting, Import, Study
from safemetry.evidence.study_import import Incoming


def bring(study, name, version=1, **cells):
    rows = [
        {"run": name, "target": target, "item": item, "epoch": 1, "judge": judge, "call": 1,
         "label": "comply", "status": "ok", "benchmark": "b", "intent": intent,
         "session": f"{target}{item}", "developer": "d", "source_row": number}
        | cells
        for number, (target, item, intent, judge) in enumerate(
            [(t, i, w, j) for t in ("t", "u") for i, w in (("1", "harmful"), ("2", "benign"))
             for j in ("j", "k")], start=1)
    ]  # fmt: skip
    return study.add(
        Import(
            judgements=pa.Table.from_pylist(rows, schema.JUDGEMENTS),
            source=f"{name}.csv",
            source_digest=name,
            reader="tidy",
            reader_version=version,
            accounting=Accounting(rows_read=len(rows), converted=len(rows)),
        )
    )


def correction(**cells):
    return pa.table({name: [value] for name, value in cells.items()})


@pytest.fixture
def study(tmp_path):
    """A study with two sources, one read again, and a correction."""
    study = Study.create(tmp_path / "study")
    bring(study, "a")
    bring(study, "b")
    bring(study, "b", version=2)
    place = {"run": "a", "target": "t", "item": "1", "judge": "j"}
    correct(study, correction(**place, field="label", value="refuse"), "Ada", "misread")
    correct(study, correction(item="2", field="category", value="c"), "Ada", "was unknown")
    return study


def commit_of(study, run="a"):
    found = [c for c in study.commits() if c.origin and c.origin.digest == run]
    return study.path / "imports" / f"{found[0].name}.json"


def plant(path, change, *, seal=True):
    """Change a commit, and by default make it look as if it had been written so."""
    content = json.loads(path.read_bytes())
    content.pop("seal")
    before = study_commits._seal(content)
    change(content)
    content["seal"] = study_commits._seal(content) if seal else before
    path.write_text(json.dumps(content))


def replant(study, table, change, run="a"):
    """Change the rows of a part, and make its commit agree."""
    path = commit_of(study, run)

    def agree(content):
        part = next(part for part in content["parts"] if part["table"] == table)
        file = study.path / part["file"]
        rows = change(pq.read_table(file))
        pq.write_table(rows, file)
        part["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        if table == "judgements":
            content["origin"]["judgements"] += rows.num_rows - part["rows"]
        part["rows"] = rows.num_rows

    plant(path, agree)


def with_column(rows, name, values):
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


def part_of(study, table):
    content = json.loads(commit_of(study).read_bytes())
    return study.path / next(p["file"] for p in content["parts"] if p["table"] == table)


def kinds(study):
    return [problem.kind for problem in check_study(study.path)]


def test_a_sound_study_has_no_problems(study):
    assert check_study(study.path) == []


def test_a_flipped_byte(study):
    path = part_of(study, "judgements")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (problem,) = check_study(study.path)
    assert problem.kind == "changed_part"
    assert problem.file == path.relative_to(study.path).as_posix()
    assert not problem.is_note


@pytest.mark.parametrize("table", ["judgements", "responses", "items", "targets", "judges"])
def test_a_lost_part(study, table):
    path = part_of(study, table)
    path.unlink()
    (problem,) = check_study(study.path)
    assert problem.kind == "missing_part"
    assert problem.file == path.relative_to(study.path).as_posix()


def test_an_orphan_is_a_note(study):
    (study.path / "judgements" / "0-0.parquet").write_bytes(b"cut off")
    (study.path / "imports" / ".x.json.0").write_bytes(b"{")
    problems = check_study(study.path)
    assert [problem.kind for problem in problems] == ["orphan", "orphan"]
    assert all(problem.is_note and "delete" in problem.fix for problem in problems)


def test_a_key_that_stands_twice_within_a_source(study):
    replant(study, "judgements", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    (problem,) = check_study(study.path)
    assert problem.kind == "repeated_key"
    assert "1 judgements stand more than once, the first is (run 'a', target 't'" in problem.detail


def test_a_key_that_two_sources_hold(study):
    """As two writers may bring it in who do not see each other's commits."""
    replant(study, "judgements", lambda rows: with_column(rows, "run", ["b"] * rows.num_rows))
    replant(study, "responses", lambda rows: with_column(rows, "run", ["b"] * rows.num_rows))
    problems = {problem.kind: problem for problem in check_study(study.path)}
    assert "also in judgements/" in problems["repeated_key"].detail
    assert problems["repeated_key"].detail.startswith("8 judgements")


def test_a_row_total_of_a_part(study):
    def change(content):
        content["parts"][0]["rows"] += 1

    plant(commit_of(study), change)
    assert kinds(study) == ["row_total"]


def test_a_row_total_of_an_import(study):
    def change(content):
        content["origin"]["judgements"] += 1

    plant(commit_of(study), change)
    assert kinds(study) == ["row_total"]


def test_rows_that_vanished(study):
    def change(content):
        content["origin"]["accounting"]["rows_read"] += 3

    plant(commit_of(study), change)
    (problem,) = check_study(study.path)
    assert problem.kind == "accounting"
    assert "3 of 11 rows" in problem.detail


def test_an_unknown_judge(study):
    replant(study, "judges", lambda rows: rows.filter(pc.not_equal(rows["name"], "k")))
    (problem,) = check_study(study.path)
    assert problem.kind == "unknown_judge"
    assert "4 judgements" in problem.detail
    assert "judge 'k'" in problem.detail


@pytest.mark.parametrize(
    ("table", "kind"),
    [("responses", "missing_response"), ("items", "missing_item"), ("targets", "missing_target")],
)
def test_a_judgement_of_something_that_is_not_there(study, table, kind):
    replant(study, table, lambda rows: rows.slice(1))
    found = {problem.kind: problem for problem in check_study(study.path)}
    assert kind in found
    assert found[kind].file.startswith("judgements/")


@pytest.mark.parametrize("table", ["responses", "items", "targets"])
def test_a_context_that_stands_twice(study, table):
    replant(study, table, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    assert "repeated_context" in kinds(study)


@pytest.mark.parametrize("column", ["label", "status", "reason"])
def test_an_unknown_word_of_a_judgement(study, column):
    replant(study, "judgements", lambda rows: with_column(rows, column, ["maybe"] * rows.num_rows))
    (problem,) = check_study(study.path)
    assert problem.kind == f"unknown_{column}"
    assert "8 rows hold" in problem.detail


def test_an_unknown_intent(study):
    replant(study, "items", lambda rows: with_column(rows, "intent", ["evil"] * rows.num_rows))
    assert "unknown_intent" in kinds(study)


@pytest.mark.parametrize("size", [0, 1, 400])
def test_a_commit_that_is_cut_short(study, size):
    path = commit_of(study)
    path.write_bytes(path.read_bytes()[:size])
    problems = check_study(study.path)
    assert problems[0].kind == "damaged_commit"
    assert problems[0].file == f"imports/{path.name}"
    assert "orphan" not in {problem.kind for problem in problems}


def test_an_altered_commit(study):
    def change(content):
        content["warnings"] = ["All is well."]

    plant(commit_of(study), change, seal=False)
    assert "altered_commit" in kinds(study)


def test_a_changed_source_digest(study):
    def change(content):
        content["origin"]["digest"] = "another"

    plant(commit_of(study), change)
    assert "renamed_commit" in kinds(study)


def test_a_changed_map(study):
    def change(content):
        content["origin"]["evidence_map"]["labels"] = {"unsafe": "refuse"}

    plant(commit_of(study), change)
    assert "renamed_commit" in kinds(study)


def test_a_renamed_commit(study):
    path = commit_of(study)
    path.rename(path.with_name(f"{'0' * 32}.json"))
    assert "renamed_commit" in kinds(study)


def test_a_lost_commit_that_another_superseded(study):
    superseded = next(name for commit in study.commits() for name in commit.supersedes)
    (study.path / "imports" / f"{superseded}.json").unlink()
    assert "missing_commit" in kinds(study)


def test_a_correction_without_a_row(study):
    correct(study, correction(target="t", field="developer", value="e"), "Ada", "merged")
    commit_of(study).unlink()
    found = [problem for problem in check_study(study.path) if problem.kind == "idle_correction"]
    (problem,) = found
    assert "1 corrections fit nothing" in problem.detail
    assert "label at run 'a', target 't', item '1'" in problem.detail


def test_an_item_with_two_intents(study, monkeypatch):
    """As two writers may bring it in who do not see each other's commits."""
    monkeypatch.setattr(Incoming, "refuse_mixed_intents", lambda *_: None)
    bring(study, "c", intent="harmful")
    (problem,) = check_study(study.path)
    assert problem.kind == "mixed_intent"
    assert "1 items have more than one intent, the first is item '2'" in problem.detail
    correct(study, correction(item="2", field="intent", value="benign"), "Ada", "a twin")
    assert check_study(study.path) == []


@pytest.mark.parametrize(("table", "column"), [("items", "intent"), ("targets", "developer")])
def test_a_context_that_was_altered(study, table, column):
    replant(study, table, lambda rows: with_column(rows, column, ["benign"] * rows.num_rows))
    (problem,) = check_study(study.path)
    assert problem.kind == "altered_context"
    assert problem.file.startswith(f"{table}/")


def test_a_part_of_another_type(study):
    def change(rows):
        at = rows.schema.get_field_index("epoch")
        return rows.set_column(at, "epoch", rows["epoch"].cast(pa.string()))

    replant(study, "judgements", change)
    (problem,) = check_study(study.path)
    assert problem.kind == "schema"
    assert "'epoch' is string, not int64" in problem.detail


def test_a_part_without_a_column(study):
    replant(study, "responses", lambda rows: rows.drop_columns(["session"]))
    assert kinds(study) == ["schema"]


def test_a_part_that_is_no_parquet(study):
    path = commit_of(study)

    def change(content):
        file = study.path / content["parts"][0]["file"]
        file.write_bytes(b"PAR1 no more")
        content["parts"][0]["sha256"] = hashlib.sha256(b"PAR1 no more").hexdigest()

    plant(path, change)
    assert kinds(study) == ["unreadable_part"]


def test_a_commit_of_a_newer_version(study):
    plant(commit_of(study), lambda content: content.update(schema=99))
    problems = check_study(study.path)
    assert problems[0].kind == "newer_schema"
    assert problems[0].fix == "upgrade safemetry"


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["comply", "evasive", "refuse"]},
        {"outside": []},
        {"classes": ["refuse", "comply"]},
    ],
)
def test_classes_that_were_changed(study, change):
    about = study.path / "study.json"
    held = json.loads(about.read_bytes())
    about.write_text(json.dumps(held | change))
    (problem,) = check_study(study.path)
    assert (problem.kind, problem.file) == ("changed_classes", "study.json")
    assert not problem.is_note
    assert json.dumps(held["classes"]) in problem.fix
    assert json.dumps(held["outside"]) in problem.fix


@pytest.mark.parametrize("whole_folder", [False, True])
def test_lost_commits(study, whole_folder):
    for path in (study.path / "imports").iterdir():
        path.unlink()
    if whole_folder:
        (study.path / "imports").rmdir()
    (problem,) = check_study(study.path)
    assert problem.kind == "lost_commits"
    assert not problem.is_note
    assert "delete" not in problem.fix


def test_an_empty_study_has_lost_nothing(tmp_path):
    assert check_study(Study.create(tmp_path / "empty").path) == []


def test_no_study_and_a_damaged_one(tmp_path, study):
    (problem,) = check_study(tmp_path)
    assert problem.kind == "missing_study"
    about = study.path / "study.json"
    about.write_text(about.read_text().replace('"schema": 1', '"schema": 2'))
    assert kinds(study) == ["newer_schema"]
    (study.path / "study.json").write_text("{")
    (problem,) = check_study(study.path)
    assert problem.kind == "damaged_study"
    (study.path / "study.json").unlink()
    assert kinds(study) == ["missing_study"]
