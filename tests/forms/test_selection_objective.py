"""Objectives: closed forms, one item more, and how they order items."""

from __future__ import annotations

import numpy as np
import pytest
from selection_pools import made

from safemetry.errors import InputError
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.objective import (
    Objective,
    Wished,
    criterion,
    mean_information,
    nodes,
    score_slopes,
    score_variances,
)
from safemetry.irt.information import information_matrix, item_information
from safemetry.irt.parameters import ItemParameters, expected_scores

FORM = np.array([3, 7, 11])


@pytest.mark.parametrize(
    ("objective", "dimensions"),
    [(one, 1) for one in Objective] + [(one, 3) for one in Objective if one != "maximin"],
)
def test_one_item_more_is_the_value_of_the_longer_form(objective, dimensions):
    goal = criterion(made(30, dimensions=dimensions, steps=2), objective)
    after = goal.after(FORM)
    for item in (0, 12, 29):
        assert after[item] == pytest.approx(goal.value(np.append(FORM, item)), rel=1e-9)


def test_posterior_variance_is_the_inverse_of_precision():
    pool = made(20)
    theta, weights = pool.population()
    information = item_information(pool.parameters, theta)[:, FORM].sum(axis=1)
    expected = weights @ (1 / (1 / pool.sd**2 + information))
    assert criterion(pool, "variance").value(FORM) == pytest.approx(-expected)


def test_no_item_leaves_the_variance_of_the_population():
    nothing = np.zeros(0, np.int64)
    assert criterion(made(5), "variance").value(nothing) == pytest.approx(-1.0)
    pool = made(5, dimensions=3)
    assert criterion(pool, "variance").value(nothing) == pytest.approx(-3.0)
    expected = -np.linalg.slogdet(pool.covariance)[1]
    assert criterion(pool, "determinant").value(nothing) == pytest.approx(expected)


def test_determinant_in_several_dimensions():
    pool = made(20, dimensions=2)
    theta, weights = nodes(pool)
    total = information_matrix(pool.parameters.select(FORM), theta) + np.linalg.inv(pool.covariance)
    expected = weights @ np.linalg.slogdet(total)[1]
    assert criterion(pool, "determinant").value(FORM) == pytest.approx(expected)


def test_nodes_of_several_dimensions_have_the_moments_of_the_population():
    pool = made(5, dimensions=3)
    theta, weights = nodes(pool)
    assert weights @ theta == pytest.approx(pool.mean)
    assert np.cov(theta.T, bias=True) == pytest.approx(pool.covariance)


@pytest.mark.parametrize("steps", [1, 3])
def test_slope_and_variance_of_outcomes(steps):
    pool = made(8, steps=steps)
    theta, h = np.array([[-1.0], [0.4]]), 1e-5
    numeric = expected_scores(pool.parameters, theta + h) - expected_scores(
        pool.parameters, theta - h
    )
    slopes = score_slopes(pool.parameters, theta) * pool.parameters.slopes[:, 0]
    assert slopes == pytest.approx(numeric / (2 * h) / steps, abs=1e-6)
    if steps == 1:
        chance = expected_scores(pool.parameters, theta)
        assert score_variances(pool.parameters, theta) == pytest.approx(chance * (1 - chance))


def test_all_items_leave_of_the_score_what_the_ability_leaves():
    """With all items asked no chance variance of the others is left."""
    pool = made(12)
    everything = np.arange(12)
    theta, weights = pool.population()
    gradient = score_slopes(pool.parameters, theta[:, None]) @ pool.parameters.slopes[:, 0] / 12
    information = item_information(pool.parameters, theta).sum(axis=1)
    expected = weights @ (gradient**2 / (information + 1 / pool.sd**2))
    assert criterion(pool, "score").value(everything) == pytest.approx(-expected)


def test_score_objective_predicts_the_error_of_the_expected_score():
    """Simulated: the mean squared error of the posterior mean score is what the objective says."""
    pool = made(60, seed=4)
    form = np.arange(0, 60, 3)
    rng = np.random.default_rng(0)
    theta = rng.normal(pool.mean[0], pool.sd, 20_000)
    grid = np.linspace(-5, 6, 81)
    chance = expected_scores(pool.parameters, grid[:, None])
    answers = rng.random((len(theta), 60)) < expected_scores(pool.parameters, theta[:, None])
    inside = chance[:, form]
    log = answers[:, form] @ np.log(inside).T + ~answers[:, form] @ np.log1p(-inside).T
    log -= ((grid - pool.mean[0]) / pool.sd) ** 2 / 2
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    outside = np.setdiff1d(np.arange(60), form)
    predicted = answers[:, form].sum(axis=1) + weights @ chance[:, outside].sum(axis=1)
    error = np.mean((predicted / 60 - answers.mean(axis=1)) ** 2)
    # The answers of the form itself are known, so that the objective is a little too pessimistic.
    assert 0.5 * error < -criterion(pool, "score").value(form) < 2 * error


def test_mean_information_is_a_sum_over_items():
    pool = made(20)
    theta, weights = pool.population()
    assert mean_information(pool) == pytest.approx(
        weights @ item_information(pool.parameters, theta)
    )
    value = criterion(pool, "mean").value(FORM)
    assert value == pytest.approx(mean_information(pool)[FORM].sum())


def test_maximin_in_its_smooth_form_lies_between_the_least_and_the_mean():
    pool = made(20)
    goal = criterion(pool, "maximin", Wished((-1.0, 0.0, 1.0), (1.0, 2.0, 1.0)))
    information = pool.information(np.array([-1.0, 0.0, 1.0]))[:, FORM].sum(axis=1)
    relative = information / np.array([0.75, 1.5, 0.75])
    assert goal.least(FORM) == pytest.approx(relative.min())
    values = [sharper.value(FORM) for sharper in (goal, *goal.sharper())]
    assert values == sorted(values, reverse=True)
    assert relative.min() <= values[-1] <= values[0] <= relative.mean()


def test_items_that_tell_nothing_are_no_error():
    parameters = ItemParameters(np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3), np.ones(3))
    pool = ItemPool(("a", "b", "c"), parameters, np.zeros(1), np.eye(1))
    for objective in Objective:
        assert np.isfinite(criterion(pool, objective).after(np.array([0]))).all()


@pytest.mark.parametrize(
    ("theta", "shape"), [((), ()), ((0.0, np.inf), ()), ((0.0,), (1.0, 2.0)), ((0.0,), (0.0,))]
)
def test_wishes_that_mean_nothing_are_refused(theta, shape):
    with pytest.raises(InputError):
        Wished(theta, shape)


def test_unknown_and_impossible_objectives_are_refused():
    with pytest.raises(InputError, match="no objective 'best'; use variance"):
        criterion(made(5), "best")
    with pytest.raises(InputError, match="one dimension only"):
        criterion(made(5, dimensions=2), "maximin")
