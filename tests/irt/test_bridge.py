"""The cross-check with another program: what it compares, and where it cannot."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from safemetry.errors import InputError, MissingExtraError
from safemetry.irt.bridge import cross_check, marginal_log_likelihood
from safemetry.irt.parameters import ItemModel, ItemParameters
from safemetry.irt.responses import make_responses

INSTALLED = importlib.util.find_spec("mirt") is not None


@pytest.fixture
def peer(monkeypatch):
    """Stands in for the package, with the names that its version 1.2 has."""
    module = ModuleType("mirt")
    module.__version__ = "1.2.0"
    module.asked = {}

    def fit_mirt(data, model, **settings):
        module.asked = {"model": model, "data": data, **settings}
        return SimpleNamespace(
            model=SimpleNamespace(parameters=module.parameters),
            log_likelihood=module.stated,
            converged=module.converged,
        )

    def fscores(fit, data, **settings):
        return SimpleNamespace(theta=np.zeros(len(data)))

    module.fit_mirt, module.fscores = fit_mirt, fscores
    module.converged = True
    monkeypatch.setitem(sys.modules, "mirt", module)
    return module


@pytest.mark.parametrize("fit", ["LSAT7_2PL", "LSAT7_3PLprior", "SAT12_2PL_tight"])
def test_the_log_likelihood_agrees_with_the_oracle(oracle, fit):
    rows = {row["fit"]: row for row in oracle.rows("summary_logLik_AIC_BIC")}
    found = marginal_log_likelihood(oracle.responses(fit.split("_")[0]), oracle.parameters(fit))
    if fit == "LSAT7_3PLprior":  # that of the oracle includes its prior
        assert abs(found - float(rows[fit]["logLik"])) < 20
    else:
        assert abs(found - float(rows[fit]["logLik"])) < 1e-3


def test_the_lattice_is_fine_enough_for_many_items(simulated):
    parameters, _, responses = simulated(6, 1000, np.random.default_rng(0))
    found = marginal_log_likelihood(responses, parameters)
    by_target = [
        marginal_log_likelihood(make_responses(row[None]), parameters) for row in responses.codes
    ]
    assert found == pytest.approx(sum(by_target), rel=1e-10)
    shifted = ItemParameters(
        parameters.slopes * 2.0, parameters.intercepts, parameters.lower, parameters.upper
    )
    assert marginal_log_likelihood(responses, shifted, sd=0.5) == pytest.approx(found, abs=1e-6)


def test_differences_are_ours_less_theirs(oracle, peer):
    parameters, responses = oracle.parameters("LSAT7_2PL"), oracle.responses("LSAT7")
    slopes = parameters.slopes[:, 0] + 0.1
    peer.parameters = {
        "discrimination": slopes,
        "difficulty": -(parameters.intercepts[:, 0] - 0.2) / slopes,
    }
    peer.stated = -2661.0
    found = cross_check(responses, parameters, np.full(1000, 0.5), ItemModel.TWO_PL)
    assert peer.asked["model"] == "2PL"
    assert peer.asked["n_quadpts"] == 61
    assert np.allclose(found.slope_differences, -0.1)
    assert np.allclose(found.intercept_differences, 0.2)
    assert np.allclose(found.ability_differences, 0.5)
    assert found.log_likelihood > found.peer_log_likelihood
    assert found.summary()["slope_max"] == pytest.approx(0.1)
    assert found.peer == "mirt 1.2.0"


def test_graded_items_keep_their_own_number_of_categories(oracle, peer):
    base = oracle.parameters("Science_graded")
    steps = base.intercepts.copy()
    steps[0, 2] = -np.inf
    parameters = ItemParameters(base.slopes, steps, base.lower, base.upper)
    responses = oracle.responses("Science_polytomous")
    codes = responses.codes.copy()
    codes[:, 0] = np.minimum(codes[:, 0], 2)
    thresholds = np.where(np.isfinite(steps), -steps / base.slopes, 0.0)
    peer.parameters = {"discrimination": base.slopes[:, 0], "thresholds": thresholds}
    peer.stated = -1600.0
    found = cross_check(make_responses(codes), parameters, np.zeros(392), ItemModel.GRADED)
    assert np.abs(found.intercept_differences).max() < 1e-12
    assert found.peer_log_likelihood == pytest.approx(found.log_likelihood)


def test_what_a_difference_means_is_said(oracle, peer):
    parameters, responses = oracle.parameters("LSAT7_2PL"), oracle.responses("LSAT7")
    worse = ItemParameters(
        parameters.slopes, parameters.intercepts + 0.3, parameters.lower, parameters.upper
    )
    slopes, steps = parameters.slopes[:, 0].copy(), parameters.intercepts[:, 0]
    peer.parameters = {"discrimination": slopes, "difficulty": -steps / slopes}
    peer.stated, peer.converged = -2000.0, False
    said = " ".join(cross_check(responses, worse, np.zeros(1000), ItemModel.TWO_PL).warnings)
    assert "did not converge" in said
    assert "higher than ours" in said
    assert "its nodes are too far apart" in said
    peer.parameters["difficulty"][4] = -6.0
    said = " ".join(cross_check(responses, parameters, np.zeros(1000), ItemModel.TWO_PL).warnings)
    assert "1 difficulties of the peer lie at its limit of 6" in said


def test_what_the_peer_cannot_fit_is_refused(oracle, peer, simulated):
    parameters, responses = oracle.parameters("LSAT7_2PL"), oracle.responses("LSAT7")
    with pytest.raises(InputError, match="no model like rasch"):
        cross_check(responses, parameters, np.zeros(1000), ItemModel.RASCH)
    weighted = make_responses(responses.codes, weights=np.full(1000, 2.0))
    with pytest.raises(InputError, match="no weights"):
        cross_check(weighted, parameters, np.zeros(1000), ItemModel.TWO_PL)
    plane, _, drawn = simulated(10, 4, np.random.default_rng(0), dimensions=2)
    with pytest.raises(InputError, match="one dimension"):
        cross_check(drawn, plane, np.zeros(10), ItemModel.TWO_PL)


@pytest.mark.skipif(INSTALLED, reason="the package is installed")
def test_without_the_package_the_install_line_is_given(oracle):
    parameters, responses = oracle.parameters("LSAT7_2PL"), oracle.responses("LSAT7")
    with pytest.raises(MissingExtraError, match=r"pip install 'safemetry\[mirt\]'"):
        cross_check(responses, parameters, np.zeros(1000), ItemModel.TWO_PL)


@pytest.mark.skipif(not INSTALLED, reason="needs the extra mirt")
def test_the_package_finds_the_same(oracle, posterior_means):
    parameters, responses = oracle.parameters("LSAT7_2PL"), oracle.responses("LSAT7")
    means, _ = posterior_means(responses, parameters)
    found = cross_check(responses, parameters, means, ItemModel.TWO_PL)
    assert abs(found.summary()["log_likelihood"]) < 0.01
    assert found.summary()["slope_max"] < 0.02
    assert found.summary()["ability_max"] < 0.01
    assert not found.warnings
