"""Adaptive tests in several dimensions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import random_pool
from scipy.optimize import minimize
from test_session import assert_same_path

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    Classification,
    Exposure,
    Start,
    make_test,
    predicted_scores,
    simulate_codes,
    simulate_sessions,
)
from safemetry.forms.pool import ItemPool
from safemetry.irt.information import information_matrix
from safemetry.irt.parameters import ItemParameters, category_probabilities, expected_scores

RULES = ("determinant", "posterior_determinant", "trace", "score", "random")


def pool_of(count, seed, dims=2, correlation=0.4, steps=1):
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.9, 0.5, (count, dims)) * (rng.random((count, dims)) < 0.7)
    intercepts = np.sort(rng.normal(0, 1.2, (count, steps)), axis=1)[:, ::-1].copy()
    covariance = np.full((dims, dims), correlation) + (1 - correlation) * np.eye(dims)
    kinds = tuple(f"kind-{place % 3}" for place in range(count))
    return ItemPool(
        tuple(f"item-{place}" for place in range(count)),
        ItemParameters(slopes, intercepts, np.zeros(count), np.ones(count)),
        np.zeros(dims),
        covariance,
        {"category": kinds},
    )


def responses(pool, count, seed):
    rng = np.random.default_rng(seed)
    theta = rng.multivariate_normal(pool.mean, pool.covariance, count)
    return theta, simulate_codes(pool.parameters, theta, rng)


@pytest.mark.parametrize("steps", [1, 3])
def test_estimates_are_posterior_modes_and_their_curvature(steps):
    pool = pool_of(40, 1, dims=3, steps=steps)
    _, codes = responses(pool, 3, 2)
    settings = AdaptiveSettings(rule="determinant", budget=15)
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
    precision = np.linalg.inv(pool.covariance)
    for row in range(3):
        items = found.items[row]
        part = pool.parameters.select(items)
        given = codes[row, items].astype(int)

        def loss(theta, part=part, given=given):
            chances = category_probabilities(part, theta[None])[:, 0]
            logs = np.log(chances[given, np.arange(given.size)])
            return theta @ precision @ theta / 2 - logs.sum()

        best = minimize(loss, np.zeros(3), tol=1e-10).x
        assert np.allclose(found.theta[row, -1], best, atol=1e-4)
        total = information_matrix(part, found.theta[row, -1:].data)[0] + precision
        assert np.allclose(found.se[row, -1], np.sqrt(np.diag(np.linalg.inv(total))))


def test_the_mode_is_found_from_afar():
    pool = pool_of(300, 2, dims=4)
    steep = replace(pool.parameters, slopes=4 * pool.parameters.slopes)
    pool = replace(pool, parameters=steep)
    theta, codes = responses(pool, 30, 3)
    test = make_test(pool, AdaptiveSettings(rule="determinant"))
    at_once, one_by_one = test.engine.begin(30), test.engine.begin(30)
    for place in range(300):
        for evidence in (at_once, one_by_one):
            test.engine.observe(evidence, np.full(30, place), codes[:, place].astype(int))
        near, _ = test.engine.estimate(one_by_one)
    found, errors = test.engine.estimate(at_once)
    assert np.allclose(found, near, atol=1e-7)
    assert np.sqrt((((found - theta) / errors) ** 2).mean()) < 1.3


def test_criteria_are_what_an_answer_would_change():
    pool = pool_of(30, 3, dims=3)
    _, codes = responses(pool, 1, 4)
    for rule in ("determinant", "trace", "score"):
        test = make_test(pool, AdaptiveSettings(rule=rule))
        evidence = test.engine.begin(1)
        for place in range(8):
            test.engine.observe(evidence, np.array([place]), codes[:, place].astype(int))
        theta, _ = test.engine.estimate(evidence)
        found = test.engine.criterion(evidence, theta, 8)[0]
        before = np.linalg.inv(evidence.covariance[0])
        change = 1e-5
        score = [
            expected_scores(pool.parameters, theta + change * axis).mean() for axis in np.eye(3)
        ]
        base = expected_scores(pool.parameters, theta).mean()
        slope = (np.array(score) - base) / change
        expected = []
        for place in range(30):
            one = information_matrix(pool.parameters.select(np.array([place])), theta)[0]
            after = np.linalg.inv(before + one)
            fall = evidence.covariance[0] - after
            expected.append(
                {
                    "determinant": np.linalg.det(before + one) / np.linalg.det(before) - 1,
                    "trace": np.trace(fall),
                    "score": slope @ fall @ slope,
                }[rule]
            )
        assert np.allclose(found, expected, rtol=2e-4)


@pytest.mark.parametrize(
    "choice",
    [
        *({"rule": rule} for rule in RULES),
        {"rule": "determinant", "randomesque": 3},
        {"rule": "trace", "balance": Balance("category")},
        {"rule": "trace", "exposure": Exposure("acceptance", {"item-1": 0.2, "item-5": 0.5})},
        {"rule": "determinant", "start": Start(ability=(1.0, -1.0), items=("item-9",))},
        {"rule": "determinant", "precision": 0.6},
    ],
)
def test_a_live_session_takes_the_path_of_the_simulation(choice):
    pool = pool_of(30, 5)
    _, codes = responses(pool, 3, 6)
    codes[0, ::4] = -1
    settings = replace(AdaptiveSettings(budget=8, rule="random"), **choice)
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(1))
    for row in range(2):
        assert_same_path(pool, settings, codes, row, found)


def test_chosen_items_make_abilities_and_scores_more_precise_than_random_ones():
    pool = pool_of(300, 7, dims=3)
    theta, codes = responses(pool, 150, 8)
    error, off = {}, {}
    for rule in RULES:
        settings = AdaptiveSettings(rule=rule, budget=20)
        found = simulate_sessions(pool, codes, settings, np.random.default_rng(2))
        error[rule] = np.sqrt(((found.final_theta - theta) ** 2).mean())
        scores = predicted_scores(pool, codes, found, [20])[:, 0]
        off[rule] = np.sqrt(((scores - codes.mean(axis=1)) ** 2).mean())
    assert max(error[rule] for rule in RULES[:3]) < 0.85 * error["random"]
    assert off["score"] < 0.75 * off["random"]


def test_predicted_scores_of_a_whole_session_are_the_observed_ones():
    for pool in (pool_of(20, 1), random_pool(20, 1)):
        rng = np.random.default_rng(3)
        size = pool.parameters.dimensions
        codes = simulate_codes(pool.parameters, rng.standard_normal((5, size)), rng)
        settings = AdaptiveSettings(rule="random", budget=20)
        found = simulate_sessions(pool, codes, settings, rng)
        scores = predicted_scores(pool, codes, found, [5, 20])
        assert np.allclose(scores[:, 1], codes.mean(axis=1))
        assert not np.allclose(scores[:, 0], codes.mean(axis=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "information"}, "one dimension"),
        ({"classification": Classification(cut=0.0)}, "one dimension"),
        ({"start": Start(population=True)}, "one dimension"),
        ({"start": Start(ability=(0.0,))}, "2 abilities"),
    ],
)
def test_what_is_for_one_dimension_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        make_test(pool_of(10, 1), AdaptiveSettings(**{"rule": "determinant"} | settings))


def test_two_categories_are_computed_as_items_in_general_are():
    pool = pool_of(40, 2, dims=3)
    _, codes = responses(pool, 5, 3)
    codes[:, ::7] = -1
    test = make_test(pool, AdaptiveSettings(rule="determinant"))
    evidence = test.engine.begin(5)
    for place in range(40):
        test.engine.observe(evidence, np.full(5, place), codes[:, place].astype(int))
    linear = np.random.default_rng(1).normal(0, 8, (5, 40))
    scored = evidence.codes >= 0
    for quick, general in zip(
        test.engine._plain_parts(evidence, linear),
        test.engine._general_parts(evidence, linear),
        strict=True,
    ):
        assert np.allclose(quick[scored], general[scored], rtol=1e-9, atol=1e-13)
