"""Person fit of many targets: agreement of both routes, invariances, rates, hostile inputs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.audits.person_fit import (
    Calibrated,
    judge_fit,
    out_of_sample_rates,
    person_fit,
    rates_at_abilities,
    simulate_null,
)
from safemetry.audits.person_fit.achieved import summarise
from safemetry.audits.person_fit.alignment import align
from safemetry.audits.person_fit.likelihood_statistics import likelihood_fit
from safemetry.audits.person_fit.null import Bench, _scorer
from safemetry.audits.person_fit.reestimation import make_abilities
from safemetry.audits.person_fit.scoring import GeneralScorer, Reference
from safemetry.audits.person_fit.selective import selective_scan
from safemetry.audits.person_fit.statistics import SIDES
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.calibrate import calibrate
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional


def draw_pool(items, rng):
    slopes = np.exp(rng.normal(0.1, 0.4, items))
    steps = -slopes * rng.normal(0, 1.2, items)
    return ItemParameters(slopes[:, None], steps[:, None], np.zeros(items), np.ones(items))


def answer(parameters, theta, rng):
    chances = expit(theta[:, None] * parameters.slopes[:, 0] + parameters.intercepts[:, 0])
    return (rng.random(chances.shape) < chances).astype(np.int8)


def named(count):
    return tuple(f"i{place}" for place in range(count))


@pytest.fixture
def pool():
    rng = np.random.default_rng(3)
    parameters = draw_pool(60, rng)
    codes = answer(parameters, rng.normal(size=12), rng)
    codes[2, :20] = -1
    return Calibrated.make(named(60), parameters), make_responses(codes, items=named(60))


def test_the_fast_route_gives_what_the_general_one_gives(pool):
    calibrated, responses = pool
    audited, _ = align(responses, calibrated)
    bench = Bench(audited, "wle", 40, 5, "estimate")
    reference = Reference(*calibrated.population_curves())
    for row in (0, 2):
        seen = bench.seen[row]
        general = GeneralScorer(
            calibrated.parameters.select(seen), reference.select(seen), tuple(SIDES)
        )
        fast = _scorer(bench, reference, tuple(SIDES), row)
        for block in bench.blocks(row):
            ours = fast.score(block.patterns, block.theta)
            slow = general.score(block.patterns, block.theta)
            for name in SIDES:
                assert np.allclose(ours[name][0], slow[name][0], atol=2e-3, rtol=2e-3), name
                assert (ours[name][1] == slow[name][1]).all()


@pytest.mark.parametrize("method", ["wle", "map"])
def test_abilities_are_those_of_the_engine(pool, method):
    calibrated, responses = pool
    audited, _ = align(responses, calibrated)
    found = Bench(audited, method, 1, 0, "estimate").theta
    engine = estimate_abilities(calibrated.parameters, responses, method=method).estimates
    assert np.abs(found - engine).max() < 1e-3


def test_abilities_of_items_with_guessing_are_those_of_the_engine(pool):
    calibrated, responses = pool
    items = calibrated.parameters
    guessed = ItemParameters(items.slopes, items.intercepts, np.full(60, 0.1), np.ones(60))
    seen = responses.observed
    tables = make_abilities(guessed, seen, "map", (0.0, 1.0))
    ours = [
        tables.estimate(row, responses.codes[row, seen[row]][None].astype(np.float32))[0]
        for row in range(12)
    ]
    engine = estimate_abilities(guessed, responses, method="map").estimates
    assert np.abs(np.array(ours) - engine).max() < 2e-3


def test_neither_other_targets_nor_the_order_of_items_change_a_result(pool):
    calibrated, responses = pool
    first = person_fit(responses, calibrated, simulations=99, rng=np.random.default_rng(1))
    turned = make_responses(responses.codes[[5, 2]], targets=("6", "3"), items=responses.items)
    second = person_fit(turned, calibrated, simulations=99, rng=np.random.default_rng(1))
    for one, other in ((first[5], second[0]), (first[2], second[1])):
        assert one.union_p_value == other.union_p_value
        assert [row.p_value for row in one.rows] == [row.p_value for row in other.rows]
    back = make_responses(responses.codes[:, ::-1], items=responses.items[::-1])
    third = person_fit(back, calibrated, simulations=99, rng=np.random.default_rng(1))
    for one, other in zip(first, third, strict=True):
        assert [row.value for row in one.rows] == pytest.approx(
            [row.value for row in other.rows], rel=1e-3, abs=1e-4
        )


def test_p_values_count_the_patterns_that_are_as_bad(pool):
    calibrated, responses = pool
    null = simulate_null(responses, calibrated, simulations=199, rng=np.random.default_rng(1))
    own, others = null.p_values()
    count = (null.null_worse >= null.worse[:, :, None]).sum(axis=2)
    assert np.allclose(own, (count + 1) / 200)
    assert others.shape == null.null_worse.shape == (12, 8, 199)
    for fit in judge_fit(null):
        assert fit.union_null_rate <= 0.05
        assert fit.joint_null_rate >= max(row.null_rate for row in fit.rows)
        for row in fit.rows:
            assert row.null_rate <= 0.05
            assert row.flagged == (row.p_value <= 0.05)
        assert plain(fit)


def test_a_reversed_target_is_flagged_by_every_statistic(pool):
    calibrated, _ = pool
    hardest = np.argsort(calibrated.parameters.intercepts[:, 0])[:30]
    codes = np.zeros((1, 60), np.int8)
    codes[0, hardest] = 1
    (fit,) = person_fit(
        make_responses(codes, items=named(60)),
        calibrated,
        simulations=199,
        rng=np.random.default_rng(1),
    )
    assert fit.flagged
    assert all(row.flagged for row in fit.rows)
    assert all(
        row.value < row.cutoff if row.side == "low" else row.value > row.cutoff for row in fit.rows
    )


def test_hostile_targets_have_reasons_and_no_flags():
    parameters = draw_pool(10, np.random.default_rng(1))
    codes = np.array([[1] * 10, [0] * 10, [-1] * 10, [1] + [-1] * 9], np.int8)
    fits = person_fit(
        make_responses(codes, items=named(10)),
        Calibrated.make(named(10), parameters),
        simulations=99,
        rng=np.random.default_rng(1),
        order=list(range(10)),
    )
    assert not any(fit.flagged for fit in fits)
    for fit in fits:
        plain(fit)
        for row in fit.rows:
            assert (row.value is None) == ("value" in row.why)
            assert (row.cutoff is None) == ("cutoff" in row.why)
    assert fits[2].union_p_value is None
    assert fits[2].theta_error is None


def test_input_that_cannot_be_used_is_refused(pool):
    calibrated, responses = pool
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="no statistic"):
        person_fit(responses, calibrated, statistics=["zh"], rng=rng)
    with pytest.raises(InputError, match="order"):
        person_fit(responses, calibrated, statistics=["cusum"], rng=rng)
    with pytest.raises(InputError, match="simulations"):
        person_fit(responses, calibrated, level=0.01, simulations=50, rng=rng)
    with pytest.raises(InputError, match="calibrated"):
        person_fit(make_responses([[1, 0]], items=["x", "y"]), calibrated, rng=rng)


def test_graded_items_have_the_statistics_that_are_defined():
    steps = np.column_stack([np.linspace(2, -1, 20), np.linspace(1, -2, 20)])
    items = ItemParameters(np.full((20, 1), 1.3), steps, np.zeros(20), np.ones(20))
    codes = np.array([[2] * 10 + [0] * 10, [0] * 10 + [2] * 10], np.int8)
    fits = person_fit(
        make_responses(codes, items=named(20)),
        Calibrated.make(named(20), items),
        simulations=99,
        rng=np.random.default_rng(1),
    )
    assert [row.statistic for row in fits[0].rows] == ["l_z", "l_z_star", "infit", "outfit"]
    assert fits[1].flagged


def test_a_stored_calibration_brings_its_errors():
    rng = np.random.default_rng(1)
    finding = calibrate(
        make_responses(answer(draw_pool(30, rng), rng.normal(size=80), rng)), sensitivity=False
    )
    made = Calibrated.of_calibration(finding)
    assert (made.slope_errors > 0).all()
    assert made.slope_prior_sd == 0.5
    assert not made.remarks


def test_l_z_star_has_mean_zero_and_variance_one_at_estimated_abilities():
    rng = np.random.default_rng(4)
    parameters = draw_pool(100, rng)
    responses = make_responses(answer(parameters, rng.normal(size=4000), rng))
    theta = estimate_abilities(parameters, responses, method="wle").estimates
    fit = likelihood_fit(responses.codes, parameters, theta)
    # 4,000 patterns: standard errors .016 and .011; l_z at the same abilities is too narrow.
    assert abs(fit.l_z_star.mean()) < 0.06
    assert abs(fit.l_z_star.std() - 1) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("items", [40, 100, 196])
def test_rates_stay_at_the_level_from_minus_three_to_three(items, study_size):
    targets = max(int(1000 * study_size), 100)
    counts = {}
    for pool in range(4):
        rng = np.random.default_rng([items, pool])
        calibrated = Calibrated.make(named(items), draw_pool(items, rng))
        for rate in rates_at_abilities(
            calibrated, (-3, 0, 3), targets=targets, rng=rng, simulations=199
        ):
            if rate.rule != "any":
                counts.setdefault((rate.rule, rate.ability), []).append(
                    (rate.flagged, rate.targets)
                )
    for name, pairs in counts.items():
        flagged, total = np.sum(pairs, axis=0)
        # Twenty-seven rates are looked at together.
        assert flagged / total < 0.05 + 3.2 * np.sqrt(0.05 * 0.95 / total), name


@pytest.mark.slow
def test_rates_stay_at_the_level_with_a_small_calibration(study_size):
    rng = np.random.default_rng(8)
    flags = {-3: [], 0: [], 3: []}
    for _ in range(max(int(40 * study_size), 6)):
        parameters = draw_pool(100, rng)
        cohort = make_responses(answer(parameters, rng.normal(size=77), rng), items=named(100))
        varied = np.ptp(cohort.codes, axis=0) > 0
        calibrated = Calibrated.of_fit(fit_unidimensional(cohort.select_items(varied)))
        for theta, kept in flags.items():
            codes = answer(parameters, np.full(60, float(theta)), rng)
            fits = person_fit(
                make_responses(codes, items=named(100)), calibrated, simulations=99, rng=rng
            )
            kept.append([fit.flagged for fit in fits])
    for theta, kept in flags.items():
        by_calibration = np.array(kept).mean(axis=1)
        error = by_calibration.std() / np.sqrt(len(by_calibration))
        assert by_calibration.mean() < 0.05 + 3 * error + 0.01, theta


def test_half_of_the_targets_tell_the_rate_of_the_other_half():
    rng = np.random.default_rng(2)
    codes = answer(draw_pool(50, rng), rng.normal(size=80), rng)
    rates = {
        rate.rule: rate
        for rate in out_of_sample_rates(make_responses(codes), rng=rng, simulations=99)
    }
    assert rates["union"].targets == 80
    assert rates["union"].low <= 0.05
    assert rates["any"].rate >= rates["union"].rate
    assert plain(rates["union"])


def test_nothing_known_has_no_rate():
    steps = np.linspace(3, -3, 30)[:, None]
    items = ItemParameters(np.ones((30, 1)), steps, np.zeros(30), np.ones(30))
    calibrated = Calibrated.make(tuple(map(str, range(1, 31))), items)
    one = make_responses([[1] + [-1] * 29])
    (fit,) = person_fit(one, calibrated, rng=np.random.default_rng(1))
    assert fit.union_null_rate is fit.joint_null_rate is None
    assert {"union_null_rate", "joint_null_rate"} <= set(fit.why)
    assert all(row.null_rate is None and "null_rate" in row.why for row in fit.rows)
    (scan,) = selective_scan(one, calibrated, ["a"] * 30, rng=np.random.default_rng(1))
    assert scan.null_rate is None
    assert "null_rate" in scan.why
    rates = summarise([fit])
    assert all(row.low is row.high is row.rate is None and "low" in row.why for row in rates)
