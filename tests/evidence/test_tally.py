"""Counting calls in one number is a matter of speed: no count depends on it."""

import pyarrow as pa
import pytest

from safemetry import as_evidence
from safemetry.errors import InputError
from safemetry.evidence import outcomes
from safemetry.evidence.success import SuccessRule
from safemetry.evidence.tally import Tally
from safemetry.rates import measure_rates
from safemetry.simulate import simulate_large


def table(calls, labels, **columns):
    rows = len(calls)
    return pa.table(
        {
            "target": ["m"] * rows,
            "item": ["i"] * rows,
            "call": calls,
            "label": pa.array(labels, pa.string()),
            "intent": ["harmful"] * rows,
            **columns,
        }
    )


def one_response(evidence):
    frame, _ = outcomes.responses(evidence, SuccessRule())
    (row,) = frame.collect("pyarrow").to_arrow().to_pylist()
    return {name: row[name] for name in (*outcomes.RESPONSE_COLUMNS, "irregular")}


def apart(monkeypatch):
    monkeypatch.setattr(Tally, "of", classmethod(lambda *_: None))


@pytest.mark.parametrize("success", ["comply", "non_refusal/majority", "comply/unanimous"])
def test_claims_are_the_same_when_each_count_has_a_sum_of_its_own(tmp_path, monkeypatch, success):
    path = tmp_path / "judgements.parquet"
    simulate_large(path, 20_000, 4, targets=3, judges=3, calls=4)
    evidence = as_evidence(pa.parquet.read_table(path))
    assert Tally.of(evidence.instruments, list(evidence.instruments)) is not None
    in_one = measure_rates(evidence, by=["category"], success=success)
    apart(monkeypatch)
    assert measure_rates(evidence, by=["category"], success=success).claims == in_one.claims


@pytest.mark.parametrize(
    ("calls", "labels"),
    [
        ([1], ["comply"]),
        ([2], ["comply"]),
        ([0, 1, 2], ["comply", "refuse", "refuse"]),
        ([1, 2], ["comply", "refuse"]),
        ([1, 2, 3], ["comply", None, None]),
        (list(range(1, 15)), ["comply"] * 9 + ["gibberish"] * 5),
        (list(range(15)), ["evasive"] * 15),
        (list(range(1, 41)), ["comply"] * 21 + ["refuse"] * 19),
    ],
)
def test_a_response_is_counted_alike_whatever_its_calls(monkeypatch, calls, labels):
    status = ["ok" if label else "error" for label in labels]
    reason = pa.array([None if label else "grader_failed" for label in labels], pa.string())
    evidence = as_evidence(table(calls, labels, status=status, reason=reason))
    in_one = one_response(evidence)
    apart(monkeypatch)
    assert one_response(evidence) == in_one
    assert in_one["calls"] == len(calls)


def test_the_first_reason_in_the_order_of_the_words_stands_for_a_response_without_verdict():
    evidence = as_evidence(
        table(
            [1, 2, 3],
            [None] * 3,
            status=["error"] * 3,
            reason=["scoring_failed", "grader_failed", None],
        )
    )
    assert one_response(evidence)["reason"] == "grader_failed"


@pytest.mark.parametrize("repeats", [2, 16, 5000])
def test_a_call_that_stands_twice_is_refused_however_often(repeats):
    evidence = as_evidence(table([3] * repeats, ["comply"] * repeats))
    with pytest.raises(InputError, match="duplicate key"):
        measure_rates(evidence)


def test_blank_cells_are_no_values_in_any_column():
    given = table([1, 1], ["comply", ""], status=["ok", ""], reason=["", ""])
    given = given.set_column(1, "item", pa.array(["i", "j"]))
    given = given.append_column("category", pa.array(["", "c"]))
    evidence = as_evidence(given)
    rows = evidence.rows.collect("pyarrow").to_arrow().sort_by("item").to_pylist()
    assert [row["label"] for row in rows] == ["comply", None]
    assert [row["status"] for row in rows] == ["ok", "missing"]
    assert [row["category"] for row in rows] == [None, "c"]
    assert [row["reason"] for row in rows] == [None, None]


@pytest.mark.parametrize("name", ["target", "item", "judge", "run"])
def test_a_blank_key_is_an_empty_cell(name):
    rows = table([1, 2], ["comply", "comply"])
    if name in rows.column_names:
        rows = rows.drop_columns([name])
    rows = rows.append_column(name, pa.array(["x", ""]))
    with pytest.raises(InputError, match="the cell is empty") as raised:
        as_evidence(rows)
    assert raised.value.row == 2
