"""Matching scores: what makes two targets comparable on an item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.mantel_haenszel import MantelHaenszel, mantel_haenszel
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MatchingScore:
    """The score on which targets are matched, for some of the studied items.

    A score that leaves out (or adds) the studied item depends on the item only through the answer
    to it, so two numbers a target hold it for every item.

    Parameters
    ----------
    studied
        Shape ``(J,)``: the items that this score matches for.
    of_one, of_zero
        Score of a target in the items that it answered with 1 and with 0, shape ``(B, N)`` or
        ``(N,)``; NaN where it has no response to count.
    """

    studied: BoolArray
    of_one: FloatArray
    of_zero: FloatArray

    def by_item(self, codes: NDArray[np.int8]) -> FloatArray:
        """The score for each studied item, shape ``(B, N, J')`` or ``(N, J')``.

        A target without a response to the item has its `of_zero`.

        Parameters
        ----------
        codes
            Shape ``(B, N, J)`` or ``(N, J)``.
        """
        chosen = codes[..., self.studied]
        return np.where(chosen == 1, self.of_one[..., None], self.of_zero[..., None])


def matching_scores(
    codes: NDArray[np.int8],
    members: BoolArray | None = None,
    *,
    with_studied: bool = True,
) -> tuple[MatchingScore, ...]:
    """The score on some items, with or without the studied one, for every studied item.

    The score is the number of rewarded responses to `members`; with missing cells, the rewarded
    share of those answered times the number of members.

    Parameters
    ----------
    codes
        Shape ``(B, N, J)`` or ``(N, J)``: 1, 0 or -1.
    members
        Shape ``(J,)``: the items that count (one dimension's, the anchors); all by default.
    with_studied
        Whether the studied item counts too, member or not. Holland & Thayer (1988) count it: under
        the Rasch model the test is then exact. Left out, an item with a difference cannot hide it.

    Returns
    -------
    tuple
        One score for the studied items among the members and one for the others, where there are
        any.

    Raises
    ------
    ValueError
        For no member.

    Examples
    --------
    >>> codes = np.array([[1, 1, 0], [0, 1, 1]], np.int8)
    >>> (rest,) = matching_scores(codes, with_studied=False)
    >>> rest.by_item(codes)
    array([[1., 1., 2.],
           [2., 1., 1.]])
    """
    count = codes.shape[-1]
    counted = np.ones(count, bool) if members is None else np.asarray(members, bool)
    if not counted.any():
        msg = "a matching score needs one item at least"
        raise ValueError(msg)
    held = codes if counted.all() else codes[..., counted]
    total = (held == 1).sum(axis=-1).astype(np.float64)
    answered = (held >= 0).sum(axis=-1).astype(np.float64)
    size = int(counted.sum())
    scores = []
    for inside in (True, False):
        studied = counted if inside else ~counted
        if not studied.any():
            continue
        # What the studied item changes: out of the members' total, into it, or nothing.
        change = int(with_studied) - int(inside)
        scores.append(
            MatchingScore(
                studied,
                _prorated(total + change, answered + change, size + change),
                _prorated(total, answered + change, size + change),
            )
        )
    return tuple(scores)


def match_items(
    codes: NDArray[np.int8],
    focal: BoolArray,
    banding: Banding,
    members: BoolArray | None = None,
    *,
    with_studied: bool = True,
    smoothing: float = 0.5,
    continuity: float = 0.5,
) -> MantelHaenszel:
    """Mantel-Haenszel statistics of every item, matched on the score of some items.

    Quantile bands are cut once, at the quantiles of the score that needs no answer taken out or
    added; only the target's own score then loses or gains the studied item.

    Parameters
    ----------
    codes, focal, smoothing, continuity
        As `mantel_haenszel` takes them.
    banding
        How the score is cut; its quantiles are those of the targets passed.
    members, with_studied
        As `matching_scores` takes them.

    Raises
    ------
    ValueError
        As `mantel_haenszel` and `matching_scores`.
    """

    def statistics(
        part: NDArray[np.int8], of_one: IntArray, of_zero: IntArray | None
    ) -> MantelHaenszel:
        return mantel_haenszel(
            part,
            of_one,
            focal,
            strata_of_zero=of_zero,
            smoothing=smoothing,
            continuity=continuity,
        )

    scores = matching_scores(codes, members, with_studied=with_studied)
    return _assembled(codes, scores, banding, statistics)


def score_strata(score: MatchingScore, banding: Banding) -> tuple[IntArray, IntArray | None]:
    """The strata of a score for answers 1 and 0, None in place of the second where they agree.

    Parameters
    ----------
    score
        Scores of shape ``(B, N)`` or ``(N,)``.
    banding
        How they are cut; quantiles are those of the score of a target that answered 0, which is the
        total of the members, up to one item.
    """
    if np.array_equal(score.of_one, score.of_zero, equal_nan=True):
        return banding.strata(score.of_zero), None
    both = np.concatenate([score.of_one, score.of_zero], axis=-1)
    labels = banding.strata(both, score.of_zero)
    half = score.of_one.shape[-1]
    return labels[..., :half], labels[..., half:]


def _assembled(
    codes: NDArray[np.int8],
    scores: tuple[MatchingScore, ...],
    banding: Banding,
    statistics: Callable[[NDArray[np.int8], IntArray, IntArray | None], MantelHaenszel],
) -> MantelHaenszel:
    """The statistics of all items from those of the parts with a score of their own."""
    shape = codes.shape[:-2] + codes.shape[-1:]
    joined = MantelHaenszel(
        log_odds=np.zeros(shape),
        variance=np.zeros(shape),
        chi_square=np.zeros(shape),
        p_value=np.ones(shape),
        undefined=np.zeros(shape, np.int8),
    )
    for score in scores:
        part = codes if score.studied.all() else codes[..., score.studied]
        found = statistics(part, *score_strata(score, banding))
        for item in fields(MantelHaenszel):
            getattr(joined, item.name)[..., score.studied] = getattr(found, item.name)
    return joined


def _prorated(total: FloatArray, answered: FloatArray, size: int) -> FloatArray:
    """The total that all answers would give at the observed share, NaN without an answer."""
    # Exact where nothing is missing: the factor is then 1.
    factor = size / np.where(answered > 0, answered, np.nan)
    score: FloatArray = total * factor
    return score
