"""The response matrix: outcomes are derived from label and intent, and unknown ones stay out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.matrix import response_matrix


def table(**columns):
    rows = max(len(values) for values in columns.values() if isinstance(values, list))
    return pa.table(
        {
            name: values if isinstance(values, list) else [values] * rows
            for name, values in columns.items()
        }
    )


def grid(outcomes, **columns):
    """One judgement per cell of a mapping target -> labels."""
    return table(
        target=[name for name, labels in outcomes.items() for _ in labels],
        item=[str(index) for labels in outcomes.values() for index in range(len(labels))],
        label=[label for labels in outcomes.values() for label in labels],
        **columns,
    )


def test_the_rewarded_response_depends_on_what_the_item_asks_for():
    labels = ["comply", "evasive", "refuse", "gibberish"]
    for intent, success, expected in [
        ("harmful", "comply", [0, 1, 1, 1]),
        ("harmful", "non_refusal", [0, 0, 1, 1]),
        ("benign", "comply", [1, 0, 0, 0]),
        ("benign", "non_refusal", [1, 1, 0, 0]),
    ]:
        matrix = response_matrix(grid({"m": labels}, intent=intent), success=success)
        assert matrix.outcomes.tolist() == [expected]


@pytest.mark.parametrize(("higher_is", "expected"), [("worse", [1, 0]), ("safer", [0, 1])])
@pytest.mark.parametrize("intent", ["harmful", "benign", None])
def test_a_score_is_rewarded_on_its_better_side_whatever_the_intent(higher_is, expected, intent):
    data = table(target="m", item=["1", "2"], score=[0.1, 0.9])
    known = {"judges": {"*": {"higher_is": higher_is}}}
    if intent is not None:
        known["intent"] = intent
    matrix = response_matrix(data, evidence_map=known, success="at_least:0.5")
    assert matrix.outcomes.tolist() == [expected]


def test_contested_and_unclassified_items_have_no_outcome():
    data = grid({"m": ["comply"] * 4}, intent=["harmful", "benign", "contested", None])
    matrix = response_matrix(data)
    assert matrix.items == ("0", "1")
    assert matrix.outcomes.tolist() == [[0, 1]]
    assert matrix.intents == ("harmful", "benign")
    with pytest.raises(InputError, match="no response has an outcome; say what the items ask for"):
        response_matrix(grid({"m": ["comply"] * 2}, intent="contested"))


def test_contested_items_have_no_outcome_under_a_score_either():
    data = table(target="m", item=["1", "2"], score=[0.1, 0.9], intent=["contested", None])
    known = {"judges": {"*": {"higher_is": "worse"}}}
    matrix = response_matrix(data, evidence_map=known, success="at_least:0.5")
    assert (matrix.items, matrix.outcomes.tolist()) == (("2",), [[0]])


def test_cells_that_were_not_judged_or_not_asked_are_missing():
    data = table(
        target=["a", "a", "a", "b"],
        item=["1", "2", "3", "1"],
        label=["refuse", None, None, "comply"],
        intent="harmful",
    )
    matrix = response_matrix(data)
    assert matrix.targets == ("a", "b")
    # Item 3 was asked and never judged: it stays as a column without an outcome.
    assert matrix.items == ("1", "2", "3")
    assert matrix.outcomes.tolist() == [[1, -1, -1], [0, -1, -1]]
    assert matrix.missing == 4
    assert matrix.masked().mean() == 0.5
    assert matrix.to_frame().to_pylist() == [
        {"target": "a", "1": 1, "2": None, "3": None},
        {"target": "b", "1": 0, "2": None, "3": None},
    ]


def test_epochs_count_by_majority_and_an_even_split_is_missing():
    data = table(
        target="m",
        item=["1"] * 3 + ["2"] * 2 + ["3"] * 3,
        epoch=[1, 2, 3, 1, 2, 1, 2, 3],
        label=["refuse", "refuse", "comply", "refuse", "comply", "comply", None, None],
        intent="harmful",
    )
    assert response_matrix(data).outcomes.tolist() == [[1, -1, 0]]


def test_rows_and_columns_are_sorted_and_do_not_depend_on_the_order_of_the_table():
    rng = np.random.default_rng(1)
    data = table(
        target=[f"t{index % 7}" for index in range(70)],
        item=[f"i{index // 7}" for index in range(70)],
        label=rng.choice(["comply", "refuse"], 70).tolist(),
        intent="harmful",
    )
    first = response_matrix(data)
    again = response_matrix(data.take(pa.array(rng.permutation(70))))
    assert first.targets == tuple(sorted(first.targets)) == again.targets
    assert first.items == tuple(sorted(first.items)) == again.items
    assert (first.outcomes == again.outcomes).all()


def test_several_judges_need_a_choice_or_a_vote():
    data = table(
        target="m",
        item="1",
        judge=["a", "b", "c"],
        label=["comply", "refuse", "refuse"],
        intent="harmful",
    )
    with pytest.raises(InputError, match=r"there are 3 judges \(a, b, c\); choose one"):
        response_matrix(data)
    assert response_matrix(data, judge="a").outcomes.tolist() == [[0]]
    assert response_matrix(data, success="comply/majority").outcomes.tolist() == [[1]]


def test_items_of_several_benchmarks_are_told_apart():
    data = table(
        target="m",
        item="1",
        run=["r", "s"],
        benchmark=["a", "b"],
        label=["comply", "refuse"],
        intent="harmful",
    )
    matrix = response_matrix(data)
    assert (matrix.items, matrix.benchmarks) == (("a:1", "b:1"), ("a", "b"))
    assert matrix.outcomes.tolist() == [[0, 1]]


def test_a_duplicate_key_is_refused():
    data = table(target="m", item=["1", "1"], label=["comply", "refuse"], intent="harmful")
    with pytest.raises(InputError, match="table, row 2, column 'item': duplicate key"):
        response_matrix(data)


# -- benchmarks that run against the rest ----------------------------------------------------------


def benchmarks(intents, flipped=()):
    """Eight targets that grow safer, on a benchmark of each intent; benign help falls with it."""
    rng = np.random.default_rng(7)
    rows = []
    for name, intent in intents.items():
        for target in range(8):
            chance = 0.1 + 0.1 * target
            for item in range(60):
                refused = rng.random() < chance
                if name in flipped:
                    refused = not refused
                label = "refuse" if refused else "comply"
                rows.append((f"t{target}", f"{name}-{item}", label, intent, name))
    names = ("target", "item", "label", "intent", "benchmark")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_benchmarks_that_agree_raise_no_warning():
    assert response_matrix(benchmarks({"a": "harmful", "b": "harmful"})).warnings == ()


def test_a_harmful_benchmark_that_runs_against_the_rest_is_called_flipped():
    intents = {"a": "harmful", "b": "harmful", "c": "harmful"}
    (warning,) = response_matrix(benchmarks(intents, flipped={"c"})).warnings
    assert warning.startswith("Benchmark c runs against the rest (correlation -")
    assert "over 8 targets): check whether its score or labels are flipped." in warning


def test_a_benign_benchmark_is_a_trade_off_and_never_flipped():
    (warning,) = response_matrix(benchmarks({"a": "harmful", "over": "benign"})).warnings
    assert warning.startswith("Benchmark over runs against the rest (correlation -")
    assert "safety traded for usefulness, as over-refusal sets do" in warning
    assert "flipped" not in warning


def test_over_refusal_sets_do_not_make_a_safety_benchmark_look_flipped():
    intents = {"a": "harmful", "over": "benign", "too": "benign"}
    warnings = response_matrix(benchmarks(intents)).warnings
    assert [warning.split()[1] for warning in warnings] == ["over", "too"]
    intents = {"a": "harmful", "b": "harmful", "over": "benign"}
    warnings = response_matrix(benchmarks(intents)).warnings
    assert [warning.split()[1] for warning in warnings] == ["over"]


def test_too_few_targets_say_nothing_about_direction():
    data = benchmarks({"a": "harmful", "over": "benign"})
    few = data.filter(pa.compute.is_in(data["target"], pa.array(["t0", "t1", "t6", "t7"])))
    assert response_matrix(few).warnings == ()
