"""Abilities: published estimates, extreme response patterns, and draws from posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.ability import ability_posterior, estimate_abilities, plausible_values
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses

RASCH = ItemParameters(np.ones((5, 1)), np.linspace(2, -2, 5)[:, None], np.zeros(5), np.ones(5))


@pytest.mark.parametrize("fit", ["LSAT6_2PL_tight", "SAT12_2PL_tight", "LSAT7_3PLprior"])
def test_published_abilities(oracle, fit):
    """At the table's own parameters: posterior means, modes and their errors to 1e-4."""
    responses = oracle.responses(fit.split("_", maxsplit=1)[0])
    found = oracle.numbers(f"{fit}_fscores_first200")
    for method, column in (("eap", 0), ("map", 2)):
        ours = estimate_abilities(oracle.parameters(fit), responses, method=method)
        assert np.allclose(ours.estimates[:200], found[:, column], atol=1e-4)
        assert np.allclose(ours.standard_errors[:200], found[:, column + 1], rtol=1e-3)
    if "2PL" in fit:
        ours = estimate_abilities(oracle.parameters(fit), responses, method="wle")
        assert np.allclose(ours.estimates[:200], found[:, 6], atol=1e-4)


def test_published_abilities_of_graded_items(oracle):
    found = oracle.numbers("Science_graded_fscores_all")
    responses = oracle.responses("Science_polytomous")
    for method, column in (("eap", 0), ("map", 2), ("wle", 6)):
        ours = estimate_abilities(oracle.parameters("Science_graded"), responses, method=method)
        assert np.allclose(ours.estimates, found[:, column], atol=2e-4)


@pytest.mark.parametrize("count", [5, 10, 20, 40, 85])
def test_one_target_and_a_bank_with_guessing(oracle, count):
    """Warm's estimate (WL) and the mode (BM) of a single target, from another program."""
    bank = oracle.numbers("data_tcals_catR", "a", "b", "c", "d")[:count]
    given = oracle.numbers("catR_tcals_responses", "resp")[:count, 0].astype(int)
    parameters = ItemParameters(bank[:, :1], -bank[:, :1] * bank[:, 1:2], bank[:, 2], bank[:, 3])
    rows = oracle.rows("catR_thetaEst_semTheta")
    for method, name in (("wle", "WL"), ("map", "BM"), ("eap", "EAP")):
        row = next(row for row in rows if (int(row["n"]), row["method"]) == (count, name))
        ours = estimate_abilities(parameters, make_responses(given[None]), method=method)
        # That program integrates from -4 to 4, which moves its mean by 2e-4.
        assert ours.estimates[0] == pytest.approx(float(row["theta"]), abs=5e-4)
        if method == "wle":
            assert ours.standard_errors[0] == pytest.approx(float(row["se"]), rel=0.002)


@pytest.mark.parametrize("method", ["eap", "map", "wle"])
def test_every_pattern_has_a_finite_ability(method):
    patterns = np.array([[1] * 5, [0] * 5, [-1] * 5, [1, 1, 1, 0, 0], [1, -1, -1, -1, -1]])
    found = estimate_abilities(RASCH, make_responses(patterns), method=method)
    assert np.isfinite(found.estimates).all()
    assert found.estimates[0] == pytest.approx(-found.estimates[1], abs=1e-6)
    assert found.estimates[2] == pytest.approx(0, abs=1e-9)
    assert found.standard_errors.mask[2] if method == "wle" else not found.at_bound.any()
    guessing = ItemParameters(RASCH.slopes, RASCH.intercepts, np.full(5, 0.25), np.full(5, 0.95))
    found = estimate_abilities(guessing, make_responses(patterns), method=method)
    assert np.isfinite(found.estimates).all()
    assert np.isfinite(found.standard_errors.compressed()).all()


def test_warm_is_less_biased_than_the_mode():
    """50 items, ability 2: the mean over 2,000 targets."""
    rng = np.random.default_rng(4)
    steps = rng.normal(size=(50, 1))
    items = ItemParameters(np.ones((50, 1)), steps, np.zeros(50), np.ones(50))
    codes = (rng.random((2000, 50)) < 1 / (1 + np.exp(-2 - steps[:, 0]))).astype(int)
    bias = {
        method: estimate_abilities(items, make_responses(codes), method=method).estimates.mean() - 2
        for method in ("wle", "map")
    }
    # The standard error of these means is about .01.
    assert abs(bias["wle"]) < 0.03
    assert bias["map"] < -0.2


def test_thousands_of_items_make_narrow_posteriors():
    rng = np.random.default_rng(2)
    slopes, steps = np.exp(rng.normal(0.2, 0.4, 5000)), rng.normal(0.3, 1.3, 5000)
    items = ItemParameters(slopes[:, None], steps[:, None], np.zeros(5000), np.ones(5000))
    theta = np.linspace(-2.5, 2.5, 60)
    codes = rng.random((60, 5000)) < 1 / (1 + np.exp(-np.outer(theta, slopes) - steps))
    responses = make_responses(codes.astype(int))
    eap, mode, warm = (
        estimate_abilities(items, responses, method=method) for method in ("eap", "map", "wle")
    )
    assert eap.standard_errors.max() < 0.06
    standard = (eap.estimates - theta) / eap.standard_errors
    assert np.sqrt(np.mean(standard**2)) == pytest.approx(1, abs=0.3)
    assert np.allclose(eap.estimates, mode.estimates, atol=2e-3)
    assert np.allclose(warm.estimates, mode.estimates, atol=0.01)


def test_a_wider_population_pulls_less():
    responses = make_responses([[1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
    narrow, wide = (estimate_abilities(RASCH, responses, latent_sd=sd) for sd in (0.5, 3.0))
    assert (np.abs(narrow.estimates) < np.abs(wide.estimates)).all()
    warm = [
        estimate_abilities(RASCH, responses, method="wle", latent_sd=sd).estimates
        for sd in (0.5, 3.0)
    ]
    assert np.allclose(*warm, atol=1e-3)


def test_plausible_values_follow_the_posterior():
    responses = make_responses([[1, 1, 1, 1, 1], [0, 1, 0, 1, -1], [0, 0, 0, 0, 0]])
    draws = plausible_values(RASCH, responses, 40_000, np.random.default_rng(5), latent_sd=1.5)
    eap = estimate_abilities(RASCH, responses, latent_sd=1.5)
    # Three errors of a mean of 40,000 draws with a deviation of about 1.
    assert np.allclose(draws.mean(axis=0), eap.estimates, atol=0.015)
    assert np.allclose(draws.std(axis=0), eap.standard_errors, rtol=0.02)
    again = plausible_values(RASCH, responses, 3, np.random.default_rng(5))
    assert np.array_equal(again, plausible_values(RASCH, responses, 3, np.random.default_rng(5)))


def test_the_posterior_is_normalised():
    posterior = ability_posterior(RASCH, make_responses([[1, 0, 1, 0, -1]]))
    assert posterior.weights.sum() == pytest.approx(1)
    assert posterior.edge_mass < 1e-8


def test_what_cannot_be_estimated_is_refused():
    responses = make_responses([[1, 0, 1, 0, 1]])
    with pytest.raises(InputError, match="unknown method"):
        estimate_abilities(RASCH, responses, method="ml")
    with pytest.raises(InputError, match="5 calibrated items for responses to 4"):
        estimate_abilities(RASCH, make_responses([[1, 0, 1, 0]]))
    with pytest.raises(InputError, match="beyond its calibrated categories"):
        estimate_abilities(RASCH, make_responses([[1, 0, 2, 0, 1]]))
    with pytest.raises(InputError, match="not above 0"):
        estimate_abilities(RASCH, responses, latent_sd=0.0)
    two = ItemParameters(np.ones((5, 2)), RASCH.intercepts, RASCH.lower, RASCH.upper)
    with pytest.raises(InputError, match="several dimensions"):
        estimate_abilities(two, responses)
    with pytest.raises(InputError, match="at least one"):
        plausible_values(RASCH, responses, 0, np.random.default_rng(0))
