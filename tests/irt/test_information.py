"""Information: published tables, its definition, and what reliability means."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.information import (
    empirical_reliability,
    information_curve,
    information_matrix,
    item_information,
    marginal_reliability,
    normal_grid,
    standard_errors,
    total_information,
)
from safemetry.irt.parameters import ItemParameters, category_probabilities, expected_scores

FITS = [
    "LSAT6_2PL_tight",
    "LSAT7_2PL",
    "LSAT7_Rasch",
    "LSAT7_3PLprior",
    "SAT12_2PL_tight",
    "SAT12_3PL",
    "Science_graded",
]


@pytest.mark.parametrize("fit", FITS)
def test_test_information_and_expected_scores_agree_with_the_oracle(oracle, fit):
    theta, information, expected = oracle.numbers(f"{fit}_testinfo", "theta", "info", "expected").T
    parameters = oracle.parameters(fit)
    lowest = 4 if "Science" in fit else 0  # its categories start at 1
    assert np.abs(total_information(parameters, theta) - information).max() < 1e-12
    scores = expected_scores(parameters, theta[:, None]).sum(axis=1) + lowest
    assert np.abs(scores - expected).max() < 1e-12


def test_item_information_agrees_with_a_published_item_bank(oracle):
    a, b, lower, upper = oracle.numbers("data_tcals_catR", "a", "b", "c", "d").T
    bank = ItemParameters(a[:, None], -(a * b)[:, None], lower, upper)
    table = oracle.numbers("catR_item_information", "theta")[:, 0]
    found = item_information(bank, table)
    assert np.abs(found - oracle.numbers("catR_item_information")).max() < 1e-12


@pytest.mark.parametrize("categories", [2, 4])
def test_information_is_the_expected_squared_score(simulated, categories):
    rng = np.random.default_rng(4)
    parameters, *_ = simulated(1, 8, rng, categories)
    lower, upper = (0.2, 0.9) if categories == 2 else (0.0, 1.0)
    parameters = ItemParameters(
        parameters.slopes, parameters.intercepts, np.full(8, lower), np.full(8, upper)
    )
    theta, step = np.linspace(-3, 3, 13)[:, None], 1e-5
    chances = category_probabilities(parameters, theta)
    slope = (
        category_probabilities(parameters, theta + step)
        - category_probabilities(parameters, theta - step)
    ) / (2 * step)
    expected = (slope**2 / chances).sum(axis=0)
    assert np.allclose(item_information(parameters, theta), expected, rtol=1e-6)


def test_ragged_categories_and_extreme_abilities_give_finite_numbers():
    parameters = ItemParameters(
        np.array([[1.0], [2.0], [1.5]]),
        np.array([[1.0, 0.0, -1.0], [0.5, -np.inf, -np.inf], [2.0, -1.0, -np.inf]]),
        np.array([0.0, 0.2, 0.0]),
        np.array([1.0, 0.95, 1.0]),
    )
    far = item_information(parameters, np.array([-900.0, -40.0, 0.0, 40.0, 900.0]))
    assert np.isfinite(far).all()
    assert (far >= 0).all()
    alone = parameters.select(np.array([1]))
    alone = ItemParameters(alone.slopes, alone.intercepts[:, :1], alone.lower, alone.upper)
    theta = np.linspace(-3, 3, 7)
    beside = item_information(parameters, theta)[:, 1]
    assert np.allclose(beside, item_information(alone, theta)[:, 0])
    chances = category_probabilities(parameters, theta[:, None])
    assert np.allclose(chances.sum(axis=0), 1)
    assert not chances[2:, :, 1].any(), "an item never has a category that it lacks"


def test_direction_of_information():
    parameters = ItemParameters(
        np.array([[1.0, 0.0], [0.0, 2.0], [0.6, 0.8]]), np.zeros((3, 1)), np.zeros(3), np.ones(3)
    )
    theta = np.array([[0.3, -0.4], [1.0, 1.0]])
    matrix = information_matrix(parameters, theta)
    direction = np.array([3.0, 4.0])
    unit = direction / 5
    along = total_information(parameters, theta, direction)
    assert np.allclose(along, np.einsum("k,nkl,l->n", unit, matrix, unit))
    assert item_information(parameters, theta, np.array([1.0, 0.0]))[:, 1].max() == 0
    with pytest.raises(InputError, match="give a direction"):
        item_information(parameters, theta)
    with pytest.raises(InputError, match="as many finite numbers"):
        item_information(parameters, theta, np.zeros(2))


def test_rotated_abilities_have_rotated_information(simulated):
    parameters, theta, _ = simulated(5, 12, np.random.default_rng(0), dimensions=3)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    turned = ItemParameters(
        parameters.slopes @ turn, parameters.intercepts, parameters.lower, parameters.upper
    )
    expected = turn.T @ information_matrix(parameters, theta) @ turn
    assert np.allclose(information_matrix(turned, theta @ turn), expected)


def test_standard_errors_are_refused_where_the_items_tell_nothing():
    parameters = ItemParameters(np.array([[1.0, 0.0]]), np.zeros((1, 1)), np.zeros(1), np.ones(1))
    with pytest.raises(InputError, match="tell nothing about 1 of 1 abilities"):
        standard_errors(parameters, np.zeros((1, 2)))
    found = standard_errors(parameters, np.zeros((1, 2)), np.eye(2))
    assert np.allclose(found, [[1 / np.sqrt(1.25), 1.0]])


def test_reliability_agrees_with_the_oracle(oracle, posterior_means):
    rows = {row["fit"]: row for row in oracle.rows("summary_logLik_AIC_BIC")}
    for fit, data in (("LSAT7_2PL", "LSAT7"), ("SAT12_2PL_tight", "SAT12")):
        parameters = oracle.parameters(fit)
        means, errors = posterior_means(oracle.responses(data), parameters)
        row = rows[fit]
        assert abs(marginal_reliability(parameters) - float(row["marginal_rxx"])) < 1e-6
        assert abs(empirical_reliability(means, errors) - float(row["empirical_rxx"])) < 1e-6


def test_reliability_is_the_squared_correlation_with_the_truth(simulated, posterior_means):
    # 4,000 targets: the standard error of a correlation of .9 is .003, of its square .006.
    parameters, theta, responses = simulated(4000, 30, np.random.default_rng(2))
    means, errors = posterior_means(responses, parameters)
    squared = np.corrcoef(means, theta[:, 0])[0, 1] ** 2
    assert abs(empirical_reliability(means, errors) - squared) < 0.02
    # The marginal form takes the posterior variance at the expected information: a little more.
    assert abs(marginal_reliability(parameters) - squared) < 0.03
    halves = np.full(len(means), 0.5)
    assert np.isclose(
        empirical_reliability(means, errors, halves), empirical_reliability(means, errors), 1e-3
    )
    assert empirical_reliability(means[:1], errors[:1]) is None
    some = np.ma.array(errors, mask=np.arange(4000) >= 2000)
    assert empirical_reliability(means, some) == empirical_reliability(means[:2000], errors[:2000])


def test_a_curve_leaves_out_where_nothing_is_told():
    parameters = ItemParameters(np.array([[50.0]]), np.zeros((1, 1)), np.zeros(1), np.ones(1))
    curve = information_curve(parameters, low=-40, high=40)
    assert np.isfinite(curve.standard_error).all()
    assert len(curve.theta) < 161


def test_the_grid_has_the_moments_of_the_population():
    theta, weights = normal_grid(0.5, 2.0)
    assert np.isclose(weights.sum(), 1)
    assert np.isclose(weights @ theta, 0.5)
    assert np.isclose(weights @ (theta - 0.5) ** 2, 4, rtol=1e-6)
