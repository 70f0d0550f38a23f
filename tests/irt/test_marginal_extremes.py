"""Responses that make a parameter infinite: a finite answer that says so, or a clear refusal."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS, ItemPriors, LogNormal, Normal
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

MODELS = ["rasch", "1pl", "2pl", "3pl", "4pl", "grm"]
SIGNED = ItemPriors(slope=Normal(1.0, 1.0))


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(3)
    ability = rng.normal(size=60)
    eta = np.outer(ability, np.exp(rng.normal(0.1, 0.3, 20))) + rng.normal(size=20)
    return (rng.random((60, 20)) < 1 / (1 + np.exp(-eta))).astype(int)


def assert_finite(fit):
    parameters, errors = fit.parameters, fit.errors
    steps = parameters.intercepts
    for figures in (
        parameters.slopes,
        parameters.lower,
        parameters.upper,
        steps[~np.isneginf(steps)],
        [fit.loglik, fit.objective, fit.latent_sd],
        fit.abilities.estimates,
        *(
            np.ma.compressed(found)
            for found in (
                errors.slopes,
                errors.intercepts,
                errors.difficulties,
                errors.lower,
                errors.upper,
                errors.covariance,
                fit.abilities.standard_errors,
            )
        ),
    ):
        assert np.isfinite(figures).all()


def assert_all_finite(matrix, model, priors, **choices):
    responses = make_responses(matrix)
    fit = fit_unidimensional(responses, ItemModel(model), priors, **choices)
    assert fit.converged
    assert_finite(fit)
    for method in ("eap", "map", "wle"):
        found = estimate_abilities(
            fit.parameters, responses, method=method, latent_sd=fit.latent_sd
        )
        assert np.isfinite(found.estimates).all()
        assert np.isfinite(found.standard_errors.compressed()).all()
    return fit


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("priors", [None, NO_PRIORS])
def test_targets_that_pass_or_fail_everything(codes, model, priors):
    if model == "4pl" and priors is NO_PRIORS:
        pytest.skip("four parameters without a prior take seconds on 60 targets")
    extreme = codes.copy()
    extreme[0], extreme[1] = 1, 0
    fit = assert_all_finite(extreme, model, priors)
    assert fit.abilities.estimates.argmax() == 0
    assert fit.abilities.estimates.argmin() == 1


@pytest.mark.parametrize("model", MODELS)
def test_an_item_that_separates_the_targets(codes, model):
    separating = codes.copy()
    total = codes.sum(axis=1)
    separating[:, 0] = total > np.median(total)
    assert_all_finite(separating, model, None)
    if model in ("2pl", "grm"):
        fit = assert_all_finite(separating, model, NO_PRIORS)
        assert fit.parameters.slopes[0, 0] == pytest.approx(20)
        assert fit.errors.slopes.mask[0, 0]
        assert any("perfect separation" in warning and "1" in warning for warning in fit.warnings)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("priors", [None, NO_PRIORS])
def test_an_item_with_three_responses(codes, model, priors):
    if model in ("3pl", "4pl") and priors is NO_PRIORS:
        pytest.skip("many parameters without a prior take seconds on 60 targets")
    sparse = codes.copy()
    sparse[3:, 5] = -1
    sparse[:3, 5] = [1, 0, 1]
    fit = assert_all_finite(sparse, model, priors)
    assert any("fewer than three" in warning for warning in fit.warnings) == (model != "grm")


@pytest.mark.parametrize("model", MODELS)
def test_constant_columns_need_a_prior(codes, model):
    constant = codes.copy()
    constant[:, 0], constant[:, 1] = 1, 0
    with pytest.raises(InputError, match=r"same response from every target: 2 items \(1, 2\)"):
        fit_unidimensional(make_responses(constant), ItemModel(model), NO_PRIORS)
    if model == "grm":
        with pytest.raises(InputError, match="drop the item"):
            fit_unidimensional(make_responses(constant), ItemModel(model))
    else:
        fit = assert_all_finite(constant, model, None)
        assert fit.parameters.intercepts[0, 0] > 2
        assert fit.parameters.intercepts[1, 0] < -1


@pytest.mark.parametrize("model", MODELS)
def test_no_information_at_all_is_refused(codes, model):
    for matrix, problem in (
        (codes[:1], "one target cannot calibrate"),
        (np.ones((9, 4), int), "every item has the same response"),
        (np.where(np.arange(20) == 4, -1, codes), "no response: item 5"),
    ):
        with pytest.raises(InputError, match=problem):
            fit_unidimensional(make_responses(matrix), ItemModel(model))


def test_more_categories_than_the_model_has_are_refused(codes):
    with pytest.raises(InputError, match=r"more categories than the 2pl model .*graded"):
        fit_unidimensional(make_responses(codes + (np.arange(20) == 7)))


def test_two_targets_and_a_ladder_of_items(codes):
    assert_all_finite(codes[:2], "2pl", None)
    ladder = (np.arange(20)[:, None] > np.arange(19)).astype(int)
    for model in MODELS[:5]:
        fit = assert_all_finite(ladder, model, None)
        assert (np.diff(fit.abilities.estimates) > 0).all()


def test_a_target_without_a_response_is_the_population(codes):
    matrix = np.vstack([codes, np.full((1, 20), -1)])
    fit = assert_all_finite(matrix, "2pl", None)
    assert fit.abilities.estimates[-1] == pytest.approx(0, abs=1e-6)
    assert fit.abilities.standard_errors[-1] == pytest.approx(1, abs=1e-4)
    assert any("no response at all: target 61" in warning for warning in fit.warnings)


def test_noise_has_no_ability():
    noise = (np.random.default_rng(3).random((100, 10)) < 0.5).astype(int)
    fit = assert_all_finite(noise, "1pl", None)
    assert any("do not differ" in warning for warning in fit.warnings)
    assert np.abs(fit.abilities.estimates).max() < 0.01


def test_a_wrong_key_is_reported_in_each_way(codes):
    wrong = codes.copy()
    wrong[:, [2, 6]] = 1 - wrong[:, [2, 6]]
    right = fit_unidimensional(make_responses(codes), priors=SIGNED, allow_negative=True)
    signed = assert_all_finite(wrong, "2pl", SIGNED, allow_negative=True)
    assert np.flatnonzero(signed.parameters.slopes[:, 0] < 0).tolist() == [2, 6]
    said = next(warning for warning in signed.warnings if "negative slope" in warning)
    assert "2 items (3, 7)" in said
    assert np.corrcoef(signed.abilities.estimates, right.abilities.estimates)[0, 1] > 0.99

    positive = assert_all_finite(wrong, "2pl", NO_PRIORS)
    said = next(warning for warning in positive.warnings if "slope held at 0" in warning)
    assert "2 items (3, 7)" in said
    assert positive.errors.slopes.mask[[2, 6]].all()

    log_normal = ItemPriors(slope=LogNormal(None, 0.5))
    assert (assert_all_finite(wrong, "2pl", log_normal).parameters.slopes > 0).all()


def test_most_slopes_are_positive_whatever_the_key(codes):
    turned = codes.copy()
    turned[:, :13] = 1 - turned[:, :13]
    fit = assert_all_finite(turned, "2pl", SIGNED, allow_negative=True)
    assert (fit.parameters.slopes[:13] > 0).all()
    assert (fit.parameters.slopes[13:] < 0).mean() > 0.8


def test_more_parameters_than_responses_tell_have_no_errors():
    rng = np.random.default_rng(1)
    pair = make_responses((rng.random((100, 2)) < 0.5).astype(int))
    fit = fit_unidimensional(pair, ItemModel.TWO_PL, NO_PRIORS)
    assert_finite(fit)
    assert fit.errors.slopes.mask.all()
