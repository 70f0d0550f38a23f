"""Held-out loss of one model from one start: exact predictions, hard cells, known bounds."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dimensions.losses import (
    HELD_OUT_TOLERANCE,
    fit_held_out,
    mean_loss,
    predict_marginally,
    smoothed_rates,
)
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.errors import InputError
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import ItemModel, category_probabilities
from safemetry.irt.responses import make_responses

ONE_PL, TWO_PL, THREE_PL = (
    CandidateModel(f"1D {model}", model, 1, marginal=True)
    for model in (ItemModel.ONE_PL, ItemModel.TWO_PL, ItemModel.THREE_PL)
)
TWO_DIMENSIONS = CandidateModel("2D", ItemModel.TWO_PL, 2)
EVERY = (ONE_PL, TWO_PL, THREE_PL, CandidateModel("1D", ItemModel.TWO_PL, 1), TWO_DIMENSIONS)


def draw(seed, targets=80, items=60, slope=1.5):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((targets, 1))
    chance = expit(slope * theta + rng.normal(0, 1.5, items))
    return (rng.random(chance.shape) < chance).astype(int), chance


@pytest.fixture(scope="module")
def small():
    codes, _ = draw(1)
    responses = make_responses(codes)
    return responses, split_responses(responses, splits=1)[0]


@pytest.fixture(scope="module")
def harmbench(shared):
    with (shared / "data/helm_safety/harmbench_matrix.csv").open() as lines:
        _, *rows = list(csv.reader(lines))
    codes = np.array(rows)[:, 1:]
    codes = np.where(codes == "", "-1", codes).astype(int)
    return make_responses(codes[:, np.ptp(codes, axis=0) > 0])


@pytest.mark.parametrize("model", [ItemModel.ONE_PL, ItemModel.TWO_PL, ItemModel.THREE_PL])
def test_a_prediction_is_the_integral_over_the_posterior(small, model):
    responses, held_out = small
    training = responses.without(held_out)
    found = predict_marginally(training, model)
    theta = np.linspace(-8, 8, 4001)
    chance = category_probabilities(found.fit.parameters, theta[:, None])[1]
    likelihood = np.ones((len(responses.targets), len(theta)))
    for item, codes in enumerate(training.codes.T):
        likelihood[codes == 1] *= chance[:, item]
        likelihood[codes == 0] *= 1 - chance[:, item]
    weight = likelihood * np.exp(-(theta**2) / 2)
    expected = weight @ chance / weight.sum(axis=1, keepdims=True)
    assert np.allclose(found.probabilities, expected, atol=1e-6)


def test_several_dimensions_are_scored_as_the_engine_scores_them(small):
    responses, held_out = small
    loss = fit_held_out(responses, TWO_DIMENSIONS, held_out, restart=3, seed=5)
    settings = DimensionalSettings(first_start=3, likelihood=False, seed=5)
    fit = fit_multidimensional(responses, 2, settings, held_out=held_out)
    assert (loss.log_loss, loss.brier) == (fit.held_out.log_loss, fit.held_out.brier)
    assert loss.training_loss == fit.restart_losses[0]
    assert loss.cells == fit.held_out.cells == held_out.sum()


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name + str(model.marginal))
def test_the_loss_lies_near_that_of_the_true_chances(model):
    codes, chance = draw(2, targets=150, items=100)
    responses = make_responses(codes)
    held_out = split_responses(responses, splits=1)[0]
    least = mean_loss(responses.without(~held_out), chance)
    loss = fit_held_out(responses, model, held_out).log_loss
    assert least - 0.01 < loss < least + 0.03
    constant = mean_loss(responses.without(~held_out), np.full(codes.shape, codes.mean()))
    assert loss < constant - 0.1


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name + str(model.marginal))
def test_items_and_targets_without_training_cells_are_predicted(model):
    codes, _ = draw(3)
    codes[:, 1] = 1
    codes[0, 1] = 0
    responses = make_responses(codes)
    held_out = np.zeros(codes.shape, bool)
    held_out[:, 0] = True  # no training cell for the item
    held_out[0] = True  # nor for the target; item 1 is constant in training
    loss = fit_held_out(responses, model, held_out)
    assert 0 < loss.log_loss < 1.5
    assert 0 < loss.brier < 0.5
    assert loss.cells == held_out.sum()


def test_an_item_without_training_cells_has_the_rate_of_all_items():
    codes, _ = draw(4)
    codes[:, 0] = -1
    training = make_responses(codes)
    found = predict_marginally(training, ItemModel.TWO_PL)
    rate = (codes == 1).sum() / (codes >= 0).sum()
    assert found.probabilities[:, 0] == pytest.approx(rate, abs=1e-4)
    assert smoothed_rates(training)[0] == pytest.approx(rate, abs=1e-4)


def test_a_target_without_training_cells_is_one_of_the_population():
    codes, _ = draw(5)
    codes[7] = -1
    found = predict_marginally(make_responses(codes), ItemModel.TWO_PL)
    theta = np.linspace(-8, 8, 2001)
    chance = category_probabilities(found.fit.parameters, theta[:, None])[1]
    weight = np.exp(-(theta**2) / 2)
    assert np.allclose(found.probabilities[7], weight @ chance / weight.sum(), atol=1e-6)


def test_responses_that_never_differ_are_predicted_by_their_rate():
    codes = np.ones((6, 4), int)
    codes[0, 0] = 0
    held_out = np.zeros(codes.shape, bool)
    held_out[0, 0] = held_out[1, 1] = True
    loss = fit_held_out(make_responses(codes), TWO_PL, held_out)
    assert loss.converged
    assert loss.cycles == 0
    assert 0.5 < loss.log_loss < 3


def test_two_targets_will_do():
    codes = np.array([[0, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 0]])
    held_out = np.zeros(codes.shape, bool)
    held_out[0, :2] = True
    for model in EVERY[:-1]:
        assert np.isfinite(fit_held_out(make_responses(codes), model, held_out).log_loss)
    with pytest.raises(InputError, match="2 dimensions are asked of 2 targets"):
        fit_held_out(make_responses(codes), TWO_DIMENSIONS, held_out)


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name + str(model.marginal))
def test_the_order_of_targets_and_items_does_not_matter(small, model):
    responses, held_out = small
    rows, columns = (np.random.default_rng(6).permutation(n) for n in responses.codes.shape)
    turned = make_responses(responses.codes[rows][:, columns])
    first = fit_held_out(responses, model, held_out)
    second = fit_held_out(turned, model, held_out[rows][:, columns])
    assert first.log_loss == pytest.approx(second.log_loss, abs=1e-5)
    assert first.brier == pytest.approx(second.brier, abs=1e-5)


def test_hidden_cells_do_not_reach_the_fit(small):
    responses, held_out = small
    flipped = make_responses(np.where(held_out, 1 - responses.codes, responses.codes))
    for model in EVERY:
        first, second = (fit_held_out(data, model, held_out) for data in (responses, flipped))
        assert first.training_loss == second.training_loss
        assert first.log_loss != second.log_loss


def test_the_loose_tolerance_does_not_move_a_loss(harmbench):
    held_out = split_responses(harmbench, splits=1)[0]
    training = harmbench.without(held_out)
    hidden = harmbench.without(~held_out)
    for model in (ItemModel.TWO_PL, ItemModel.THREE_PL):
        rough, exact = (
            mean_loss(hidden, predict_marginally(training, model, tolerance=size).probabilities)
            for size in (HELD_OUT_TOLERANCE, 1e-5)
        )
        assert rough == pytest.approx(exact, abs=1e-4)


def test_a_mask_must_fit_and_hide_something(small):
    responses, held_out = small
    with pytest.raises(InputError, match="holds out no response"):
        fit_held_out(responses, TWO_PL, np.zeros_like(held_out))
    with pytest.raises(InputError, match="another shape"):
        fit_held_out(responses, TWO_PL, held_out[:, 1:])
