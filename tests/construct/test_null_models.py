"""Data sets of one dimension look like the observed ones, but for their dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.dimensions.models import CandidateModel, candidate_models
from safemetry.construct.dimensions.null_models import (
    OneDimension,
    as_one_dimension,
    draw_abilities,
    draw_items,
    fit_one_dimension,
    simulate_one_dimension,
)
from safemetry.errors import InputError
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.parameters import ItemModel, ItemParameters
from safemetry.irt.responses import make_responses
from safemetry.simulate import MatrixSettings, simulate_matrix

ONE_PL, TWO_PL, THREE_PL, VARIATIONAL = candidate_models(["a", "b"], max_dims=1)


def skewed(rng, targets=60, items=120, missing=0.0):
    """Abilities with a long tail to the left, as those of released models have."""
    theta = 1 - rng.gamma(1.0, 1.0, targets)
    chance = 1 / (1 + np.exp(-1.5 * theta[:, None] - rng.normal(0, 1.2, items)))
    codes = np.where(rng.random(chance.shape) < chance, 1, 0)
    return make_responses(np.where(rng.random(chance.shape) < missing, -1, codes)), theta


def rates(responses, axis):
    return (responses.codes == 1).sum(axis=axis) / responses.observed.sum(axis=axis)


@pytest.mark.parametrize("model", [ONE_PL, TWO_PL, THREE_PL, VARIATIONAL], ids=lambda m: m.name)
def test_simulated_sets_keep_pass_rates_scores_and_missing_cells(model):
    observed, _ = skewed(np.random.default_rng(1), missing=0.1)
    null = fit_one_dimension(observed, model)
    rng = np.random.default_rng(2)
    drawn = [simulate_one_dimension(observed, null, rng) for _ in range(10)]
    assert all((held.observed == observed.observed).all() for held in drawn)
    assert all(held.items == observed.items and held.targets == observed.targets for held in drawn)
    by_item = np.mean([rates(held, 0) for held in drawn], axis=0)
    by_target = np.mean([rates(held, 1) for held in drawn], axis=0)
    assert np.corrcoef(by_item, rates(observed, 0))[0, 1] > 0.97
    assert np.abs(by_item - rates(observed, 0)).mean() < 0.03
    assert np.abs(by_target - rates(observed, 1)).mean() < 0.03


def test_abilities_from_the_posterior_keep_a_tail_that_the_population_has_not():
    observed, theta = skewed(np.random.default_rng(3), targets=200)
    null = fit_one_dimension(observed, TWO_PL)
    rng = np.random.default_rng(4)

    def skewness(values):
        return float(((values - values.mean()) ** 3).mean() / values.std() ** 3)

    own = [skewness(draw_abilities(observed, null, rng)) for _ in range(20)]
    normal = [skewness(draw_abilities(observed, null, rng, "population")) for _ in range(20)]
    assert skewness(theta) < -1
    assert np.mean(own) < -0.5
    assert abs(np.mean(normal)) < 0.2


def test_a_simulated_item_varies_where_the_observed_one_does():
    rng = np.random.default_rng(5)
    codes = (rng.random((12, 40)) < 0.95).astype(int)
    codes[:, 0], codes[0, 1:], codes[1:3, 1:] = 1, 0, 1
    observed = make_responses(codes)
    items = ItemParameters(np.ones((40, 1)), np.full((40, 1), 4.0), np.zeros(40), np.ones(40))
    drawn = simulate_one_dimension(observed, OneDimension(items), rng)
    passed = (drawn.codes == 1).sum(axis=0)
    assert ((passed[1:] > 0) & (passed[1:] < 12)).all()


def test_items_are_drawn_from_their_posterior_where_it_is_known():
    observed, _ = skewed(np.random.default_rng(12))
    null = fit_one_dimension(observed, VARIATIONAL)
    rng = np.random.default_rng(13)
    drawn = [draw_items(null, rng) for _ in range(400)]
    slopes = np.array([items.slopes[:, 0] for items in drawn])
    intercepts = np.array([items.intercepts[:, 0] for items in drawn])
    spread = np.sqrt(np.array([np.diag(block) for block in null.item_covariance]))
    assert np.allclose(slopes.std(axis=0) / spread[:, 0], 1, atol=0.2)
    assert np.allclose(intercepts.std(axis=0) / spread[:, 1], 1, atol=0.2)
    assert np.abs(slopes.mean(axis=0) - null.parameters.slopes[:, 0]).max() < 0.2
    marginal = fit_one_dimension(observed, TWO_PL)
    assert draw_items(marginal, rng) is marginal.parameters


def test_guessing_survives_in_the_simulated_sets():
    settings = MatrixSettings(200, 40, model="3pl", guessing=0.3, discrimination=2.0, intercept=-1)
    observed = make_responses(simulate_matrix(settings, 6).outcomes)
    null = fit_one_dimension(observed, THREE_PL)
    assert null.parameters.lower.mean() == pytest.approx(0.3, abs=0.07)
    drawn = simulate_one_dimension(observed, null, np.random.default_rng(7))
    weakest = np.argsort(rates(observed, 1))[:20]
    assert rates(drawn, 1)[weakest].mean() == pytest.approx(
        rates(observed, 1)[weakest].mean(), abs=0.05
    )


def test_the_same_generator_draws_the_same_set():
    observed, _ = skewed(np.random.default_rng(8))
    null = fit_one_dimension(observed, VARIATIONAL)
    first, second = (
        simulate_one_dimension(observed, null, np.random.default_rng(9)) for _ in range(2)
    )
    other = simulate_one_dimension(observed, null, np.random.default_rng(10))
    assert (first.codes == second.codes).all()
    assert (first.codes != other.codes).any()


def test_several_dimensions_or_other_items_are_refused():
    observed, _ = skewed(np.random.default_rng(11), 20, 12)
    with pytest.raises(InputError, match="the null has one"):
        fit_one_dimension(observed, CandidateModel("2D", ItemModel.TWO_PL, 2))
    with pytest.raises(InputError, match="the null has one"):
        as_one_dimension(fit_multidimensional(observed, 2))
    null = fit_one_dimension(observed, VARIATIONAL)
    fewer = observed.select_items(np.arange(11))
    with pytest.raises(InputError, match="does not describe"):
        simulate_one_dimension(fewer, null, np.random.default_rng(0))
