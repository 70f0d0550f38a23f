"""Abilities have the correlations asked for, and intercepts give the rates asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from safemetry.errors import InputError
from safemetry.simulate import CORRELATIONS, draw_abilities, expected_rate, solve_intercept
from safemetry.simulate.factors import add_caution, apportion


def test_sample_correlations_approach_the_published_ones():
    abilities = draw_abilities(200_000, CORRELATIONS, np.random.default_rng(1))
    # A correlation has a standard error of at most 1 / sqrt(n) = .0022; five of them.
    assert np.corrcoef(abilities.T) == pytest.approx(np.array(CORRELATIONS), abs=0.011)
    assert abilities.mean(axis=0) == pytest.approx(0, abs=0.011)
    assert abilities.var(axis=0) == pytest.approx(1, abs=5 * np.sqrt(2 / 200_000))


@pytest.mark.parametrize("targets", [4, 12, 77])
def test_exact_moments_are_exact_in_every_sample(targets):
    abilities = draw_abilities(targets, CORRELATIONS, np.random.default_rng(2), exact_moments=True)
    assert np.cov(abilities.T) == pytest.approx(np.array(CORRELATIONS), abs=1e-10)
    assert abilities.mean(axis=0) == pytest.approx(0, abs=1e-12)


def test_exact_moments_need_more_targets_than_abilities():
    with pytest.raises(InputError, match="at least 4 targets"):
        draw_abilities(3, CORRELATIONS, np.random.default_rng(0), exact_moments=True)


@pytest.mark.parametrize(
    "correlations",
    [
        [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]],  # no three variables have these
        [[1, 0.5], [0.4, 1]],
        [[2, 0], [0, 1]],
        [[1, np.nan], [np.nan, 1]],
        [[1, 0.5]],
    ],
)
def test_impossible_correlations_are_refused(correlations):
    with pytest.raises(InputError, match="correlation"):
        draw_abilities(10, correlations, np.random.default_rng(0))


def test_caution_correlates_as_asked_with_the_mean_ability():
    with_caution = add_caution(CORRELATIONS, 0.6)
    mean = np.array([1 / 3, 1 / 3, 1 / 3, 0])
    caution = np.array([0, 0, 0, 1])
    covariance = mean @ with_caution @ caution
    assert covariance / np.sqrt(mean @ with_caution @ mean) == pytest.approx(0.6)
    assert np.linalg.eigvalsh(with_caution)[0] > 0


@pytest.mark.parametrize("discrimination", [0.3, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("intercept", [-4.0, 0.0, 2.5])
def test_expected_rate_is_the_logistic_normal_integral(discrimination, intercept):
    exact, _ = quad(
        lambda theta: expit(discrimination * theta + intercept) * norm.pdf(theta),
        -10,
        10,
        epsabs=1e-12,
        limit=400,
        points=[-intercept / discrimination] if abs(intercept / discrimination) < 10 else None,
    )
    assert expected_rate(intercept, [discrimination], [0.0]) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("rate", [0.001, 0.43, 0.58, 0.83, 0.9999])
@pytest.mark.parametrize("abilities", [None, np.array([-2.0, 0.1, 3.0])])
def test_solved_intercept_gives_the_rate(rate, abilities):
    rng = np.random.default_rng(3)
    a, offsets = rng.lognormal(0.5, 0.5, 300), rng.normal(0, 3, 300)
    intercept = solve_intercept(rate, a, offsets, abilities)
    assert expected_rate(intercept, a, offsets, abilities) == pytest.approx(rate, abs=1e-12)


def test_a_rate_of_zero_or_one_has_no_intercept():
    for rate in (0.0, 1.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            solve_intercept(rate, [1.0], [0.0])


def test_apportioned_counts_sum_and_differ_from_their_share_by_less_than_one():
    for total in range(60):
        counts = apportion(total, [2.0, 1.0, 1.0, 0.3])
        assert counts.sum() == total
        assert np.abs(counts - total * np.array([2, 1, 1, 0.3]) / 4.3).max() < 1
