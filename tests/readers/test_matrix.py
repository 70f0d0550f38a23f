"""Wide matrices: each cell is a judgement, and nothing but a whole number is a level."""

from __future__ import annotations

import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry import response_matrix
from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.readers import read_evidence
from safemetry.readers.detect import detect
from safemetry.readers.source import Source


def written(tmp_path, text, name="matrix.csv") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def scores(evidence) -> dict[tuple[str, str], float | None]:
    table = evidence.rows.collect("pyarrow").to_arrow()
    columns = (table[name].to_pylist() for name in ("target", "item", "score"))
    return {(target, item): score for target, item, score in zip(*columns, strict=True)}


def kind_of(tmp_path, text, **entries) -> str | None:
    reader = detect(Source(written(tmp_path, text)), make_map(entries))
    return reader and reader.name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("target,a,b\nm,1,0\n", "matrix"),
        ("model,a,b\n1,1,0\n2,0,0\n", "matrix"),
        ("who,a,b\nm,1,0\n", "matrix"),
        (",a,b\nm,1,0\n", "matrix"),
        ("model,a,b\nm,0.5,0\n", "matrix"),
        ("model,a,b\nm,True,\nn,FALSE,true\n", "matrix"),
        ("model,a,b\nm,1.0,\nn,0.0,NA\n", "matrix"),
        ("name,age\nann,31\n", None),
        ("name,town,age,height\nann,x,31,2\n", None),
        ("a,b,c\n1,2,3\n", None),
        ("model,a,b\n", None),
    ],
)
def test_a_matrix_is_known_by_its_cells(tmp_path, text, kind):
    assert kind_of(tmp_path, text) == kind


def test_a_tidy_table_of_numbers_is_no_matrix(tmp_path):
    assert kind_of(tmp_path, "target,item,score\nm,1,0\nm,2,1\n") == "tidy"
    entries = {"columns": {"target": "model", "item": "i", "label": "v"}}
    assert kind_of(tmp_path, "model,i,v\nm,1,0\n", **entries) == "tidy"


@pytest.mark.parametrize("cell", ["1", "1.0", " 1 ", "+1", "1e0", "True", "true", "TRUE"])
def test_a_one_is_written_in_many_ways(tmp_path, cell):
    path = written(tmp_path, f"model,a,b\nm,{cell},0\nn,,0\n")
    assert scores(read_evidence(path)) == {
        ("m", "a"): 1,
        ("m", "b"): 0,
        ("n", "a"): None,
        ("n", "b"): 0,
    }


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("0.5", "0.5 is a fraction; .* tidy table instead of averages"),
        ("-1", "-1 is negative"),
        ("101", "101 is above the highest level"),
        ("1e300", r".* is above the highest level"),
        ("1e999", "inf is above the highest level"),
        ("NA", "'NA' is not a number; leave the cell empty"),
        ("NaN", "'NaN' is not a number; leave the cell empty"),
        ("yes", "'yes' is not a number"),
        ("inf", "'inf' is not a number"),
    ],
)
def test_what_is_no_level_is_refused_with_its_place(tmp_path, cell, said):
    path = written(tmp_path, f"model,a,b\nm,1,1\nn,0,{cell}\n")
    with pytest.raises(InputError, match=rf"row 2 \(line 3\), column 'b': {said}"):
        read_evidence(path, kind="matrix")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,a,b\nm,1,1\nm,1,1\n", r"row 2 \(line 3\), column 'model': target 'm' has two rows"),
        ("model,a,b\nm,1,1\n,1,1\n", r"row 2 \(line 3\), column 'model': the cell is empty"),
        ("model,a,a\nm,1,1\n", "two columns have the same name"),
        ("model,a,b\nm,1\n", "has 2 cells where the header has 3"),
    ],
)
def test_rows_and_columns_are_counted_once(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_evidence(written(tmp_path, text))


def test_items_whose_names_differ_in_case_are_two(tmp_path):
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"model": ["m"], "A": [1], "a": [0]}), path)
    assert scores(read_evidence(str(path))) == {("m", "A"): 1, ("m", "a"): 0}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("index", ["named", "unnamed", "numbers"])
def test_what_pandas_makes_of_an_index_is_understood(tmp_path, suffix, index):
    frame = pd.DataFrame({"x": [1, 0, 1], "y": [0.0, None, 1.0]}, index=["a", "b", "c"])
    if index == "named":
        frame.index.name = "model"
    if index == "numbers":
        frame = frame.rename_axis("target").reset_index()
        frame.index = frame.index[[0, 1, 2]].to_numpy()
    path = tmp_path / f"m.{suffix}"
    frame.to_csv(path) if suffix == "csv" else frame.to_parquet(path, index=True)
    evidence = read_evidence(str(path))
    assert scores(evidence) == {
        ("a", "x"): 1,
        ("a", "y"): 0,
        ("b", "x"): 0,
        ("b", "y"): None,
        ("c", "x"): 1,
        ("c", "y"): 1,
    }
    assert any("counts the rows" in w for w in evidence.warnings) is (index == "numbers")


def test_booleans_of_parquet_are_levels(tmp_path):
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"model": ["m", "n"], "a": [True, None], "b": [False, True]}), path)
    assert list(scores(read_evidence(str(path))).values()) == [1, 0, None, 1]


def outcomes(evidence) -> list[list[float]]:
    return response_matrix(evidence).outcomes.tolist()


def test_one_is_rewarded_unless_the_map_says_otherwise(tmp_path):
    path = written(tmp_path, "model,a,b\nm,1,0\nn,0,0\n")
    assert read_evidence(path).default_rule == SuccessRule("at_least:1")
    one = outcomes(read_evidence(path))
    zero = outcomes(read_evidence(path, evidence_map={"rewarded": 0}))
    assert one == [[1, 0], [0, 0]]
    assert zero == [[0, 1], [1, 1]]
    with pytest.raises(InputError, match="rewards the cell value 2, but the cells run from 0 to 1"):
        read_evidence(path, evidence_map={"rewarded": 2})


@pytest.mark.parametrize("entries", [{"intent": "benign"}, {"constants": {"intent": "benign"}}])
@pytest.mark.parametrize("rewarded", [0, 1])
def test_the_rewarded_cell_is_rewarded_whatever_the_intent(tmp_path, entries, rewarded):
    path = written(tmp_path, "model,a,b\nm,1,0\nn,0,0\n")
    plain = outcomes(read_evidence(path, evidence_map={"rewarded": rewarded}))
    assert outcomes(read_evidence(path, evidence_map=entries | {"rewarded": rewarded})) == plain
    harmful = {"intent": "harmful", "rewarded": rewarded}
    assert outcomes(read_evidence(path, evidence_map=harmful)) == plain


def test_ordered_levels_need_a_rule(tmp_path):
    path = written(tmp_path, "model,a,b\nm,2,0\nn,1,1\n")
    evidence = read_evidence(path)
    assert "3 ordered levels, 0 to 2" in evidence.warnings[0]
    assert evidence.default_rule == SuccessRule()
    told = read_evidence(path, evidence_map={"rewarded": 2})
    assert told.default_rule == SuccessRule("at_least:2")
    assert told.warnings == ()
    assert outcomes(told) == [[1, 0], [0, 0]]


def test_a_matrix_has_an_item_and_a_target(tmp_path):
    with pytest.raises(InputError, match="no column names the targets"):
        read_evidence(written(tmp_path, "a,b\n1,1\n"), kind="matrix")
    with pytest.raises(InputError, match="there is no item"):
        read_evidence(written(tmp_path, "model\tx\n1,1\n".replace("\tx", ",")), kind="matrix")


def test_a_header_longer_than_the_head_is_still_a_header(tmp_path):
    items = ",".join(f"item-{n:06d}" for n in range(20_000))
    path = written(tmp_path, f"model,{items}\nm{',1' * 20_000}\nn{',0' * 20_000}\n")
    assert len(scores(read_evidence(path))) == 40_000


# --- real matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "targets", "items", "mean"),
    [
        ("helm_safety/harmbench_matrix.csv", 77, 400, 0.708),
        ("helm_safety/antredteam_matrix.csv", 77, 1_000, 0.968),
        ("helm_safety/simplesafety_matrix.csv", 77, 100, 0.956),
        ("jbb_artifacts/matrix_binary.csv", 18, 100, None),
        ("rewardbench_rm/matrix_binary.parquet", 149, 2_985, 0.690),
    ],
)
def test_real_matrices_have_their_published_means(shared, file, targets, items, mean):
    start = time.perf_counter()
    evidence = read_evidence(str(shared / "data" / file))
    assert time.perf_counter() - start < 5
    found = scores(evidence)
    assert len(found) == targets * items
    assert len({target for target, _ in found}) == targets
    if mean is not None:
        known = [score for score in found.values() if score is not None]
        assert round(sum(known) / len(known), 3) == mean


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("speechmap_criticism/matrix_ordinal_grok41fast.csv", 37),
        ("speechmap_criticism/matrix_ordinal_gpt4o.csv", 37),
        ("xstest_v2/matrix_human_ordinal.csv", 5),
    ],
)
def test_real_ordinal_matrices_ask_for_a_rule(shared, file, rows):
    evidence = read_evidence(str(shared / "data" / file))
    assert len(evidence.targets_seen) == rows
    assert "3 ordered levels" in evidence.warnings[0]


def test_real_averages_are_refused_with_advice(shared):
    with pytest.raises(InputError, match=r"0.4 is a fraction; .* tidy table instead of averages"):
        read_evidence(str(shared / "data/refusalbench_bio/matrix_refusal_rate.csv"))
