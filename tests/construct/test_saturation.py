"""Saturation: which sets of items can be modelled, and what stands in the way."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from safemetry.construct.saturation import item_rest_correlations, measure_saturation
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses
from safemetry.simulate.matrix import MatrixSettings, simulate_matrix


def read_matrix(path):
    with path.open(newline="") as stream:
        rows = list(csv.reader(stream))
    codes = np.array([row[1:] for row in rows[1:]]).astype(int)
    return make_responses(codes, targets=[row[0] for row in rows[1:]], items=rows[0][1:])


@pytest.fixture(scope="module")
def helm(shared):
    return lambda name: read_matrix(shared / "data" / "helm_safety" / f"{name}_matrix.csv")


@pytest.mark.parametrize(
    ("name", "informative", "items", "constant", "rate", "modelable"),
    [
        ("harmbench", 313, 400, 5, 0.708, True),
        ("antredteam", 187, 1000, 488, 0.968, False),
        ("simplesafety", 24, 100, 21, 0.956, False),
    ],
)
def test_published_counts(helm, name, informative, items, constant, rate, modelable):
    row = measure_saturation(helm(name)).overall
    assert (row.informative_items, row.items) == (informative, items)
    assert len(row.zero_variance_items) == constant
    assert row.pass_rate == pytest.approx(rate, abs=5e-4)
    assert row.modelable is modelable
    assert f"{informative:,} of {items:,}" in row.sentence()
    assert ("can be modelled" in row.sentence()) is modelable


def test_domains_of_harmbench(helm, shared):
    with (shared / "data/helm_safety/harmbench_items.csv").open(newline="") as stream:
        kinds = {row["item_id"]: row["type"] for row in csv.DictReader(stream)}
    found = measure_saturation(helm("harmbench"), {"type": kinds})
    rows = {row.name: row for row in found.domains["type"]}
    assert {name: row.items for name, row in rows.items()} == {
        "standard": 200,
        "contextual": 100,
        "copyright": 100,
    }
    assert sum(row.informative_items for row in rows.values()) == 313
    assert sum(row.effective_items for row in rows.values()) == pytest.approx(
        found.overall.effective_items
    )


def test_benchmarks_are_judged_by_themselves(helm):
    parts = [helm(name) for name in ("harmbench", "simplesafety")]
    items = [f"{place} {name}" for place, part in enumerate(parts) for name in part.items]
    joined = make_responses(np.concatenate([part.codes for part in parts], axis=1), items=items)
    benchmarks = {name: "harm" if name.startswith("0") else "simple" for name in items}
    found = measure_saturation(joined, benchmarks=benchmarks)
    assert [(row.name, row.modelable) for row in found.benchmarks] == [
        ("harm", True),
        ("simple", False),
    ]
    alone = measure_saturation(parts[1]).overall
    assert found.benchmarks[1].effective_items == pytest.approx(alone.effective_items)
    assert "'simple' cannot be modelled" in found.sentence()


def test_item_rest_correlations_of_the_oracle(shared):
    for data in ("SAT12", "LSAT7"):
        codes = np.loadtxt(
            shared / "oracle" / f"data_{data}.csv", delimiter=",", skiprows=1
        ).astype(int)
        with (shared / "oracle" / f"{data}_itemstats.csv").open(newline="") as stream:
            expected = [float(row["total.r_if_rm"]) for row in csv.DictReader(stream)]
        assert item_rest_correlations(make_responses(codes)) == pytest.approx(expected, abs=1e-12)


def test_with_missing_cells_the_difficulty_of_what_was_answered_does_not_matter():
    """Strong targets answered the hard items: their raw rest means would be low."""
    codes = simulate_matrix(
        MatrixSettings(targets=4000, items=40, discrimination=1.5, intercept_spread=0.1), 3
    )
    abilities, outcomes = codes.truth.abilities[:, 0], codes.outcomes.copy()
    rng = np.random.default_rng(3)
    outcomes[:, :20] = rng.random((4000, 20)) < 1 / (1 + np.exp(-1.5 * abilities[:, None] + 3))
    complete = item_rest_correlations(make_responses(outcomes))
    hidden = rng.random(outcomes.shape) < 0.5
    found = item_rest_correlations(make_responses(np.where(hidden, -1, outcomes)))
    assert (found > 0.2).all()
    assert np.corrcoef(found, complete)[0, 1] > 0.9


def test_a_negative_item_is_named():
    codes = simulate_matrix(MatrixSettings(targets=200, items=20, discrimination=1.5), 1).outcomes
    turned = codes.copy()
    turned[:, 7] = 1 - turned[:, 7]
    rest = measure_saturation(make_responses(turned)).overall.item_rest
    assert rest.negative_items == ("8",)
    assert rest.quantiles["q05"] < rest.quantiles["median"] < rest.quantiles["q95"]


def test_effective_items_are_all_at_half_and_few_at_the_ceiling():
    even = np.tile([[0], [1]], (5, 8))
    assert measure_saturation(make_responses(even)).overall.effective_items == 8
    easy = np.ones((100, 8), int)
    easy[0] = 0
    assert measure_saturation(make_responses(easy)).overall.effective_items == pytest.approx(0.3168)
    assert measure_saturation(make_responses(np.ones((9, 8), int))).overall.effective_items == 0


def test_the_rule_counts_all_items_and_its_settings_decide():
    codes = np.zeros((20, 4), int)
    codes[:5, :2] = 1
    responses = make_responses(codes)
    assert measure_saturation(responses).modelable  # 2 of 4 with exactly 5
    assert not measure_saturation(responses, minority=6).modelable
    assert not measure_saturation(responses, share=0.51).modelable
    assert not measure_saturation(make_responses(np.c_[codes, np.ones(20, int)])).modelable


def test_hostile_matrices_give_no_nan():
    cases = [
        [[1, 1], [1, 1]],
        [[-1, -1], [-1, -1]],
        [[1, 0], [0, 1]],
        [[1, -1, -1], [-1, 0, -1], [-1, -1, -1]],
        [[0]],
        [[1, -1], [0, -1]],
        [[1, 0, -1, -1], [0, 1, -1, -1], [-1, -1, 1, 0], [-1, -1, 0, 1]],
    ]
    for codes in cases:
        items = [str(place) for place in range(len(codes[0]))]
        one_set = dict.fromkeys(items, "x")
        found = measure_saturation(make_responses(codes, items=items), {"s": one_set}, one_set)
        data = plain(found)
        json.dumps(data, allow_nan=False)
        for row in (data, *data["benchmarks"], *data["domains"]):
            unknown = {name for name, value in row.items() if value is None}
            assert unknown == set(row.get("why", {}))
    assert found.overall.item_rest.known == 4


def test_a_target_without_responses_is_no_target_at_the_ceiling():
    row = measure_saturation(make_responses([[1, 1], [-1, -1], [1, -1], [0, 1]])).overall
    assert (row.targets, row.ceiling_targets) == (3, 2)
    assert row.ceiling_share == pytest.approx(2 / 3)


def test_order_and_repetition_change_nothing():
    rng = np.random.default_rng(4)
    codes = rng.integers(-1, 2, (30, 10))
    rows, columns = rng.permutation(30), rng.permutation(10)
    items = [str(place) for place in range(10)]
    first = measure_saturation(make_responses(codes, items=items)).overall
    turned = make_responses(codes[rows][:, columns], items=[items[place] for place in columns])
    second = measure_saturation(turned).overall
    assert first.item_rest.quantiles == pytest.approx(second.item_rest.quantiles)
    assert set(first.item_rest.negative_items) == set(second.item_rest.negative_items)
    doubled = measure_saturation(make_responses(codes, items=items, weights=[2.0] * 30)).overall
    again = measure_saturation(make_responses(np.tile(codes, (2, 1)), items=items)).overall
    assert doubled.item_rest.quantiles == pytest.approx(again.item_rest.quantiles)
    assert doubled.informative_items == again.informative_items


def test_what_cannot_be_judged_is_refused():
    responses = make_responses([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="takes outcomes 0 and 1, and there is a 2"):
        measure_saturation(make_responses([[0, 2], [1, 1]]))
    with pytest.raises(InputError, match="structure 'type' names none of the 2 items"):
        measure_saturation(responses, {"type": {"other": "x"}})
    for wrong in ({"minority": 0}, {"share": 0.0}, {"share": 1.5}):
        with pytest.raises(InputError, match="are no rule"):
            measure_saturation(responses, **wrong)
