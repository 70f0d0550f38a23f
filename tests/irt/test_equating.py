"""Equating: recovery of a known line, invariance, and items that drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safemetry.errors import InputError
from safemetry.irt.equating import link_calibrations
from safemetry.irt.parameters import ItemParameters, reaching

METHODS = ["mean_mean", "mean_sigma", "stocking_lord", "haebara"]


def names(count):
    return [f"item-{place}" for place in range(count)]


def moved(parameters, slope, intercept):
    """The same items on the scale of a new calibration, theta_base = slope * theta + intercept."""
    return ItemParameters(
        parameters.slopes * slope,
        parameters.intercepts + parameters.slopes * intercept,
        parameters.lower,
        parameters.upper,
    )


def disturbed(parameters, rng, size=0.1):
    slopes = parameters.slopes * np.exp(rng.normal(0, size, parameters.slopes.shape))
    noise = rng.normal(0, size, (parameters.items, 1))
    return ItemParameters(slopes, parameters.intercepts + noise, parameters.lower, parameters.upper)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("categories", [2, 4])
@settings(max_examples=10, deadline=None)
@given(slope=st.floats(0.3, 3), intercept=st.floats(-3, 3))
def test_a_line_without_noise_is_found_exactly(simulated, method, categories, slope, intercept):
    base, *_ = simulated(1, 12, np.random.default_rng(0), categories)
    new = moved(base, slope, intercept)
    link = link_calibrations((names(12), base), (names(12), new), method=method)
    assert link.slope == pytest.approx(slope, rel=1e-5)
    assert link.intercept == pytest.approx(intercept, abs=1e-4)
    back = link.parameters(new)
    assert np.allclose(back.slopes, base.slopes, rtol=1e-4)
    assert np.allclose(back.intercepts, base.intercepts, atol=1e-3)
    assert not link.left_out


def test_linking_changes_no_probability(simulated):
    base, *_ = simulated(1, 12, np.random.default_rng(0), 3)
    new = disturbed(moved(base, 1.3, 0.4), np.random.default_rng(1))
    link = link_calibrations((names(12), base), (names(12), new))
    theta = np.linspace(-3, 3, 7)
    before = reaching(new, theta[:, None])
    after = reaching(link.parameters(new), link.abilities(theta)[:, None])
    assert np.allclose(before, after)
    assert np.allclose(link.errors(np.ones(2)), link.slope)


@pytest.mark.parametrize("method", METHODS)
def test_a_noisy_line_is_recovered_within_its_standard_error(simulated, method, study_size):
    repeats = max(20, round(200 * study_size))
    rng = np.random.default_rng(5)
    items = 20
    found = []
    for _ in range(repeats):
        base, *_ = simulated(1, items, rng)
        new = disturbed(moved(base, 1.3, 0.4), rng, 0.15)
        link = link_calibrations(
            (names(items), base), (names(items), new), method=method, leave_out_drifting=False
        )
        found.append((link.slope, link.intercept, link.slope_error, link.intercept_error))
    slope, intercept, slope_error, intercept_error = np.array(found).T
    for values, truth, errors in (
        (slope, 1.3, slope_error),
        (intercept, 0.4, intercept_error),
    ):
        # Bias within four standard errors of the mean; the stated errors within a factor (20 runs
        # know a standard deviation within 16%, and the jackknife is not exact).
        assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(repeats) + 0.01
        assert 0.5 < errors.mean() / values.std() < 1.7


def test_swapped_calibrations_have_the_inverse_line(simulated):
    base, *_ = simulated(1, 20, np.random.default_rng(2))
    new = disturbed(moved(base, 1.3, 0.4), np.random.default_rng(3))
    for method in ("mean_mean", "mean_sigma", "haebara"):
        there = link_calibrations((names(20), base), (names(20), new), method=method)
        back = link_calibrations((names(20), new), (names(20), base), method=method)
        assert there.slope * back.slope == pytest.approx(1, abs=1e-5)
        assert there.slope * back.intercept + there.intercept == pytest.approx(0, abs=1e-5)


def test_items_are_matched_by_name_in_any_order(simulated):
    base, *_ = simulated(1, 20, np.random.default_rng(2))
    new = disturbed(moved(base, 1.3, 0.4), np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(20)[:15]
    shuffled = ([names(20)[place] for place in order], new.select(order))
    link = link_calibrations((names(20), base), shuffled)
    kept = np.sort(order)
    straight = link_calibrations(
        ([names(20)[place] for place in kept], base.select(kept)),
        ([names(20)[place] for place in kept], new.select(kept)),
    )
    assert link.slope == pytest.approx(straight.slope)
    assert set(link.items) == set(straight.items)


def test_drifting_items_are_named_and_left_out(simulated):
    base, *_ = simulated(1, 30, np.random.default_rng(6))
    new = moved(base, 1.3, 0.4)
    new.intercepts[[3, 17]] += 1.5
    link = link_calibrations((names(30), base), (names(30), new))
    assert set(link.left_out) == {"item-3", "item-17"}
    assert link.slope == pytest.approx(1.3, rel=1e-5)
    assert {drift.item for drift in link.drifts if drift.drifted} == {"item-3", "item-17"}
    assert "2 of 30 common items behave differently" in link.warnings[0]
    with_all = link_calibrations((names(30), base), (names(30), new), leave_out_drifting=False)
    assert abs(with_all.intercept - 0.4) > 0.03
    assert not with_all.left_out
    assert len(with_all.records()) == 30


def test_calibrations_of_different_things_are_not_linked_silently(simulated):
    base, *_ = simulated(1, 30, np.random.default_rng(6))
    other, *_ = simulated(1, 30, np.random.default_rng(7))
    link = link_calibrations((names(30), base), (names(30), other))
    assert "Half of the common items differ by more than" in link.warnings[-1]
    assert "do not measure the same thing" in link.warnings[-1]
    changed = moved(base, 1.3, 0.4)
    changed.intercepts[:11] += np.linspace(2, 5, 11)[:, None]
    link = link_calibrations((names(30), base), (names(30), changed))
    assert len(link.left_out) == 11
    assert link.slope == pytest.approx(1.3, rel=1e-5)
    assert "More than a third of the common items drifted" in link.warnings[-1]


def test_items_that_differ_by_chance_have_not_drifted(simulated):
    base, *_ = simulated(1, 40, np.random.default_rng(6))
    rng = np.random.default_rng(8)
    left_out = []
    for _ in range(10):
        new = disturbed(moved(base, 1.3, 0.4), rng, 0.4)
        link = link_calibrations((names(40), base), (names(40), new), method="mean_mean")
        assert max(drift.difference for drift in link.drifts) > 0.1
        left_out.append(len(link.left_out))
    assert np.mean(left_out) < 1


def test_few_common_items_are_refused_or_warned_about(simulated):
    base, *_ = simulated(1, 60, np.random.default_rng(6))
    few = (names(60)[:5], base.select(np.arange(5)))
    assert "rests on 5 items, and 12 is the usual least" in link_calibrations(
        (names(60), base), (names(5) + [f"new-{place}" for place in range(55)], base)
    ).warnings[0]  # fmt: skip
    assert not link_calibrations((names(60), base), few).warnings
    with pytest.raises(InputError, match="share 2 items"):
        link_calibrations((names(60), base), (names(2), base.select(np.arange(2))))
    with pytest.raises(InputError, match="share 0 items"):
        link_calibrations((names(60), base), (["other"], base.select(np.arange(1))))
    flipped = moved(base, 1.0, 0.0)
    flipped.slopes[:58] *= -1
    with pytest.raises(InputError, match="share 2 items that discriminate"):
        link_calibrations((names(60), base), (names(60), flipped))


def test_what_cannot_be_linked_is_refused(simulated):
    base, *_ = simulated(1, 10, np.random.default_rng(6))
    plane, *_ = simulated(1, 10, np.random.default_rng(6), dimensions=2)
    graded, *_ = simulated(1, 10, np.random.default_rng(6), 3)
    with pytest.raises(InputError, match="2 dimensions"):
        link_calibrations((names(10), base), (names(10), plane))
    with pytest.raises(InputError, match="names each of its items once"):
        link_calibrations((names(10), base), (["a"] * 10, base))
    with pytest.raises(InputError, match="2 categories in one calibration and 3 in the other"):
        link_calibrations((names(10), base), (names(10), graded))
    with pytest.raises(InputError, match="unknown method"):
        link_calibrations((names(10), base), (names(10), base), method="equipercentile")
