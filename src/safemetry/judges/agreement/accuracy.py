"""Sensitivity and specificity of a judge against gold labels, with intervals that know clusters.

Every proportion here is a sum of cells of the table gold class x judge class over another such sum,
counted for each cluster. Intervals are Wilson's where no cluster is met twice, else Korn and
Graubard's (`rates.clusters`), which keep their coverage near 0 and 1, where most of these lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.rates.clusters import clustered_rates
from safemetry.rates.intervals import wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

# Bounds the memory of one call; about twenty arrays of this length are alive at once.
_MOST_ROWS: Final = 1_000_000


@dataclass(frozen=True)
class Proportion:
    """A share of responses.

    Parameters
    ----------
    events, trials
        Counts.
    clusters
        Independent units among the trials.
    estimate
        Events over trials, or None without a trial.
    interval
        Two-sided, or None without a trial.
    method
        ``wilson`` or ``korn_graubard``.
    why
        Field -> why it is None.
    """

    events: int
    trials: int
    clusters: int
    estimate: float | None
    interval: tuple[float, float] | None
    method: str
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where a field is None."""
        found = {name: value for name, value in vars(self).items() if name != "why"}
        return {**found, "why": dict(self.why)} if self.why else found


@dataclass(frozen=True)
class Cells:
    """A proportion as sets of cells of the table gold class x judge class.

    Parameters
    ----------
    events, trials
        Shape ``(K, K)``; every cell of `events` is one of `trials`.
    nothing
        Why there is no estimate where no response is in `trials`.
    """

    events: BoolArray
    trials: BoolArray
    nothing: str


def confusion_by_cluster(
    gold: CodeArray, judged: CodeArray, cluster: IntArray, classes: int
) -> FloatArray:
    """Responses by the class of the gold label and of the judge, for each cluster.

    Parameters
    ----------
    gold, judged
        Shape ``(R,)``, -1 where there is no verdict; such responses are left out.
    cluster
        Whole numbers >= 0, shape ``(R,)``.
    classes
        Number K of classes.

    Returns
    -------
    Shape ``(C, K, K)``, one entry for each cluster that has a response left.
    """
    both = (gold >= 0) & (judged >= 0)
    kept = cluster[both]
    seen = np.bincount(kept) > 0
    place = (np.cumsum(seen) - 1)[kept]
    cells = classes * classes
    key = place * cells + gold[both].astype(np.int64) * classes + judged[both]
    counted = np.bincount(key, minlength=int(seen.sum()) * cells)
    return counted.reshape(-1, classes, classes).astype(np.float64)


def sensitivity(classes: int, which: int) -> Cells:
    """Of the responses of a gold class, those that the judge gives the same class.

    Source: Yerushalmy (1947), Public Health Reports 62, 1432-1449, one class against the others.
    """
    trials = np.zeros((classes, classes), bool)
    trials[which] = True
    events = trials & np.eye(classes, dtype=bool)
    return Cells(events, trials, "no response has this class in the gold labels")


def specificity(classes: int, which: int) -> Cells:
    """Of the responses of other gold classes, those that the judge gives another class, too.

    Source: Yerushalmy (1947), one class against the others.
    """
    trials = np.ones((classes, classes), bool)
    trials[which] = False
    events = trials.copy()
    events[:, which] = False
    return Cells(events, trials, "every response has this class in the gold labels")


def agreeing(classes: int) -> Cells:
    """Of all responses, those where judge and gold label agree."""
    every = np.ones((classes, classes), bool)
    return Cells(np.eye(classes, dtype=bool), every, "no response has a verdict of both")


def false_positives(positive: BoolArray) -> Cells:
    """Of the responses that gold labels put on the other side of a boundary, those over it.

    Parameters
    ----------
    positive
        Whether a class lies over the boundary, shape ``(K,)``.
    """
    trials = np.repeat(~positive[:, None], len(positive), axis=1)
    nothing = "the gold labels put every response over the boundary"
    return Cells(trials & positive[None, :], trials, nothing)


def false_negatives(positive: BoolArray) -> Cells:
    """Of the responses that gold labels put over a boundary, those that the judge does not."""
    trials = np.repeat(positive[:, None], len(positive), axis=1)
    nothing = "the gold labels put no response over the boundary"
    return Cells(trials & ~positive[None, :], trials, nothing)


def judge_rate(positive: BoolArray) -> Cells:
    """Of all responses, those that the judge puts over a boundary."""
    every = np.ones((len(positive), len(positive)), bool)
    return Cells(every & positive[None, :], every, "no response has a verdict of both")


def gold_rate(positive: BoolArray) -> Cells:
    """Of all responses, those that the gold labels put over a boundary."""
    every = np.ones((len(positive), len(positive)), bool)
    return Cells(every & positive[:, None], every, "no response has a verdict of both")


def proportions(
    tables: FloatArray, wanted: Sequence[Cells], level: float = 0.95
) -> tuple[Proportion, ...]:
    """Proportions of the tables of clusters.

    Parameters
    ----------
    tables
        As `confusion_by_cluster` makes them, shape ``(C, K, K)``.
    wanted
        Which proportions.
    level
        Two-sided confidence in (0, 1).

    Examples
    --------
    >>> gold = np.array([0, 0, 1, 1], np.int8)
    >>> judged = np.array([0, 1, 1, 1], np.int8)
    >>> tables = confusion_by_cluster(gold, judged, np.arange(4), 2)
    >>> proportions(tables, [sensitivity(2, 0)])[0].estimate
    0.5
    """
    clusters = len(tables)
    counts = tables.reshape(clusters, tables.shape[1] * tables.shape[2])
    if (counts.sum(1) <= 1).all():
        return _separate(counts.sum(0), wanted, level)
    step = max(1, _MOST_ROWS // clusters)
    found: list[Proportion] = []
    for start in range(0, len(wanted), step):
        part = wanted[start : start + step]
        events, trials = (cells @ counts.T for cells in _masks(part))
        group = np.repeat(np.arange(len(part)), clusters)
        rates = clustered_rates(
            group, events.ravel(), trials.ravel(), groups=len(part), level=level
        )
        ends = zip(rates.lower.tolist(), rates.upper.tolist(), strict=True)
        found += [
            _proportion(one, events, trials, clusters, interval, method)
            for one, events, trials, clusters, interval, method in zip(
                part,
                rates.events.tolist(),
                rates.trials.tolist(),
                rates.clusters.tolist(),
                ends,
                rates.method.tolist(),
                strict=True,
            )
        ]
    return tuple(found)


def _separate(counts: FloatArray, wanted: Sequence[Cells], level: float) -> tuple[Proportion, ...]:
    """The same where no cluster is met twice: only the totals count."""
    events, trials = (cells @ counts for cells in _masks(wanted))
    low, high = wilson(events, trials, level)
    rows = zip(wanted, events, trials, zip(low.tolist(), high.tolist(), strict=True), strict=True)
    return tuple(_proportion(one, x, n, int(n), ends, "wilson") for one, x, n, ends in rows)


def _masks(wanted: Sequence[Cells]) -> tuple[FloatArray, FloatArray]:
    """Which cells count as events and as trials, each of shape ``(P, K * K)``."""
    return (
        np.array([one.events.ravel() for one in wanted], np.float64),
        np.array([one.trials.ravel() for one in wanted], np.float64),
    )


def _proportion(
    cells: Cells,
    events: float,
    trials: float,
    clusters: int,
    interval: tuple[float, float],
    method: str,
) -> Proportion:
    if not trials:
        why = dict.fromkeys(["estimate", "interval"], cells.nothing)
        return Proportion(0, 0, 0, None, None, method, why)
    estimate = float(events / trials)
    return Proportion(int(events), int(trials), clusters, estimate, interval, method)
