"""Person fit by the order of the items alone: Guttman errors, U3, H^T. Binary items.

An easy item failed and a harder one passed is a Guttman error. Which item is easier is said by
`popularity`, the share of a reference population that passes it. Every value is linear in the
responses once the number passed is known, so that many patterns cost one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.audits.person_fit.curves import Codes
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray

EDGE = 1e-4
"""Popularities are kept this far from 0 and 1, where their logits are infinite."""


@dataclass(frozen=True)
class OrderFit:
    """Values of N patterns, 0 where unknown, all of shape ``(N,)``.

    Parameters
    ----------
    errors
        Guttman errors G.
    normed
        The same over their largest number at the same number passed, in [0, 1].
    u3
        In [0, 1]: 0 for a Guttman pattern, 1 for the reversed one.
    known
        Where there is a value: some item is passed and some failed. G is 0 elsewhere.
    """

    errors: FloatArray
    normed: FloatArray
    u3: FloatArray
    known: BoolArray


def order_fit(codes: Codes, popularity: FloatArray) -> OrderFit:
    """Guttman errors and U3 of each pattern.

    G counts the pairs of an easier item failed and a harder one passed (Guttman 1944); normed by
    r (J - r), their largest number (van der Flier 1977). U3 = (max - W) / (max - min) with W the
    sum of the logits of the popularity of the items passed, and its largest and smallest value for
    r items (van der Flier 1982, eq. 1). Items of equal popularity stand in the order given.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 0, 1, or -1 where missing; a pattern is compared on its own items.
    popularity
        Shape ``(J,)``, in [0, 1].

    Raises
    ------
    InputError
        For codes above 1, or popularities that do not fit.

    Examples
    --------
    >>> found = order_fit(np.array([[1, 1, 0], [0, 1, 1]], np.int8), np.array([0.8, 0.5, 0.3]))
    >>> found.errors, found.normed
    (array([0., 2.]), array([0., 1.]))
    """
    _check(codes, popularity)
    order = easiest_first(popularity)
    sorted_codes, logits = codes[:, order], popularity_logits(popularity[order])
    observed = sorted_codes >= 0
    passed = (sorted_codes == 1).astype(np.float64)
    number = observed.sum(axis=1)
    score = passed.sum(axis=1)
    ranks = np.cumsum(observed, axis=1) - 1.0
    errors = (passed * ranks).sum(axis=1) - score * (score - 1) / 2
    known = (score > 0) & (score < number)
    most = np.where(known, score * (number - score), 1.0)
    weights = np.where(observed, logits, 0.0)
    easiest = np.where(observed & (ranks < score[:, None]), weights, 0.0).sum(axis=1)
    hardest = np.where(observed & (ranks >= (number - score)[:, None]), weights, 0.0).sum(axis=1)
    width = easiest - hardest
    wide = known & (width > 1e-12)
    u3 = np.where(wide, (easiest - passed @ logits) / np.where(wide, width, 1.0), 0.0)
    return OrderFit(errors, np.where(known, errors / most, 0.0), np.clip(u3, 0.0, 1.0), wide)


@dataclass(frozen=True)
class ScalabilityFit:
    """H^T of N patterns, shape ``(N,)``, 0 where `known` is False; low values are unusual."""

    h_t: FloatArray
    known: BoolArray


def scalability(
    codes: Codes, reference: FloatArray, weights: FloatArray | None = None
) -> ScalabilityFit:
    """H^T: how far a pattern goes along with those of others (Sijtsma 1986; Sijtsma & Meijer 1992).

    The sum of the covariances, over items, of the pattern with that of each other person, over the
    sum of the largest covariances that are possible at the two numbers passed, min(p, q) - p q.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 0, 1, or -1 where missing.
    reference
        Patterns of K others, shape ``(K, J)``, in [0, 1]: responses, or chances of passing, since a
        covariance is linear. They have no missing cells.
    weights
        How many persons each of the K stands for, shape ``(K,)``, at least 0; 1 by default. A
        matrix ``(N, K)`` gives each pattern its own others.

    Raises
    ------
    InputError
        For codes above 1, or a reference that does not fit.
    """
    _check(codes, reference.mean(axis=0) if reference.ndim == 2 else reference)
    counts = np.ones(len(reference)) if weights is None else np.asarray(weights, np.float64)
    shares = np.broadcast_to(counts, (len(codes), len(reference)))
    observed = (codes >= 0).astype(np.float64)
    passed = (codes == 1).astype(np.float64)
    number = np.maximum(observed.sum(axis=1, keepdims=True), 1.0)
    own = passed.sum(axis=1, keepdims=True) / number
    others = observed @ reference.T / number
    covariance = passed @ reference.T / number - own * others
    largest = np.minimum(own, others) - own * others
    bound = (shares * largest).sum(axis=1)
    known = bound > 1e-12
    found = (shares * covariance).sum(axis=1) / np.where(known, bound, 1.0)
    return ScalabilityFit(np.where(known, found, 0.0), known)


def easiest_first(popularity: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Positions of the items from the easiest to the hardest."""
    return np.argsort(-popularity, kind="stable")


def popularity_logits(popularity: FloatArray) -> FloatArray:
    """Logits of popularities, finite at 0 and 1, shape ``(J,)``."""
    inside = np.clip(popularity, EDGE, 1 - EDGE)
    found: FloatArray = np.log(inside) - np.log1p(-inside)
    return found


def _check(codes: Codes, popularity: FloatArray) -> None:
    if codes.ndim != 2 or popularity.shape != codes.shape[1:]:
        raise InputError(f"{popularity.shape} popularities for codes of shape {codes.shape}")
    if codes.size and codes.max() > 1:
        raise InputError(
            "the order of items is defined for binary items", fix="use other statistics"
        )
    if not ((popularity >= 0) & (popularity <= 1)).all():
        raise InputError("a popularity is not between 0 and 1")
