"""Rules that say how useful each item is next, as array functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.forms.adaptive.curves import LEAST_CHANCE
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NO_WEIGHT: Final = 1e-17
"""Share of the weight below which abilities at the ends of a lattice are left out."""


def kullback_leibler(
    look_up: csr_array, chances: FloatArray, log_chances: FloatArray, weights: FloatArray
) -> FloatArray:
    """Kullback-Leibler information of items between an estimate and weighted abilities.

    sum_q w_q sum_c P_c(t) [log P_c(t) - log P_c(theta_q)] at the estimate t (Chang & Ying 1996,
    where the weights are equal within an interval). With likelihoods or
    posteriors as weights it is the KL and KLP of Barrada, Olea, Ponsoda & Abad (2009).

    Parameters
    ----------
    look_up
        Interpolates the fine nodes at the estimates of n targets, shape ``(n, F)``.
    chances
        Of C categories at the fine nodes, shape ``(C, F, J)``.
    log_chances
        At the nodes, shape ``(J, C, Q)``.
    weights
        Over the nodes, shape ``(n, Q)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, J)``.
    """
    total = weights.sum(axis=1, keepdims=True)
    heavy = np.flatnonzero(weights.max(axis=0) > NO_WEIGHT * total.max())
    window = slice(int(heavy[0]), int(heavy[-1]) + 1)
    weights = weights[:, window]
    found = np.zeros((weights.shape[0], chances.shape[2]))
    for category, at_nodes in enumerate(chances):
        here = np.maximum(look_up @ at_nodes, LEAST_CHANCE)
        found += here * (total * np.log(here) - weights @ log_chances[:, category, window].T)
    return found


def interval_weights(nodes: FloatArray, theta: FloatArray, reach: FloatArray) -> FloatArray:
    """Share of each node's cell that lies within an interval around an ability.

    Parameters
    ----------
    nodes
        Equally spaced, shape ``(Q,)``.
    theta, reach
        Middle and half-width of each interval, shape ``(n,)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, Q)``, in units of the ability.
    """
    half = (nodes[1] - nodes[0]) / 2
    low = np.maximum(nodes - half, (theta - reach)[:, None])
    high = np.minimum(nodes + half, (theta + reach)[:, None])
    found: FloatArray = np.maximum(high - low, 0.0)
    return found


def strata_of(slopes: FloatArray, strata: int) -> IntArray:
    """Stratum of each item, 0 for the smallest slopes, of nearly equal sizes, shape ``(J,)``.

    Parameters
    ----------
    slopes
        Shape ``(J,)``; their size counts, not their sign.
    strata
        At least 1.
    """
    order = np.argsort(np.abs(slopes), kind="stable")
    found = np.empty(slopes.size, np.int64)
    found[order] = np.arange(slopes.size) * strata // slopes.size
    return found


def a_stratified(
    location: FloatArray, stratum: IntArray, theta: FloatArray, stage: int
) -> FloatArray:
    """Nearness of items of one stratum to abilities (Chang & Ying 1999).

    Early items have small slopes, which are kept from being used while little is known. Items of
    other strata come after all items of this one, the nearest strata first.

    Parameters
    ----------
    location
        Ability at which each item tells most, shape ``(J,)``.
    stratum
        Of each item, shape ``(J,)``.
    theta
        Shape ``(n,)``.
    stage
        The stratum whose turn it is.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, J)``, negative distances.
    """
    away = 1e3 * np.abs(stratum - stage)
    found: FloatArray = -(np.abs(location - theta[:, None]) + away)
    return found
