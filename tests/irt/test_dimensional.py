"""Fits in several dimensions: figures, recovery, invariances and hard cases."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.irt.multidimensional.crossvalidation import (
    best_restarts,
    cross_validate,
    split_responses,
)
from safemetry.irt.multidimensional.fit import count_parameters, fit_multidimensional
from safemetry.irt.multidimensional.hierarchy import HierarchicalPrior
from safemetry.irt.multidimensional.integration import LikelihoodKind
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.priors import ItemPriors, Normal
from safemetry.irt.responses import make_responses
from safemetry.irt.structure import bifactor, make_structure

POPULATION = np.array([[1, 0.785, 0.451], [0.785, 1, 0.603], [0.451, 0.603, 1]])
FACTOR = np.repeat([0, 1, 2], [199, 99, 100])
PAIRS = np.triu_indices(3, 1)
FAST = DimensionalSettings(likelihood=False)


def read_matrix(path) -> tuple[tuple[str, ...], np.ndarray]:
    with path.open() as lines:
        header, *rows = list(csv.reader(lines))
    return tuple(header), np.array(rows)


@pytest.fixture(scope="module")
def harmbench(shared):
    folder = shared / "data/helm_safety"
    header, rows = read_matrix(folder / "harmbench_matrix.csv")
    codes = np.where(rows[:, 1:] == "", "-1", rows[:, 1:]).astype(int)
    varied = np.ptp(codes, axis=0) > 0
    items = tuple(np.array(header[1:])[varied])
    responses = make_responses(codes[:, varied], targets=tuple(rows[:, 0]), items=items)
    kinds = dict(read_matrix(folder / "harmbench_items.csv")[1])
    return responses, make_structure(items, [kinds[name] for name in items])


@pytest.fixture(scope="module")
def sat12(shared):
    header, rows = read_matrix(shared / "oracle/data_SAT12.csv")
    return make_responses(rows.astype(int), items=header)


def three_factors(seed: int, targets: int = 81):
    """Responses, abilities, slopes and intercepts of the three-factor design."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((targets, 3)) @ np.linalg.cholesky(POPULATION).T
    slopes = np.eye(3)[FACTOR] * np.exp(rng.normal(0.2, 0.35, (398, 1)))
    intercepts = rng.normal(0.2, 1.2, 398)
    chance = expit(theta @ slopes.T + intercepts)
    responses = make_responses((rng.random(chance.shape) < chance).astype(int))
    return responses, theta, slopes, intercepts


@pytest.fixture(scope="module")
def peer_case():
    """The case s3 of the comparison with other programs: responses, mask, abilities."""
    rng = np.random.default_rng(20260103)
    theta = rng.standard_normal((81, 3)) @ np.linalg.cholesky(POPULATION).T
    held_out = rng.random((81, 398)) < 0.2
    slopes = np.zeros((398, 3))

    def draw(count):
        return np.exp(rng.normal(0.2, 0.35, count))

    def answer(items):
        chance = expit(theta @ slopes[items].T + intercepts[items])
        return (rng.random(chance.shape) < chance).astype(int)

    slopes[np.arange(398), FACTOR] = draw(398)
    intercepts = rng.normal(0.2, 1.2, 398)
    codes = answer(np.arange(398))
    while True:
        training = np.where(held_out, -1, codes)
        rare = np.minimum((training == 1).sum(axis=0), (training == 0).sum(axis=0)) < 2
        bad = np.flatnonzero(rare)
        if not len(bad):
            return make_responses(codes), held_out, theta
        slopes[bad, FACTOR[bad]] = draw(len(bad))
        intercepts[bad] = rng.normal(0.2, 1.2, len(bad))
        codes[:, bad] = answer(bad)


def design(responses):
    return make_structure(responses.items, [("a", "b", "c")[k] for k in FACTOR])


def test_exploratory_held_out_loss_on_the_peer_case(peer_case):
    responses, held_out, _ = peer_case
    fit = fit_multidimensional(responses, 3, FAST, held_out=held_out)
    # Item means .609, the best other program .539, true parameters .505.
    assert fit.held_out.cells == 6546
    assert fit.held_out.log_loss <= 0.531
    assert fit.converged


def test_confirmatory_fit_of_the_peer_case(peer_case):
    responses, held_out, theta = peer_case
    fit = fit_multidimensional(responses, design(responses), FAST, held_out=held_out)
    assert fit.held_out.log_loss <= 0.518
    realised = np.corrcoef(theta.T)[PAIRS]
    assert realised == pytest.approx([0.729, 0.271, 0.439], abs=5e-4)
    # The nearest other program reads .744 .296 .476, off by at most .037.
    assert np.abs(fit.factor_correlations[PAIRS] - realised).max() < 0.02


def test_harmbench_by_dimensions(harmbench):
    responses, structure = harmbench
    masks = split_responses(responses)
    models = [1, 2, 4, 6, 10, structure]
    fits = cross_validate(responses, models, masks, FAST)
    assert all(fit.converged for fit in fits)
    loss = [
        np.mean([fit.held_out.log_loss for fit in fits if fit.model == model])
        for model in range(len(models))
    ]
    # Targets, and in brackets what is reached: .298 [.295], .238 [.216], .255 [.217], .241 [.237].
    assert loss[0] <= 0.298
    assert min(loss[:5]) <= 0.238
    assert loss[4] <= 0.255
    assert loss[5] <= 0.241
    assert max(loss[3:5]) - min(loss[3:5]) < 0.005, "more dimensions than needed do no harm"


def test_factor_correlations_are_not_biased(study_size):
    sets = max(4, round(20 * study_size * 2))
    off = []
    for seed in range(sets):
        responses, theta, _, _ = three_factors(1000 + seed)
        fit = fit_multidimensional(responses, design(responses), FAST)
        off.append(fit.factor_correlations[PAIRS] - np.corrcoef(theta.T)[PAIRS])
    # 20 sets gave a bias of .007 .004 .011 with a spread of .02 .03 .02 between sets.
    assert np.abs(np.mean(off, axis=0)).max() < 0.05


def test_abilities_are_covered_and_slopes_recovered():
    inside, ratios = [], []
    for seed in range(4):
        responses, theta, slopes, _ = three_factors(2000 + seed)
        fit = fit_multidimensional(responses, design(responses), FAST)
        scaled = (theta - theta.mean(axis=0)) / theta.std(axis=0)
        error = np.sqrt(np.diagonal(fit.ability_covariance, axis1=1, axis2=2))
        inside.append(np.abs(fit.abilities - scaled) < 1.96 * error)
        realised = slopes.sum(axis=1) * theta.std(axis=0)[FACTOR]
        ratios.append(fit.parameters.slopes.sum(axis=1) / realised)
    # 972 intervals: a standard error of .7%, more for their dependence within a set.
    assert 0.92 < np.mean(inside) < 0.97
    # Single slopes are shrunk to each other, their mean is not: five percent with 81 targets.
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.08)


def test_two_dimensions_of_sat12_by_quadrature(sat12, shared):
    fit = fit_multidimensional(sat12, 2, DimensionalSettings(method="quadrature"))
    # The other program stops at -9441.98.
    assert fit.loglik == pytest.approx(-9441.93, abs=0.005)
    assert fit.loglik_kind is LikelihoodKind.GRID
    assert fit.converged
    assert fit.parameter_count == 95
    assert fit.aic == pytest.approx(19073.85, abs=0.02)
    rotated = fit.rotated("oblimin")
    expected = read_matrix(shared / "oracle/SAT12_2PL_2dim_loadings_oblimin.csv")[1]
    expected = expected[:, 1:3].astype(float)
    abilities = read_matrix(shared / "oracle/SAT12_2PL_2dim_fscores_oblimin_EAP.csv")[1]
    abilities = abilities[:, 1:].astype(float)
    found, eap = rotated.loadings.loadings, rotated.abilities
    if np.abs(found - expected).max() > np.abs(found[:, ::-1] - expected).max():
        found, eap = found[:, ::-1], eap[:, ::-1]
    off = np.abs(found - expected).max(axis=1)
    assert off[:31].max() < 0.01
    assert off[31] < 0.05
    assert rotated.loadings.correlations[0, 1] == pytest.approx(0.6106, abs=0.005)
    # Abilities differ by what the last item, whose slope is large, moves them.
    shown = len(abilities)
    assert np.abs(eap[:shown] - abilities[:, :2]).mean() < 0.01


def test_a_structure_by_quadrature_is_nested_in_the_exploratory_model(sat12):
    settings = DimensionalSettings(method="quadrature")
    halves = make_structure(sat12.items, ["first"] * 16 + ["second"] * 16)
    fit = fit_multidimensional(sat12, halves, settings)
    one = fit_multidimensional(sat12, 1, settings)
    assert one.loglik == pytest.approx(-9488.955, abs=0.01)
    # Another program ends at a correlation of 1 and -9494.44, below the one-dimensional model.
    assert one.loglik < fit.loglik < -9441.9
    assert 0.9 < fit.factor_correlations[0, 1] < 1


def test_one_slope_for_each_dimension(sat12):
    settings = DimensionalSettings(model="1pl", method="quadrature")
    fit = fit_multidimensional(sat12, 1, settings)
    assert fit.loglik == pytest.approx(-9643.4695, abs=2e-3)
    assert fit.parameter_count == 33
    responses, theta, _, _ = three_factors(7)
    variational = fit_multidimensional(
        responses, design(responses), DimensionalSettings(model="1pl", likelihood=False)
    )
    assert variational.converged
    for column in range(3):
        own = variational.parameters.slopes[column == FACTOR, column]
        assert np.ptp(own) < 1e-9
        assert 0.8 < own[0] < 1.7
    off = variational.factor_correlations - np.corrcoef(theta.T)
    assert np.abs(off).max() < 0.1


def test_variational_and_exact_fits_agree_where_both_are_possible(sat12):
    exact = fit_multidimensional(sat12, 1, DimensionalSettings(method="quadrature"))
    variational = fit_multidimensional(sat12, 1)
    assert exact.loglik > variational.loglik > exact.loglik - 30
    assert np.corrcoef(exact.abilities[:, 0], variational.abilities[:, 0])[0, 1] > 0.99


def test_order_of_targets_and_items_does_not_matter():
    responses, *_ = three_factors(11)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(81), rng.permutation(398)
    shuffled = make_responses(responses.codes[np.ix_(rows, columns)])
    fit = fit_multidimensional(responses, 3, FAST)
    again = fit_multidimensional(shuffled, 3, FAST)
    expected = fit.probabilities()[np.ix_(rows, columns)]
    assert again.probabilities() == pytest.approx(expected, abs=1e-6)
    assert again.parameters.slopes == pytest.approx(fit.parameters.slopes[columns], abs=1e-6)


def test_different_starts_end_in_the_same_place():
    responses, *_ = three_factors(12)
    fits = [
        fit_multidimensional(responses, 3, replace(FAST, first_start=start)) for start in range(4)
    ]
    for fit in fits[1:]:
        # The tolerance lets single probabilities differ by some thousandths.
        assert np.abs(fit.probabilities() - fits[0].probabilities()).max() < 0.03
    together = fit_multidimensional(responses, 3, replace(FAST, restarts=4))
    losses = [fit.restart_losses[0] for fit in fits]
    assert together.restart_losses == pytest.approx(losses)
    best = fits[int(np.argmin(losses))]
    assert together.abilities == pytest.approx(best.abilities)
    assert np.ptp(losses) < 5e-4


def test_a_rotation_changes_no_probability():
    responses, *_ = three_factors(13)
    fit = fit_multidimensional(responses, 3, FAST)
    turned = fit.rotated("oblimin")
    linear = fit.abilities @ fit.parameters.slopes.T
    assert turned.abilities @ turned.slopes.T == pytest.approx(linear, abs=1e-8)
    diagonal = np.diagonal(turned.ability_covariance, axis1=1, axis2=2)
    assert (diagonal > 0).all()
    second = (turned.abilities.T @ turned.abilities + turned.ability_covariance.sum(axis=0)) / 81
    assert second == pytest.approx(turned.loadings.correlations, abs=0.02)
    with pytest.raises(ValueError, match="confirmatory"):
        fit_multidimensional(responses, design(responses), FAST).rotated()


def test_repeated_targets_are_weights():
    responses, *_ = three_factors(14, targets=40)
    twice = make_responses(np.repeat(responses.codes, 2, axis=0))
    weighted = make_responses(responses.codes, weights=np.full(40, 2.0))
    fit = fit_multidimensional(weighted, 2)
    repeated = fit_multidimensional(twice, 2)
    assert fit.probabilities() == pytest.approx(repeated.probabilities()[::2], abs=1e-3)
    assert fit.loglik == pytest.approx(repeated.loglik, abs=0.5)


def test_a_bifactor_fit_has_uncorrelated_abilities():
    responses, *_ = three_factors(15)
    structure = bifactor(responses.items, [("a", "b", "c")[k] for k in FACTOR])
    fit = fit_multidimensional(responses, structure)
    assert fit.converged
    assert fit.factor_correlations == pytest.approx(np.eye(4))
    assert fit.loglik_kind is LikelihoodKind.SAMPLED
    assert (fit.parameters.slopes[~structure.mask] == 0).all()
    assert fit.parameter_count == 398 * 3


HARD = {
    "perfect scale": np.tril(np.ones((40, 40), int)),
    "all pass": np.ones((6, 5), int),
    "two targets": np.array([[0, 1, 1], [1, 0, 1]]),
    "almost nothing": np.array([[-1, -1], [-1, -1], [-1, 1]]),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_give_finite_answers(name):
    fit = fit_multidimensional(make_responses(HARD[name]), 1)
    numbers = [fit.parameters.slopes, fit.parameters.intercepts, fit.abilities,
               fit.ability_covariance, fit.factor_correlations, fit.probabilities(),
               fit.loglik, fit.aic, fit.bic()]  # fmt: skip
    assert all(np.isfinite(number).all() for number in numbers)
    if name != "perfect scale":
        assert any("same one from every target" in text for text in fit.warnings)


def test_mixed_hard_rows_and_columns_in_five_dimensions():
    codes = (np.random.default_rng(0).random((30, 12)) < 0.5).astype(int)
    codes[:, 0], codes[:, 1], codes[:, 2], codes[3:, 3] = 1, 0, -1, -1
    codes[0], codes[1], codes[2] = 1, 0, -1
    fit = fit_multidimensional(make_responses(codes), 5)
    assert np.isfinite(fit.probabilities()).all()
    assert np.isfinite(fit.loglik)
    assert any("no response" in text for text in fit.warnings)
    assert any("dimensions are empty" in text for text in fit.warnings)


def test_a_miskeyed_item_is_reported():
    responses, *_ = three_factors(16)
    codes = responses.codes.copy()
    codes[:, 5] = 1 - codes[:, 5]
    fit = fit_multidimensional(make_responses(codes), design(responses), FAST)
    assert fit.parameters.slopes[5, 0] < 0
    assert any("negative slope" in text for text in fit.warnings)


def test_what_was_not_asked_for_is_absent():
    responses, *_ = three_factors(17, targets=20)
    fit = fit_multidimensional(responses, 1, FAST)
    assert fit.loglik is fit.loglik_kind is fit.aic is fit.bic() is fit.held_out is None
    assert fit.settings["priors"]["kind"] == "HierarchicalPrior"
    assert fit.settings["priors"]["slope_sd"] == HierarchicalPrior().slope_sd


@pytest.mark.parametrize(
    ("codes", "dims", "settings", "word"),
    [
        (np.array([[0, 1], [2, 0], [1, 1]]), 1, {}, "3 categories"),
        (np.eye(3, dtype=int), 3, {}, "3 dimensions are asked of 3 targets"),
        (np.eye(4, dtype=int), 2, {"model": "1pl"}, "nothing tells"),
        (np.eye(4, dtype=int), 1, {"model": "3pl"}, "one dimension only"),
        (np.eye(4, dtype=int), 1, {"restarts": 0}, "restarts"),
        (np.eye(4, dtype=int), 1, {"method": "guess"}, "no method"),
        (np.eye(4, dtype=int), 1, {"priors": ItemPriors()}, "takes a HierarchicalPrior"),
        (np.eye(4, dtype=int), 1, {"method": "quadrature", "priors": ItemPriors()}, "normal prior"),
    ],
)
def test_impossible_requests_are_refused(codes, dims, settings, word):
    with pytest.raises(InputError, match=word):
        fit_multidimensional(make_responses(codes), dims, DimensionalSettings(**settings))


def test_quadrature_refuses_posteriors_too_narrow_for_a_lattice():
    responses, *_ = three_factors(18)
    with pytest.raises(InputError, match="use the variational method"):
        fit_multidimensional(responses, 3, DimensionalSettings(method="quadrature"))


def test_quadrature_with_a_prior_shrinks_slopes(sat12):
    small = sat12.select_items(np.arange(10))
    prior = ItemPriors(slope=Normal(0.0, 0.5), intercept=None)
    free = fit_multidimensional(small, 1, DimensionalSettings(method="quadrature"))
    held = fit_multidimensional(small, 1, DimensionalSettings(method="quadrature", priors=prior))
    assert np.square(held.parameters.slopes).sum() < np.square(free.parameters.slopes).sum()
    assert held.loglik < free.loglik


def test_parameters_are_counted():
    structure = make_structure(list("pqrs"), ["x", "x", "y", ("x", "y")])
    assert count_parameters(32, 2, "2pl") == 95
    assert count_parameters(32, 1, "1pl") == 33
    assert count_parameters(4, structure, "2pl") == 4 + 5 + 1
    assert count_parameters(4, structure, "1pl") == 4 + 2 + 1


def test_restarts_and_splits_are_ordered_and_the_best_are_chosen():
    responses, *_ = three_factors(19, targets=30)
    masks = split_responses(responses, splits=2)
    assert masks.shape == (2, 30, 398)
    assert masks.sum(axis=(1, 2)).tolist() == [2388, 2388]
    fits = cross_validate(responses, [1, 2], masks, DimensionalSettings(restarts=2))
    assert [(fit.model, fit.split, fit.restart) for fit in fits] == list(np.ndindex(2, 2, 2))
    best = best_restarts(fits)
    assert [(fit.model, fit.split) for fit in best] == list(np.ndindex(2, 2))
    assert best[0].training_loss == min(fits[0].training_loss, fits[1].training_loss)
    with pytest.raises(InputError, match="holds out no response"):
        cross_validate(responses, [1], np.zeros((1, 30, 398), bool))
