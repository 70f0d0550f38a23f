"""The border: what is wrong is named with its place and its fix, and nothing else changes."""

from __future__ import annotations

import datetime as dt
import decimal

import duckdb
import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.border import Place
from safemetry.evidence.evidence import as_evidence

HARM_SCALE = {"judges": {"judge": {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}}}


def table(**columns):
    """Three judgements; a column given as None is left out."""
    base = {
        "target": ["m"] * 3,
        "item": ["1", "2", "3"],
        "label": ["comply", "refuse", "evasive"],
        "intent": ["harmful"] * 3,
    }
    known = {name: values for name, values in (base | columns).items() if values is not None}
    return pa.table(known)


def tidy(data, evidence_map=None, **options):
    evidence = as_evidence(data, evidence_map, **options)
    rows = evidence.rows.collect("pyarrow").to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["source_row"] or 0, row["item"]))


def column(name, data, evidence_map=None):
    return [row[name] for row in tidy(data, evidence_map)]


def refusal(data, evidence_map=None, place="a.csv"):
    with pytest.raises(InputError) as caught:
        as_evidence(data, evidence_map, place=place)
    return caught.value


WRONG_CELLS = {
    "text where a score is due": (
        {"label": None, "score": ["0", "high", "1"]},
        ("score", "'high' is not a finite number"),
    ),
    "a score that spells NaN": (
        {"label": None, "score": ["0", "NaN", "1"]},
        ("score", "'NaN' is not a finite number"),
    ),
    "a score too large for a number": (
        {"label": None, "score": ["0", "1e999", "1"]},
        ("score", "'1e999' is not a finite number"),
    ),
    "an infinite score": (
        {"label": None, "score": [0.0, float("inf"), 1.0]},
        ("score", "'inf' is not a finite number"),
    ),
    "text where an epoch is due": (
        {"epoch": ["1", "first", "1"]},
        ("epoch", "'first' is not a whole number"),
    ),
    "half an epoch": ({"epoch": [1.0, 1.5, 1.0]}, ("epoch", "'1.5' is not a whole number")),
    "an epoch beyond 64 bits": ({"epoch": [1, 1e300, 1]}, ("epoch", "'1e+300' is not a whole")),
    "a negative epoch": ({"epoch": [1, -1, 1]}, ("epoch", "'-1' is negative")),
    "a negative epoch as text": ({"epoch": ["1", "-1", "1"]}, ("epoch", "'-1' is negative")),
    "a negative call": ({"call": [1, -2, 1]}, ("call", "'-2' is negative")),
    "an unknown label": (
        {"label": ["comply", "maybe", "refuse"]},
        ("label", "unknown label 'maybe' of judge 'judge'"),
    ),
    "a label that spells NaN": (
        {"label": ["comply", "NaN", "refuse"]},
        ("label", "unknown label 'NaN'"),
    ),
    "an unknown status": (
        {"status": ["ok", "done", "ok"]},
        ("status", "unknown status 'done'; write one of ok, missing, error"),
    ),
    "an unknown reason": (
        {"label": ["comply", None, "refuse"], "reason": [None, "bored", None]},
        ("reason", "unknown reason 'bored'"),
    ),
    "an unknown intent": (
        {"intent": ["harmful", "evil", "harmful"]},
        ("intent", "unknown intent 'evil'; write one of harmful, benign, contested"),
    ),
    "ok without a verdict": (
        {"label": ["comply", None, "refuse"], "status": ["ok", "ok", "ok"]},
        ("status", "status is ok but there is neither a label nor a score"),
    ),
    "an error with a verdict": (
        {"status": ["ok", "error", "ok"]},
        ("label", "status is 'error' but there is a label 'refuse'"),
    ),
    "an empty target": ({"target": ["m", None, "m"]}, ("target", "the cell is empty")),
    "a blank item": ({"item": ["1", "", "3"]}, ("item", "the cell is empty")),
    "an empty judge": (
        {"judge": ["j", None, "j"]},
        ("judge", "the cell is empty; give each row a value, or leave the column out"),
    ),
    "an empty epoch": ({"epoch": [1, None, 1]}, ("epoch", "the cell is empty")),
    "an id without end": ({"item": ["1", "x" * 10_001, "3"]}, ("item", "longer than 10,000")),
}


@pytest.mark.parametrize("case", WRONG_CELLS)
def test_a_wrong_cell_is_named_with_file_row_line_column_and_fix(case):
    columns, (where, said) = WRONG_CELLS[case]
    error = refusal(table(**columns), place=Place("a.csv", header_lines=1))
    assert (error.file, error.row, error.line, error.column) == ("a.csv", 2, 3, where)
    assert error.fix
    assert said in str(error)
    assert str(error).startswith(f"a.csv, row 2 (line 3), column '{where}': ")


@pytest.mark.parametrize(("score", "side"), [(1.5, "above"), (-0.5, "below")])
def test_a_score_outside_its_scale_is_named(score, side):
    error = refusal(table(label=None, score=[0.0, score, 1.0]), HARM_SCALE)
    assert (error.row, error.column) == (2, "score")
    assert f"score {score:g} of judge 'judge' is {side} its declared scale (0 to 1)" in str(error)
    assert "out_of_scale" in error.fix


def test_the_fix_for_a_score_outside_its_scale_works():
    columns = {"label": None, "score": [0.0, 7.0, 1.0], "status": ["ok", "error", "ok"]}
    rows = tidy(table(**columns, reason=[None, "out_of_scale", None]), HARM_SCALE)
    assert [(row["status"], row["reason"]) for row in rows][1] == ("error", "out_of_scale")
    by_map = HARM_SCALE | {
        "status": {"column": "parsed", "values": {"yes": "ok", "no": "out_of_scale"}}
    }
    rows = tidy(table(label=None, score=[0.0, 7.0, 1.0], parsed=["yes", "no", "yes"]), by_map)
    assert [(row["status"], row["score"]) for row in rows] == [
        ("ok", 0.0),
        ("missing", None),
        ("ok", 1.0),
    ]
    # The sound row after it is still checked.
    error = refusal(table(label=None, score=[0, 7, 9], parsed=["yes", "no", "yes"]), by_map)
    assert error.row == 3


def test_the_column_is_named_as_the_source_names_it():
    data = table(label=None, verdict=["comply", "maybe", "refuse"])
    error = refusal(data, {"columns": {"label": "verdict"}})
    assert (error.row, error.column) == (2, "verdict")
    assert 'add to the map: labels: {"maybe": CLASS}' in error.fix
    assert "refuse, evasive, comply, gibberish or missing:REASON" in error.fix


def test_the_first_wrong_row_is_named_whatever_the_number_of_rows():
    labels = ["comply"] * 5_000
    labels[3_210] = labels[4_000] = "maybe"
    data = pa.table(
        {"target": ["m"] * 5_000, "item": list(map(str, range(5_000))), "label": labels}
    )
    assert refusal(data).row == 3_211


@pytest.mark.parametrize("missing", ["target", "item"])
def test_a_missing_key_column_is_named_with_the_columns_there_are(missing):
    error = refusal(table(**{missing: None}))
    assert f"there is no column '{missing}'" in str(error)
    assert f"add to the map: columns: {{{missing}: THEIR_NAME}}; the columns are " in error.fix


def test_a_table_without_verdicts_is_refused():
    assert "neither a column 'label' nor a column 'score'" in str(refusal(table(label=None)))


@pytest.mark.parametrize(
    "evidence_map",
    [
        {"columns": {"category": "topic"}},
        {"intent": {"column": "topic", "values": {"a": "harmful"}}},
        {"status": {"column": "topic", "values": {"a": "ok"}}},
    ],
)
def test_a_map_that_names_an_absent_column_is_refused(evidence_map):
    error = refusal(table(), evidence_map)
    assert "the map names a column 'topic' that is not there" in str(error)
    assert error.fix == "the columns are target, item, label, intent, source_row"


@pytest.mark.parametrize(
    ("entry", "meaning", "stanza"),
    [
        ("intent", "harmful", 'add to the map under intent.values: "b": harmful'),
        ("status", "ok", 'add to the map under status.values: "b": ok'),
    ],
)
def test_a_value_that_the_map_does_not_translate_is_refused(entry, meaning, stanza):
    data = table(intent=None, kind=["a", "b", "a"])
    error = refusal(data, {entry: {"column": "kind", "values": {"a": meaning}}})
    assert (error.row, error.column, error.fix) == (2, "kind", stanza)


def test_what_is_no_table_is_refused_by_its_type():
    assert "dict is not a table" in str(refusal({"target": ["m"]}))
    assert "Series is not a table" in str(refusal(pd.Series([1])))


def test_an_unreadable_row_number_is_an_error_of_input_too():
    assert "'abc' is not a whole number" in str(refusal(table(source_row=["1", "abc", "3"])))


def test_ids_stay_the_text_they_are():
    ids = ["001", "1", "1.0"]
    assert column("item", table(item=ids)) == ids
    assert column("item", table(item=[" 1", "1 ", "É"])) == [" 1", "1 ", "É"]


def test_what_a_table_leaves_out_has_a_default():
    row = tidy(table(intent=None), place=Place("a.csv", run="monday"))[0]
    assert (row["run"], row["epoch"], row["judge"], row["call"]) == ("monday", 1, "judge", 1)
    assert (row["status"], row["reason"], row["intent"]) == ("ok", None, None)
    assert (row["source_file"], row["source_row"]) == ("a.csv", 1)
    assert tidy(table(), place="a.csv")[0]["run"] == "a.csv"


def test_a_label_that_is_no_verdict_becomes_a_reason():
    known = {"labels": {"n/a": "missing:no_response", "sure": "comply"}}
    rows = tidy(table(label=["n/a", "sure", "refuse"]), known)
    said = [(row["label"], row["status"], row["reason"]) for row in rows]
    assert said == [
        (None, "missing", "no_response"),
        ("comply", "ok", None),
        ("refuse", "ok", None),
    ]


def test_the_labels_of_one_judge_do_not_leak_to_another():
    known = {"judges": {"a": {"labels": {"1": "comply"}}, "b": {"labels": {"1": "refuse"}}}}
    data = table(item=["1", "1", "2"], judge=["a", "b", "a"], label=["1", "1", "1"])
    assert column("label", data, known) == ["comply", "refuse", "comply"]
    error = refusal(table(item=["1", "1", "2"], judge=["a", "b", "c"], label=["1"] * 3), known)
    assert "unknown label '1' of judge 'c'" in str(error)


def test_a_blank_verdict_is_missing_and_a_status_without_a_reason_is_allowed():
    rows = tidy(table(label=["comply", "", None], status=[None, None, "error"]))
    assert [row["status"] for row in rows] == ["ok", "missing", "error"]
    assert [row["reason"] for row in rows] == [None, None, None]


# -- whatever narwhals accepts ---------------------------------------------------------------------

PLAIN = {
    "target": ["m", "m", "m", "n"],
    "item": ["001", "002", "003", "001"],
    "judge": ["j", "j", "j", "k"],
    "label": ["comply", None, "refuse", "gibberish"],
    "score": [0.25, None, 1.0, 0.5],
    "epoch": [1, 2, 1, 1],
    "category": ["x", None, "y", "x"],
}
ENGINES = {
    "pyarrow": pa.table,
    "arrow dictionary": lambda data: pa.table(
        {
            name: pa.array(values).dictionary_encode()
            if name in {"target", "label", "category"}
            else pa.array(values)
            for name, values in data.items()
        }
    ),
    "arrow large text": lambda data: pa.table(
        {
            name: pa.array(values, pa.large_string()) if isinstance(values[0], str) else values
            for name, values in data.items()
        }
    ),
    "pandas": pd.DataFrame,
    "pandas categorical": lambda data: pd.DataFrame(data).astype(
        {"target": "category", "label": "category", "category": "category"}
    ),
    "pandas object": lambda data: pd.DataFrame(data).astype({"label": object, "item": object}),
    "pandas arrow types": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "pandas nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "pandas index": lambda data: pd.DataFrame(data, index=[7, 5, 3, 1]),
    "polars": pl.DataFrame,
    "polars categorical": lambda data: pl.DataFrame(data).with_columns(
        pl.col("label").cast(pl.Categorical), pl.col("judge").cast(pl.Enum(["j", "k"]))
    ),
    "polars small numbers": lambda data: pl.DataFrame(data).with_columns(
        pl.col("score").cast(pl.Float32), pl.col("epoch").cast(pl.UInt8)
    ),
    "polars NaN": lambda data: pl.DataFrame(data).with_columns(
        pl.col("score").fill_null(float("nan"))
    ),
    "polars decimal": lambda data: pl.DataFrame(data).with_columns(
        pl.Series(
            "score", [decimal.Decimal("0.25"), None, decimal.Decimal(1), decimal.Decimal(".5")]
        )
    ),
    "lazy polars": lambda data: pl.DataFrame(data).lazy(),
    "narwhals": lambda data: nw.from_native(pl.DataFrame(data)),
    "narwhals lazy": lambda data: nw.from_native(pl.DataFrame(data).lazy()),
    "duckdb": lambda data: _relation(pa.table(data)),
    "duckdb NaN": lambda data: _relation(
        pa.table(data | {"score": [0.25, float("nan"), 1.0, 0.5]})
    ),
    "all text": lambda data: pa.table(
        {
            name: pa.array([None if value is None else str(value) for value in values])
            for name, values in data.items()
        }
    ),
}


def _relation(arrow):
    connection = duckdb.connect()
    numbered = arrow.append_column("source_row", pa.array(range(1, len(arrow) + 1)))
    return connection.from_arrow(numbered)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_and_column_type_gives_the_same_evidence(engine):
    scales = {"judges": {"*": {"higher_is": "worse"}}}
    expected = as_evidence(pa.table(PLAIN), scales)
    data = ENGINES[engine](PLAIN)
    found = as_evidence(data, scales)
    assert tidy(data, scales) == tidy(pa.table(PLAIN), scales)
    assert found.items.to_pylist() == expected.items.to_pylist()
    assert found.instruments == expected.instruments


def test_numbers_booleans_and_times_become_text_where_text_is_due():
    data = pd.DataFrame(
        {
            "target": ["m", "m"],
            "item": [1, 2],
            "label": [True, False],
            "category": pd.Categorical([10, 20]),
            "timestamp": pd.to_datetime(["2026-05-01 12:00", "2026-05-02 00:00"]),
            "session": [dt.date(2026, 5, 1), None],
            "turn": [1, 2],
        }
    )
    rows = tidy(data, {"labels": {"True": "comply", "False": "refuse"}})
    first = rows[0]
    assert (first["item"], first["category"], first["turn"]) == ("1", "10", 1)
    assert (first["label"], rows[1]["label"]) == ("comply", "refuse")
    assert first["timestamp"] == "2026-05-01 12:00:00"
    assert (first["session"], rows[1]["session"]) == ("2026-05-01", None)


def test_a_whole_number_that_pandas_made_a_fraction_is_read_as_one():
    data = pd.DataFrame({"target": ["m", "m"], "item": ["1", "2"], "label": ["comply", "refuse"]})
    data["turn"] = [1.0, None]
    assert column("turn", data) == [1, None]


def test_evidence_passes_the_border_once():
    evidence = as_evidence(table(), {"intent": "harmful"})
    assert as_evidence(evidence) is evidence
    assert as_evidence(evidence, {"intent": "harmful"}) is evidence
    with pytest.raises(InputError, match="read with a map of its own; give the map where"):
        as_evidence(evidence, {"intent": "benign"})


def test_a_filter_keeps_what_it_names_and_refuses_what_is_not_there():
    evidence = as_evidence(table(epoch=[1, 2, 1], judge=["j", "j", "k"]))
    kept = evidence.filter(judge="j", epoch="2")
    assert [row["item"] for row in kept.rows.collect("pyarrow").to_arrow().to_pylist()] == ["2"]
    assert (list(kept.instruments), kept.items["item"].to_pylist()) == (["j"], ["2"])
    with pytest.raises(InputError, match="no column 'colour' to filter by; the columns are run, "):
        evidence.filter(colour="red")
    with pytest.raises(InputError, match="no row has judge=x"):
        evidence.filter(judge="x")
    with pytest.raises(InputError, match="column 'epoch' holds numbers, not 'first'"):
        evidence.filter(epoch="first")


def test_every_unknown_label_stands_in_one_stanza() -> None:
    table = pa.table({"target": ["m"] * 3, "item": ["1", "2", "3"], "label": ["no", "yes", "no"]})
    with pytest.raises(InputError, match=r'labels: \{"no": CLASS, "yes": CLASS\}'):
        as_evidence(table)


def test_a_label_with_a_reason_for_having_none_is_refused() -> None:
    table = pa.table(
        {"target": ["m"], "item": ["1"], "label": ["refuse"], "reason": ["no_response"]}
    )
    with pytest.raises(InputError, match=r"row 1, column 'reason'.*leave one of them empty"):
        as_evidence(table)


def test_a_column_spelled_almost_like_ours_is_named() -> None:
    table = pa.table(
        {"target": ["m"], "item": ["1"], "label": ["refuse"], "behavior": ["b"], "Language": ["ko"]}
    )
    said = " ".join(as_evidence(table).warnings)
    assert "columns: {behaviour: 'behavior'}" in said
    assert "columns: {language: 'Language'}" in said
    mapped = as_evidence(table, {"columns": {"behaviour": "behavior", "language": "Language"}})
    assert not mapped.warnings


def test_numbers_mapped_to_labels_are_labels() -> None:
    table = pa.table({"target": ["m"], "item": ["1"], "score": [1]})
    evidence = as_evidence(table, {"columns": {"label": "score"}, "labels": {"1": "comply"}})
    assert evidence.rows.collect("pyarrow").to_arrow()["label"].to_pylist() == ["comply"]
