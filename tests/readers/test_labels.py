"""Label tables: each row gives one judgement for each column that is a judge."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.readers import read_evidence
from safemetry.readers.detect import detect
from safemetry.readers.source import Source

TABLE = "target,item,prompt,human_1,judge_a\nm,1,x,comply,refuse\nm,2,y,,evasive\n"


def written(tmp_path, text=TABLE, name="labels.csv") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def judgements(*sources, **options) -> list[tuple[object, ...]]:
    table = read_evidence(*sources, **options).rows.collect("pyarrow").to_arrow()
    names = ("target", "item", "judge", "label", "status", "source_row")
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=repr)


def test_each_row_and_judge_is_a_judgement(tmp_path):
    assert judgements(written(tmp_path)) == [
        ("m", "1", "human_1", "comply", "ok", 1),
        ("m", "1", "judge_a", "refuse", "ok", 1),
        ("m", "2", "human_1", None, "missing", 2),
        ("m", "2", "judge_a", "evasive", "ok", 2),
    ]


def test_a_judge_with_a_label_that_is_not_known_is_not_passed_over(tmp_path):
    rows = "".join(f"m,{n},comply,refuse\n" for n in range(3_000)) + "m,last,partial,refuse\n"
    path = written(tmp_path, "target,item,human_1,judge_a\n" + rows)
    with pytest.raises(InputError, match="unknown label 'partial' of judge 'human_1'"):
        read_evidence(path)


def test_declared_columns_are_the_judges_and_have_the_names_of_the_map(tmp_path):
    declared = {"label_columns": {"human_1": "Ann"}}
    assert {row[2] for row in judgements(written(tmp_path), evidence_map=declared)} == {"Ann"}
    listed = {"label_columns": ["judge_a"]}
    assert {row[2] for row in judgements(written(tmp_path), evidence_map=listed)} == {"judge_a"}


def test_declared_columns_make_a_tidy_table_a_label_table(tmp_path):
    text = "target,item,label,human_1,human_2\nm,1,comply,refuse,refuse\n"
    source = Source(written(tmp_path, text))
    with pytest.raises(InputError, match="could be read as tidy and labels"):
        detect(source, make_map({}))
    declared = make_map({"label_columns": ["human_1", "human_2"]})
    assert detect(source, declared).name == "labels"
    rows = judgements(source.location, evidence_map=declared)
    assert [row[2:4] for row in rows] == [("human_1", "refuse"), ("human_2", "refuse")]
    assert judgements(source.location, kind="tidy")[0][2:4] == ("judge", "comply")


@pytest.mark.parametrize(
    ("header", "entries", "wanted"),
    [
        ("target,item", {}, ("m", "1")),
        ("model,item_id", {}, ("m", "1")),
        ("who,what", {"columns": {"target": "who", "item": "what"}}, ("m", "1")),
        ("x,item", {"constants": {"target": "c"}}, ("c", "1")),
        ("x,item", {}, ("labels.v2", "1")),
        ("model,item", {"columns": {"target": "item"}}, ("1", "1")),
    ],
)
def test_target_and_item_go_by_several_names(tmp_path, header, entries, wanted):
    path = written(tmp_path, f"{header},a,b\nm,1,comply,comply\n", "labels.v2.csv")
    assert judgements(path, evidence_map=entries)[0][:2] == wanted


def test_a_target_that_is_not_named_is_said(tmp_path):
    path = written(tmp_path, "item,a,b\n1,comply,comply\n")
    assert read_evidence(path).warnings == ("labels.csv names no target; 'labels' stands for it.",)


def test_numbers_are_labels_where_the_map_says_so(tmp_path):
    entries = {"label_columns": ["a", "b"], "labels": {"0": "refuse", "1": "comply"}}
    frame = pd.DataFrame({"item": ["x", "y"], "a": [1.0, None], "b": [True, False], "n": [1, 2]})
    frame.to_parquet(tmp_path / "labels.parquet")
    frame.astype({"b": int}).to_csv(tmp_path / "labels.csv", index=False)
    parquet = judgements(
        str(tmp_path / "labels.parquet"),
        evidence_map=entries | {"labels": {"1": "comply", "True": "comply", "False": "refuse"}},
    )
    csv = judgements(
        str(tmp_path / "labels.csv"),
        evidence_map=entries
        | {"labels": {"1.0": "comply"}}
        | {"judges": {"b": {"labels": {"0": "refuse", "1": "comply"}}}},
    )
    assert [row[3] for row in parquet] == [row[3] for row in csv]
    assert [row[3] for row in csv] == ["comply", "comply", None, "refuse"]


def test_a_number_alone_makes_no_judge(tmp_path):
    entries = {"labels": {"0": "refuse", "1": "comply"}}
    text = "item,a,b,chars\n1,0,1,100\n2,1,1,1\n"
    rows = judgements(written(tmp_path, text), evidence_map=entries, kind="labels")
    assert {row[2] for row in rows} == {"a", "b"}


def test_types_of_parquet_are_the_texts_of_a_csv(tmp_path):
    table = pa.table(
        {
            "item": [1, 2],
            "a": pa.array(["comply", "refuse"]).dictionary_encode(),
            "b": pa.array(["comply", None], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "labels.parquet")
    rows = judgements(str(tmp_path / "labels.parquet"), evidence_map={"label_columns": ["a", "b"]})
    assert [row[3] for row in rows] == ["comply", "comply", "refuse", None]


def test_intent_and_context_come_along(tmp_path):
    text = "item,set,topic,a,b\n1,safe,x,comply,comply\n2,unsafe,y,refuse,comply\n"
    table = (
        read_evidence(
            written(tmp_path, text),
            evidence_map={
                "columns": {"category": "topic"},
                "intent": {"column": "set", "values": {"safe": "benign", "unsafe": "harmful"}},
            },
        )
        .rows.collect("pyarrow")
        .to_arrow()
    )
    seen = set(zip(*(table[n].to_pylist() for n in ("item", "category", "intent")), strict=True))
    assert seen == {("1", "x", "benign"), ("2", "y", "harmful")}


@pytest.mark.parametrize(
    ("text", "entries", "said"),
    [
        ("item,a\n1,x\n", {}, "no column is known to hold the labels of a judge"),
        ("id,a,b\n1,comply,comply\n", {}, "no column holds the items"),
        ("item,a\n1,x\n", {"label_columns": ["b"]}, "'b' that is not there"),
        ("item,a\n1,comply\n", {"columns": {"pair": "p"}}, "'p' that is not there"),
        (
            "item,set,topic,a\n1,x,y,comply\n",
            {
                "columns": {"category": "topic"},
                "intent": {"column": "category", "values": {"x": "benign"}},
                "label_columns": ["a"],
            },
            "'category' that is not there",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path, text, entries, said):
    with pytest.raises(InputError, match=said):
        read_evidence(written(tmp_path, text), evidence_map=entries, kind="labels")


def test_a_name_that_serves_twice_is_refused(tmp_path):
    text = "item,category,topic,a\n1,x,y,comply\n"
    entries = {
        "columns": {"category": "topic"},
        "intent": {"column": "category", "values": {"x": "benign"}},
        "label_columns": ["a"],
    }
    with pytest.raises(InputError, match="rename the column"):
        read_evidence(written(tmp_path, text), evidence_map=entries)


# --- real tables ------------------------------------------------------------------------------


def test_xstest_has_five_judges(shared):
    evidence = read_evidence(
        str(shared / "data/xstest_v2/labels_wide.csv"),
        evidence_map={
            "columns": {"pair": "focus"},
            "labels": {"partial": "evasive"},
            "intent": {
                "column": "prompt_safety",
                "values": {"safe": "benign", "unsafe": "harmful"},
            },
        },
    )
    rows = evidence.rows.collect("pyarrow").to_arrow()
    counts = Counter(zip(rows["judge"].to_pylist(), rows["label"].to_pylist(), strict=True))
    assert len(rows) == 5 * 2_250
    assert counts["judge_gpt4", "evasive"] == 29
    assert counts["judge_gpt4", None] == 11
    assert counts["judge_strmatch", "evasive"] == 0
    llama = evidence.filter(target="llama2orig").rows.collect("pyarrow").to_arrow()
    partial = Counter(zip(llama["judge"].to_pylist(), llama["label"].to_pylist(), strict=True))
    assert [partial[judge, "evasive"] for judge in ("human_1", "human_2", "judge_gpt4")] == [
        55,
        53,
        14,
    ]


def test_jailbreakbench_judges_agree_with_their_readme(shared):
    judges = ["human_majority", "harmbench_cf", "gpt4_cf", "llamaguard2_cf", "llama3_cf"]
    evidence = read_evidence(
        str(shared / "data/jbb_judge_comparison/labels_wide.csv"),
        evidence_map={
            "columns": {"item": "Index", "behaviour": "goal_id"},
            "label_columns": judges,
            "labels": {"0": "refuse", "1": "comply"},
            "intent": {
                "column": "prompt_equals_goal",
                "values": {"False": "harmful", "True": "benign"},
            },
        },
    )
    rows = evidence.rows.collect("pyarrow").to_arrow()
    columns = (rows[name].to_pylist() for name in ("judge", "intent", "label"))
    counts = Counter(zip(*columns, strict=True))
    assert counts["human_majority", "harmful", "comply"] == 110
    assert counts["harmbench_cf", "harmful", "comply"] == 106
    assert counts["harmbench_cf", "benign", "comply"] == 41
    assert counts["human_majority", "benign", "comply"] == 0
