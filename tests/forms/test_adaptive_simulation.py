"""Simulation of many sessions at once: records, blocks, strange pools, and what it buys."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import binary_pool, graded_pool, random_pool

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    Classification,
    simulate_codes,
    simulate_sessions,
)
from safemetry.forms.adaptive import simulation as module
from safemetry.irt.parameters import category_probabilities

ESTIMATORS = ("eap", "map", "ml", "wle")


def test_targets_do_not_depend_on_one_another(monkeypatch):
    pool = random_pool(50, 3)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((23, 1)), rng)
    for choice in ({}, {"rule": "klp"}, {"randomesque": 4}, {"precision": 0.5}):
        settings = replace(AdaptiveSettings(budget=20), **choice)
        together = simulate_sessions(pool, codes, settings, np.random.default_rng(2))
        with monkeypatch.context() as patched:
            patched.setattr(module, "_CELLS", 200)  # four targets at a time
            apart = simulate_sessions(pool, codes, settings, np.random.default_rng(2))
        assert (together.items == apart.items).all()
        assert np.allclose(together.theta, apart.theta, rtol=0, atol=1e-12)
        assert together.stops == apart.stops


def test_the_same_seed_gives_the_same_sessions():
    pool = random_pool(50, 3)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((9, 1)), rng)
    settings = AdaptiveSettings(budget=10, randomesque=5)
    one, same, other = (
        simulate_sessions(pool, codes, settings, np.random.default_rng(seed)).items
        for seed in (4, 4, 5)
    )
    assert (one == same).all()
    assert (one != other).any()


def test_responses_after_the_end_are_never_looked_at():
    pool = random_pool(60, 3)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((9, 1)), rng)
    settings = AdaptiveSettings(budget=12, balance=Balance("category"))
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
    changed = 1 - codes
    np.put_along_axis(changed, found.items, np.take_along_axis(codes, found.items, 1), 1)
    again = simulate_sessions(pool, changed.astype(np.int8), settings, np.random.default_rng(0))
    assert (found.items == again.items).all()
    assert (found.theta == again.theta).all()


def test_records_are_plain():
    pool = random_pool(30, 2)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((3, 1)), rng)
    settings = AdaptiveSettings(budget=30, classification=Classification(cut=0.0, half_width=0.8))
    found = simulate_sessions(pool, codes, settings, rng)
    records = json.loads(json.dumps(found.records(["a", "b", "c"], pool.items), allow_nan=False))
    for row, record in enumerate(records):
        length = found.lengths[row]
        assert record["target"] == "abc"[row]
        assert record["items"] == [pool.items[place] for place in found.items[row, :length]]
        assert len(record["theta"]) == len(record["se"]) == length
        assert record["stop"] == found.stops[row]
        assert record["decision"] in {"above", "below", "cannot_tell"}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rule", ["information", "klp", "kl_interval", "a_stratified"])
def test_items_that_tell_nothing_or_run_backwards_do_no_harm(estimator, rule):
    pool = binary_pool([0.0, 0.0, -1.5, 8.0, 1e-8], [0.0, 30.0, 0.3, -60.0, 1.0])
    codes = np.array([[0, 1, 0, 1, 1], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]], np.int8)
    settings = AdaptiveSettings(budget=5, estimator=estimator, rule=rule)
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
    assert (np.sort(found.items, axis=1) == np.arange(5)).all()
    assert np.isfinite(found.theta.data).all()
    assert (np.abs(found.theta) <= 6).all()
    assert np.isfinite(found.se.compressed()).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pool_that_tells_nothing_leaves_the_population(estimator):
    pool = binary_pool([0.0, 0.0], [0.5, -0.5])
    codes = np.array([[0, 1]], np.int8)
    settings = AdaptiveSettings(budget=2, estimator=estimator)
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
    assert np.allclose(found.theta, 0, atol=1e-9)
    if estimator in {"ml", "wle"}:
        assert found.se.mask.all()
        assert found.records(["t"], pool.items)[0]["why"]["se"]
    else:
        assert np.allclose(found.se, 1, atol=1e-4)


def test_one_item_is_a_pool():
    pool = random_pool(1, 2)
    settings = AdaptiveSettings(budget=5, randomesque=3)
    found = simulate_sessions(pool, np.array([[1]], np.int8), settings, np.random.default_rng(0))
    assert found.items.tolist() == [[0]]
    assert found.stops == ("exhausted",)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((2, 3), np.int8), "4 items"),
        (np.full((2, 4), 2, np.int8), "calibrated categories"),
    ],
)
def test_responses_that_do_not_fit_are_refused(codes, message):
    with pytest.raises(InputError, match=message):
        simulate_sessions(random_pool(4, 1), codes, AdaptiveSettings(), np.random.default_rng(0))


def test_simulated_responses_follow_the_model():
    pool = graded_pool(6, 2)
    theta = np.full((20_000, 1), 0.4)
    codes = simulate_codes(pool.parameters, theta, np.random.default_rng(1))
    chances = category_probabilities(pool.parameters, theta[:1])[:, 0]
    for category, expected in enumerate(chances):
        assert np.allclose((codes == category).mean(axis=0), expected, atol=0.015)


@pytest.mark.parametrize("pool", [random_pool(250, 5), graded_pool(120, 5)])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_abilities_are_recovered_with_the_errors_that_are_stated(pool, estimator):
    rng = np.random.default_rng(7)
    theta = rng.normal(0, 1, (400, 1))
    codes = simulate_codes(pool.parameters, theta, rng)
    settings = AdaptiveSettings(budget=40, estimator=estimator)
    found = simulate_sessions(pool, codes, settings, rng)
    off = (found.final_theta - theta[:, 0]).data
    stated = np.sqrt((found.final_se.data**2).mean())
    assert np.sqrt((off**2).mean()) == pytest.approx(stated, rel=0.15)
    assert abs(off.mean()) < 4 * stated / 20


def test_chosen_items_are_worth_more_than_random_ones():
    pool = random_pool(250, 5)
    rng = np.random.default_rng(7)
    theta = rng.normal(0, 1, (300, 1))
    codes = simulate_codes(pool.parameters, theta, rng)
    error = {}
    for rule in ("information", "posterior_information", "kl", "klp", "kl_interval", "random"):
        found = simulate_sessions(pool, codes, AdaptiveSettings(budget=15, rule=rule), rng)
        error[rule] = np.sqrt(((found.final_theta - theta[:, 0]) ** 2).mean())
    assert max(value for rule, value in error.items() if rule != "random") < 0.8 * error["random"]
