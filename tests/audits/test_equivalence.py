"""Tests of difference and of equivalence of two abilities."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.shift import (
    ShiftSettings,
    StoredAbility,
    ability_shift,
    make_comparison,
)
from safemetry.audits.shift.comparison import make_scale, tails
from safemetry.audits.shift.equivalence import difference_test, equivalence_test
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses


def make_items(count):
    steps = np.linspace(-3, 3, count)[:, None]
    parameters = ItemParameters(np.full((count, 1), 1.3), steps, np.zeros(count), np.ones(count))
    return Calibrated.make(tuple(map(str, range(1, count + 1))), parameters)


def draw(calibrated, theta, rng):
    linear = 1.3 * theta + calibrated.parameters.intercepts[:, 0]
    return make_responses((rng.random((1, linear.size)) < expit(linear)).astype(np.int8))


def compare(now, history, calibrated, margin=0.5, seed=1):
    return make_comparison(
        now,
        history,
        calibrated,
        margin=margin,
        simulations=999,
        rng=np.random.default_rng(seed),
    )


def test_tails_count_the_observed_value_and_ties():
    replicates = np.array([-1.0, 0.0, 0.0, 2.0])
    assert tails(replicates, 0.0) == (0.8, 0.8)
    assert tails(replicates, 3.0) == (1.0, 0.2)
    assert tails(replicates, -3.0) == (0.2, 1.0)


def test_with_a_long_test_the_p_values_are_those_of_normal_theory():
    calibrated = make_items(800)
    rng = np.random.default_rng(3)
    now = draw(calibrated, 0.1, rng)
    comparison = compare(now, StoredAbility(0.0, 0.1), calibrated)
    difference = np.diff(comparison.abilities)[0]
    spread = np.sqrt(0.1**2 + comparison.now.variance(np.array([0.1]))[0])
    test, _ = difference_test(comparison, rng)
    assert test.root == pytest.approx(difference / spread, abs=0.03)
    # Two-sided, two one-sided tests, and one of a fall only.
    assert test.p_value == pytest.approx(2 * _upper(abs(difference / spread)), abs=0.06)
    lower, _ = difference_test(comparison, rng, "lower")
    assert lower.p_value == pytest.approx(1 - _upper(difference / spread), abs=0.06)
    equivalence = equivalence_test(comparison, 0.5, rng)
    assert equivalence.p_above == pytest.approx(_upper((0.5 - difference) / spread), abs=0.02)
    assert equivalence.p_value == max(equivalence.p_below, equivalence.p_above)


def _upper(z):
    from scipy.stats import norm

    return norm.sf(z)


def test_a_wider_margin_is_easier_to_show():
    calibrated = make_items(200)
    rng = np.random.default_rng(4)
    now, history = draw(calibrated, 0.0, rng), draw(calibrated, 0.0, rng)
    found = [
        equivalence_test(compare(now, history, calibrated, margin), margin, rng).p_value
        for margin in (0.2, 0.5, 1.0, 2.0)
    ]
    assert found[0] > 0.1
    assert found[-1] == pytest.approx(0.001)
    assert all(first >= second - 0.02 for first, second in pairwise(found))


def test_held_back_asks_about_a_fall_only():
    calibrated = make_items(300)
    rng = np.random.default_rng(5)
    history, now = draw(calibrated, -0.5, rng), draw(calibrated, 0.8, rng)
    both, lower = (
        ability_shift(
            now,
            history,
            calibrated,
            ShiftSettings(alternative=alternative, simulations=499),
            rng=rng,
        )
        for alternative in ("two_sided", "lower")
    )
    assert both.verdict == "shifted"
    assert lower.verdict == "same"  # higher, and so certainly not lower by the margin
    assert lower.test.p_value > 0.95
    assert lower.equivalence.p_above is None
    assert "fall only" in lower.equivalence.why["p_above"]
    assert lower.resolution.higher is None
    assert lower.resolution.lower < both.resolution.lower


def test_a_difference_within_the_margin_is_the_same_and_says_so():
    calibrated = make_items(600)
    rng = np.random.default_rng(6)
    history, now = draw(calibrated, 0.3, rng), draw(calibrated, -0.1, rng)
    found = ability_shift(
        now, history, calibrated, ShiftSettings(margin=1.0, simulations=299), rng=rng
    )
    assert found.test.p_value <= 0.05
    assert found.equivalence.p_value <= 0.05
    assert found.verdict == "same"
    assert "smaller than the margin" in found.warnings[0]
    assert found.margin_points[0] < 0 < found.margin_points[1]


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-0.5, 0.5])
def test_at_the_margin_equivalence_is_claimed_as_often_as_the_level(shift, study_size):
    calibrated = make_items(300)
    rng = np.random.default_rng(7)
    scale = make_scale(calibrated, margin=0.5, simulations=299, rng=rng)
    studies = max(round(1000 * study_size), 100)
    claimed = []
    for _ in range(studies):
        history, now = draw(calibrated, 0.0, rng), draw(calibrated, shift, rng)
        comparison = scale.comparison(now, history)
        claimed.append(equivalence_test(comparison, 0.5, rng).p_value <= 0.05)
    # With so many items the other margin is far away, and the level is used up.
    assert np.mean(claimed) == pytest.approx(0.05, abs=3.5 * np.sqrt(0.05 * 0.95 / studies))


@pytest.mark.slow
def test_equivalence_is_found_where_it_holds(study_size):
    calibrated = make_items(300)
    rng = np.random.default_rng(8)
    scale = make_scale(calibrated, margin=0.5, simulations=299, rng=rng)
    claimed = [
        equivalence_test(
            scale.comparison(draw(calibrated, 0.0, rng), draw(calibrated, 0.0, rng)), 0.5, rng
        ).p_value
        <= 0.05
        for _ in range(max(round(300 * study_size), 30))
    ]
    assert np.mean(claimed) > 0.6
