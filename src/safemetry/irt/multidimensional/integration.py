"""Log-likelihood with the abilities integrated out, at given item parameters.

Adaptive Gauss-Hermite quadrature in up to three dimensions (Naylor & Smith 1982; Schilling & Bock
2005) and importance sampling with a multivariate t above (Pinheiro & Bates 1995), both centred at
each target's posterior mode and scaled by its curvature, so that they stay right where many items
make posteriors narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import expit, gammaln, logsumexp
from scipy.stats import chi2, norm, qmc

from safemetry.irt.multidimensional.symmetric import inverse
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses

_ADAPTIVE_DIMENSIONS = 3
_DEGREES = 8.0
_BATCHES = 8
_BLOCK_CELLS = 4_000_000


class LikelihoodKind(StrEnum):
    """How a log-likelihood was computed."""

    ADAPTIVE = "adaptive_quadrature"
    SAMPLED = "importance_sampling"
    GRID = "fixed_grid"


@dataclass(frozen=True)
class Marginal:
    """Integrals over the abilities of each target.

    Parameters
    ----------
    loglik
        Sum over targets of the log probability of their responses, weighted.
    error
        Standard error of `loglik` by simulation; by quadrature the change from fewer nodes.
    mode, mode_covariance
        Posterior mode and inverse curvature, shapes ``(N, K)`` and ``(N, K, K)``.
    mean, covariance
        Posterior mean (EAP) and covariance, same shapes.
    """

    loglik: float
    error: float
    kind: LikelihoodKind
    mode: FloatArray
    mode_covariance: FloatArray
    mean: FloatArray
    covariance: FloatArray


def integrate(
    responses: Responses,
    slopes: FloatArray,
    intercepts: FloatArray,
    correlations: FloatArray,
    *,
    draws: int = 512,
    seed: int = 0,
) -> Marginal:
    """Marginal log-likelihood and posterior moments of the abilities.

    Parameters
    ----------
    slopes, intercepts
        Shapes ``(J, K)`` and ``(J,)``.
    correlations
        Of the abilities, shape ``(K, K)``, positive definite.
    draws
        Points for each target above three dimensions: scrambled Sobol points, in pairs of opposite
        points.
    """
    size = slopes.shape[1]
    mode, covariance = posterior_modes(responses, slopes, intercepts, correlations)
    integral = _Integral(responses, slopes, intercepts, correlations, mode, covariance)
    if size <= _ADAPTIVE_DIMENSIONS:
        fine, mean, spread = integral.sum(*_hermite(_nodes(size), size))
        coarse = integral.sum(*_hermite(_nodes(size) - 2, size))[0]
        weights = responses.weights
        total = float(weights @ fine)
        error = abs(total - float(weights @ coarse))
        return Marginal(total, error, LikelihoodKind.ADAPTIVE, mode, covariance, mean, spread)
    batches = [
        integral.sum(*_student(draws // _BATCHES, size, seed + part)) for part in range(_BATCHES)
    ]
    each = np.array([batch[0] for batch in batches])
    share = np.exp(each - logsumexp(each, axis=0))
    fine = logsumexp(each, axis=0) - np.log(_BATCHES)
    mean = np.einsum("bi,bik->ik", share, np.array([batch[1] for batch in batches]))
    second = np.einsum(
        "bi,bikl->ikl",
        share,
        np.array([b[2] + b[1][:, :, None] * b[1][:, None, :] for b in batches]),
    )
    spread = second - mean[:, :, None] * mean[:, None, :]
    total = float(responses.weights @ fine)
    error = float((each @ responses.weights).std(ddof=1) / np.sqrt(_BATCHES))
    return Marginal(total, error, LikelihoodKind.SAMPLED, mode, covariance, mean, spread)


def posterior_modes(
    responses: Responses,
    slopes: FloatArray,
    intercepts: FloatArray,
    correlations: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Most probable abilities and inverse curvature there, by Newton steps with halving."""
    ones = (responses.codes == 1).astype(np.float64)
    observed = responses.observed.astype(np.float64)
    targets, size = len(ones), slopes.shape[1]
    prior = inverse(correlations)
    products = (slopes[:, :, None] * slopes[:, None, :]).reshape(len(slopes), -1)
    theta = np.zeros((targets, size))
    value = _energy(theta, ones, observed, slopes, intercepts, prior)
    for _ in range(100):
        chance = expit(theta @ slopes.T + intercepts)
        gradient = ((ones - chance) * observed) @ slopes - theta @ prior
        information = (chance * (1 - chance) * observed) @ products
        curvature = information.reshape(targets, size, size) + prior
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        length = np.ones(targets)
        for _ in range(30):
            reached = _energy(
                theta + length[:, None] * step, ones, observed, slopes, intercepts, prior
            )
            worse = reached < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            length[worse] *= 0.5
        theta = theta + np.where(worse, 0.0, length)[:, None] * step
        value = np.where(worse, value, reached)
        if np.abs(length[:, None] * step).max() < 1e-8:
            break
    return theta, inverse(curvature)


def _energy(
    theta: FloatArray,
    ones: FloatArray,
    observed: FloatArray,
    slopes: FloatArray,
    intercepts: FloatArray,
    prior: FloatArray,
) -> FloatArray:
    linear = theta @ slopes.T + intercepts
    cells = ones * linear - observed * np.logaddexp(0, linear)
    found: FloatArray = cells.sum(axis=1) - 0.5 * ((theta @ prior) * theta).sum(axis=1)
    return found


def _nodes(size: int) -> int:
    return {1: 21, 2: 9, 3: 6}[size]


def _hermite(count: int, size: int) -> tuple[FloatArray, FloatArray]:
    """Standard normal nodes, shape ``(Q, K)``, and log weights over their density kernel."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    mesh = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), axis=-1).reshape(-1, size)
    logs = np.log(weights) + 0.5 * np.square(nodes)
    spread = np.stack(np.meshgrid(*[logs] * size, indexing="ij"), axis=-1).reshape(-1, size)
    return mesh, spread.sum(axis=1)


def _student(count: int, size: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Points of a multivariate t, and their log weights.

    The weights integrate the normal density to 1 exactly, so that what is left to chance is how far
    posteriors depart from normal ones.
    """
    half = 2 ** int(np.ceil(np.log2(max(count, 4) / 2)))
    sobol = qmc.Sobol(size + 1, rng=np.random.default_rng(seed)).random(half)
    sobol = np.clip(sobol, 1e-9, 1 - 1e-9)
    normal = norm.ppf(sobol[:, :size])
    points = normal * np.sqrt(_DEGREES / chi2.ppf(sobol[:, -1], _DEGREES))[:, None]
    points = np.concatenate([points, -points])
    density = (
        gammaln((_DEGREES + size) / 2)
        - gammaln(_DEGREES / 2)
        - 0.5 * size * np.log(_DEGREES * np.pi)
        - 0.5 * (_DEGREES + size) * np.log1p(np.square(points).sum(axis=1) / _DEGREES)
    )
    logs = -density
    total = logsumexp(logs - 0.5 * np.square(points).sum(axis=1))
    return points, logs - total + 0.5 * size * np.log(2 * np.pi)


@dataclass(frozen=True)
class _Integral:
    responses: Responses
    slopes: FloatArray
    intercepts: FloatArray
    correlations: FloatArray
    mode: FloatArray
    covariance: FloatArray

    def sum(
        self, points: FloatArray, log_weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log integral, posterior mean and covariance of each target."""
        targets, size = self.mode.shape
        root = np.linalg.cholesky(self.covariance)
        ones = (self.responses.codes == 1).astype(np.float64)
        observed = self.responses.observed.astype(np.float64)
        prior = inverse(self.correlations)
        constant = -0.5 * size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(self.correlations)[1]
        logs = np.empty(targets)
        mean = np.empty((targets, size))
        spread = np.empty((targets, size, size))
        block = max(1, _BLOCK_CELLS // (len(points) * len(self.intercepts)))
        for first in range(0, targets, block):
            part = slice(first, first + block)
            theta = self.mode[part, None, :] + points @ root[part].transpose(0, 2, 1)
            linear = theta @ self.slopes.T + self.intercepts
            cells = (linear @ ones[part, :, None])[:, :, 0]
            np.logaddexp(0, linear, out=linear)
            cells -= (linear @ observed[part, :, None])[:, :, 0]
            height = cells - 0.5 * ((theta @ prior) * theta).sum(axis=2) + log_weights
            logs[part] = logsumexp(height, axis=1) + constant
            logs[part] += np.log(np.diagonal(root[part], axis1=1, axis2=2)).sum(axis=1)
            share = np.exp(height - height.max(axis=1, keepdims=True))
            share /= share.sum(axis=1, keepdims=True)
            mean[part] = (share[:, None, :] @ theta)[:, 0]
            away = theta - mean[part, None, :]
            spread[part] = (away * share[:, :, None]).transpose(0, 2, 1) @ away
        return logs, mean, spread
