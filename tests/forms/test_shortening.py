"""Forms and adaptive tests where targets have not answered everything."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.forms import ShortenSettings, shorten, simulate_adaptive
from safemetry.forms.adaptive import AdaptiveSettings
from safemetry.forms.recovery.table import full_scores
from safemetry.irt import calibrate
from safemetry.irt.responses import make_responses

QUICK = {"items": 10, "budgets": (10,), "splits": 2, "random_sets": 3, "quiet": True, "jobs": 1}


def population(seed=1, targets=60, items=60):
    """Items from easy to hard, of which half of the targets lack the last third."""
    rng = np.random.default_rng(seed)
    theta, difficulty = rng.standard_normal((targets, 1)), np.linspace(-2, 2, items)
    chances = 1 / (1 + np.exp(-1.5 * (theta - difficulty)))
    codes = (rng.random((targets, items)) < chances).astype(int)
    codes[: targets // 2, 2 * items // 3 :] = -1
    return codes


@pytest.mark.parametrize("recovery", ["blend", "calibrated"])
def test_a_kept_form_is_fitted_to_scores_over_what_was_answered(recovery):
    codes = population()
    found = shorten(make_responses(codes), settings=ShortenSettings(**QUICK, recovery=recovery))
    whole = codes[30:]
    places = [int(item) - 1 for item in found.form.items]
    scores = found.form.scores(whole[:, places].astype(np.int8), [str(i) for i in range(30)])
    off = np.array([one.score for one in scores]) - whole.mean(axis=1)
    assert np.sqrt((off**2).mean()) < 0.075
    assert abs(off.mean()) < 0.03


def test_items_that_nobody_answered_are_in_no_score():
    codes = np.concatenate([np.abs(population()), np.full((60, 20), -1)], axis=1)
    found = shorten(make_responses(codes), settings=ShortenSettings(**QUICK))
    assert len(found.form.bank) == found.items == 60
    assert any("20 items that no target answered" in said for said in found.warnings)


def test_an_adaptive_test_is_held_against_the_items_that_a_target_answered():
    """With the hardest third missing, its prediction must not count that third as hard."""
    codes = population()
    calibration = calibrate(make_responses(codes), sensitivity=False).stored()
    found = simulate_adaptive(calibration, make_responses(codes), repetitions=3)
    last = found.budgets[-1]
    assert last.targets == 60
    assert abs(last.bias) < 0.02
    assert last.rmse < 0.05
    assert np.isfinite(full_scores(codes.astype(np.int8), np.ones(60, np.int64))).all()


def test_exposure_is_controlled_over_the_items_that_can_be_given():
    codes = np.abs(population())
    calibration = calibrate(make_responses(codes), sensitivity=False).stored()
    some = make_responses(codes[:, 5:], items=[str(j) for j in range(6, 61)])
    found = simulate_adaptive(
        calibration, some, settings=AdaptiveSettings(budget=20), most_exposure=0.6, repetitions=2
    )
    assert found.pool == 55
    assert found.settings["most_exposure"] == 0.6
