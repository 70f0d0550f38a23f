"""Standard errors of items: three ways to the same numbers, and the curvature itself."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS, ItemPriors
from safemetry.irt.unidimensional import uncertainty
from safemetry.irt.unidimensional.coordinates import Layout
from safemetry.irt.unidimensional.grid import make_lattice, make_posterior
from safemetry.irt.unidimensional.likelihood import LogisticCells
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.irt.unidimensional.penalty import Penalty
from safemetry.irt.unidimensional.uncertainty import dense_information, item_covariance


def setting(responses, model, priors):
    fit = fit_unidimensional(responses, model, priors)
    layout = Layout(
        model,
        np.full(len(fit.items), 2),
        logarithmic=fit.priors.slope is not None,
        signed=False,
    )
    working = layout.working(fit.parameters, fit.latent_sd)
    return fit, layout, Penalty(layout, fit.priors), working


@pytest.mark.parametrize("model", [ItemModel.ONE_PL, ItemModel.TWO_PL])
@pytest.mark.parametrize("priors", [NO_PRIORS, ItemPriors()])
def test_information_is_the_curvature_of_the_marginal_likelihood(simulated, model, priors):
    _, _, responses = simulated(150, 6, np.random.default_rng(3))
    _, layout, penalty, working = setting(responses, model, priors)
    cells = LogisticCells(responses.codes, responses.weights)
    lattice = make_lattice(0.1, -6.5, 6.5)

    def posterior(place):
        values = cells.log_likelihood(layout.natural(place), lattice)
        return make_posterior(values, lattice.nodes, lattice.spacing)

    def gradient(place):
        return dense_information(cells, layout, penalty, place, posterior(place))[0]

    information = dense_information(cells, layout, penalty, working, posterior(working))[1]
    step = 1e-5
    for column in range(layout.parameter_count):
        along = np.zeros(layout.parameter_count)
        along[column] = step
        move = layout.spread(along)
        change = (gradient(working + move) - gradient(working - move)) / (2 * step)
        assert np.allclose(-change, information[:, column], atol=2e-3)


@pytest.mark.parametrize("model", [ItemModel.ONE_PL, ItemModel.TWO_PL])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_space_of_targets_gives_the_same_errors(simulated, model, missing, monkeypatch):
    rng = np.random.default_rng(12)
    _, _, responses = simulated(50, 300, rng)
    responses = responses.without(rng.random((50, 300)) < missing)
    _, layout, penalty, working = setting(responses, model, ItemPriors())
    cells = LogisticCells(responses.codes, responses.weights)
    lattice = make_lattice(0.08, -6.5, 6.5)
    posterior = make_posterior(
        cells.log_likelihood(layout.natural(working), lattice), lattice.nodes, lattice.spacing
    )
    free = np.ones(layout.parameter_count, bool)

    def errors():
        found = item_covariance(cells, layout, penalty, working, posterior, free)
        return np.sqrt(np.einsum("jpp->jp", found.blocks))

    monkeypatch.setattr(uncertainty, "WIDE", 1e9)
    dense = errors()
    monkeypatch.setattr(uncertainty, "DENSE_PARAMETERS", 0)
    assert errors() == pytest.approx(dense, rel=1e-4)
    monkeypatch.setattr(uncertainty, "MANY_ITEMS", 0)
    # Shifts and stretches alone: a little too small, by 1% with 300 items.
    two = errors()
    assert two == pytest.approx(dense, rel=0.03)
    assert (two < dense * 1.001).all()


def test_difficulty_errors_follow_the_delta_method(oracle):
    fit = fit_unidimensional(oracle.responses("SAT12"), ItemModel.TWO_PL, NO_PRIORS)
    rng = np.random.default_rng(0)
    for item in (0, 9, 20):
        mean = [fit.parameters.slopes[item, 0], fit.parameters.intercepts[item, 0]]
        draws = rng.multivariate_normal(mean, fit.errors.covariance[item] / 100, 40_000)
        spread = 10 * (-draws[:, 1] / draws[:, 0]).std()
        # Draws a tenth as wide are where the delta method is exact; 40,000 have an error of .4%.
        assert fit.errors.difficulties[item, 0] == pytest.approx(spread, rel=0.02)


@pytest.mark.slow
def test_item_intervals_cover_the_truth(simulated, study_size):
    """1,000 targets, 20 items: 95% intervals of a and d over repeated data sets."""
    repeats = max(10, round(200 * study_size))
    inside = []
    for seed in range(repeats):
        truth, _, responses = simulated(1000, 20, np.random.default_rng(seed))
        fit = fit_unidimensional(responses, ItemModel.TWO_PL, NO_PRIORS)
        for ours, true, error in (
            (fit.parameters.slopes, truth.slopes, fit.errors.slopes),
            (fit.parameters.intercepts, truth.intercepts, fit.errors.intercepts),
        ):
            inside.append(np.abs(ours - true) < 1.96 * error)
    # Items of a data set share the error of its scale: three errors of about 2 x 20 x 10 / 3 items.
    assert np.mean(inside) == pytest.approx(0.95, abs=3 * np.sqrt(0.05 * 0.95 / (13 * repeats)))
