"""The lattice of abilities over which likelihoods are integrated.

The rectangle rule on an equally spaced lattice integrates an analytic function with an error that
falls exponentially (Trefethen & Weideman 2014, The exponentially convergent trapezoidal rule): for
a Gaussian posterior of standard deviation s and a spacing h the relative error is
2 exp(-2 pi^2 s^2 / h^2), which is 5e-11 at h = .9 s and 1.4e-2 at h = 2 s. What matters is
therefore the spacing against the *narrowest* posterior, never a number of nodes: with 5,000 items a
posterior is about .03 wide, and 61 nodes between -6 and 6 miss it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.irt.parameters import FloatArray

REACH = 6.5
"""Abilities beyond this many standard deviations of the population are left out at first."""

FINE = 0.9
"""Spacing of the final lattice, in standard deviations of the narrowest posterior."""

ROUGH = 1.7
"""Spacing of the first steps (relative error about 2e-3)."""

COARSE = 1.3
"""Spacing while parameters are still far from the optimum (relative error about 2e-5)."""

TAIL = 8.0
"""The lattice reaches this many posterior standard deviations beyond every target."""

POLE = 1.4
"""Spacing times the steepest slope: the logistic function has its poles at pi / a off the axis,
which bounds the error by exp(-2 pi^2 / (a h))."""


@dataclass(frozen=True)
class Lattice:
    """Equally spaced abilities.

    Parameters
    ----------
    nodes
        Shape ``(Q,)``, ascending.
    spacing
        Distance between neighbours.
    """

    nodes: FloatArray
    spacing: float

    def halved(self) -> Lattice:
        """Every second node."""
        return Lattice(self.nodes[::2], 2 * self.spacing)


@dataclass(frozen=True)
class Posterior:
    """Distribution of each target's ability over the nodes.

    Parameters
    ----------
    nodes
        Shape ``(Q,)``, in units of the population's standard deviation.
    weights
        Shape ``(N, Q)``; each row sums to 1.
    log_evidence
        Logarithm of each target's marginal likelihood, shape ``(N,)``.
    mean, sd
        Of the abilities, shape ``(N,)``.
    """

    nodes: FloatArray
    weights: FloatArray
    log_evidence: FloatArray
    mean: FloatArray
    sd: FloatArray

    @property
    def edge_mass(self) -> float:
        """The largest posterior mass on the outermost two nodes."""
        return float(self.weights[:, [0, -1]].max())


def make_lattice(
    narrowest: float, low: float, high: float, *, steepest: float = 1.0, share: float = FINE
) -> Lattice:
    """A lattice that resolves a posterior.

    Parameters
    ----------
    narrowest
        Standard deviation of the narrowest posterior, > 0.
    low, high
        Range to cover.
    steepest
        Largest slope among the items that dominate a posterior.
    share
        Spacing in units of `narrowest`.

    Returns
    -------
    Lattice
        With a node at 0, so that halving the spacing keeps every node.
    """
    spacing = min(share * narrowest, POLE / max(steepest, 1e-9), (high - low) / 8)
    first, last = int(np.floor(low / spacing)), int(np.ceil(high / spacing))
    nodes: FloatArray = np.arange(first, last + 1, dtype=np.float64) * spacing
    return Lattice(nodes, spacing)


def make_posterior(
    log_likelihood: FloatArray, nodes: FloatArray, spacing: float, latent_sd: float = 1.0
) -> Posterior:
    """Posterior of abilities under a normal population with mean 0.

    Parameters
    ----------
    log_likelihood
        Of each target's responses at each node, shape ``(N, Q)``.
    nodes, spacing
        The lattice.
    latent_sd
        Standard deviation of the population.
    """
    scaled = nodes / latent_sd
    joint = log_likelihood - scaled * scaled / 2
    highest = joint.max(axis=1, keepdims=True)
    joint -= highest
    weights = np.exp(joint, out=joint)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    scale = np.log(spacing / latent_sd) - np.log(2 * np.pi) / 2
    evidence = (highest + np.log(total))[:, 0] + scale
    mean = weights @ nodes
    variance = weights @ (nodes * nodes) - mean * mean
    sharp = variance < 1e-3 * mean * mean
    if sharp.any():
        away = nodes[None, :] - mean[sharp, None]
        variance[sharp] = np.einsum("iq,iq->i", weights[sharp], away * away)
    return Posterior(nodes, weights, evidence, mean, np.sqrt(np.maximum(variance, 0.0)))


def discretisation_error(log_likelihood: FloatArray, lattice: Lattice) -> float:
    """How far the logarithm of any target's evidence moves if every second node is left out.

    The error of the whole lattice is about the fourth power of this (the exponent above is
    inversely proportional to h^2), so that a value of .05 means less than 1e-5.
    """
    half = lattice.halved()
    whole = make_posterior(log_likelihood, lattice.nodes, lattice.spacing)
    part = make_posterior(log_likelihood[:, ::2], half.nodes, half.spacing)
    return float(np.abs(whole.log_evidence - part.log_evidence).max())
