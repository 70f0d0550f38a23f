"""Shift of an ability: estimates, intervals, resolution and the comparison on common items."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.shift import (
    ShiftSettings,
    StoredAbility,
    ability_shift,
    make_comparison,
    stored_ability,
)
from safemetry.audits.shift.comparison import make_scale
from safemetry.audits.shift.equivalence import difference_test, equivalence_test
from safemetry.audits.shift.estimate import (
    CategoryTable,
    LogisticTable,
    ability_table,
    peak,
    signed_roots,
)
from safemetry.audits.shift.interval import shift_interval
from safemetry.audits.shift.paired import paired_shift
from safemetry.audits.shift.resolution import smallest_visible
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.calibrate import calibrate
from safemetry.irt.information import total_information
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses
from safemetry.simulate import MatrixSettings, simulate_matrix

FAST = ShiftSettings(simulations=199)


def make_items(count=60, seed=1, error=0.0):
    rng = np.random.default_rng(seed)
    slopes = rng.lognormal(0.2, 0.3, (count, 1))
    steps = rng.normal(0, 1.5, (count, 1))
    parameters = ItemParameters(slopes, steps, np.zeros(count), np.ones(count))
    names = tuple(f"item {place}" for place in range(count))
    return Calibrated.make(
        names,
        parameters,
        slope_errors=np.full(count, error),
        intercept_errors=np.full((count, 1), error),
    )


def draw(calibrated, theta, rng, runs=1):
    linear = theta * calibrated.parameters.slopes[:, 0] + calibrated.parameters.intercepts[:, 0]
    return (rng.random((runs, linear.size)) < expit(linear)).astype(np.int8)


def named(codes, calibrated, places=slice(None)):
    items = np.array(calibrated.items)[places]
    return make_responses(np.atleast_2d(codes)[:, places], items=tuple(items))


# --- curves --------------------------------------------------------------------------------------


def test_the_mode_of_the_curve_is_warms_estimate():
    calibrated = make_items()
    rng = np.random.default_rng(2)
    codes = np.vstack([draw(calibrated, theta, rng) for theta in np.linspace(-4, 4, 30)])
    codes = np.vstack([codes, np.zeros((1, 60), np.int8), np.ones((1, 60), np.int8)])
    nodes = np.arange(-100, 101) * 0.08
    table = ability_table(calibrated.parameters, nodes)
    modes, _ = peak(table.curves(codes[None].astype(float)), nodes)
    warm = estimate_abilities(calibrated.parameters, make_responses(codes), method="wle")
    assert modes == pytest.approx(warm.estimates, abs=0.003)


def test_sums_of_slopes_say_what_all_answers_say():
    calibrated = make_items()
    nodes = np.arange(-60, 61) * 0.1
    quick = ability_table(calibrated.parameters, nodes)
    assert isinstance(quick, LogisticTable)
    linear = nodes[:, None] * calibrated.parameters.slopes[:, 0]
    linear = linear + calibrated.parameters.intercepts[:, 0]
    penalty = np.log(total_information(calibrated.parameters, nodes)) / 2
    slow = CategoryTable(np.log(np.stack([expit(-linear), expit(linear)])), penalty)
    codes = draw(calibrated, 0.3, np.random.default_rng(3), runs=4)[None].astype(float)
    apart = quick.curves(codes) - slow.curves(codes)
    assert np.ptp(apart, axis=1) == pytest.approx(np.zeros(4), abs=1e-8)


def test_the_signed_root_is_that_of_the_profile():
    before, now = (lambda x: -((x + 0.4) ** 2) * 3 - x**4 / 20), (lambda x: -((x - 0.3) ** 2) * 5)
    nodes = np.arange(-100, 101) * 0.05
    for steps in (-20, 0, 6, 14, 40):
        difference = steps * 0.05

        def together(x, difference=difference):
            return -(before(x) + now(x + difference))

        first, second = (minimize_scalar(lambda x, f=f: -f(x)) for f in (before, now))
        fall = minimize_scalar(together).fun - first.fun - second.fun
        expected = np.sign(second.x - first.x - difference) * np.sqrt(2 * fall)
        found, estimate = signed_roots(before(nodes)[None], now(nodes)[None], steps, nodes)
        assert found[0] == pytest.approx(expected, abs=0.01)
        assert estimate[0] == pytest.approx(second.x - first.x, abs=0.001)


# --- one target ----------------------------------------------------------------------------------


def test_a_large_fall_is_a_shift_and_its_interval_holds_the_truth():
    calibrated = make_items(100)
    rng = np.random.default_rng(5)
    before, now = draw(calibrated, 0.5, rng), draw(calibrated, -1.0, rng)
    found = ability_shift(named(now, calibrated), named(before, calibrated), calibrated, rng=rng)
    assert found.verdict == "shifted"
    assert found.interval[0] < -1.5 < found.interval[1] < 0
    assert found.points < -20
    assert found.points_interval[0] < found.points < found.points_interval[1]
    assert found.paired is not None
    assert found.paired.p_value < 0.001
    assert found.paired.interval[0] < -1.5 < found.paired.interval[1]
    assert found.before_error == pytest.approx(
        1 / np.sqrt(total_information(calibrated.parameters, np.array([found.before]))[0])
    )


def test_the_same_answers_twice_are_no_shift():
    calibrated = make_items(400)
    codes = draw(calibrated, 0.0, np.random.default_rng(6))
    answers = named(codes, calibrated)
    found = ability_shift(answers, answers, calibrated, FAST, rng=np.random.default_rng(1))
    assert found.difference == 0
    assert found.verdict == "same"
    assert found.test.p_value > 0.9
    assert found.paired.gained == found.paired.lost == 0
    assert found.paired.why == dict.fromkeys(("difference", "interval"), "no answer changed")
    assert found.interval[0] < 0 < found.interval[1]


def test_the_order_of_items_changes_nothing_but_the_noise_of_simulation():
    calibrated = make_items(80, error=0.1)
    rng = np.random.default_rng(7)
    before, now = draw(calibrated, 0.0, rng), draw(calibrated, -0.4, rng)
    turned = rng.permutation(80)
    first = ability_shift(named(now, calibrated), named(before, calibrated), calibrated, rng=rng)
    second = ability_shift(
        named(now, calibrated, turned), named(before, calibrated), calibrated, rng=rng
    )
    assert second.difference == pytest.approx(first.difference, abs=1e-9)
    assert second.interval == pytest.approx(first.interval, abs=0.12)
    assert second.test.p_value == pytest.approx(first.test.p_value, abs=0.06)
    assert second.paired == first.paired


def test_repeated_runs_do_not_promise_a_precision_that_is_not_there():
    calibrated = make_items()
    rng = np.random.default_rng(8)
    before, now = draw(calibrated, 0.0, rng), draw(calibrated, -0.8, rng)
    once = ability_shift(named(now, calibrated), named(before, calibrated), calibrated, rng=rng)
    five = ability_shift(
        named(np.repeat(now, 5, axis=0), calibrated),
        named(np.repeat(before, 3, axis=0), calibrated),
        calibrated,
        rng=rng,
    )
    assert five.difference == pytest.approx(once.difference)
    assert five.error == pytest.approx(once.error, rel=0.05)
    assert five.paired.method == "sign_flip"
    assert five.paired.difference is None
    assert "one run" in five.paired.why["difference"]


def test_errors_of_items_that_both_sides_share_cancel():
    calibrated = make_items(100, error=0.4)
    rng = np.random.default_rng(9)
    before, now = draw(calibrated, 0.2, rng), draw(calibrated, 0.0, rng)
    half = np.arange(100) < 50
    shared = make_comparison(
        named(now, calibrated, half),
        named(before, calibrated, half),
        calibrated,
        margin=0.5,
        simulations=999,
        rng=rng,
    )
    other = make_comparison(
        named(now, calibrated, ~half),
        named(before, calibrated, half),
        calibrated,
        margin=0.5,
        simulations=999,
        rng=rng,
    )
    assert shared.calibration_error(0.1, 0.1) == pytest.approx(0, abs=1e-6)
    assert shared.calibration_error(0.2, 0.0) < 0.3 * other.calibration_error(0.2, 0.0)
    assert other.calibration_error(0.2, 0.0) > 0.05
    assert other.under(0, rng, 0.0).differences.std() > 1.02 * (
        shared.under(0, rng, 0.0).differences.std()
    )


def test_graded_items_are_compared_too():
    count = 60
    rng = np.random.default_rng(10)
    steps = np.sort(rng.normal(0, 1.2, (count, 2)), axis=1)[:, ::-1]
    parameters = ItemParameters(np.full((count, 1), 1.4), steps, np.zeros(count), np.ones(count))
    calibrated = Calibrated.make(tuple(map(str, range(1, count + 1))), parameters)

    def codes(theta):
        at_least = expit(1.4 * theta + steps)
        return (rng.random((count, 1)) < at_least).sum(axis=1)[None]

    now, before = make_responses(codes(-1.2)), make_responses(codes(0.3))
    found = ability_shift(now, before, calibrated, FAST, rng=rng)
    assert found.verdict == "shifted"
    assert found.interval[0] < -1.5 < found.interval[1]
    assert found.paired.method == "sign_flip"
    assert found.paired.p_value < 0.01


def test_an_earlier_estimate_is_a_history():
    calibrated = make_items(100)
    rng = np.random.default_rng(11)
    now = named(draw(calibrated, -0.8, rng), calibrated)
    found = ability_shift(now, StoredAbility(0.6, 0.2), calibrated, FAST, rng=rng)
    assert found.before == pytest.approx(0.6)
    assert found.before_error == pytest.approx(0.2)
    assert found.verdict == "shifted"
    assert found.paired is None
    assert "estimate" in found.why["paired"]


def test_a_stored_ability_is_freed_from_the_pull_of_the_population():
    made = simulate_matrix(MatrixSettings(150, 80), 12)
    responses = make_responses(made.outcomes, targets=made.targets, items=made.items)
    pulled, free = (
        calibrate(responses, sensitivity=False, ability=method).stored()
        for method in ("eap", "wle")
    )
    inner = [
        name
        for name, theta in zip(made.targets, free.abilities[:, 0], strict=True)
        if abs(theta) < 1.5
    ]
    apart = []
    for name in inner:
        place = pulled.targets.index(name)
        mine, theirs = stored_ability(pulled, name), stored_ability(free, name)
        assert mine.theta == pytest.approx(theirs.theta, abs=0.05)
        assert mine.error == pytest.approx(theirs.error, rel=0.1)
        apart.append(abs(pulled.abilities[place, 0] - theirs.theta))
    assert max(apart) > 0.04


def test_results_are_plain_and_nulls_are_explained():
    calibrated = make_items(12)
    rng = np.random.default_rng(13)
    now, before = named(np.ones(12, int), calibrated), named(np.ones(12, int), calibrated)
    found = plain(ability_shift(now, before, calibrated, FAST, rng=rng))
    assert found["verdict"] == "cannot_tell"
    assert found["resolution"]["higher"] is None
    assert "power" in found["resolution"]["why"]["higher"]
    assert found["paired"]["difference"] is None
    assert found["paired"]["why"]["difference"]
    assert "says little" in found["warnings"][0]


def test_missing_answers_are_left_out():
    calibrated = make_items(40)
    rng = np.random.default_rng(14)
    codes = draw(calibrated, 0.0, rng)
    gaps = codes.copy()
    gaps[0, ::3] = -1
    whole = named(codes, calibrated)
    some = named(codes, calibrated, np.arange(40) % 3 > 0)
    first = ability_shift(named(gaps, calibrated), whole, calibrated, FAST, rng=rng)
    second = ability_shift(some, whole, calibrated, FAST, rng=rng)
    assert first.now == pytest.approx(second.now)
    assert first.paired.items == second.paired.items == 26


@pytest.mark.parametrize(
    ("now", "items", "said"),
    [
        ([[1, 0]], ("item 0", "other"), "not calibrated"),
        ([[-1, -1]], ("item 0", "item 1"), "no answer at all"),
        ([[1, 2]], ("item 0", "item 1"), "beyond its calibrated categories"),
        ([[1, 1]], ("item 0", "item 0"), "twice"),
    ],
)
def test_answers_that_cannot_be_compared_are_refused(now, items, said):
    calibrated = make_items(5)
    answers = make_responses(now, items=items)
    history = named(np.ones(5, int), calibrated)
    with pytest.raises(InputError, match=said):
        ability_shift(answers, history, calibrated, FAST, rng=np.random.default_rng(1))


def test_items_that_tell_nothing_are_refused():
    parameters = ItemParameters(np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3), np.ones(3))
    calibrated = Calibrated.make(("1", "2", "3"), parameters)
    answers = make_responses([[1, 0, 1]])
    with pytest.raises(InputError, match="tells abilities apart"):
        ability_shift(answers, answers, calibrated, FAST, rng=np.random.default_rng(1))


def test_one_item_cannot_tell():
    calibrated = make_items(1)
    yes, no = named([1], calibrated), named([0], calibrated)
    found = ability_shift(no, yes, calibrated, FAST, rng=np.random.default_rng(1))
    assert found.verdict == "cannot_tell"
    assert found.difference < 0


@pytest.mark.parametrize(
    "choices",
    [
        {"margin": 0.0},
        {"level": 0.6},
        {"power": 0.04},
        {"alternative": "higher"},
        {"simulations": 50},
        {"level": 0.001, "simulations": 999},
    ],
)
def test_impossible_settings_are_refused(choices):
    with pytest.raises(InputError):
        ShiftSettings(**choices)


@pytest.mark.parametrize(("theta", "error"), [(float("nan"), 0.1), (0.0, 0.0), (0.0, np.inf)])
def test_an_impossible_history_is_refused(theta, error):
    with pytest.raises(InputError, match="no history"):
        StoredAbility(theta, error)


# --- common items --------------------------------------------------------------------------------


def test_with_equal_slopes_the_paired_shift_is_the_log_odds_of_the_changes():
    count = 40
    parameters = ItemParameters(
        np.full((count, 1), 1.25), np.zeros((count, 1)), np.zeros(count), np.ones(count)
    )
    calibrated = Calibrated.make(tuple(map(str, range(1, count + 1))), parameters)
    before = make_responses([[1] * 20 + [0] * 20])
    now = make_responses([[0] * 11 + [1] * 9 + [1] * 3 + [0] * 17])
    found = paired_shift(now, before, calibrated, level=0.05, rng=np.random.default_rng(1))
    assert (found.gained, found.lost, found.items) == (3, 11, 40)
    assert found.difference_points == pytest.approx(-20)
    # Jeffreys' penalty adds half a change to both sides.
    assert found.difference == pytest.approx(np.log(3.5 / 11.5) / 1.25, abs=1e-4)
    assert found.p_value == pytest.approx(0.0574, abs=1e-4)  # 2 P(X <= 3), X ~ Bin(14, 1/2)
    assert found.interval[0] < found.difference < found.interval[1] < 0.1


@pytest.mark.slow
def test_the_paired_shift_holds_where_a_target_repeats_its_answers(study_size):
    calibrated = make_items(100)
    rng = np.random.default_rng(16)
    slopes, steps = calibrated.parameters.slopes[:, 0], calibrated.parameters.intercepts[:, 0]
    estimates, covered, model = [], [], []
    shift = -0.7
    studies = max(round(1000 * study_size), 100)
    for _ in range(studies):
        own = rng.normal(0, 1.5, 100)  # what this target has with each item alone
        before, now = (
            named((rng.random(100) < expit(theta * slopes + steps + own)).astype(int), calibrated)
            for theta in (0.3, 0.3 + shift)
        )
        found = paired_shift(now, before, calibrated, level=0.05, rng=rng)
        estimates.append(found.difference)
        covered.append(found.interval[0] <= shift <= found.interval[1])
        model.append(found.difference_points)
    error = np.std(estimates) / np.sqrt(studies)
    assert np.mean(estimates) == pytest.approx(shift, abs=0.04 + 3 * error)
    assert np.mean(covered) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / studies)


# --- error rates ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("theta", [-3.0, 0.0, 3.0])
@pytest.mark.parametrize("error", [0.0, 0.25])
def test_error_rates_are_those_that_are_stated(theta, error, study_size):
    estimated = make_items(60, error=error)
    rng = np.random.default_rng(17)
    scale = make_scale(estimated, margin=0.5, simulations=299, rng=rng)
    studies = max(round(600 * study_size), 36)
    false, equal, covered = [], [], []
    for number in range(studies):
        noise = error * rng.standard_normal((2, 60, 1))
        truth = dataclasses.replace(
            estimated,
            parameters=dataclasses.replace(
                estimated.parameters,
                slopes=estimated.parameters.slopes + noise[0].clip(-0.5, 0.5),
                intercepts=estimated.parameters.intercepts + noise[1],
            ),
        )
        shift = (0.0, -0.5, 0.5)[number % 3]
        before, now = draw(truth, theta, rng), draw(truth, theta + shift, rng)
        comparison = scale.comparison(named(now, estimated), named(before, estimated))
        if shift:
            equal.append(equivalence_test(comparison, 0.5, rng).p_value <= 0.05)
        else:
            false.append(difference_test(comparison, rng)[0].p_value <= 0.05)
        low, high = shift_interval(comparison, 0.05, rng)
        covered.append(low <= shift <= high)
    assert np.mean(false) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / len(false))
    assert np.mean(equal) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / len(equal))
    assert np.mean(covered) >= 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / studies)


@pytest.mark.slow
@pytest.mark.parametrize("theta", [-1.5, 0.0, 1.5])
def test_the_resolution_is_found_as_often_as_it_says(theta, study_size):
    calibrated = make_items(100)
    rng = np.random.default_rng(18)
    scale = make_scale(calibrated, margin=0.5, simulations=299, rng=rng)
    typical = scale.comparison(
        named(draw(calibrated, theta, rng), calibrated),
        named(draw(calibrated, theta, rng), calibrated),
    )
    fall = smallest_visible(typical, theta, -1, level=0.05, power=0.8)
    studies = max(round(1000 * study_size), 100)
    found = []
    for _ in range(studies):
        before, now = draw(calibrated, theta, rng), draw(calibrated, theta - fall, rng)
        comparison = scale.comparison(named(now, calibrated), named(before, calibrated))
        found.append(difference_test(comparison, rng)[0].p_value <= 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=0.05 + 3 * np.sqrt(0.16 / studies))


def test_more_items_resolve_smaller_shifts():
    rng = np.random.default_rng(19)
    visible = []
    for count in (40, 160):
        calibrated = make_items(count)
        answers = named(draw(calibrated, 0.0, rng), calibrated)
        comparison = make_comparison(
            answers, answers, calibrated, margin=0.5, simulations=99, rng=rng
        )
        found = smallest_visible(comparison, 0.0, -1, level=0.05, power=0.8)
        visible.append(found)
        # With known items and equal information: (1.96 + .84) sqrt(2 / I).
        near = total_information(calibrated.parameters, np.zeros(1))[0]
        assert found == pytest.approx(2.8 * np.sqrt(2 / near), rel=0.15)
        less = smallest_visible(comparison, 0.0, -1, level=0.05, power=0.8, alternative="lower")
        assert less < found
    assert visible[1] == pytest.approx(visible[0] / 2, rel=0.25)
