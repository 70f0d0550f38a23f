"""The full score as the item response model expects it after a form.

Outcomes of the form are counted as they are; the other items by their expectation over the
posterior of the ability. With the posterior replaced by a point this is p-IRT (Polo, Weber,
Choshen, Sun, Xu & Yurochkin 2024, "tinyBenchmarks", section 4.2).

Many forms are read at once: a form is a row of positions, and log-likelihoods, expected scores and
variances of all its targets are matrix products with the rows of a `ScoreTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array

from safemetry.errors import InputError
from safemetry.forms.recovery.table import ScoreTable, outcomes
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

_BLOCK: Final = 4_000_000
"""Numbers in one intermediate array."""


@dataclass(frozen=True)
class ExpectedScores:
    """Full scores that a model expects.

    Parameters
    ----------
    scores
        Shape ``(F, N)``, in [0, 1].
    errors
        Standard deviation of the full score given the form, by the model: of the ability, and of
        the outcomes that were not seen. It knows nothing of a model that does not fit.
    abilities
        Posterior means, shape ``(F, N)``.
    """

    scores: FloatArray
    errors: FloatArray
    abilities: FloatArray


def expected_full_scores(
    table: ScoreTable, codes: Codes, forms: IntArray, counted: BoolArray | None = None
) -> ExpectedScores:
    """Full scores of N targets from each of F forms that all of them took.

    Parameters
    ----------
    table
        Of J items.
    codes
        Responses, -1 where missing, shape ``(N, J)``; only those of a form are read for it.
    forms
        Positions of items, shape ``(F, L)``; -1 where a form is shorter.
    counted
        Items that the full score of each target is over, shape ``(N, J)``; all by default. An item
        that is not counted is neither 0 nor 1 nor expected.

    Raises
    ------
    InputError
        For shapes that do not fit.
    """
    places, seen_items = _checked(table, codes, forms)
    totals, spreads, sizes = _totals(table, codes, counted)
    shape = (len(places), len(codes))
    found = ExpectedScores(np.empty(shape), np.empty(shape), np.empty(shape))
    width = max(places.shape[1], 1) * (len(codes) + 3 * table.nodes.size)
    step = max(1, _BLOCK // max(width, 1))
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        chosen = places[part]
        answers = codes.T[chosen].transpose(0, 2, 1)  # forms, targets, items of the form
        answers = np.where(seen_items[part][:, None, :], answers, np.int8(-1))
        counts = (answers >= 0).astype(np.float64)
        if counted is not None:
            counts *= counted.T[chosen].transpose(0, 2, 1)
        scaled = np.maximum(answers, 0) / table.highest[chosen][:, None, :]
        log_likelihood = _log_likelihood(table, answers, chosen)
        rest = totals - counts @ table.expected[chosen]
        noise = spreads - counts @ table.variance[chosen]
        seen = (counts * scaled).sum(axis=2)
        read = _read(table, log_likelihood, rest, noise, (seen, sizes))
        found.scores[part], found.errors[part], found.abilities[part] = read
    return found


def expected_own_scores(
    table: ScoreTable, codes: Codes, items: IntArray, counted: BoolArray | None = None
) -> ExpectedScores:
    """Full scores of N targets that each took items of their own, as in an adaptive test.

    Parameters
    ----------
    table, codes, counted
        As in `expected_full_scores`.
    items
        Positions that each target took, shape ``(N, T)``; -1 after its last.

    Returns
    -------
    ExpectedScores
        With F = 1.
    """
    places, taken = _checked(table, codes, items)
    if len(places) != len(codes):
        raise InputError(f"{len(places)} targets took items and {len(codes)} responded")
    totals, spreads, sizes = _totals(table, codes, counted)
    shape = (1, len(codes))
    found = ExpectedScores(np.empty(shape), np.empty(shape), np.empty(shape))
    step = max(1, _BLOCK // max(places.shape[1] * table.nodes.size, 1))
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        chosen = places[part]
        answers = np.take_along_axis(codes[part], chosen, axis=1)
        answers = np.where(taken[part], answers, np.int8(-1))
        counts = (answers >= 0).astype(np.float64)
        if counted is not None:
            counts *= np.take_along_axis(counted[part], chosen, axis=1)
        scaled = np.maximum(answers, 0) / table.highest[chosen]
        chances = table.log_chances[np.maximum(answers, 0), chosen]
        log_likelihood = np.einsum("nt,ntq->nq", (answers >= 0).astype(np.float64), chances)
        rest = totals[part] - np.einsum("nt,ntq->nq", counts, table.expected[chosen])
        noise = spreads[part] - np.einsum("nt,ntq->nq", counts, table.variance[chosen])
        seen = (counts * scaled).sum(axis=1)
        read = _read(table, log_likelihood, rest, noise, (seen, sizes[part]))
        found.scores[0, part], found.errors[0, part], found.abilities[0, part] = read
    return found


def form_means(
    codes: Codes, highest: IntArray, forms: IntArray, weights: FloatArray | None = None
) -> FloatArray:
    """Mean outcome of each target on each form, shape ``(F, N)``; NaN where it answered nothing.

    Parameters
    ----------
    codes, highest, forms
        As in `expected_full_scores`; `highest` is categories - 1, shape ``(J,)``.
    weights
        Of the items of each form, positive, shape ``(F, L)``; equal by default. Where a response is
        missing the other weights are scaled up.
    """
    places = np.maximum(forms, 0)
    shares = np.where(forms >= 0, 1.0 if weights is None else weights, 0.0)
    found = np.empty((len(places), len(codes)))
    scores, seen = outcomes(codes, highest), codes >= 0
    for form, (chosen, share) in enumerate(zip(places, shares, strict=True)):
        total = seen[:, chosen] @ share
        earned = (scores[:, chosen] * seen[:, chosen]) @ share
        found[form] = np.where(total > 0, earned / np.where(total > 0, total, 1.0), np.nan)
    return found


def own_means(codes: Codes, highest: IntArray, items: IntArray) -> FloatArray:
    """Mean outcome of each target on its own items ``(N, T)``, shape ``(1, N)``; NaN for none."""
    places = np.maximum(items, 0)
    answers = np.take_along_axis(codes, places, axis=1)
    seen = (answers >= 0) & (items >= 0)
    total = (np.where(seen, answers, 0) / highest[places]).sum(axis=1)
    count = seen.sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)[None]


def _checked(table: ScoreTable, codes: Codes, forms: IntArray) -> tuple[IntArray, BoolArray]:
    if codes.ndim != 2 or codes.shape[1] != table.items:
        raise InputError(f"responses of shape {codes.shape} are not to {table.items} items")
    if forms.ndim != 2 or (forms.size and (forms.max() >= table.items or forms.min() < -1)):
        raise InputError(f"forms are rows of positions from 0 to {table.items - 1}, or -1")
    if (codes.max(axis=0, initial=0) > table.highest).any():
        raise InputError("a response lies beyond the categories of its item")
    return np.maximum(forms, 0).astype(np.int64), forms >= 0


def _totals(
    table: ScoreTable, codes: Codes, counted: BoolArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected score and its variance summed over the counted items, ``(N, Q)``; their number."""
    if counted is None:
        shape = (len(codes), table.nodes.size)
        totals = np.broadcast_to(table.expected.sum(axis=0), shape)
        spreads = np.broadcast_to(table.variance.sum(axis=0), shape)
        return totals, spreads, np.full(len(codes), float(table.items))
    if counted.shape != codes.shape:
        raise InputError("which items count is said for each response")
    # What does not count is rare as a rule, and is taken off the sum over all.
    left_out = csr_array((~counted).astype(np.float64))
    totals = table.expected.sum(axis=0) - left_out @ table.expected
    spreads = table.variance.sum(axis=0) - left_out @ table.variance
    return totals, spreads, counted.sum(axis=1).astype(np.float64)


def _log_likelihood(table: ScoreTable, answers: Codes, chosen: IntArray) -> FloatArray:
    """Of the answers ``(F, N, L)`` to the items ``(F, L)``, shape ``(F, N, Q)``."""
    found = np.zeros((*answers.shape[:2], table.nodes.size))
    for category, chances in enumerate(table.log_chances):
        found += (answers == category).astype(np.float64) @ chances[chosen]
    return found


def _read(
    table: ScoreTable,
    log_likelihood: FloatArray,
    rest: FloatArray,
    noise: FloatArray,
    seen: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores, errors and abilities from log-likelihoods ``(..., N, Q)``."""
    earned, sizes = seen
    with np.errstate(divide="ignore"):
        values = log_likelihood + np.log(table.weights)
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    posterior = values / values.sum(axis=-1, keepdims=True)
    many = np.maximum(sizes, 1.0)
    middle = (posterior * rest).sum(axis=-1)
    spread = (posterior * (rest - middle[..., None]) ** 2).sum(axis=-1)
    spread = spread + (posterior * np.maximum(noise, 0.0)).sum(axis=-1)
    # Sums that were taken apart again leave a rounding error.
    scores = np.clip((earned + middle) / many, 0.0, 1.0)
    return scores, np.sqrt(spread) / many, posterior @ table.nodes
