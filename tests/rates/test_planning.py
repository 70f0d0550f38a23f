"""Plans reproduce published trial numbers and are the smallest that keep their promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from safemetry.rates.components import VarianceComponents, variance_components
from safemetry.rates.intervals import upper_bound, wilson
from safemetry.rates.planning import repeats_plan, trials_for_ceiling, trials_for_width


@pytest.mark.parametrize(
    ("ceiling", "failures", "trials"), [(0.001, 0, 2995), (0.001, 1, 4742), (1e-5, 0, 299_572)]
)
def test_published_numbers_of_trials(ceiling, failures, trials):
    assert trials_for_ceiling(ceiling, failures) == trials


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-6, 0.95), st.integers(0, 300), st.floats(0.5, 0.999))
def test_one_trial_fewer_misses_the_ceiling(ceiling, failures, confidence):
    trials = trials_for_ceiling(ceiling, failures, confidence)
    assert trials > failures
    assert upper_bound(failures, trials, confidence) <= ceiling * (1 + 1e-9)
    if trials > failures + 1:
        assert upper_bound(failures, trials - 1, confidence) > ceiling * (1 - 1e-9)


def test_whole_quotients_are_not_rounded_up():
    assert trials_for_ceiling(0.9, 0, 0.99) == 2
    assert trials_for_ceiling(0.1, 0, 1 - 0.9**7) == 7


def test_tiny_ceilings_with_many_failures_are_planned():
    trials = trials_for_ceiling(1e-9, 5000)
    assert upper_bound(5000, trials) == pytest.approx(1e-9, rel=1e-9)


def test_impossible_plans_are_refused():
    with pytest.raises(ValueError, match="ceiling"):
        trials_for_ceiling(0.0)
    with pytest.raises(ValueError, match="failures"):
        trials_for_ceiling(0.1, -1)
    with pytest.raises(ValueError, match="half_width"):
        trials_for_width(0.5, 0.5)
    with pytest.raises(ValueError, match="at least 1"):
        repeats_plan(VarianceComponents(*[0.1] * 8, {}, {}, {}, 0.8), 0, 1)


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1), st.floats(0.002, 0.49), st.floats(0.5, 0.999))
def test_one_trial_fewer_is_too_wide(rate, half_width, level):
    trials = trials_for_width(rate, half_width, level)
    z2 = norm.ppf(0.5 + level / 2) ** 2

    def half(number):
        return np.sqrt(z2 * (rate * (1 - rate) * number + z2 / 4)) / (number + z2)

    assert half(trials) <= half_width * (1 + 1e-9)
    if trials > 1:
        assert half(trials - 1) > half_width * (1 - 1e-9)


def test_planned_width_is_that_of_wilson():
    trials = trials_for_width(0.2, 0.03)
    low, high = wilson(0.2 * trials, trials)
    assert float(high - low) / 2 == pytest.approx(0.03, abs=1e-4)


def test_planned_variance_is_the_variance_of_means():
    rng = np.random.default_rng(31)
    parts = {"item": 0.02, "target_item": 0.01, "epoch": 0.03, "residual": 0.04}
    known = VarianceComponents(
        0.0, parts["item"], 0.0, parts["target_item"], 0.0, 0.0, parts["epoch"],
        parts["residual"], {}, {}, {}, 0.1,
    )  # fmt: skip
    plan = repeats_plan(known, 12, 3, 2)
    studies = 40_000
    mean = rng.normal(0, np.sqrt(0.03), (studies, 12)).mean(1)
    mean += rng.normal(0, np.sqrt(0.03), (studies, 36)).mean(1)
    mean += rng.normal(0, np.sqrt(0.04), (studies, 72)).mean(1)
    # A variance from 40,000 normal draws has a relative error of .7%.
    assert float(plan.variance) == pytest.approx(mean.var(), rel=0.03)
    assert plan.why is None


def test_items_help_more_than_repeats_of_the_same_ones():
    known = VarianceComponents(0.01, 0.05, None, 0.04, None, None, None, 0.1, {}, {}, {}, 0.2)
    plan = repeats_plan(known, [100, 50, 25], [1, 2, 4])
    assert (np.diff(plan.variance) > 0).all()
    assert np.allclose(plan.difference_variance[0], 2 * (0.04 / 100 + 0.1 / 100))


def test_plans_without_repeats_say_why_they_cannot_be_made():
    rng = np.random.default_rng(1)
    target, item = (axis.ravel() for axis in np.indices((5, 30)))
    once = variance_components(
        rng.integers(0, 2, 150), target, item, np.zeros(150, int), np.zeros(150, int)
    )
    plan = repeats_plan(once, 10, 2)
    assert plan.variance is None
    assert "one response" in plan.why
    single = repeats_plan(once, 10, 1)
    assert single.why is None
    assert single.variance == pytest.approx((once.item + once.residual) / 10)
    # Between two targets on the same items only target x item and what is left remain.
    assert single.difference_variance == pytest.approx(2 * once.residual / 10)


def test_plans_for_more_judges_need_more_than_one():
    known = VarianceComponents(0.01, 0.05, None, 0.04, None, None, None, 0.1, {}, {}, {}, 0.2)
    assert "one judge" in repeats_plan(known, 10, 2, 3).why


def test_a_single_target_can_be_planned_but_not_compared():
    rng = np.random.default_rng(2)
    item, epoch = (axis.ravel() for axis in np.indices((40, 3)))
    zeros = np.zeros(120, int)
    outcome = (rng.random(120) < rng.random(40)[item]).astype(float)
    plan = repeats_plan(variance_components(outcome, zeros, item, epoch, zeros), 10, 2)
    assert plan.variance > 0
    assert plan.difference_variance is None
    assert "one target" in plan.why
