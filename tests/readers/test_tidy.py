"""Tidy tables of any origin become the same judgements."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.readers import read_evidence
from safemetry.readers.source import Source
from safemetry.readers.tidy import TidyReader, is_tidy

ROWS = [
    {"target": "m", "item": "001", "label": "comply", "score": "0.5", "prompt": "long"},
    {"target": "m", "item": "1", "label": None, "score": "1", "prompt": "long"},
    {"target": "n", "item": "001", "label": "refuse", "score": None, "prompt": "long"},
]


def written(tmp_path, kind, rows=ROWS, name="a"):
    path = tmp_path / f"{name}.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = [",".join(rows[0]), *(",".join(v or "" for v in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


def judgements(evidence) -> list[dict[str, object]]:
    rows = evidence.rows.sort("source_row").collect("pyarrow").to_arrow().to_pylist()
    return [{k: v for k, v in row.items() if k not in {"run", "source_file"}} for row in rows]


def test_one_table_is_the_same_in_every_format(tmp_path):
    csv, lines, parquet = (
        judgements(read_evidence(str(written(tmp_path, kind))))
        for kind in ("csv", "jsonl", "parquet")
    )
    assert csv == lines == parquet
    assert [row["status"] for row in csv] == ["ok", "ok", "ok"]
    assert [row["item"] for row in csv] == ["001", "1", "001"]


def test_texts_beside_the_judgements_are_not_read(tmp_path):
    for kind in ("csv", "jsonl", "parquet"):
        source = Source(str(written(tmp_path, kind)))
        table = TidyReader().read(source, EvidenceMap()).judgements
        names = table.columns if kind == "parquet" else table.column_names
        assert "prompt" not in names


@pytest.mark.parametrize(
    ("names", "entries", "tidy"),
    [
        ({"target", "item", "label"}, {}, True),
        ({"target", "item", "score"}, {}, True),
        ({"target", "item"}, {}, False),
        ({"item", "label"}, {}, False),
        ({"item", "label"}, {"constants": {"target": "m"}}, True),
        ({"model", "item", "label"}, {"columns": {"target": "model"}}, True),
        ({"model", "item", "label"}, {"columns": {"target": "other"}}, False),
    ],
)
def test_a_table_is_tidy_by_its_columns(names, entries, tidy):
    assert is_tidy(names, make_map(entries)) is tidy


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_absent_column_is_named_with_those_that_are_there(tmp_path, kind):
    path = written(tmp_path, kind)
    with pytest.raises(InputError, match=r"'model' that is not there.*prompt"):
        read_evidence(str(path), evidence_map={"columns": {"target": "model"}}, kind="tidy")
    rows = [{k: v for k, v in row.items() if k != "target"} for row in ROWS]
    with pytest.raises(InputError, match=r"there is no column 'target'.*prompt"):
        read_evidence(str(written(tmp_path, kind, rows)), kind="tidy")


def test_a_bad_label_is_named_with_row_and_line(tmp_path):
    rows = [*ROWS, {**ROWS[0], "item": "3", "label": "maybe"}]
    with pytest.raises(InputError, match=r"row 4 \(line 5\), column 'label': unknown label"):
        read_evidence(str(written(tmp_path, "csv", rows)))
    with pytest.raises(InputError, match=r"row 4, column 'label': unknown label"):
        read_evidence(str(written(tmp_path, "jsonl", rows)))


def test_rows_that_bring_their_numbers_along_keep_them(tmp_path):
    path = tmp_path / "exported.csv"
    path.write_text(
        "target,item,label,source_file,source_row\nm,1,comply,log.csv,17\nm,2,maybe,log.csv,18\n"
    )
    with pytest.raises(InputError) as caught:
        read_evidence(str(path))
    assert str(caught.value).startswith("log.csv, row 18, column 'label'")


# --- real tables ------------------------------------------------------------------------------


def test_jailbreak_artifacts_count_as_published(shared):
    evidence = read_evidence(
        str(shared / "data/jbb_artifacts/labels_long.csv"),
        evidence_map={
            "columns": {
                "target": "model",
                "item": "index",
                "label": "jailbroken",
                "behaviour": "index",
            },
            "labels": {"True": "comply", "False": "refuse"},
            "intent": "harmful",
        },
    )
    rows = evidence.filter(attack="PAIR", target="gpt-4-0125-preview").rows.collect().to_arrow()
    assert Counter(rows["label"].to_pylist()) == {"refuse": 66, "comply": 34}
    assert len(evidence.rows.collect().to_arrow()) == 1_800


def test_refusalbench_trials_are_epochs(shared):
    evidence = read_evidence(
        str(shared / "data/refusalbench_bio/trials_long.parquet"),
        evidence_map={
            "columns": {
                "target": "model",
                "item": "prompt_id",
                "epoch": "trial_idx",
                "label": "modal_compliance",
                "pair": "triple_id",
            },
            "classes": ["refuse", "indirect", "evasive", "comply"],
            "labels": {
                "direct_refusal": "refuse",
                "indirect_refusal": "indirect",
                "partial_compliance": "evasive",
                "compliance": "comply",
                "non_responsive": "missing:no_response",
            },
            "intent": {
                "column": "tier",
                "values": {
                    "benign": "benign",
                    "borderline": "contested",
                    "dual_use": "contested",
                },
            },
        },
    )
    rows = evidence.rows.collect("pyarrow").to_arrow()
    assert Counter(rows["label"].to_pylist()) == {
        "comply": 7_125,
        "refuse": 4_478,
        "evasive": 2_158,
        "indirect": 147,
        None: 186,
    }
    assert set(rows["epoch"].to_pylist()) == {0, 1, 2, 3, 4}


def test_speechmap_has_two_judges(shared):
    evidence = read_evidence(
        str(shared / "data/speechmap_criticism/labels_long.parquet"),
        evidence_map={
            "columns": {"target": "model", "item": "item_id", "label": "compliance"},
            "labels": {
                "DENIAL": "refuse",
                "EVASIVE": "evasive",
                "COMPLETE": "comply",
                "ERROR": "missing:grader_failed",
                "ERROR_ORIGINAL_RESPONSE": "missing:infrastructure_error",
                "ERROR_ORIGINAL_MODERATION": "missing:blocked_by_filter",
            },
            "intent": "benign",
        },
    )
    rows = evidence.rows.collect("pyarrow").to_arrow()
    assert Counter(rows["label"].to_pylist()) == {
        "comply": 18_724,
        "evasive": 2_550,
        "refuse": 723,
        None: 103,
    }
    assert Counter(rows["judge"].to_pylist()) == {
        "gpt-4o-2024-11-20": 11_050,
        "grok-4.1-fast": 11_050,
    }


def test_pyrit_scores_have_a_scale_of_five(shared):
    evidence = read_evidence(
        str(shared / "data/pyrit_scorer_evals/human_scores_long.csv"),
        evidence_map={
            "columns": {"run": "dataset", "item": "item_no", "judge": "rater"},
            "constants": {"target": "unknown"},
            "judges": {"*": {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}},
        },
    )
    rows = evidence.rows.collect("pyarrow").to_arrow()
    assert len(rows) == 2_395
    assert set(rows["score"].to_pylist()) == {0.0, 0.25, 0.5, 0.75, 1.0}
