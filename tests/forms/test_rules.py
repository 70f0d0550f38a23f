"""Rules of choice against their definitions, and invariances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import binary_pool, graded_pool, random_pool

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    Lattice,
    Start,
    make_test,
    simulate_codes,
    simulate_sessions,
)
from safemetry.forms.adaptive.choosing import accepted_items, best_items, one_of_best
from safemetry.forms.adaptive.rules import interval_weights, strata_of
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.information import item_information
from safemetry.irt.parameters import category_probabilities
from safemetry.irt.responses import make_responses


def answered(pool, settings, count=4, seed=3):
    """The engine, evidence of targets that have answered every second item, and their codes."""
    rng = np.random.default_rng(seed)
    codes = simulate_codes(pool.parameters, rng.standard_normal((count, 1)), rng)
    codes[:, 1::2] = -1
    test = make_test(pool, settings)
    evidence = test.engine.begin(count)
    for place in range(0, len(pool.items), 2):
        test.engine.observe(evidence, np.full(count, place), codes[:, place].astype(int))
    return test.engine, evidence, codes


@pytest.mark.parametrize("pool", [random_pool(31, 2), graded_pool(24, 3)])
@pytest.mark.parametrize("method", ["eap", "map", "wle"])
def test_estimates_are_those_of_the_whole_program(pool, method):
    engine, evidence, codes = answered(pool, AdaptiveSettings(estimator=method))
    theta, se = engine.estimate(evidence)
    known = estimate_abilities(pool.parameters, make_responses(codes), method=method)
    assert np.allclose(theta[:, 0], known.estimates, rtol=0, atol=2e-5)
    if method != "map":  # there the expected information is used, and here it is asked for as well
        assert np.allclose(se[:, 0], known.standard_errors, rtol=2e-4)


@pytest.mark.parametrize("pool", [random_pool(31, 2), graded_pool(24, 3)])
def test_looked_up_information_is_that_of_the_items(pool):
    engine, evidence, _ = answered(pool, AdaptiveSettings())
    theta, _ = engine.estimate(evidence)
    exact = item_information(pool.parameters, theta)
    assert np.allclose(engine.criterion(evidence, theta, 1), exact, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("pool", [random_pool(31, 2), graded_pool(24, 3)])
@pytest.mark.parametrize("rule", ["kl", "klp", "kl_interval", "posterior_information"])
def test_rules_over_abilities_are_the_sums_that_define_them(pool, rule):
    settings = AdaptiveSettings(rule=rule, lattice=Lattice(nodes=97))
    engine, evidence, _ = answered(pool, settings)
    theta, _ = engine.estimate(evidence)
    found = engine.criterion(evidence, theta, 1)
    nodes, size = engine.nodes, len(pool.items)
    likelihood = np.exp(evidence.log_likelihood)
    likelihood[:, [0, -1]] /= 2  # by the trapezoid rule
    prior = np.exp(-(nodes**2) / 2)
    weights = {
        "kl": likelihood,
        "klp": likelihood * prior,
        "posterior_information": likelihood * prior,
        "kl_interval": interval_weights(
            nodes, theta[:, 0], np.full(4, 3 / np.sqrt((size + 1) // 2))
        ),
    }[rule]
    expected = np.zeros((4, size))
    over = category_probabilities(pool.parameters, nodes[:, None])
    for row in range(4):
        share = weights[row] / (1.0 if rule == "kl_interval" else weights[row].sum())
        if rule == "posterior_information":
            expected[row] = share @ item_information(pool.parameters, nodes)
            continue
        here = category_probabilities(pool.parameters, theta[row : row + 1])
        logs = np.log(np.maximum(here, 1e-300)) - np.log(np.maximum(over, 1e-300))
        expected[row] = share @ (here * logs).sum(axis=0)
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_an_interval_covers_its_width():
    weights = interval_weights(np.linspace(-4, 4, 81), np.array([0.03, 1.0]), np.array([0.5, 0.01]))
    assert np.allclose(weights.sum(axis=1), [1.0, 0.02])


def test_strata_are_filled_from_the_smallest_slopes():
    slopes = np.array([0.5, 2.0, -1.0, 3.0, 1.5, 0.1])
    assert strata_of(slopes, 3).tolist() == [0, 2, 1, 2, 1, 0]


def test_a_stratified_sessions_use_one_stratum_after_another():
    pool = random_pool(200, 4)
    settings = AdaptiveSettings(rule="a_stratified", budget=20, strata=4)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((30, 1)), rng)
    found = simulate_sessions(pool, codes, settings, rng)
    stratum = strata_of(pool.parameters.slopes[:, 0], 4)
    assert (stratum[found.items] == np.repeat(np.arange(4), 5)).all()


def test_a_stratum_without_items_gives_way_to_its_neighbour():
    pool = random_pool(20, 4)
    stratum = strata_of(pool.parameters.slopes[:, 0], 4)
    rng = np.random.default_rng(1)
    codes = simulate_codes(pool.parameters, rng.standard_normal((5, 1)), rng)
    codes[:, stratum == 0] = -1
    found = simulate_sessions(pool, codes, AdaptiveSettings(rule="a_stratified", budget=4), rng)
    assert (stratum[found.items[:, 0]] == 1).all()


def test_items_in_another_order_give_the_same_session():
    pool = random_pool(80, 6)
    rng = np.random.default_rng(8)
    codes = simulate_codes(pool.parameters, rng.standard_normal((7, 1)), rng)
    order = rng.permutation(80)
    for choice in ({}, {"rule": "klp"}, {"estimator": "wle"}, {"balance": Balance("category")}):
        settings = replace(AdaptiveSettings(budget=30), **choice)
        one = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
        two = simulate_sessions(
            pool.select(order), codes[:, order], settings, np.random.default_rng(0)
        )
        assert (order[two.items] == one.items).all()
        assert np.allclose(one.theta, two.theta, rtol=0, atol=1e-10)


def test_the_scale_of_the_population_does_not_matter():
    pool = random_pool(60, 6)
    sd, mean = 2.5, -3.0
    slopes = pool.parameters.slopes / sd
    moved = replace(
        pool,
        parameters=replace(
            pool.parameters, slopes=slopes, intercepts=pool.parameters.intercepts - slopes * mean
        ),
        mean=np.array([mean]),
        covariance=np.array([[sd**2]]),
    )
    rng = np.random.default_rng(8)
    codes = simulate_codes(pool.parameters, rng.standard_normal((7, 1)), rng)
    for choice in ({}, {"estimator": "map"}, {"estimator": "ml"}, {"rule": "klp"}):
        settings = replace(AdaptiveSettings(budget=20), **choice)
        one = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
        two = simulate_sessions(moved, codes, settings, np.random.default_rng(0))
        assert (one.items == two.items).all()
        assert np.allclose(mean + sd * one.theta, two.theta, rtol=0, atol=1e-7)


def test_a_session_starts_where_it_is_told():
    pool = binary_pool([1, 1, 1, 2.5], [2.0, 0.0, -2.0, 1.2])
    codes = np.ones((1, 4), np.int8)

    def first(**start):
        settings = AdaptiveSettings(budget=1, start=Start(**start))
        return simulate_sessions(pool, codes, settings, np.random.default_rng(0)).items[0, 0]

    assert first() == 3
    assert first(ability=(-2.0,)) == 0
    assert first(ability=(2.0,)) == 2
    assert first(items=("item-2",)) == 2
    assert first(population=True) == 3


def test_a_first_item_that_a_target_lacks_is_passed_over():
    pool = random_pool(10, 1)
    codes = np.ones((2, 10), np.int8)
    codes[0, 4] = -1
    settings = AdaptiveSettings(budget=3, start=Start(items=("item-4", "item-5")))
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0)).items
    assert found[1, :2].tolist() == [4, 5]
    assert 4 not in found[0]
    assert found[0, 1] == 5


def test_rounding_does_not_decide_between_equal_items():
    values = np.array([[0.1, 0.3, 0.3 * (1 + 1e-15), -np.inf]])
    assert best_items(values).tolist() == [1]
    assert best_items(np.array([[-np.inf, 0.0, 0.0]])).tolist() == [1]


def test_one_of_the_best_is_drawn_with_equal_chances():
    values = np.tile([5.0, -np.inf, 1.0, 4.0, 3.0], (30_000, 1))
    drawn = one_of_best(values, 3, np.random.default_rng(1).random(30_000))
    shares = np.bincount(drawn, minlength=5) / 30_000
    assert np.allclose(shares, [1 / 3, 0, 0, 1 / 3, 1 / 3], atol=0.01)
    few = one_of_best(np.array([[-np.inf, 2.0, -np.inf]]), 3, np.array([0.99]))
    assert few.tolist() == [1]


def test_acceptance_tries_items_in_their_order():
    values = np.tile([1.0, 3.0, 2.0, -np.inf], (40_000, 1))
    chances = np.array([1.0, 0.25, 0.5, 1.0])
    items, places, refused = accepted_items(
        values, chances, np.random.default_rng(2).random(40_000)
    )
    shares = np.bincount(items, minlength=4) / 40_000
    assert np.allclose(shares, [0.375, 0.25, 0.375, 0], atol=0.01)
    third = items == 0
    assert (np.sort(places[third][refused[third]].reshape(-1, 2), axis=1) == [1, 2]).all()
    assert not refused[items == 1].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "best"}, "no rule 'best'"),
        ({"estimator": "mean"}, "no estimator"),
        ({"budget": 0}, "budget is 0"),
        ({"precision": 0.0}, "above 0"),
        ({"at_cut": True}, "need a cut"),
        ({"interval_constant": 0.0}, "width"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        AdaptiveSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "determinant"}, "several dimensions"),
        ({"start": Start(ability=(9.0,))}, "beyond the lattice"),
        ({"start": Start(ability=(0.0, 0.0))}, "one ability"),
        ({"start": Start(items=("nothing",))}, "no item 'nothing'"),
        ({"balance": Balance("language")}, "no property"),
        ({"balance": Balance("category", {"kind-9": 1.0})}, "no item has category"),
    ],
)
def test_settings_that_do_not_fit_the_pool_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        make_test(random_pool(12, 1), AdaptiveSettings(**settings))
