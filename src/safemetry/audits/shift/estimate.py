"""What answers, or an earlier estimate, say of one ability: curves on a lattice.

The curve of answers is their log-likelihood with Jeffreys' penalty, half the logarithm of the test
information (Firth 1993, Biometrika 80). Its mode exists also where all answers are the same; for
one- and two-parameter items it is Warm's (1989) estimate, which uses no population: an estimate
that is drawn towards the mean of a population would hide a part of any difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import log_expit

from safemetry.audits.person_fit.reestimation import is_logistic
from safemetry.errors import InputError
from safemetry.irt.information import item_information
from safemetry.irt.parameters import FloatArray, ItemParameters, category_probabilities

REACH: Final = 10.0
"""Abilities are sought within this many standard deviations of the population's mean."""

_COARSEST: Final = 0.1
_FINEST: Final = 0.02
_SHARE: Final = 0.5
"""Spacing in standard errors: a parabola through three nodes is then exact to about 1e-3."""

_SMALLEST: Final = 1e-16
_LEAST_INFORMATION: Final = 1e-12


class AbilityTable(Protocol):
    """Penalised log-likelihoods of answers to J items, along a lattice of abilities."""

    def curves(self, shares: FloatArray) -> FloatArray:
        """Up to a constant for each target, shape ``(N, Q)``.

        Parameters
        ----------
        shares
            How much of the answer of each of N targets to each item is category 1 .. C - 1, shape
            ``(C - 1, N, J)``: 0 or 1, or between where an item was answered several times.
        """
        ...


@dataclass(frozen=True)
class LogisticTable:
    """Items with two categories and no asymptotes: answers enter by ``sum a x`` only.

    Parameters
    ----------
    nodes
        Shape ``(Q,)``.
    slopes
        Shape ``(J,)``.
    base
        The curve of no 1 at all, shape ``(Q,)``.
    """

    nodes: FloatArray
    slopes: FloatArray
    base: FloatArray

    def curves(self, shares: FloatArray) -> FloatArray:
        """See `AbilityTable`."""
        sums = np.asarray(shares[0], np.float64) @ self.slopes
        found: FloatArray = sums[:, None] * self.nodes + self.base
        return found


@dataclass(frozen=True)
class CategoryTable:
    """Items of any model.

    Parameters
    ----------
    log_chances
        Of each category, shape ``(C, Q, J)``.
    penalty
        Shape ``(Q,)``.
    """

    log_chances: FloatArray
    penalty: FloatArray

    def curves(self, shares: FloatArray) -> FloatArray:
        """See `AbilityTable`."""
        first = self.log_chances[0]
        found = np.broadcast_to(first.sum(axis=1) + self.penalty, (shares.shape[1], first.shape[0]))
        for share, chances in zip(shares, self.log_chances[1:], strict=True):
            found = found + share @ (chances - first).T
        return np.asarray(found, np.float64)


def ability_table(parameters: ItemParameters, nodes: FloatArray) -> AbilityTable:
    """Table of items in one dimension at equally spaced abilities, shape ``(Q,)``.

    Raises
    ------
    InputError
        Where no item tells abilities apart.
    """
    information = item_information(parameters, nodes).sum(axis=1)
    if not information.max() > _LEAST_INFORMATION:
        raise InputError("no answered item tells abilities apart")
    penalty = np.log(np.maximum(information, _LEAST_INFORMATION**2)) / 2
    if is_logistic(parameters):
        slopes = parameters.slopes[:, 0]
        none = log_expit(-(nodes[:, None] * slopes + parameters.intercepts[:, 0])).sum(axis=1)
        return LogisticTable(nodes, slopes, none + penalty)
    chances = category_probabilities(parameters, nodes[:, None])
    return CategoryTable(np.log(np.maximum(chances, _SMALLEST)), penalty)


def shift_lattice(
    parameters: ItemParameters, mean: float, sd: float, margin: float
) -> tuple[FloatArray, float]:
    """Nodes and spacing that resolve the curves of these items.

    Parameters
    ----------
    parameters
        Of all items that were answered.
    mean, sd
        Of the population.
    margin
        A whole number of steps makes it.
    """
    wide = np.linspace(mean - 4 * sd, mean + 4 * sd, 81)
    narrowest = 1 / np.sqrt(max(float(item_information(parameters, wide).sum(axis=1).max()), 1e-12))
    most = float(np.clip(_SHARE * narrowest / sd, _FINEST, _COARSEST)) * sd
    spacing = margin / np.ceil(margin / most)
    steps = int(np.ceil(REACH * sd / spacing))
    return mean + spacing * np.arange(-steps, steps + 1), float(spacing)


def peak(curves: FloatArray, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mode and height of each curve, on a parabola through the highest node and its neighbours.

    Parameters
    ----------
    curves
        Shape ``(N, Q)``.
    nodes
        Equally spaced, shape ``(Q,)``.
    """
    rows = np.arange(len(curves))
    top = curves.argmax(axis=1)
    centre = np.clip(top, 1, len(nodes) - 2)
    left, middle, right = (curves[rows, centre + step] for step in (-1, 0, 1))
    # Sums of curves end in -inf where one of them ends; no parabola is laid through that.
    with np.errstate(invalid="ignore"):
        bend = left - 2 * middle + right
        turns = bend < 0
        place = np.where(turns, (left - right) / (2 * np.where(turns, bend, 1.0)), 0.0)
        inside = turns & (np.abs(place) <= 1)
        height = middle - (left - right) * place / 4
    spacing = nodes[1] - nodes[0]
    modes = np.where(inside, nodes[centre] + place * spacing, nodes[top])
    return modes, np.where(inside, height, curves[rows, top])


def constrained(before: FloatArray, now: FloatArray, steps: int) -> FloatArray:
    """Sums of the curves of abilities that differ by a number of steps, shape ``(N, Q - |steps|)``.

    Column q belongs to the earlier ability ``nodes[q + max(-steps, 0)]``.
    """
    width = before.shape[1] - abs(steps)
    early, late = max(-steps, 0), max(steps, 0)
    found: FloatArray = before[:, early : early + width] + now[:, late : late + width]
    return found


def constrained_mode(before: FloatArray, now: FloatArray, steps: int, nodes: FloatArray) -> float:
    """The earlier ability that is most likely if the later one is `steps` steps higher."""
    kept = nodes[max(-steps, 0) : len(nodes) - max(steps, 0)]
    modes, _ = peak(constrained(before, now, steps), kept)
    return float(modes[0])


def signed_roots(
    before: FloatArray, now: FloatArray, steps: int, nodes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Signed roots of the likelihood ratio for a difference of a number of steps.

    ``sign(d - d0) sqrt(2 (l(d) - l(d0)))``, where l is the profile of the penalised log-likelihood
    over the common place of both abilities; about standard normal where d0 is the truth and the
    items are known (Barndorff-Nielsen & Cox 1994, section 3.5; penalised: Heinze & Schemper 2002,
    Statistics in Medicine 21).

    Parameters
    ----------
    before, now
        Curves, shape ``(N, Q)`` each.
    steps
        d0 in steps of the lattice, later minus earlier.
    nodes
        The lattice.

    Returns
    -------
    tuple of numpy.ndarray
        The roots, and the differences d at the maxima, shape ``(N,)`` each.
    """
    spacing = nodes[1] - nodes[0]
    first, low = peak(before, nodes)
    second, high = peak(now, nodes)
    kept = nodes[max(-steps, 0) : len(nodes) - max(steps, 0)]
    _, together = peak(constrained(before, now, steps), kept)
    fall = np.maximum(low + high - together, 0.0)
    difference = second - first
    found: FloatArray = np.sign(difference - steps * spacing) * np.sqrt(2 * fall)
    return found, difference


def profile_roots(
    before: FloatArray, now: FloatArray, nodes: FloatArray, reach: int
) -> tuple[FloatArray, FloatArray]:
    """Signed roots of one pair of curves for all differences up to `reach` steps either way.

    Parameters
    ----------
    before, now
        Curves, shape ``(Q,)`` each.
    nodes
        The lattice.
    reach
        In steps.

    Returns
    -------
    tuple of numpy.ndarray
        Differences and roots, shape ``(2 reach + 1,)`` each.
    """
    beyond = np.full(reach, -np.inf)
    shifted = sliding_window_view(np.concatenate([beyond, now, beyond]), len(nodes))
    _, together = peak(before + shifted, nodes)
    (first,), (low,) = peak(before[None], nodes)
    (second,), (high,) = peak(now[None], nodes)
    differences = np.arange(-reach, reach + 1) * (nodes[1] - nodes[0])
    fall = np.maximum(low + high - together, 0.0)
    return differences, np.sign(second - first - differences) * np.sqrt(2 * fall)
