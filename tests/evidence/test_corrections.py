"""A correction is told apart from the evidence and applied to it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence import schema
from safemetry.evidence.check import check_study
from safemetry.evidence.corrections import correct
from safemetry.evidence.maps import Scale
from safemetry.evidence.study import Accounting, Import, Study

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def study(tmp_path):
    """Items 1 and 2 by judges j and k, a failed call on item 3, item 1 once more in run s."""
    study = Study.create(tmp_path / "study")
    base = {"run": "r", "target": "t", "epoch": 1, "call": 1, "status": "ok"}
    rows = [
        base | {"item": "1", "judge": "j", "label": "comply", "intent": "harmful"},
        base | {"item": "1", "judge": "k", "label": "comply", "score": 0.9, "intent": "harmful"},
        base | {"item": "2", "judge": "j", "label": "refuse", "benchmark": "b"},
        base | {"item": "3", "judge": "j", "status": "error", "reason": "grader_failed"},
        base | {"item": "1", "judge": "j", "label": "refuse", "run": "s"},
    ]
    rows = [row | {"source_row": number} for number, row in enumerate(rows, start=1)]
    study.add(
        Import(
            judgements=pa.Table.from_pylist(rows, schema.JUDGEMENTS),
            source="a.csv",
            source_digest="d",
            reader="tidy",
            reader_version=1,
            accounting=Accounting(rows_read=5, converted=5),
            scales={"k": Scale(scale_min=0, scale_max=1, higher_is="worse")},
        )
    )
    return study


def tidy(study):
    with duckdb.connect() as connection:
        rows = study.tidy(connection).to_arrow_table()
    assert rows.schema.equals(schema.JUDGEMENTS)
    return sorted(rows.to_pylist(), key=lambda row: row["source_row"])


def column(study, name):
    return [row[name] for row in tidy(study)]


def one(study, who="Ada", why="misread", when=None, **cells):
    return correct(study, pa.table({name: [cell] for name, cell in cells.items()}), who, why, when)


def test_a_label_is_corrected_and_the_evidence_stays(study):
    parts = {path: path.read_bytes() for path in study.path.rglob("*.parquet")}
    digest = study.digest
    assert one(study, run="r", target="t", item="1", judge="j", field="label", value="evasive") == 1
    assert column(study, "label") == ["evasive", "comply", "refuse", None, "refuse"]
    assert all(path.read_bytes() == content for path, content in parts.items())
    assert study.digest != digest
    assert check_study(study.path) == []
    with duckdb.connect() as connection:
        kept = study.table(connection, "corrections").to_arrow_table().to_pylist()
    assert {(row["field"], row["value"], row["implied_by"]) for row in kept} == {
        ("label", "evasive", None), ("status", "ok", "label"), ("reason", None, "label"),
    }  # fmt: skip
    assert {(row["who"], row["why"], row["judge"]) for row in kept} == {("Ada", "misread", "j")}


def test_a_corrected_label_is_a_verdict(study):
    one(study, target="t", item="3", field="label", value="refuse")
    assert [tidy(study)[3][name] for name in ("label", "status", "reason")] == [
        "refuse", "ok", None,
    ]  # fmt: skip


def test_a_withdrawn_verdict_has_no_label(study):
    rows = pa.table(
        {
            "target": ["t", "t"], "item": ["1", "1"], "judge": ["k", "k"], "epoch": ["1", None],
            "field": ["status", "reason"], "value": ["missing", "invalidated"],
        }
    )  # fmt: skip
    assert correct(study, rows, "Ada", "wrong rubric") == 2
    assert [tidy(study)[1][name] for name in ("label", "score", "status", "reason")] == [
        None, None, "missing", "invalidated",
    ]  # fmt: skip
    one(study, target="t", item="1", judge="k", field="score", value="1")
    assert [tidy(study)[1][name] for name in ("label", "score", "status", "reason")] == [
        None, 1.0, "ok", None,
    ]  # fmt: skip


def test_the_latest_correction_counts(study):
    place = {"target": "t", "item": "2", "field": "label"}
    one(study, when=NOON, value="comply", **place)
    one(study, when=NOON - timedelta(days=1), value="evasive", **place)
    assert column(study, "label")[2] == "comply"
    one(study, when=NOON.astimezone().replace(hour=0) + timedelta(days=2), value="refuse", **place)
    assert column(study, "label")[2] == "refuse"


def test_an_item_is_corrected_in_all_its_judgements(study):
    one(study, item="1", run="r", field="intent", value="benign")
    assert column(study, "intent") == ["benign", "benign", None, None, None]
    one(study, item="2", field="category", value="fraud")
    one(study, item="2", benchmark="b", field="attack", value="pair")
    assert tidy(study)[2]["category"] == "fraud"
    assert tidy(study)[2]["attack"] == "pair"
    full = {"run": "s", "target": "t", "item": "1", "epoch": "1", "judge": "j", "call": "1"}
    one(study, **full, field="intent", value="contested")
    assert column(study, "intent")[4] == "contested"
    one(study, item="1", run="r", field="intent", value=None)
    assert column(study, "intent")[:2] == [None, None]
    assert check_study(study.path) == []


def test_a_target_is_corrected_in_all_runs(study):
    one(study, target="t", field="developer", value="Example Labs")
    assert column(study, "developer") == ["Example Labs"] * 5


def test_corrections_survive_a_newer_reading(study):
    one(study, target="t", item="2", field="label", value="comply")
    again = tidy(study)
    again[2]["label"] = "refuse"
    study.add(
        Import(
            judgements=pa.Table.from_pylist(again, schema.JUDGEMENTS),
            source="a.csv", source_digest="d", reader="tidy", reader_version=2,
            accounting=Accounting(rows_read=5, converted=5),
        )
    )  # fmt: skip
    assert column(study, "label")[2] == "comply"


CELLS = {"target": "t", "item": "2", "epoch": 1, "field": "label", "value": "comply"}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_of_corrections(study, tmp_path, ending):
    path = tmp_path / f"fixes.{ending}"
    if ending == "csv":
        path.write_text("target,item,epoch,judge,field,value\nt,2,1,,label,comply\n")
    elif ending == "jsonl":
        path.write_text('{"target": "t", "item": "2", "epoch": 1, "field": "label", '
                        '"value": "comply"}\n\n')  # fmt: skip
    else:
        pq.write_table(pa.table({name: [cell] for name, cell in CELLS.items()}), path)
    assert correct(study, path, "Ada", "misread") == 1
    assert column(study, "label")[2] == "comply"


def test_ids_in_a_file_stay_texts(study, tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_text("target,item,field,value\nt,02,label,comply\n")
    with pytest.raises(InputError, match="no such judgement"):
        correct(study, path, "Ada", "misread")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"field": "epoch"}, "'epoch' cannot be corrected"),
        ({"field": "benchmark"}, "'benchmark' cannot be corrected"),
        ({"value": "maybe"}, "'maybe' is no label; it is one of refuse, evasive, comply"),
        ({"value": ""}, "the value is empty; to withdraw"),
        ({"field": "score", "value": "nan"}, "no finite number"),
        ({"field": "score", "value": "high"}, "no finite number"),
        ({"field": "status", "value": "fine"}, "'fine' is no status"),
        ({"field": "reason", "value": "tired"}, "'tired' is no reason"),
        ({"field": "reason", "value": "invalidated"}, "has a verdict"),
        ({"field": "intent", "value": "evil"}, "'evil' is no intent"),
        ({"item": None}, "the judgement is not named"),
        ({"item": "9"}, "no such judgement"),
        ({"epoch": "2"}, "no such judgement"),
        ({"epoch": "one"}, "'one' is no whole number"),
        ({"item": "1"}, "3 of the judgements in the study fit this key"),
        ({"item": "1", "run": "r"}, "2 of the judgements in the study fit this key"),
        ({"item": "1", "field": "intent", "value": "benign"}, "2 of the items"),
        ({"item": "3", "field": "status", "value": "ok"}, "is not ok"),
        ({"item": "1", "judge": "k", "field": "score", "value": "5"}, "outside the scale"),
        ({"why_not": "x"}, "is no column of a correction"),
    ],
)
def test_what_cannot_be_corrected_is_refused(study, cells, said):
    digest = study.digest
    with pytest.raises(InputError, match=said):
        one(study, **(CELLS | {"epoch": "1"} | cells))
    assert study.digest == digest


def test_contradictions_are_refused(study):
    def both(fields, values):
        return pa.table({"target": ["t"] * 2, "item": ["2"] * 2, "field": fields, "value": values})

    with pytest.raises(InputError, match="corrected in row 1 already"):
        correct(study, both(["label", "label"], ["comply", "evasive"]), "Ada", "x")
    with pytest.raises(InputError, match="contradict each other"):
        correct(study, both(["label", "status"], ["comply", "missing"]), "Ada", "x")
    with pytest.raises(InputError, match="contradict each other"):
        correct(study, both(["reason", "label"], ["invalidated", "comply"]), "Ada", "x")
    with pytest.raises(InputError, match="not ok"):
        correct(study, both(["status", "reason"], ["ok", "invalidated"]), "Ada", "x")


def test_a_correction_names_who_and_why(study):
    for stated in ({"who": " "}, {"why": ""}, {"when": datetime(2026, 1, 1)}):  # noqa: DTZ001
        with pytest.raises(InputError, match=r"without `|no time zone"):
            one(study, **CELLS, **stated)


def test_unreadable_files_are_named(study, tmp_path):
    for name, content in (("a.jsonl", "{"), ("b.parquet", "no"), ("c.csv", ""), ("d.csv", "a\n1")):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(InputError, match=name):
            correct(study, path, "Ada", "x")
    with pytest.raises(InputError, match="cannot be read"):
        correct(study, tmp_path / "none.csv", "Ada", "x")


def test_a_query_without_corrected_columns_joins_no_corrections(study):
    one(study, target="t", item="2", field="label", value="comply")
    with duckdb.connect() as connection:
        assert "JOIN" not in study.tidy(connection, ("run", "target", "item")).sql_query()
        assert "corrections/" in study.tidy(connection, ("run", "label")).sql_query()


def test_the_same_corrections_at_the_same_time_are_kept_once(study):
    for _ in range(2):
        one(study, when=NOON, **CELLS)
    assert len(list((study.path / "corrections").iterdir())) == 1
    name = next(c.name for c in study.commits() if c.kind == "corrections")
    assert len(name) == len(hashlib.md5(b"").hexdigest())
