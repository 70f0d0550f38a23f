"""When sessions end, and how often a decided classification is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import binary_pool, random_pool

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Classification,
    cut_ability,
    make_test,
    mean_score,
    measure_classification,
    simulate_codes,
    simulate_sessions,
)
from safemetry.forms.adaptive.classification import decide, decision_bounds, likelihood_ratio_table

POOL = random_pool(300, 7)


def sessions(settings, count=40, pool=POOL, seed=1):
    rng = np.random.default_rng(seed)
    codes = simulate_codes(pool.parameters, rng.standard_normal((count, 1)), rng)
    return simulate_sessions(pool, codes, settings, rng), codes


def test_a_session_ends_at_its_precision_and_not_before():
    found, _ = sessions(AdaptiveSettings(budget=100, precision=0.4))
    assert set(found.stops) == {"precision"}
    for row, length in enumerate(found.lengths):
        assert found.se[row, length - 1] <= 0.4
        assert (found.se[row, : length - 1] > 0.4).all()
    assert found.theta.mask.sum() == (100 - found.lengths).sum()
    assert (found.items[found.theta.mask] == -1).all()


def test_a_least_number_of_items_comes_first():
    found, _ = sessions(AdaptiveSettings(budget=100, precision=0.4, least=30))
    assert found.lengths.min() == 30


def test_a_budget_ends_a_session():
    found, _ = sessions(AdaptiveSettings(budget=7, precision=0.01))
    assert (found.lengths == 7).all()
    assert set(found.stops) == {"budget"}


def test_a_pool_without_further_items_ends_a_session():
    pool = random_pool(6, 2)
    codes = np.ones((3, 6), np.int8)
    codes[1, 2:] = -1
    codes[2] = -1
    found = simulate_sessions(pool, codes, AdaptiveSettings(budget=9), np.random.default_rng(0))
    assert found.lengths.tolist() == [6, 2, 0]
    assert found.stops == ("exhausted",) * 3
    assert found.final_theta.mask.tolist() == [False, False, True]


def test_bounds_of_wald():
    low, high = decision_bounds(Classification(cut=0.0, alpha=0.01, beta=0.1))
    assert (low, high) == pytest.approx((np.log(0.1 / 0.99), np.log(0.9 / 0.01)))


def test_the_sequential_test_sums_log_likelihood_ratios():
    classified = Classification(cut=0.3, half_width=0.4)
    settings = AdaptiveSettings(budget=60, classification=classified, at_cut=True)
    found, codes = sessions(settings)
    table = likelihood_ratio_table(POOL.parameters, classified)
    slopes, steps = POOL.parameters.slopes[:, 0], POOL.parameters.intercepts[:, 0]
    chance = 1 / (1 + np.exp(-np.outer([-0.1, 0.7], slopes) - steps))
    assert np.allclose(table[:, 1], np.log(chance[1] / chance[0]))
    assert np.allclose(table[:, 0], np.log((1 - chance[1]) / (1 - chance[0])))
    low, high = decision_bounds(classified)
    for row, length in enumerate(found.lengths):
        items = found.items[row, :length]
        path = np.cumsum(table[items, codes[row, items]])
        side = "above" if path[-1] >= high else "below" if path[-1] <= low else "cannot_tell"
        assert found.decisions[row] == side
        assert ((path[:-1] < high) & (path[:-1] > low)).all()
        assert found.stops[row] == ("budget" if side == "cannot_tell" else "classified")


def test_the_interval_rule_decides_when_the_cut_lies_outside():
    classified = Classification(cut=0.0, method="interval", level=0.95)
    theta, se = np.array([0.5, 0.3, -0.5, 0.0]), np.array([0.25, 0.25, 0.25, np.inf])
    assert decide(classified, np.zeros(4), theta, se).tolist() == [1, 0, -1, 0]


def test_a_cut_on_the_score_is_the_ability_that_expects_it():
    theta = cut_ability(POOL, 0.62)
    assert mean_score(POOL.parameters, np.array([[theta]]))[0] == pytest.approx(0.62, abs=1e-9)
    settings = AdaptiveSettings(classification=Classification(cut_score=0.62))
    assert make_test(POOL, settings).engine.settings.classification.cut == pytest.approx(theta)


def test_a_score_that_nobody_has_is_no_cut():
    guessing = binary_pool(np.ones(5), np.zeros(5), lower=np.full(5, 0.25))
    with pytest.raises(InputError, match=r"0\.25"):
        cut_ability(guessing, 0.2)
    with pytest.raises(InputError, match="cut"):
        cut_ability(POOL, 1.0)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, "one cut"),
        ({"cut": 0.0, "cut_score": 0.5}, "one cut"),
        ({"cut": 0.0, "alpha": 0.0}, "error rates"),
        ({"cut": 0.0, "half_width": 0.0}, "width"),
        ({"cut": 0.0, "level": 1.0}, "level"),
        ({"cut": 0.0, "method": "guess"}, "classification by"),
    ],
)
def test_impossible_classifications_are_refused(choice, message):
    with pytest.raises(InputError, match=message):
        Classification(**choice)


def test_a_classification_needs_a_cut_within_the_lattice():
    settings = AdaptiveSettings(classification=Classification(cut=50.0))
    with pytest.raises(InputError, match="beyond the lattice"):
        make_test(POOL, settings)
    with pytest.raises(InputError, match="does not look at one ability"):
        make_test(
            POOL,
            replace(settings, rule="klp", at_cut=True, classification=Classification(cut=0.0)),
        )
    with pytest.raises(InputError, match="no classification"):
        measure_classification(POOL, AdaptiveSettings(), [0.0], np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("at_cut", [True, False])
def test_stated_error_rates_are_kept_at_the_ends_of_the_indifference_region(study_size, at_cut):
    count = max(round(4000 * study_size), 300)
    classified = Classification(cut=0.4, half_width=0.3, alpha=0.05, beta=0.1)
    settings = AdaptiveSettings(budget=300, classification=classified, at_cut=at_cut)
    low, middle, high = measure_classification(
        POOL, settings, [0.1, 0.4, 0.7], np.random.default_rng(3), sessions=count
    )
    slack = 3 * np.sqrt(0.1 * 0.9 / count)
    assert low.wrong <= 0.05 + slack
    assert high.wrong <= 0.10 + slack
    assert middle.wrong is None
    assert middle.to_dict()["why"]["wrong"]
    assert low.interval[0] <= low.wrong <= low.interval[1]
    for one in (low, middle, high):
        assert one.above + one.below + one.cannot_tell == pytest.approx(1)
    assert middle.mean_length > min(low.mean_length, high.mean_length)


def test_targets_far_from_the_cut_are_decided_sooner():
    classified = Classification(cut=0.0, half_width=0.3)
    settings = AdaptiveSettings(budget=150, classification=classified, at_cut=True)
    near, far = measure_classification(
        POOL, settings, [0.3, 1.5], np.random.default_rng(5), sessions=200
    )
    assert far.mean_length < near.mean_length / 2
    assert far.above > 0.99
