"""Strata of targets that are compared with each other: bands of a matching score, or each score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from safemetry.construct.dif.tables import LEFT_OUT
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Banding:
    """How a matching score is cut.

    Parameters
    ----------
    kind
        ``quantiles`` of a reference set, fixed ``edges``, or ``scores``: thin matching, every
        distinct score a stratum.
    count
        Number of quantile bands, at least 1.
    edges
        Increasing inner edges, on the scale of the score.
    reference
        Whose quantiles: the targets of the two ``groups``, or ``all`` targets.
    closed
        The closed end of a band: a score equal to an edge falls in the upper band (``left``) or in
        the lower (``right``).

    Examples
    --------
    >>> Banding("quantiles").label
    '3 quantile bands of the two groups'
    >>> Banding("quantiles", closed="right").label
    '3 quantile bands of the two groups (right-closed)'
    >>> Banding("edges", edges=(0.0,)).strata(np.array([-1.0, 0.0, 2.0]))
    array([0, 1, 1])
    """

    kind: Literal["quantiles", "edges", "scores"] = "quantiles"
    count: int = 3
    edges: tuple[float, ...] = ()
    reference: Literal["groups", "all"] = "groups"
    closed: Literal["left", "right"] = "left"

    def __post_init__(self) -> None:
        if self.kind == "quantiles" and self.count < 1:
            raise InputError(f"{self.count} bands", fix="give 1 or more")
        if self.kind == "edges" and not (
            self.edges and np.isfinite(self.edges).all() and (np.diff(self.edges) > 0).all()
        ):
            raise InputError("the edges of bands are increasing numbers, one at least")

    @property
    def label(self) -> str:
        """The banding in words."""
        if self.kind == "scores":
            return "each score"
        closed = " (right-closed)" if self.closed == "right" else ""
        if self.kind == "edges":
            return "edges at " + ", ".join(f"{edge:g}" for edge in self.edges) + closed
        whose = "the two groups" if self.reference == "groups" else "all targets"
        return f"{self.count} quantile bands of {whose}{closed}"

    @property
    def size(self) -> int | None:
        """How many bands there are; None where every score is one."""
        if self.kind == "scores":
            return None
        return self.count if self.kind == "quantiles" else len(self.edges) + 1

    def strata(self, scores: FloatArray, reference_scores: FloatArray | None = None) -> IntArray:
        """The stratum of each target.

        Parameters
        ----------
        scores
            Shape ``(N,)``, ``(B, N)`` or ``(B, N, J)``; NaN is left out.
        reference_scores
            Scores of the reference set of quantiles, of the same number of axes, targets second
            (first in one dimension); the scores themselves by default.

        Returns
        -------
        IntArray
            From 0 in ascending order, -1 where left out; the shape of `scores`.
        """
        if self.kind == "scores":
            return thin_strata(scores)
        if self.kind == "edges":
            cuts: FloatArray = np.asarray(self.edges, np.float64)
            cuts = cuts.reshape((-1,) + (1,) * scores.ndim)
        else:
            cuts = self._quantiles(scores if reference_scores is None else reference_scores)
        place = np.zeros(scores.shape, np.int64)
        for cut in cuts:
            place += (scores >= cut) if self.closed == "left" else (scores > cut)
        return np.where(np.isnan(scores), LEFT_OUT, place)

    def _quantiles(self, scores: FloatArray) -> FloatArray:
        """Inner edges, one leading entry each, over the axis of the targets."""
        shares = np.arange(1, self.count) / self.count
        axis = min(scores.ndim - 1, 1)
        take = np.nanquantile if np.isnan(scores).any() else np.quantile
        found: FloatArray = np.asarray(take(scores, shares, axis=axis, keepdims=True), np.float64)
        return found


def thin_strata(scores: FloatArray) -> IntArray:
    """Every distinct score its own stratum, numbered from 0 in ascending order; NaN is -1.

    Examples
    --------
    >>> thin_strata(np.array([3.0, 1.0, 3.0, np.nan]))
    array([ 1,  0,  1, -1])
    """
    used = ~np.isnan(scores)
    labels = np.full(scores.shape, LEFT_OUT, np.int64)
    labels[used] = np.unique(scores[used], return_inverse=True)[1]
    return labels


@dataclass(frozen=True)
class LackingBand:
    """A band in which nobody can be compared.

    Parameters
    ----------
    band
        Number of the band, from 1 for the lowest.
    lacks
        The group without targets in it.
    targets
        Targets of the other group, whose responses decide nothing.
    """

    band: int
    lacks: str
    targets: int


def lacking_bands(
    strata: IntArray,
    focal: BoolArray,
    groups: tuple[str, str] = ("reference", "focal"),
    *,
    count: int | None = None,
) -> tuple[LackingBand, ...]:
    """The bands that hold one group only, or nobody.

    Parameters
    ----------
    strata
        Shape ``(N,)``: bands from 0, -1 where left out.
    focal
        Shape ``(N,)``.
    groups
        Names of the reference and the focal group.
    count
        How many bands there are, so that an empty one is named too, once for each group; by default
        those that occur.

    Examples
    --------
    >>> lacking_bands(np.array([0, 0, 1, 1, 1]), np.array([True, False, True, True, True]))
    (LackingBand(band=2, lacks='reference', targets=3),)
    """
    found: list[LackingBand] = []
    occurring: list[int] = np.unique(strata[strata != LEFT_OUT]).tolist()
    for band in occurring if count is None else range(count):
        inside = strata == band
        counts = (int((inside & ~focal).sum()), int((inside & focal).sum()))
        found += [
            LackingBand(band + 1, name, max(counts))
            for name, held in zip(groups, counts, strict=True)
            if held == 0
        ]
    return tuple(found)


def usable_share(strata: IntArray, focal: BoolArray) -> float:
    """Share of the targets that are in a stratum with both groups, 0 to 1.

    Parameters
    ----------
    strata, focal
        As `lacking_bands` takes them.

    Examples
    --------
    >>> usable_share(np.array([0, 0, 1, 2]), np.array([True, False, True, False]))
    0.5
    """
    lonely: Sequence[LackingBand] = lacking_bands(strata, focal)
    alone = sum(band.targets for band in lonely) + int((strata == LEFT_OUT).sum())
    return 1 - alone / len(strata)
