"""Tetrachoric correlations of many 2 x 2 tables at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import ndtri

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, IntArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_TOLERANCE: Final = 1e-10
_STEPS: Final = 80
_LARGEST_DIGIT: Final = 8_192
"""Four digits to this base are whole numbers below 2^52, which floating point holds exactly."""

_BLOCK: Final = 16_384
"""Tables solved at once: 20 nodes each take 2.6 MB."""


def tetrachoric(tables: FloatArray, *, correction: float = 0.5) -> FloatArray:
    """Correlation of two normal variables that were cut at their thresholds into each table.

    With thresholds from the margins, the correlation r solves Phi2(h, k; r) = share of (1, 1)
    (Pearson 1900; the two-step estimate of Olsson 1979). By Plackett (1954) the derivative of Phi2
    by r is the bivariate density, so that with r = sin t the left side less its value at r = 0 is

        1 / (2 pi) * integral from 0 to t of exp(-(h^2 + k^2 - 2 h k sin u) / (2 cos^2 u)) du

    (Drezner & Wesolowsky 1990), which is increasing in t; Newton's method inside a bracket.

    Parameters
    ----------
    tables
        Counts of (0, 0), (0, 1), (1, 0) and (1, 1), shape ``(4, M)``, not negative.
    correction
        Added to empty cells of a table, in counts. With 0 an empty cell means a correlation of
        exactly -1 or 1, the limit.

    Returns
    -------
    numpy.ndarray
        Shape ``(M,)``, in [-1, 1]; NaN for a table in which a variable does not vary (judged
        before the correction).

    Raises
    ------
    InputError
        For a negative correction.

    Examples
    --------
    Even margins: r = sin(2 pi (share of (1, 1) - 1/4)), Sheppard (1899).

    >>> tetrachoric(np.array([[30.0], [20.0], [20.0], [30.0]])).round(6)
    array([0.309017])
    """
    if not correction >= 0:
        raise InputError(f"a correction of {correction:g} would take responses away")
    counts = np.asarray(tables, np.float64)
    found = np.full(counts.shape[1], np.nan)
    margins = np.stack(
        [counts[:2].sum(0), counts[2:].sum(0), counts[::2].sum(0), counts[1::2].sum(0)]
    )
    varies = (margins > 0).all(axis=0)
    empty = counts == 0
    if correction == 0:
        found[varies & (empty[1] | empty[2])] = 1.0
        found[varies & (empty[0] | empty[3])] = -1.0
        solved = varies & ~empty.any(axis=0)
    else:
        counts = np.where(empty, correction, counts)
        solved = varies
    different, place = _different(counts[:, solved])
    parts = range(0, different.shape[1], _BLOCK)
    solutions = [_solve(different[:, start : start + _BLOCK]) for start in parts]
    if solutions:
        found[solved] = np.concatenate(solutions)[place]
    return found


def _different(counts: FloatArray) -> tuple[FloatArray, IntArray]:
    """The tables that differ, and which of them each table is; items of a matrix make few."""
    doubled = 2 * counts
    base = doubled.max(initial=0.0) + 1
    if base < _LARGEST_DIGIT and (doubled == np.rint(doubled)).all():
        # One whole number names a table, and sorts much faster than four.
        names = base ** np.arange(4.0) @ doubled
        _, first, place = np.unique(names, return_index=True, return_inverse=True)
        return counts[:, first], place
    found, place = np.unique(counts, axis=1, return_inverse=True)
    return found, place.ravel()


def _solve(counts: FloatArray) -> FloatArray:
    shares = counts / counts.sum(axis=0)
    first, second = shares[2] + shares[3], shares[1] + shares[3]
    h, k = ndtri(first), ndtri(second)
    excess = shares[3] - first * second
    low, high = np.full(h.shape, -np.pi / 2), np.full(h.shape, np.pi / 2)
    # Exact for even margins.
    angle = np.clip(
        2 * np.pi * excess / (4 * np.sqrt(first * (1 - first) * second * (1 - second))), -1.4, 1.4
    )
    active = np.arange(h.size)
    for _ in range(_STEPS):
        a, b, t = h[active], k[active], angle[active]
        miss = _integral(a, b, t) - excess[active]
        low[active] = np.where(miss < 0, t, low[active])
        high[active] = np.where(miss < 0, high[active], t)
        with np.errstate(divide="ignore", over="ignore"):
            step = t - miss / np.maximum(_density(a, b, np.sin(t)), 1e-300)
        middle = (low[active] + high[active]) / 2
        inside = (step > low[active]) & (step < high[active])
        angle[active] = np.where(inside, step, middle)
        active = active[np.abs(angle[active] - t) > _TOLERANCE]
        if not active.size:
            break
    found: FloatArray = np.sin(angle)
    return found


def _density(h: FloatArray, k: FloatArray, sine: FloatArray) -> FloatArray:
    """The integrand at angles with these sines."""
    cosine = np.maximum(1 - sine * sine, 1e-300)
    found: FloatArray = np.exp(-(h * h + k * k - 2 * h * k * sine) / (2 * cosine)) / (2 * np.pi)
    return found


def _integral(h: FloatArray, k: FloatArray, angle: FloatArray) -> FloatArray:
    """From 0 to `angle`, by Gauss-Legendre nodes on two halves."""
    found = np.zeros(angle.shape)
    for start in (0.0, 0.5):
        places = angle[:, None] * (start + (_NODES + 1) / 4)
        found += _density(h[:, None], k[:, None], np.sin(places)) @ _WEIGHTS
    total: FloatArray = found * angle / 4
    return total
