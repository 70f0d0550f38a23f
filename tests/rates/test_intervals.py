"""Intervals of independent trials agree with published figures and independent programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import proportion_confint

from safemetry.rates.intervals import (
    Interval,
    clopper_pearson,
    missing_bounds,
    project,
    rule_of_three,
    simultaneous_level,
    upper_bound,
    wilson,
    zero_failure_ceiling,
)

COUNTS = [(0, 1), (1, 1), (0, 100), (3, 100), (34, 64), (100, 100), (999, 1000), (7, 100_000)]


@pytest.mark.parametrize(("events", "trials"), COUNTS)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("ours", "theirs"), [(wilson, "wilson"), (clopper_pearson, "exact")])
def test_intervals_equal_those_of_scipy(events, trials, level, ours, theirs):
    expected = binomtest(events, trials).proportion_ci(level, theirs)
    assert np.allclose(ours(events, trials, level), expected, rtol=1e-9, atol=1e-11)


def test_intervals_equal_those_of_statsmodels_on_fractional_counts():
    for ours, theirs in ((wilson, "wilson"), (clopper_pearson, "beta")):
        expected = proportion_confint(3.7, 41.25, method=theirs)
        assert np.allclose(ours(3.7, 41.25), expected, rtol=1e-9)


@pytest.mark.parametrize(("events", "trials"), COUNTS)
def test_ceiling_equals_scipys_one_sided_bound(events, trials):
    expected = binomtest(events, trials, alternative="less").proportion_ci(0.95, "exact").high
    assert np.isclose(upper_bound(events, trials), expected, rtol=1e-9)


def test_published_ceilings_without_a_failure():
    assert round(float(zero_failure_ceiling(100)) * 100, 2) == 2.95
    assert round(float(zero_failure_ceiling(1000)) * 100, 2) == 0.30
    assert np.isclose(rule_of_three([100, 1000]), [0.03, 0.003]).all()


def test_closed_form_and_exact_bound_agree_at_zero_events():
    trials = np.array([0.5, 1, 17.3, 1e3, 1e6])
    for confidence in (0.5, 0.95, 0.9999):
        closed = zero_failure_ceiling(trials, confidence)
        assert np.allclose(closed, upper_bound(0, trials, confidence), rtol=1e-9)


def test_edges_are_exact():
    for interval in (wilson, clopper_pearson):
        low, high = interval([0, 9], [9, 9])
        assert low[0] == 0.0
        assert high[1] == 1.0
        assert 0 < high[0] < 1
        assert 0 < low[1] < 1


def test_without_a_trial_nothing_is_ruled_out():
    assert [float(end) for end in wilson(0, 0)] == [0.0, 1.0]
    assert [float(end) for end in clopper_pearson(0, 0)] == [0.0, 1.0]
    assert [float(end) for end in missing_bounds(0, 0, 0)] == [0.0, 1.0]
    assert float(upper_bound(0, 0)) == 1.0
    assert float(zero_failure_ceiling(0)) == 1.0
    assert float(rule_of_three(0)) == 1.0


@pytest.mark.parametrize(("events", "trials"), [(-1, 5), (6, 5), (np.nan, 5), (1, np.inf), (0, -1)])
def test_impossible_counts_are_refused(events, trials):
    for function in (wilson, clopper_pearson, upper_bound):
        with pytest.raises(ValueError, match="events"):
            function(events, trials)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_impossible_levels_are_refused(level):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        wilson(1, 2, level)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        upper_bound(1, 2, level)


def test_bounds_of_a_published_attack_with_missing_rows():
    # JailbreakBench, PAIR on gpt-4: 34 events among 64 judged, 36 never attempted.
    low, high = missing_bounds(34, 64, 36)
    assert (round(float(low), 2), round(float(high), 2)) == (0.34, 0.70)


def test_naive_and_strict_rules_differ_by_a_published_ratio():
    rates = np.array([45, 12]) / 100
    assert rates[0] / rates[1] == pytest.approx(3.75)
    naive, strict = wilson([45, 12], [100, 100])[0][0], wilson([45, 12], [100, 100])[1][1]
    assert naive > strict


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 20))
def test_more_missing_outcomes_only_widen_the_bounds(events, others, missing, more):
    trials = events + others
    near, far = (missing_bounds(events, trials, lost) for lost in (missing, missing + more))
    assert far.lower <= near.lower
    assert far.upper >= near.upper
    if trials:
        assert near.lower <= events / trials <= near.upper


def test_a_small_rate_in_a_large_volume():
    projection = project(0.001, Interval(np.array(0.0), np.array(0.002)), 10_000_000)
    assert [round(float(part)) for part in projection] == [10_000, 0, 20_000]
    with pytest.raises(ValueError, match="volume"):
        project(0.001, Interval(np.array(0.0), np.array(0.002)), -1)


def test_simultaneous_intervals_cover_all_independent_cells_together():
    assert simultaneous_level(0.95, 1) == pytest.approx(0.95)
    assert simultaneous_level(0.95, 25) ** 25 == pytest.approx(0.95)
    with pytest.raises(ValueError, match="groups"):
        simultaneous_level(0.95, 0)


def exact_coverage(interval: Interval, trials: int, rates: np.ndarray) -> np.ndarray:
    counts = np.arange(trials + 1)
    held = (interval.lower <= rates[:, None]) & (rates[:, None] <= interval.upper)
    return (binom.pmf(counts, trials, rates[:, None]) * held).sum(axis=1)


# Coverage is summed over all counts, so nothing below is subject to simulation error.
@pytest.mark.parametrize("trials", [10, 50, 200])
def test_wilson_covers_at_its_level_on_average_over_rates(trials):
    rates = np.linspace(0.0, 1.0, 4003)[1:-1]
    coverage = exact_coverage(wilson(np.arange(trials + 1), trials), trials, rates)
    # The average lies within half a point of 95%; single rates may lie well below.
    assert coverage.mean() == pytest.approx(0.95, abs=0.006)
    assert coverage.min() > 0.83


@pytest.mark.parametrize("trials", [10, 50, 200])
def test_clopper_pearson_and_ceiling_never_cover_less_than_their_level(trials):
    rates = np.linspace(0.0, 1.0, 4003)[1:-1]
    counts = np.arange(trials + 1)
    assert exact_coverage(clopper_pearson(counts, trials), trials, rates).min() >= 0.95
    ceiling = Interval(np.zeros(trials + 1), upper_bound(counts, trials))
    assert exact_coverage(ceiling, trials, rates).min() >= 0.95 - 1e-12


def test_the_bound_falls_as_trials_are_added_at_a_fixed_rate():
    # The monotone ceiling of clustered rates rests on this; no proof for fractional counts is known
    # to us, so it is checked densely, far beyond the design effects that occur.
    rate = np.concatenate([[0.0], np.logspace(-6, -0.001, 200), 1 - np.logspace(-7, -1, 60)])[
        :, None
    ]
    trials = np.logspace(-1, 6, 400)
    for confidence in (0.5, 0.8, 0.95, 0.999):
        bound = upper_bound(rate * trials, np.broadcast_to(trials, (261, 400)), confidence)
        assert np.diff(bound, axis=1).max() <= 1e-12
