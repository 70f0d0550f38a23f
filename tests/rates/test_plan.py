"""Plans: how many trials a statement needs, and whether items or repeats buy more."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from safemetry import plan_trials
from safemetry.errors import InputError, MixedIntentError
from safemetry.rates import plan_repeats
from safemetry.rates.intervals import upper_bound


@pytest.mark.parametrize("ceiling", [0.5, 0.1, 0.003])
@pytest.mark.parametrize("failures", [0, 1, 5])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_a_plan_is_just_enough(ceiling, failures, confidence):
    trials = plan_trials(ceiling, failures=failures, confidence=confidence).trials
    assert float(upper_bound(failures, trials, confidence)) <= ceiling * (1 + 1e-9)
    if trials > failures + 1:
        assert float(upper_bound(failures, trials - 1, confidence)) > ceiling


def test_a_plan_in_words_and_in_json(assert_sound):
    plan = plan_trials(0.001, failures=1, volume=10_000_000)
    assert plan.sentence() == (
        "4,742 independent trials with one failure show at 95% confidence that the failure rate is "
        "at most 0.1%, which is up to 10,000 failures at that volume."
    )
    read = assert_sound(plan)
    assert (read["command"], read["trials"], read["projected"]) == ("plan", 4742, 10_000)
    bare = plan_trials(0.001)
    assert "2,995 independent trials with no failure show" in bare.sentence()
    assert assert_sound(bare)["why"] == {"projected": "no volume was given"}


@pytest.mark.parametrize(
    ("ceiling", "options", "said"),
    [
        (0, {}, "ceiling must lie strictly between 0 and 1"),
        (1, {}, "ceiling must lie strictly between 0 and 1"),
        (float("nan"), {}, "ceiling must lie strictly between 0 and 1"),
        (0.1, {"failures": -1}, "failures must be at least 0"),
        (0.1, {"confidence": 1}, "confidence must lie strictly between 0 and 1"),
        (0.1, {"volume": -5}, "volume -5 is not a positive number of requests"),
        (0.1, {"volume": float("inf")}, "volume inf is not a positive number of requests"),
    ],
)
def test_an_impossible_plan_is_refused(ceiling, options, said):
    with pytest.raises(InputError, match=said):
        plan_trials(ceiling, **options)


def outcomes(rng, *, targets=4, items=40, epochs=4, item_spread=0.0):
    """Judgements whose chances vary by item only."""
    chance = np.clip(0.5 + item_spread * rng.standard_normal(items), 0, 1)
    target, item, epoch = np.indices((targets, items, epochs)).reshape(3, -1)
    complied = rng.random(target.size) < chance[item]
    return pa.table(
        {
            "target": [f"t{code}" for code in target],
            "item": [f"i{code}" for code in item],
            "epoch": epoch + 1,
            "label": np.where(complied, "comply", "refuse"),
            "intent": ["harmful"] * target.size,
        }
    )


def test_where_items_differ_more_items_buy_more_than_repeats(assert_sound):
    finding = plan_repeats(outcomes(np.random.default_rng(3), item_spread=0.3), epochs=[1, 2, 4])
    errors = [plan["standard_error"] for plan in finding.plans]
    assert errors == sorted(errors)
    assert [plan["items"] * plan["epochs"] for plan in finding.plans] == [160] * 3
    assert "of the variance lies in" in finding.sentence()
    assert_sound(finding)


def test_where_items_are_alike_repeats_cost_nothing(assert_sound):
    finding = plan_repeats(outcomes(np.random.default_rng(5)), epochs=[1, 4])
    once, often = (plan["standard_error"] for plan in finding.plans)
    assert often == pytest.approx(once, rel=0.25)
    assert finding.sentence().endswith(
        "of the variance lies in residual (how responses of one target to one item differ)."
    )
    assert_sound(finding)


@pytest.mark.parametrize("targets", [1, 4])
def test_without_repeats_a_plan_of_one_response_is_known_and_of_more_is_not(targets, assert_sound):
    data = outcomes(np.random.default_rng(5), targets=targets, items=200, epochs=1)
    once, *more = plan_repeats(data).plans
    # A rate of one half over 200 items.
    assert once["standard_error"] == pytest.approx(np.sqrt(0.25 / 200), rel=0.1)
    assert all(plan["standard_error"] is None for plan in more)
    assert all("one response" in plan["why"]["standard_error"] for plan in more)
    finding = plan_repeats(data)
    assert "and what repeats would show)" in finding.sentence()
    assert_sound(finding)


def test_verdicts_of_several_judges_are_planned_for_one_or_for_their_majority():
    data = outcomes(np.random.default_rng(5), items=10)
    columns = {name: data[name] for name in data.column_names}
    both = pa.concat_tables(
        [pa.table(columns | {"judge": [judge] * data.num_rows}) for judge in ("j", "k", "l")]
    )
    with pytest.raises(InputError, match=r"3 judges \(j, k, l\).*--filter judge=NAME.*/majority"):
        plan_repeats(both)
    one, panel = plan_repeats(data), plan_repeats(both, success="comply/majority")
    assert panel.plans == one.plans


def test_outcomes_of_several_intents_are_not_pooled():
    data = outcomes(np.random.default_rng(5), items=10)
    mixed = data.set_column(
        data.column_names.index("intent"),
        "intent",
        pa.array(
            ["benign" if item in {"i1", "i2"} else "harmful" for item in data["item"].to_pylist()]
        ),
    )
    with pytest.raises(MixedIntentError, match=r"benign and harmful.*--filter intent=harmful"):
        plan_repeats(mixed)


def test_a_duplicate_key_is_refused():
    data = outcomes(np.random.default_rng(5), items=2)
    with pytest.raises(InputError, match="duplicate key"):
        plan_repeats(pa.concat_tables([data, data.slice(0, 1)]))


def test_without_a_verdict_there_is_nothing_to_plan():
    data = pa.table({"target": ["m"], "item": ["1"], "label": pa.array([None], pa.string())})
    with pytest.raises(InputError, match="no response was judged"):
        plan_repeats(data)
    with pytest.raises(InputError, match="0 responses per item are no plan"):
        plan_repeats(data, epochs=[0])
