"""Exposure control, content balance, and how both are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import random_pool

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    Exposure,
    control_exposure,
    evaluate_sessions,
    simulate_codes,
    simulate_sessions,
)
from safemetry.forms.adaptive.evaluation import exposure_rates, overlap_rate

POOL = random_pool(120, 9)
SETTINGS = AdaptiveSettings(budget=12)


def new_sessions(settings, count, seed, pool=POOL):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((count, 1))
    codes = simulate_codes(pool.parameters, theta, rng)
    return simulate_sessions(pool, codes, settings, rng), theta[:, 0]


@pytest.mark.parametrize("kind", ["acceptance", "eligibility"])
def test_no_item_is_given_more_often_than_is_allowed(kind):
    rng = np.random.default_rng(2)
    control = control_exposure(
        POOL, SETTINGS, most=0.25, rng=rng, kind=kind, sessions=400, cycles=8
    )
    assert control.highest[0] > 0.9
    found, _ = new_sessions(replace(SETTINGS, exposure=control.exposure), 2000, 11)
    # The largest of 120 rates, each with the errors of calibration and of this sample.
    assert exposure_rates(found).max() < 0.25 + 4 * np.sqrt(0.25 * 0.75 / 400)
    free, _ = new_sessions(SETTINGS, 2000, 11)
    assert overlap_rate(found) < 0.6 * overlap_rate(free)


def test_eligibility_gives_way_when_nothing_else_is_left():
    exposure = Exposure("eligibility", dict.fromkeys(POOL.items, 0.05))
    found, _ = new_sessions(AdaptiveSettings(budget=40, exposure=exposure), 20, 4)
    assert (found.lengths == 40).all()
    assert all(len(set(row)) == 40 for row in found.items.tolist())


def test_a_rate_that_the_pool_cannot_keep_is_refused():
    with pytest.raises(InputError, match="larger rate"):
        control_exposure(POOL, SETTINGS, most=0.05, rng=np.random.default_rng(1))
    with pytest.raises(InputError, match="no exposure control"):
        control_exposure(POOL, SETTINGS, most=0.5, rng=np.random.default_rng(1), kind="none")
    with pytest.raises(InputError, match="above 0"):
        Exposure("acceptance", {"item-1": 0.0})
    with pytest.raises(InputError, match="exclude each other"):
        AdaptiveSettings(randomesque=3, exposure=Exposure("acceptance"))


def test_a_random_choice_among_the_best_lowers_the_overlap():
    found, _ = new_sessions(replace(SETTINGS, randomesque=5), 500, 3)
    free, _ = new_sessions(SETTINGS, 500, 3)
    assert overlap_rate(found) < overlap_rate(free)


def test_overlap_is_the_mean_share_of_common_items():
    found, _ = new_sessions(SETTINGS, 30, 6)
    rows = [set(row) for row in found.items.tolist()]
    pairs = [len(a & b) / 12 for i, a in enumerate(rows) for b in rows[:i]]
    assert overlap_rate(found) == pytest.approx(np.mean(pairs))


def test_shares_of_a_session_follow_their_targets_at_every_length():
    shares = {"kind-0": 0.5, "kind-1": 0.3, "kind-2": 0.2}
    found, _ = new_sessions(AdaptiveSettings(budget=40, balance=Balance("category", shares)), 25, 3)
    kind = np.arange(120) % 3
    counts = np.cumsum(kind[found.items][:, :, None] == np.arange(3), axis=1)
    target = np.arange(1, 41)[:, None] * np.array([0.5, 0.3, 0.2])
    assert (np.abs(counts - target) < 1).all()
    assert (counts[:, -1] == [20, 12, 8]).all()


def test_a_category_without_items_left_is_passed_over():
    rng = np.random.default_rng(1)
    codes = simulate_codes(POOL.parameters, rng.standard_normal((4, 1)), rng)
    codes[:, 6::3] = -1  # two items of the first kind are left
    settings = AdaptiveSettings(budget=30, balance=Balance("category"))
    found = simulate_sessions(POOL, codes, settings, rng)
    kinds = np.arange(120)[found.items] % 3
    assert ((kinds == 0).sum(axis=1) == 2).all()
    assert (np.abs((kinds == 1).sum(axis=1) - (kinds == 2).sum(axis=1)) <= 1).all()


def test_evaluation_tells_lengths_errors_and_exposure():
    found, theta = new_sessions(AdaptiveSettings(budget=25), 400, 7)
    result = evaluate_sessions(found, theta)
    off = np.ma.getdata(found.final_theta) - theta
    assert result.rmse == pytest.approx(np.sqrt((off**2).mean()))
    assert (result.mean_length, result.shortest, result.longest) == (25, 25, 25)
    assert result.stops == {"budget": 400}
    assert result.never_given == int((found.given == 0).sum())
    assert set(result.why) == {"decided", "wrong"}
    # Posterior deviations are right on average where the model holds.
    assert np.sqrt((np.ma.getdata(found.final_se) ** 2).mean()) == pytest.approx(
        result.rmse, rel=0.12
    )


def test_evaluation_of_sessions_without_answers_says_so():
    codes = np.full((1, 120), -1, np.int8)
    found = simulate_sessions(POOL, codes, SETTINGS, np.random.default_rng(0))
    result = evaluate_sessions(found, np.zeros(1))
    assert result.rmse is None
    assert {"bias", "rmse", "overlap"} <= set(result.why)
    with pytest.raises(InputError, match="one ability each"):
        evaluate_sessions(found, np.zeros(2))
