"""Predictions: exact integrals over Gaussian posteriors, and what scores them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemParameters, category_probabilities
from safemetry.irt.predict import (
    brier_score,
    expected_logistic,
    integrated_probabilities,
    log_loss,
)
from safemetry.irt.responses import make_responses


@settings(max_examples=60, deadline=None)
@given(mean=st.floats(-30, 30), sd=st.floats(0, 40))
def test_the_integral_is_exact(mean, sd):
    centre = -mean / sd if sd > 0 else 0.0
    exact = quad(
        lambda z: norm.pdf(z) * expit(mean + sd * z),
        -12,
        12,
        points=[centre] if abs(centre) < 12 else None,
        epsabs=1e-13,
        limit=500,
    )[0]
    assert abs(expected_logistic(np.array(mean), np.array(sd**2)) - exact) < 1e-8


def test_cells_of_all_spreads_are_exact_at_once():
    means = np.linspace(-4, 4, 9)[:, None]
    variances = np.array([0.0, 1e-12, 0.04, 1.0, 9.0, 900.0])
    together = expected_logistic(means, variances)
    for row, mean in enumerate(means[:, 0]):
        for column, variance in enumerate(variances):
            alone = expected_logistic(np.array(mean), np.array(variance))
            assert abs(together[row, column] - alone) < 1e-8
    assert np.allclose(together + expected_logistic(-means, variances), 1, atol=1e-12)
    assert expected_logistic(np.empty((0, 3)), np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("categories", [2, 4])
def test_many_dimensions_are_integrated_like_draws(simulated, categories):
    rng = np.random.default_rng(6)
    parameters, theta, _ = simulated(3, 5, rng, categories, dimensions=3)
    factor = rng.normal(size=(3, 3, 3)) * 0.7
    covariances = factor @ factor.transpose(0, 2, 1)
    found = integrated_probabilities(parameters, theta, covariances)
    assert np.allclose(found.sum(axis=0), 1)
    for row in range(3):
        draws = rng.multivariate_normal(theta[row], covariances[row], size=40_000)
        mean = category_probabilities(parameters, draws).mean(axis=1)
        # Standard error of a mean of 40,000 probabilities: at most .5 / 200.
        assert np.abs(found[:, row] - mean).max() < 4 * 0.5 / 200


def test_asymptotes_and_ragged_categories():
    parameters = ItemParameters(
        np.array([[1.2], [0.8]]),
        np.array([[0.3, -np.inf], [1.0, -1.0]]),
        np.array([0.2, 0.0]),
        np.array([0.9, 1.0]),
    )
    found = integrated_probabilities(parameters, np.array([0.5]), np.array([0.7]))
    assert found.shape == (3, 1, 2)
    assert found[2, 0, 0] == 0
    inner = expected_logistic(np.array(1.2 * 0.5 + 0.3), np.array(1.44 * 0.7))
    assert found[1, 0, 0] == pytest.approx(0.2 + 0.7 * inner)
    certain = integrated_probabilities(parameters, np.array([0.5]), np.zeros(1))
    assert np.allclose(certain, category_probabilities(parameters, np.array([[0.5]])))


def test_impossible_covariances_are_refused(simulated):
    parameters, theta, _ = simulated(3, 5, np.random.default_rng(6), dimensions=2)
    for wrong in (np.eye(2), np.full((3, 2, 2), np.nan), -np.ones((3, 2, 2))):
        with pytest.raises(InputError, match="covariance"):
            integrated_probabilities(parameters, theta, wrong)


def test_integration_beats_the_mode_on_held_out_responses(simulated, posterior_means):
    # With 8 items posteriors are wide; 4,000 targets make the difference of about .005 certain.
    parameters, _, responses = simulated(4000, 16, np.random.default_rng(8))
    held_out = np.zeros(responses.codes.shape, bool)
    held_out[:, 8:] = True
    means, errors = posterior_means(responses.without(held_out), parameters)
    at_mode = category_probabilities(parameters, means[:, None])
    integrated = integrated_probabilities(parameters, means, errors**2)
    assert log_loss(integrated, responses, held_out) < log_loss(at_mode, responses, held_out)
    assert brier_score(integrated, responses, held_out) < brier_score(at_mode, responses, held_out)


def test_scores_by_hand():
    responses = make_responses([[1, 0], [-1, 1]], weights=[1, 3])
    chance = np.array([[0.8, 0.4], [0.5, 0.9]])
    probabilities = np.stack([1 - chance, chance])
    expected = -(np.log(0.8) + np.log(0.6) + 3 * np.log(0.9)) / 5
    assert log_loss(probabilities, responses) == pytest.approx(expected)
    assert brier_score(probabilities, responses) == pytest.approx((0.04 + 0.16 + 3 * 0.01) / 5)
    only = np.array([[True, False], [True, False]])
    assert log_loss(probabilities, responses, only) == pytest.approx(-np.log(0.8))
    assert log_loss(probabilities, responses, ~responses.observed) is None
    assert brier_score(probabilities, responses, ~responses.observed) is None
    sure = np.stack([np.ones((2, 2)), np.zeros((2, 2))])
    assert np.isfinite(log_loss(sure, responses))


def test_graded_scores_grow_with_the_distance():
    wide = np.array([0.0, 0.0, 1.0])[:, None, None]
    assert brier_score(wide, make_responses([[2]])) == 0
    assert brier_score(wide, make_responses([[1]])) == 1
    assert brier_score(wide, make_responses([[0]])) == 2
    with pytest.raises(InputError, match="2 categories"):
        log_loss(wide[:2], make_responses([[2]]))
    with pytest.raises(InputError, match="same targets and items"):
        log_loss(wide, make_responses([[2, 1]]))
