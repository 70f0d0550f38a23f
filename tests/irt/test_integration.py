"""Marginal log-likelihoods by adaptive quadrature and by importance sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from safemetry.irt.multidimensional import integration
from safemetry.irt.multidimensional.integration import LikelihoodKind, integrate
from safemetry.irt.responses import make_responses


def draw(targets: int, items: int, size: int, seed: int, missing: float = 0.1):
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.5, 0.6, (items, size))
    intercepts = rng.normal(0, 1, items)
    correlations = 0.4 + 0.6 * np.eye(size)
    theta = rng.standard_normal((targets, size)) @ np.linalg.cholesky(correlations).T
    codes = (rng.random((targets, items)) < expit(theta @ slopes.T + intercepts)).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    return make_responses(codes), slopes, intercepts, correlations


def by_brute_force(responses, slopes, intercepts, correlations) -> tuple[float, np.ndarray]:
    """Sum over a dense lattice, and posterior means."""
    axis = np.arange(-7, 7.01, 0.1)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = -0.5 * ((theta @ np.linalg.inv(correlations)) * theta).sum(axis=1)
    prior -= logsumexp(prior)
    linear = theta @ slopes.T + intercepts
    ones = (responses.codes == 1).astype(float)
    cells = ones @ linear.T - responses.observed @ np.logaddexp(0, linear).T + prior
    total = logsumexp(cells, axis=1)
    return float(responses.weights @ total), np.exp(cells - total[:, None]) @ theta


def test_two_dimensions_agree_with_a_dense_lattice():
    case = draw(40, 25, 2, seed=1)
    found = integrate(*case)
    loglik, means = by_brute_force(*case)
    # Nine nodes a dimension are exact for posteriors that are normal times a polynomial of degree
    # 17; what is left with 25 items is below a thousandth.
    assert found.loglik == pytest.approx(loglik, abs=2e-3)
    assert found.mean == pytest.approx(means, abs=1e-3)
    assert found.kind is LikelihoodKind.ADAPTIVE


def test_sampling_agrees_with_quadrature_within_its_error(monkeypatch):
    case = draw(40, 25, 2, seed=2)
    exact = integrate(*case)
    monkeypatch.setattr(integration, "_ADAPTIVE_DIMENSIONS", 1)
    sampled = integrate(*case, draws=2048)
    assert sampled.kind is LikelihoodKind.SAMPLED
    assert 0 < sampled.error < 0.3
    assert sampled.loglik == pytest.approx(exact.loglik, abs=4 * sampled.error)
    assert sampled.mean == pytest.approx(exact.mean, abs=0.02)
    assert sampled.covariance == pytest.approx(exact.covariance, abs=0.03)


def test_five_dimensions_do_not_depend_on_the_seed():
    case = draw(60, 120, 5, seed=3)
    found = [integrate(*case, seed=seed) for seed in range(4)]
    spread = np.std([result.loglik for result in found], ddof=1)
    # Eight batches give the error with 7 degrees of freedom, four seeds the spread with 3; a ratio
    # above 4 has a chance of about one in a thousand.
    assert spread < 4 * np.mean([result.error for result in found])


def test_narrow_posteriors_are_integrated_as_well():
    responses, slopes, intercepts, correlations = draw(5, 3000, 2, seed=4, missing=0)
    found = integrate(responses, slopes, intercepts, correlations)
    # With 3,000 items posteriors are normal (Laplace): relative error of order 1 / items.
    curvature = np.linalg.slogdet(found.mode_covariance)[1].sum() / 2
    theta = found.mode
    linear = theta @ slopes.T + intercepts
    cells = np.where(responses.codes == 1, linear, 0.0) - np.logaddexp(0, linear)
    prior = -0.5 * ((theta @ np.linalg.inv(correlations)) * theta).sum()
    prior -= 5 * 0.5 * np.linalg.slogdet(correlations)[1]
    assert found.loglik == pytest.approx(cells.sum() + prior + curvature, abs=0.05)
    assert found.error < 1e-3


def test_a_target_counted_twice_is_two_targets():
    responses, *parameters = draw(10, 8, 2, seed=5)
    doubled = make_responses(responses.codes, weights=np.full(10, 2.0))
    single = integrate(responses, *parameters).loglik
    assert integrate(doubled, *parameters).loglik == pytest.approx(2 * single)
