"""A study holds what was imported, once, and says where it came from."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence import schema
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.study import Accounting, Import, Study
from safemetry.evidence.study_tables import TABLES

ROW = {"run": "r", "target": "t", "item": "001", "epoch": 1, "judge": "j", "call": 1,
       "label": "comply", "status": "ok", "source_file": "a.csv"}  # fmt: skip


def source(*rows, digest="d1", version=1, **more):
    numbered = [ROW | {"source_row": number} | row for number, row in enumerate(rows, start=1)]
    return Import(
        judgements=pa.Table.from_pylist(numbered, schema.JUDGEMENTS),
        source=more.pop("name", "a.csv"),
        source_digest=digest,
        reader=more.pop("reader", "tidy"),
        reader_version=version,
        accounting=more.pop("accounting", Accounting(rows_read=len(rows), converted=len(rows))),
        **more,
    )


def tidy(study, columns=schema.NAMES):
    with duckdb.connect() as connection:
        rows = study.tidy(connection, columns).to_arrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["source_row"])


def labels(study):
    return {(row["item"], row["label"]) for row in tidy(study)}


@pytest.fixture
def study(tmp_path):
    return Study.create(tmp_path / "study")


# --- opening -------------------------------------------------------------------------------------


def test_a_study_is_created_once(tmp_path):
    study = Study.create(tmp_path / "s", ("safe", "unsafe"), ())
    assert Study.is_study(study.path)
    assert Study.open(tmp_path / "s") == study
    assert study.classes == ("safe", "unsafe")
    with pytest.raises(InputError, match="there is a study already"):
        Study.create(tmp_path / "s")
    assert Study.open_or_create(tmp_path / "s").classes == ("safe", "unsafe")


def test_a_folder_with_other_files_does_not_become_a_study(tmp_path):
    (tmp_path / "log.json").write_text("{}")
    with pytest.raises(InputError, match="holds other files"):
        Study.open_or_create(tmp_path)
    assert not Study.is_study(tmp_path)


@pytest.mark.parametrize("classes", [(), ("refuse",), ("a", "a"), ("a", "gibberish")])
def test_a_study_needs_two_different_classes(tmp_path, classes):
    with pytest.raises(InputError, match="two different classes"):
        Study.create(tmp_path / "s", classes)


def test_what_is_no_study_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no study\.json"):
        Study.open(tmp_path)
    (tmp_path / "study.json").write_text('{"schema": 1')
    with pytest.raises(InputError, match="damaged or cut short"):
        Study.open(tmp_path)
    about = {"schema": 99, "classes": ["a", "b"], "outside": [], "created_by": "9"}
    (tmp_path / "study.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"newer version.*upgrade"):
        Study.open(tmp_path)


# --- importing -----------------------------------------------------------------------------------


def test_the_same_source_twice_adds_nothing(study):
    first = study.add(source({}, {"item": "002"}))
    digest = study.digest
    again = study.add(source({}, {"item": "002"}, name="copy.csv"))
    assert first.added
    assert not again.added
    assert again.commit == first.commit
    assert study.digest == digest
    assert len(tidy(study)) == 2
    assert len(list((study.path / "judgements").iterdir())) == 1


def test_equal_evidence_has_an_equal_digest_in_any_order(tmp_path):
    one, two = source({}), source({"item": "002"}, digest="d2")
    studies = [Study.create(tmp_path / name) for name in "ab"]
    for study, sources in zip(studies, [(one, two), (two, one)], strict=True):
        for each in sources:
            study.add(each)
    assert studies[0].digest == studies[1].digest
    assert studies[0].digest != Study.create(tmp_path / "c").digest


def test_a_commit_says_where_its_rows_come_from(study):
    done = study.add(
        source(
            {},
            accounting=Accounting(rows_read=4, converted=1, skipped={"blank": 2}, failed=1),
            evidence_map=EvidenceMap(labels={"jailbroken": "comply"}),
            warnings=["Scores were left out."],
        )
    )
    (commit,) = study.commits()
    assert commit.name == done.commit
    origin = commit.origin
    assert (origin.location, origin.digest, origin.reader, origin.reader_version) == (
        "a.csv", "d1", "tidy", 1,
    )  # fmt: skip
    assert origin.accounting.skipped == {"blank": 2}
    assert origin.evidence_map["labels"] == {"jailbroken": "comply"}
    assert commit.warnings == ("Scores were left out.",)
    assert {part.table for part in commit.parts} == {
        "judgements", "responses", "items", "targets", "judges",
    }  # fmt: skip


def test_parts_have_the_documented_schema(study):
    study.add(source({}))
    with duckdb.connect() as connection:
        for name, expected in TABLES.items():
            assert study.table(connection, name).to_arrow_table().schema.equals(expected), name


def test_size_limits_are_no_part_of_the_options(study):
    study.add(source({}))
    again = source({}, evidence_map=EvidenceMap(limits={"rows": 10}))
    assert not study.add(again).added


def test_vanished_rows_are_refused(study):
    with pytest.raises(InputError, match="1 of 3 rows are unaccounted for"):
        study.add(source({}, accounting=Accounting(rows_read=3, converted=1, failed=1)))
    assert study.commits() == []


def test_a_judgement_that_stands_twice_is_refused(study):
    with pytest.raises(InputError, match="stands more than once") as caught:
        study.add(source({}, {"item": "002"}, {"label": "refuse"}))
    assert caught.value.row == 3
    assert not (study.path / "judgements").exists()


def test_a_judgement_of_another_source_is_refused(study):
    first = study.add(source({}, {"item": "002"}))
    with pytest.raises(InputError, match="in the study already") as caught:
        study.add(source({"item": "003"}, {"item": "002"}, digest="d2", name="b.csv"))
    assert caught.value.row == 2
    assert first.commit[:8] in str(caught.value)
    study.add(source({"item": "002", "run": "other"}, digest="d2"))
    assert len(tidy(study)) == 3


def test_an_unknown_label_or_another_class_order_is_refused(study):
    with pytest.raises(InputError, match="unknown label 'maybe'") as caught:
        study.add(source({}, {"item": "2", "label": "maybe"}))
    assert caught.value.row == 2
    with pytest.raises(InputError, match="set classes: \\[refuse, evasive, comply\\]"):
        study.add(source({}, evidence_map=EvidenceMap(classes=("refuse", "comply"))))


def test_an_item_has_one_intent(study):
    twins = {"benchmark": "b", "intent": "harmful"}, {"benchmark": "b", "intent": "benign"}
    with pytest.raises(InputError, match=r"more than one intent \(benign, harmful\)"):
        study.add(source(twins[0], twins[1] | {"target": "u"}))
    study.add(source(twins[0]))
    with pytest.raises(InputError, match="more than one intent"):
        study.add(source(twins[1] | {"run": "s"}, digest="d2"))
    # Without a benchmark, or in another one, the same id is another item.
    study.add(source({"intent": "benign", "run": "s"}, digest="d2"))
    study.add(source(twins[1] | {"run": "u", "benchmark": "c"}, digest="d3"))
    # An unknown intent contradicts nothing.
    study.add(source({"benchmark": "b", "run": "v"}, digest="d4"))
    assert len(tidy(study)) == 4


def test_contexts_that_differ_are_kept_and_said(study):
    done = study.add(
        source({"attack": "pair", "timestamp": "1"}, {"judge": "k", "attack": "gcg",
                                                      "timestamp": "2"})
    )  # fmt: skip
    assert [row["attack"] for row in tidy(study)] == ["pair", "gcg"]
    assert [row["timestamp"] for row in tidy(study)] == ["1", "2"]
    assert len(done.warnings) == 2
    assert "1 items have more than one attack" in done.warnings[0]


def test_a_failed_import_leaves_nothing_behind(study, monkeypatch):
    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safemetry.evidence.study_commits.publish", no_space)
    with pytest.raises(OSError, match="No space"):
        study.add(source({}))
    assert not [path for path in study.path.rglob("*") if path.suffix == ".parquet"]


# --- a source read again -------------------------------------------------------------------------


def test_a_newer_reader_takes_the_place_of_the_older(study):
    old = study.add(source({"label": "refuse"}))
    new = study.add(source({"label": "comply"}, version=2))
    assert new.superseded == (old.commit,)
    assert labels(study) == {("001", "comply")}
    assert [commit.name for commit in study.commits()] == [new.commit]
    assert len(study.history()) == 2
    back = study.add(source({"label": "refuse"}))
    assert (back.added, back.commit) == (False, new.commit)


def test_other_options_replace_only_when_asked(study):
    wrong = source({"label": "refuse"})
    right = source({"label": "comply"}, evidence_map=EvidenceMap(labels={"x": "comply"}))
    first = study.add(wrong)
    with pytest.raises(InputError, match="use --replace"):
        study.add(right)
    second = study.add(right, replace=True)
    assert second.superseded == (first.commit,)
    assert labels(study) == {("001", "comply")}
    third = study.add(wrong, replace=True)
    assert third.added
    assert third.superseded == (second.commit,)
    assert labels(study) == {("001", "refuse")}
    assert len(study.history()) == 3


def test_other_judges_of_the_same_file_stand_beside_each_other(study):
    study.add(source({}))
    study.add(source({"judge": "k"}, options={"column": "k"}))
    study.add(source({"judge": "k", "label": "refuse"}, options={"column": "k"}, version=2))
    assert {(row["judge"], row["label"]) for row in tidy(study)} == {
        ("j", "comply"), ("k", "refuse"),
    }  # fmt: skip


# --- judges, targets, responses ------------------------------------------------------------------


def test_a_swapped_judge_is_kept_and_said(study):
    old, new = JudgeIdentity("j", model="m1", decoding={"temperature": 0}), JudgeIdentity("j", "m2")
    scale = Scale(scale_min=0, scale_max=1, higher_is="worse")
    one = study.add(source({}, judges=[old], scales={"j": scale}))
    two = study.add(source({"item": "2"}, digest="d2", judges=[new]))
    assert one.warnings == ()
    assert "Judge 'j' has 2 identities" in two.warnings[0]
    records = {record.identity.model: record for record in study.judges()}
    assert records["m1"].identity == old
    assert records["m1"].scale == scale
    assert records["m1"].commits == (one.commit,)
    assert records["m2"].commits == (two.commit,)
    with duckdb.connect() as connection:
        held = study.table(connection, "judgements").project("judge_identity").fetchall()
    assert {row[0] for row in held} == {old.digest, new.digest}


def test_a_judge_without_identity_is_known_by_its_name(study):
    study.add(source({}))
    assert [record.identity for record in study.judges()] == [JudgeIdentity("j")]


def test_target_settings_are_kept(study):
    study.add(source({"developer": "d"}, targets={"t": {"temperature": 0.7}}))
    with duckdb.connect() as connection:
        rows = study.table(connection, "targets").to_arrow_table().to_pylist()
    assert json.loads(rows[0]["settings"]) == {"temperature": 0.7}
    assert rows[0]["developer"] == "d"


def test_responses_that_a_judge_did_not_see_are_listed(study):
    never = {"label": None, "status": "missing", "reason": "not_attempted"}
    extra = pa.table({"run": ["r"], "target": ["t"], "item": ["9"], "epoch": [1]})
    study.add(source({}, {"judge": "k"}, {"item": "2", **never}, responses=extra))
    with duckdb.connect() as connection:
        assert [row[2:] for row in study.unjudged(connection, "k").fetchall()] == [
            ("2", 1, "missing", "not_attempted"),
            ("9", 1, "ok", None),
        ]
        assert [row[2] for row in study.unjudged(connection).fetchall()] == ["9"]
    assert len(tidy(study)) == 3


def test_texts_are_kept_only_where_given(study):
    study.add(source({}))
    texts = pa.table({"run": ["r"], "target": ["t"], "item": ["2"], "epoch": [1],
                      "prompt": ["hello"], "response": ["hi"]})  # fmt: skip
    study.add(source({"item": "2"}, digest="d2", texts=texts.to_batches()))
    with duckdb.connect() as connection:
        assert study.table(connection, "texts").fetchall() == [("r", "t", "2", 1, "hello", "hi")]


# --- reading -------------------------------------------------------------------------------------


def test_an_empty_study_has_an_empty_tidy_table(study):
    with duckdb.connect() as connection:
        assert study.tidy(connection).to_arrow_table().schema.equals(schema.JUDGEMENTS)
    assert tidy(study) == []
    assert study.add(source(accounting=Accounting(rows_read=0, converted=0))).added
    assert tidy(study) == []


@pytest.mark.parametrize("name", ["it's here", "run=3", "[ab]*?", "été 試", 'semi;colon"--'])
def test_any_folder_name_will_do(tmp_path, name):
    decoy = Study.create(tmp_path / "a")
    decoy.add(source({"item": "decoy"}))
    study = Study.create(tmp_path / name)
    study.add(source({}))
    study.add(source({"item": "2"}, digest="d2"))
    assert labels(study) == {("001", "comply"), ("2", "comply")}


def test_hostile_words_stay_words(study):
    words = ["'; DROP TABLE incoming; --", '"', "\\", "\n", "NULL", "", "{}"]
    study.add(source(*({"item": word, "run": word, "category": word} for word in words)))
    assert [row["category"] for row in tidy(study)] == words
    assert [row["item"] for row in tidy(study)] == words


def test_only_the_tables_that_are_needed_are_joined(study):
    study.add(source({"intent": "harmful", "benchmark": "b"}))
    with duckdb.connect() as connection:

        def plan(*columns):
            return study.tidy(connection, columns).sql_query()

        assert "JOIN" not in plan("run", "target", "label", "session", "timestamp", "developer")
        assert "items/" in plan("label", "intent")
        assert "responses/" not in study.tidy(connection).sql_query()
    study.add(source({"item": "2", "session": "s"}, digest="d2"))
    with duckdb.connect() as connection:
        assert "responses/" in study.tidy(connection).sql_query()
    assert {(row["item"], row["session"]) for row in tidy(study)} == {("001", None), ("2", "s")}


def test_a_query_sees_the_commits_of_its_time(study):
    study.add(source({}))
    with duckdb.connect() as connection:
        before = study.tidy(connection)
        study.add(source({"item": "2"}, digest="d2"))
        assert len(before.fetchall()) == 1
        assert len(study.tidy(connection).fetchall()) == 2


def test_parts_of_a_later_version_may_hold_more_columns(study):
    study.add(source({}))
    study.add(source({"item": "2"}, digest="d2"))
    part = next(iter((study.path / "judgements").iterdir()))
    later = pq.read_table(part).append_column("tokens", pa.array([7], pa.int64()))
    pq.write_table(later, part)
    assert labels(study) == {("001", "comply"), ("2", "comply")}


def test_a_large_import_is_written_in_several_parts(study, monkeypatch):
    monkeypatch.setattr("safemetry.evidence.study_import.PART_ROWS", 5000)
    monkeypatch.setattr("safemetry.evidence.study_import.ROW_GROUP_ROWS", 2048)
    rows = [{"item": str(n), "category": str(n % 4), "session": str(n)} for n in range(20_000)]
    study.add(source(*rows))
    (commit,) = study.commits()
    for table in ("judgements", "items", "responses"):
        sizes = [part.rows for part in commit.parts if part.table == table]
        assert len(sizes) > 2
        assert sum(sizes) == 20_000
    columns = ("item", "category", "session", "source_row")
    assert [{name: row[name] for name in rows[0]} for row in tidy(study, columns)] == rows


def test_a_damaged_commit_is_an_error_and_not_a_smaller_study(study):
    study.add(source({}))
    path = next((study.path / "imports").iterdir())
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match="damaged or cut short"):
        study.commits()


def test_a_study_whose_classes_were_changed_is_not_read(study):
    study.add(source({}))
    about = study.path / "study.json"
    held = json.loads(about.read_bytes())
    about.write_text(json.dumps(held | {"classes": held["classes"][::-1]}))
    altered = Study.open(study.path)
    right = re.escape(f"restore study.json: classes {json.dumps(held['classes'])}")
    for read in (altered.history, altered.judges, lambda: tidy(altered), lambda: altered.digest):
        with pytest.raises(InputError, match=right):
            read()
    with pytest.raises(InputError, match="imported under"):
        altered.add(source({"item": "2"}, digest="d2"))


def test_a_study_without_its_imports_folder_is_not_an_empty_one(study):
    study.add(source({}))
    shutil.rmtree(study.path / "imports")
    with pytest.raises(InputError, match="lost its folder imports/"):
        study.commits()


def test_a_study_that_lost_its_study_json_does_not_become_a_new_one(study):
    study.add(source({}))
    (study.path / "study.json").unlink()
    for make in (Study.open, Study.create, Study.open_or_create):
        with pytest.raises(InputError, match=r"lost its study\.json; restore"):
            make(study.path)
    assert not Study.is_study(study.path)


@pytest.mark.parametrize("table", ["judgements", "responses", "items", "targets", "judges"])
def test_a_study_with_a_lost_part_is_neither_read_nor_added_to(study, table):
    study.add(source({"session": "s", "category": "c"}))
    (part,) = (study.path / table).iterdir()
    part.unlink()
    with pytest.raises(InputError, match=rf"{part.name}: is gone.*safemetry check"):
        tidy(study)
    with pytest.raises(InputError, match=rf"{part.name}: is gone.*safemetry check"):
        study.add(source({"run": "other"}, digest="d2"))


def test_an_error_that_no_part_causes_stays_what_it_is(study):
    study.add(source({}))
    with pytest.raises(RuntimeError, match="mine"), study.naming_damage():
        raise RuntimeError("mine")


def test_a_commit_cannot_name_files_outside_the_study(study):
    study.add(source({}))
    path = next((study.path / "imports").iterdir())
    path.write_text(path.read_text().replace('"judges/', '"../judges/'))
    with pytest.raises(InputError, match="damaged"):
        study.commits()


def test_the_path_is_fixed_when_the_study_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = Study.create("s")
    study.add(source({}))
    monkeypatch.chdir(Path("/"))
    assert len(tidy(study)) == 1
