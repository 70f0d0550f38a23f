"""The exact marginal likelihood of a few dimensions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from safemetry.irt.multidimensional import quadrature
from safemetry.irt.multidimensional.quadrature import QuadratureStart, fit_quadrature
from safemetry.irt.priors import Normal
from safemetry.irt.responses import make_responses

MASK = np.array([[True, False]] * 6 + [[False, True]] * 6 + [[True, True]] * 2)


def draw(seed: int, targets: int = 200):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((targets, 2)) @ np.linalg.cholesky([[1, 0.5], [0.5, 1]]).T
    slopes = MASK * rng.uniform(0.8, 1.8, MASK.shape)
    codes = (rng.random((targets, 14)) < expit(theta @ slopes.T)).astype(int)
    codes[rng.random(codes.shape) < 0.1] = -1
    return make_responses(codes)


def rough(correlation: float = 0.2, **choices) -> QuadratureStart:
    correlations = np.array([[1, correlation], [correlation, 1]])
    return QuadratureStart(1.0 * MASK, np.zeros(14), correlations, MASK, **choices)


@pytest.mark.parametrize("free_slopes", [True, False])
def test_the_gradient_is_the_derivative(free_slopes):
    responses, start = draw(1), rough(free_slopes=free_slopes)
    layout = quadrature._layout(start)
    nodes, weights = quadrature._lattice(0.6, 2)
    priors = quadrature._Priors(Normal(None, 1.0), Normal(0.0, 2.0))
    objective = quadrature._Objective(responses, layout, nodes, weights, priors)
    x = layout.pack(start) + np.random.default_rng(2).normal(0, 0.1, len(layout.pack(start)))
    gradient = objective(x)[1]
    for place in range(len(x)):
        step = np.zeros_like(x)
        step[place] = 1e-5
        slope = (objective(x + step)[0] - objective(x - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-3)


def test_different_starts_end_at_the_same_maximum():
    responses = draw(3)
    near, far = (fit_quadrature(responses, rough(value)) for value in (0.3, -0.6))
    assert near.converged
    assert far.converged
    assert far.loglik == pytest.approx(near.loglik, abs=1e-3)
    assert far.slopes == pytest.approx(near.slopes, abs=0.02)
    assert far.correlations[0, 1] == pytest.approx(near.correlations[0, 1], abs=0.01)


def test_a_finer_lattice_changes_nothing(monkeypatch):
    responses = draw(4)
    fit = fit_quadrature(responses, rough())
    monkeypatch.setattr(quadrature, "_SPACING", 0.6)
    finer = fit_quadrature(responses, rough())
    assert finer.nodes > 1.8 * fit.nodes
    # The rectangle rule is off by 2 exp(-2 pi² / .9²) = 5e-11 of a normal posterior.
    assert finer.loglik == pytest.approx(fit.loglik, abs=1e-3)
    assert finer.slopes == pytest.approx(fit.slopes, abs=0.02)


def test_the_lattice_follows_posteriors_that_become_narrower():
    rng = np.random.default_rng(5)
    theta = rng.standard_normal((200, 1))
    codes = (rng.random((200, 30)) < expit(4 * theta + rng.normal(0, 2, 30))).astype(int)
    flat = QuadratureStart(np.full((30, 1), 0.3), np.zeros(30), np.eye(1))
    fit = fit_quadrature(make_responses(codes), flat)
    steep = QuadratureStart(fit.slopes, fit.intercepts, np.eye(1))
    again = fit_quadrature(make_responses(codes), steep)
    assert fit.converged
    assert fit.loglik == pytest.approx(again.loglik, abs=1e-3)


def test_correlations_that_are_not_estimated_stay():
    fit = fit_quadrature(draw(6), rough(0.0, correlated=False))
    assert fit.correlations == pytest.approx(np.eye(2))
    assert (fit.slopes[~MASK] == 0).all()


def test_standard_errors_of_one_dimension(oracle):
    responses = oracle.responses("LSAT7")
    items = len(responses.items)
    start = QuadratureStart(np.ones((items, 1)), np.zeros(items), np.eye(1))
    fit = fit_quadrature(responses, start)
    rows = oracle.rows("LSAT7_2PL_coef_SE_Oakes")
    expected = np.array([float(row["SE"]) for row in rows if row["par"] in {"a1", "d"}])
    found = np.sqrt(np.diagonal(fit.item_covariance, axis1=1, axis2=2))
    assert found.ravel() == pytest.approx(expected, rel=0.005)


def test_standard_errors_of_a_structure_are_those_of_repeated_data():
    fit = fit_quadrature(draw(7), rough())
    again = [fit_quadrature(draw(70 + k), rough()) for k in range(5)]
    spread = np.std([other.intercepts for other in again], axis=0, ddof=1)
    stated = np.sqrt(fit.item_covariance[:, -1, -1])
    # Fourteen spreads of 4 degrees of freedom each: their mean square has an error of 19%.
    assert np.sqrt(np.mean((spread / stated) ** 2)) == pytest.approx(1.0, abs=0.4)
    assert (fit.item_covariance[0, 1] == 0).all()
    assert fit_quadrature(draw(7), replace(rough(0.0), mask=None)).item_covariance is None
