"""Several tests as one keep the level, whatever goes with what."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.shift import ShiftSettings, audit_union, min_p_union
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses
from safemetry.simulate.organisms import Organism, OrganismSettings, simulate_organisms


def union_of(statistics, level=0.05, tail="high"):
    """The union where the first column is the observed target."""
    names = tuple(f"test {place}" for place in range(len(statistics)))
    return min_p_union(names, statistics[:, 0], statistics[:, 1:], (tail,) * len(statistics), level)


def test_independent_tests_together_flag_as_often_as_they_must():
    rng = np.random.default_rng(1)
    found = union_of(rng.standard_normal((4, 20_000)))
    assert found.naive_rate == pytest.approx(1 - 0.95**4, abs=0.008)
    assert found.null_rate == pytest.approx(0.05, abs=0.002)
    assert found.cutoff == pytest.approx(1 - 0.95 ** (1 / 4), abs=0.002)
    assert all(part.null_rate == pytest.approx(0.05, abs=0.001) for part in found.parts)


def test_one_test_named_four_times_pays_nothing():
    statistics = np.tile(np.random.default_rng(2).standard_normal(2_000), (4, 1))
    once, often = union_of(statistics[:1]), union_of(statistics)
    assert often.p_value == once.p_value == once.parts[0].p_value
    assert often.naive_rate == once.naive_rate
    assert often.cutoff == pytest.approx(0.05, abs=0.001)


@pytest.mark.parametrize("tail", ["high", "low", "both"])
@pytest.mark.parametrize("discrete", [False, True])
def test_the_level_is_exact_for_exchangeable_replicates(tail, discrete):
    rng = np.random.default_rng(3)
    flagged = []
    for _ in range(1_500):
        shared = rng.standard_normal(100)
        statistics = 0.7 * shared + rng.standard_normal((3, 100))
        if discrete:
            statistics = np.round(statistics)
        flagged.append(union_of(statistics, 0.1, tail).flagged)
    spread = np.sqrt(0.1 * 0.9 / 1_500)
    assert np.mean(flagged) <= 0.1 + 3.5 * spread
    if not discrete and tail != "both":  # both tails of 100 values are a coarse measure
        assert np.mean(flagged) >= 0.1 - 3.5 * spread


def test_the_order_of_tests_does_not_matter():
    statistics = np.random.default_rng(4).standard_normal((3, 500))
    statistics[1, 0] = 3
    first, second = union_of(statistics), union_of(statistics[::-1])
    assert first.p_value == second.p_value
    assert first.naive_rate == second.naive_rate
    assert first.parts[0].p_value == second.parts[2].p_value


def test_a_statistic_without_a_value_is_never_unusual():
    statistics = np.random.default_rng(5).standard_normal((2, 400))
    statistics[1, 0] = np.nan
    found = union_of(statistics)
    assert found.parts[1].p_value is None
    assert found.parts[1].why["p_value"]
    assert not found.parts[1].flagged
    assert 0 < found.p_value <= 1
    plain(found)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="for each test"):
        min_p_union(("a",), np.zeros(2), np.zeros((2, 9)), ("high", "high"), 0.05)


# --- one target ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def organisms():
    kinds = (
        Organism(),
        Organism("sandbagging", 2.0),
        Organism("random", 0.6),
    )
    made = simulate_organisms(
        OrganismSettings(items=120, organisms=kinds, abilities=(1.0,), population=1), 6
    )
    truth = made.truth
    parameters = ItemParameters(
        truth.slopes[:, None], truth.intercepts[:, None], np.zeros(120), np.ones(120)
    )
    return made, Calibrated.make(made.items, parameters)


def audited(organisms, place, **choices):
    made, calibrated = organisms
    now, history = (
        make_responses(codes[[place]], items=made.items) for codes in (made.evaluated, made.history)
    )
    settings = ShiftSettings(simulations=499)
    return audit_union(now, history, calibrated, settings, rng=np.random.default_rng(7), **choices)


def test_the_union_sees_what_each_of_its_parts_sees(organisms):
    honest, held_back, random = (audited(organisms, place) for place in range(3))
    assert not honest.flagged
    assert held_back.flagged
    assert random.flagged
    shift, fit = held_back.parts
    assert (shift.name, fit.name) == ("ability_shift", "l_z_star")
    assert shift.flagged
    assert random.parts[1].flagged
    for found in (honest, held_back, random):
        assert found.null_rate <= 0.05
        assert 0.07 < found.naive_rate < 0.13
        assert found.simulations == 499
        assert found.p_value >= min(part.p_value for part in found.parts)


def test_more_statistics_are_allowed_and_cost_something(organisms):
    few, many = (
        audited(organisms, 0, statistics=chosen)
        for chosen in (("l_z_star",), ("l_z_star", "outfit", "h_t", "u3"))
    )
    assert len(many.parts) == 5
    assert many.naive_rate > few.naive_rate
    assert many.cutoff < few.cutoff


def test_several_runs_and_unknown_statistics_are_refused(organisms):
    made, calibrated = organisms
    answers = make_responses(made.history, items=made.items)
    with pytest.raises(InputError, match="one run"):
        audit_union(answers, answers, calibrated, rng=np.random.default_rng(1))
    with pytest.raises(InputError, match="no statistic"):
        audited(organisms, 0, statistics=("z",))


@pytest.mark.slow
@pytest.mark.parametrize("theta", [-3.0, 0.0, 3.0])
def test_the_union_keeps_its_level_for_honest_targets(organisms, theta, study_size):
    _, calibrated = organisms
    rng = np.random.default_rng(8)
    parameters = calibrated.parameters
    chances = expit(theta * parameters.slopes[:, 0] + parameters.intercepts[:, 0])
    studies = max(round(1000 * study_size), 100)
    flagged = []
    for _ in range(studies):
        now, history = (
            make_responses((rng.random((1, 120)) < chances).astype(int), items=calibrated.items)
            for _ in range(2)
        )
        found = audit_union(now, history, calibrated, ShiftSettings(simulations=199), rng=rng)
        flagged.append(found.flagged)
    assert np.mean(flagged) <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / studies)
