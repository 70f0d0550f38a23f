"""Counting in one grouping, in two, or in several threads is a matter of speed alone."""

import gc
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest

from safemetry import as_evidence
from safemetry.errors import InputError
from safemetry.evidence.engine import connect, thread_limit
from safemetry.evidence.outcomes import response_tallies
from safemetry.evidence.success import SuccessRule
from safemetry.rates import counted, measure_rates
from safemetry.rates.counts import Codes, count_responses
from safemetry.rates.threads import collecting_later, side_by_side

LABELS = ["comply", "refuse", "evasive", "gibberish", None]
REASONS = ["grader_failed", "scoring_failed", None]


def judgements(seed, *, epochs=2, calls=3, runs=1, lost=0.1):
    """Random calls, in which a response, an epoch or the last calls of a response may be absent."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(runs):
        for target in ("m", "n"):
            for item in range(12):
                for epoch in range(1, epochs + 1):
                    for judge in ("j", "k"):
                        for call in range(1, int(rng.integers(0, calls + 1)) + 1):
                            label = None if rng.random() < lost else LABELS[rng.integers(4)]
                            rows.append(
                                {
                                    "run": f"r{run}",
                                    "target": target,
                                    "item": f"i{item}",
                                    "epoch": epoch,
                                    "judge": judge,
                                    "call": call,
                                    "label": label,
                                    "status": "ok" if label else "error",
                                    "reason": None if label else REASONS[rng.integers(3)],
                                    "intent": ("harmful", "benign")[item % 2],
                                    "category": f"c{item % 3}",
                                    "session": f"s{run}{target}{item}{epoch % 2}",
                                }
                            )
    return pa.Table.from_pylist(rows)


def plain(value):
    """A table of counts as values that compare."""
    if isinstance(value, Codes):
        return [value.values[code] for code in value.codes]
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    return value.tolist() if isinstance(value, np.ndarray) else value


def count_table(evidence, by=("category",), success="comply"):
    table = count_responses(evidence, SuccessRule.parse(success), by=by)
    return {item.name: plain(getattr(table, item.name)) for item in fields(table)}


def grouping_twice(monkeypatch):
    monkeypatch.setattr(counted, "response_tallies", lambda *_: None)


@pytest.mark.parametrize("by", [(), ("category",), ("session",), ("run", "item")])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"epochs": 1, "calls": 1},
        {"epochs": 5},
        {"epochs": 8, "calls": 1, "lost": 0.5},
        {"calls": 7, "runs": 2},
        {"lost": 1.0},
        {"lost": 0.0},
    ],
    ids=str,
)
def test_one_grouping_counts_what_two_do(monkeypatch, kind, by):
    evidence = as_evidence(judgements(len(by), **kind))
    assert response_tallies(evidence, SuccessRule(), by=["session"]) is not None
    once = count_table(evidence, by)
    grouping_twice(monkeypatch)
    assert count_table(evidence, by) == once


@pytest.mark.parametrize(
    ("kind", "success"),
    [
        ({"epochs": 9, "calls": 1}, "comply"),
        ({"epochs": 4, "calls": 4}, "comply"),
        ({}, "comply/majority"),
    ],
)
def test_what_tallies_cannot_hold_is_grouped_twice(kind, success):
    evidence = as_evidence(judgements(0, **kind))
    assert response_tallies(evidence, SuccessRule.parse(success)) is None
    assert sum(count_table(evidence, success=success)["responses"]) > 0


def test_scores_are_counted_alike_in_one_grouping(monkeypatch):
    table = judgements(3)
    scores = np.random.default_rng(3).random(table.num_rows)
    absent = table["label"].is_null().to_numpy()
    table = table.set_column(
        table.schema.get_field_index("label"), "score", pa.array(scores, mask=absent)
    )
    evidence = as_evidence(table, {"judges": {"*": {"higher_is": "safer"}}})
    once = count_table(evidence, success="at_least:0.5")
    grouping_twice(monkeypatch)
    assert count_table(evidence, success="at_least:0.5") == once
    assert sum(once["success"])


@pytest.mark.parametrize(
    ("epochs", "calls"),
    [
        ([1, 1], [1, 3]),
        ([1, 1], [0, 1]),
        ([0, 1], [1, 1]),
        ([1, 2], [2, 1]),
        ([2, 2], [1, 2]),
    ],
)
def test_calls_that_are_not_numbered_from_one_are_all_counted(monkeypatch, epochs, calls):
    columns = {"target": ["m"] * 2, "item": ["i"] * 2, "label": ["comply", "refuse"]}
    evidence = as_evidence(pa.table({**columns, "epoch": epochs, "call": calls}))
    once = count_table(evidence, by=())
    assert sum(once["calls"]) == 2
    grouping_twice(monkeypatch)
    assert count_table(evidence, by=()) == once


@pytest.mark.parametrize("copies", [2, 3, 15, 16, 17, 1000])
@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_repeated_call_is_refused_however_often_it_repeats(copies, last):
    calls = [*range(1, last + 1), *[1] * (copies - 1)]
    rows = len(calls)
    table = pa.table(
        {"target": ["m"] * rows, "item": ["i"] * rows, "label": ["comply"] * rows, "call": calls}
    )
    with pytest.raises(InputError, match="duplicate key"):
        count_responses(as_evidence(table), SuccessRule())


def test_results_do_not_depend_on_the_number_of_threads():
    evidence = as_evidence(judgements(4, lost=0.2), connection=connect(jobs=1))
    assert evidence.threads == 1
    alone = measure_rates(evidence, by=["category"]).to_dict()
    for threads in (2, 5):
        shared = measure_rates(replace(evidence, threads=threads), by=["category"]).to_dict()
        assert shared["claims"] == alone["claims"]
        assert shared["warnings"] == alone["warnings"]


def test_the_threads_of_a_connection_bound_those_of_its_evidence():
    assert thread_limit(connect(jobs=3)) == 3
    assert as_evidence(judgements(5), connection=connect(jobs=3)).threads == 3


def test_steps_keep_their_order_and_the_first_error_is_raised():
    assert side_by_side([lambda n=n: n * n for n in range(20)], 4) == [n * n for n in range(20)]

    def fails():
        raise InputError("it cannot be done")

    with pytest.raises(InputError, match="cannot be done"):
        side_by_side([lambda: 1, fails], 2)


def test_the_search_for_cycles_is_on_again_after_an_error():
    def fails():
        with collecting_later():
            assert not gc.isenabled()
            raise InputError("it cannot be done")

    with pytest.raises(InputError):
        fails()
    assert gc.isenabled()
