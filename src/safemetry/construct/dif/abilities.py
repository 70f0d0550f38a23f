"""Abilities of every target in thousands of simulated matrices, from tables.

With items of a two-parameter model and a normal population, the posterior of an ability depends on
the answers through one number only, the weighted score s = sum of a_j x_j (the sufficient statistic
of the model with known slopes; Birnbaum 1968, section 17.7): its log density is s theta + c(theta),
an exponential family. The posterior mean is therefore a smooth rising function of s whose
derivative is the posterior variance, and a cubic Hermite table of it is exact to about 1e-7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from safemetry.irt.unidimensional.grid import FINE, POLE, make_lattice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

_REACH: Final = 8.0
_TABLE: Final = 3072
"""Intervals of a table of scores."""


@dataclass(frozen=True)
class AbilityTables:
    """Posterior means as functions of the weighted score, one for each pattern of missing cells.

    Parameters
    ----------
    slopes, intercepts
        Of the J items, shape ``(J,)``.
    pattern
        Which table belongs to a target, shape ``(N,)``.
    lowest, step
        First score and distance of the scores of each table, shape ``(P,)``.
    means, variances
        Of the posterior at those scores, shape ``(P, G)``.
    """

    slopes: FloatArray
    intercepts: FloatArray
    pattern: IntArray
    lowest: FloatArray
    step: FloatArray
    means: FloatArray
    variances: FloatArray

    def abilities(self, codes: NDArray[np.int8]) -> FloatArray:
        """Posterior means (EAP) of every target.

        Parameters
        ----------
        codes
            Shape ``(B, N, J)`` or ``(N, J)``: 1, 0, or -1 where there is no response. Cells are
            missing where they were when the tables were made.

        Returns
        -------
        numpy.ndarray
            Shape ``(B, N)`` or ``(N,)``.
        """
        # In single precision a score of 400 items is off by up to 1e-4, and abilities by 1e-5.
        return self.at_scores((codes == 1).astype(np.float64) @ self.slopes)

    def without_item(self, codes: NDArray[np.int8], abilities: FloatArray) -> FloatArray:
        """Posterior means without each of the items in turn.

        To first order: a response x with chance P moves the mean by the posterior variance times
        a (x - P), the derivative of its log-likelihood.

        Parameters
        ----------
        codes
            Shape ``(B, N, J)``.
        abilities
            Posterior means with all items, shape ``(B, N)``.

        Returns
        -------
        numpy.ndarray
            Shape ``(B, N, J)``.
        """
        scores = (codes == 1).astype(np.float64) @ self.slopes
        place = (scores - self.lowest[self.pattern]) / self.step[self.pattern]
        nearest = np.clip(np.rint(place).astype(np.int64), 0, self.means.shape[1] - 1)
        variances = self.variances[self.pattern, nearest]
        chance = expit(abilities[:, :, None] * self.slopes + self.intercepts)
        surprise = np.where(codes >= 0, codes - chance, 0.0) * self.slopes
        found: FloatArray = abilities[:, :, None] - variances[:, :, None] * surprise
        return found

    def at_scores(self, scores: FloatArray) -> FloatArray:
        """Posterior means at weighted scores, shape ``(..., N)`` like `scores`."""
        step = self.step[self.pattern]
        place = (scores - self.lowest[self.pattern]) / step
        left = np.clip(place.astype(np.int64), 0, self.means.shape[1] - 2)
        t = place - left
        low, high = self.means[self.pattern, left], self.means[self.pattern, left + 1]
        rise_low = step * self.variances[self.pattern, left]
        rise_high = step * self.variances[self.pattern, left + 1]
        gap = high - low
        bend = 3 * gap - 2 * rise_low - rise_high
        twist = rise_low + rise_high - 2 * gap
        found: FloatArray = low + t * (rise_low + t * (bend + t * twist))
        return found


def ability_tables(
    slopes: FloatArray, intercepts: FloatArray, observed: BoolArray | None = None
) -> AbilityTables:
    """Tables of posterior means under N(0, 1).

    Parameters
    ----------
    slopes, intercepts
        Of J items, shape ``(J,)``: logit P = a theta + d.
    observed
        Which cells hold a response, shape ``(N, J)``; targets with the same pattern share a table.
        Shape ``(1, J)`` or None if no cell is missing: then the table serves any number of targets.

    Notes
    -----
    Posterior mean and variance: Bock & Mislevy (1982, eq. 5 and 6).

    Examples
    --------
    >>> tables = ability_tables(np.ones(3), np.array([1.0, 0.0, -1.0]))
    >>> tables.abilities(np.array([[1, 1, 1], [0, 1, 0]], np.int8)).round(2)
    array([ 0.96, -0.32])
    """
    seen = np.ones((1, len(slopes)), bool) if observed is None else observed
    patterns, pattern = np.unique(seen, axis=0, return_inverse=True)
    nodes = _nodes(slopes)
    curves = _log_curves(slopes, intercepts, patterns, nodes)
    lowest = patterns @ np.minimum(slopes, 0.0)
    step = np.maximum(patterns @ np.abs(slopes), 1e-6) / _TABLE
    means = np.empty((len(patterns), _TABLE + 1))
    variances = np.empty_like(means)
    for row, curve in enumerate(curves):
        scores = lowest[row] + step[row] * np.arange(_TABLE + 1)
        weights = _normalised(scores[:, None] * nodes + curve - nodes**2 / 2)
        means[row] = weights @ nodes
        variances[row] = weights @ nodes**2 - means[row] ** 2
    shared = pattern.ravel().astype(np.int64) if len(seen) > 1 else np.zeros(1, np.int64)
    return AbilityTables(slopes, intercepts, shared, lowest, step, means, variances)


@dataclass(frozen=True)
class AbilityPosteriors:
    """Posteriors of N abilities under N(0, 1), ready for drawing.

    Parameters
    ----------
    edges
        Shape ``(Q + 1,)``, ascending.
    cumulated
        Mass below each edge, shape ``(N, Q + 1)``; each row runs from 0 to 1.
    """

    edges: FloatArray
    cumulated: FloatArray

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Abilities below which these shares of the posteriors lie.

        Parameters
        ----------
        shares
            In [0, 1], shape ``(B, N)``. Uniform random numbers give random abilities (plausible
            values, Mislevy 1991).
        """
        found = np.empty_like(shares)
        for target, mass in enumerate(self.cumulated):
            found[:, target] = np.interp(shares[:, target], mass, self.edges)
        return found


def ability_posteriors(
    codes: NDArray[np.int8], slopes: FloatArray, intercepts: FloatArray
) -> AbilityPosteriors:
    """Posteriors of the abilities.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 1, 0, or -1 for missing.
    slopes, intercepts
        Of the J items, shape ``(J,)``.
    """
    nodes = _nodes(slopes, finer=4)
    spacing = float(nodes[1] - nodes[0])
    patterns, pattern = np.unique(codes >= 0, axis=0, return_inverse=True)
    curves = _log_curves(slopes, intercepts, patterns, nodes)
    scores = (codes == 1) @ slopes
    weights = _normalised(scores[:, None] * nodes + curves[pattern.ravel()] - nodes**2 / 2)
    cumulated = np.concatenate([np.zeros((len(codes), 1)), np.cumsum(weights, axis=1)], axis=1)
    edges = np.append(nodes - spacing / 2, nodes[-1] + spacing / 2)
    return AbilityPosteriors(edges, cumulated / cumulated[:, -1:])


def _nodes(slopes: FloatArray, finer: int = 1) -> FloatArray:
    """A lattice that resolves the narrowest posterior, see `irt.unidimensional.grid`."""
    narrowest = 1 / np.sqrt(1 + float(slopes @ slopes) / 4)
    steepest = float(np.abs(slopes).max(initial=0.0))
    spacing = min(FINE * narrowest, POLE / max(steepest, 1e-9)) / finer
    return make_lattice(spacing, -_REACH, _REACH, steepest=0.0, share=1.0).nodes


def _log_curves(
    slopes: FloatArray, intercepts: FloatArray, patterns: BoolArray, nodes: FloatArray
) -> FloatArray:
    """Log-likelihood of a pattern without any 1 at each node, shape ``(P, Q)``."""
    of_item = -np.logaddexp(0.0, np.outer(slopes, nodes) + intercepts[:, None])
    found: FloatArray = patterns.astype(np.float64) @ of_item
    return found


def _normalised(logs: FloatArray) -> FloatArray:
    logs -= logs.max(axis=1, keepdims=True)
    weights: FloatArray = np.exp(logs, out=logs)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights
