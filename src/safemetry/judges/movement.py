"""Where the responses of a class went: from a reference to each judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.counts import design_effect, share_interval, tabulate
from safemetry.judges.panel import NO_VERDICT, CodeArray, IntArray, Panel, majority
from safemetry.rates.intervals import normal_quantile, wilson

PANEL_MAJORITY: Final = "majority"
"""The reference that is the class most judges of the panel gave."""


@dataclass(frozen=True)
class Movement:
    """Responses that the reference gave one class and a judge gave one class.

    Parameters
    ----------
    from_class, to_class
        Of the reference, and of the judge.
    judge
        The judge.
    count, total
        Responses that went there, of those of `from_class` that both have judged.
    share, interval
        And its interval, widened for clusters; None where the total is 0.
    """

    from_class: str
    to_class: str
    judge: str
    count: int
    total: int
    share: float | None
    interval: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row."""
        empty = {"why": dict.fromkeys(("share", "interval"), "no response of this class")}
        return {
            "from": self.from_class,
            "to": self.to_class,
            "judge": self.judge,
            "count": self.count,
            "total": self.total,
            "share": self.share,
            "interval": self.interval,
            **({} if self.share is not None else empty),
        }


@dataclass(frozen=True)
class Direction:
    """Which way a judge errs, seen from the reference.

    Parameters
    ----------
    judge
        The judge.
    compared
        Responses to which both gave a class of the order.
    lower, higher
        Responses that the judge put in a less, and in a more compliant class.
    net, interval
        (higher - lower) / compared, with its normal interval over clusters; below 0 the judge errs
        towards "safe". None without responses.
    """

    judge: str
    compared: int
    lower: int
    higher: int
    net: float | None
    interval: tuple[float, float] | None
    why: Mapping[str, str]


def reference_labels(panel: Panel, reference: str | Sequence[str]) -> CodeArray:
    """The labels of a judge, of the majority of several, or of the panel, shape ``(R,)``.

    Raises
    ------
    InputError
        For a judge that is not on the panel.
    """
    if reference == PANEL_MAJORITY and PANEL_MAJORITY not in panel.judges:
        return majority(panel.labels.T[:, :, None], len(panel.classes))[:, 0]
    if isinstance(reference, str):
        return panel.labels[:, panel.place(reference)]
    return gold_of(panel, reference).labels


def measure_movement(
    panel: Panel, reference: str | Sequence[str], *, level: float = 0.95
) -> tuple[tuple[Movement, ...], tuple[Direction, ...]]:
    """Follow the responses of each class of the reference to the classes of each judge.

    Parameters
    ----------
    panel
        The panel.
    reference
        A judge, several whose majority it is, or ``majority`` (of the panel).
    level
        Confidence of the intervals.

    Raises
    ------
    InputError
        For a reference that is not on the panel, or one that shares no response with any judge.
    """
    base = reference_labels(panel, reference)
    own = {reference} if isinstance(reference, str) else set(reference)
    others = [place for place, name in enumerate(panel.judges) if name not in own]
    if not any(((base != NO_VERDICT) & (panel.labels[:, j] != NO_VERDICT)).any() for j in others):
        raise InputError(f"no judge shares a response with the reference {reference!r}")
    cluster = panel.cluster
    moves: list[Movement] = []
    directions = []
    for place in others:
        both = (base != NO_VERDICT) & (panel.labels[:, place] != NO_VERDICT)
        pair, units = (base[both], panel.labels[both, place]), cluster[both]
        moves += _moves(panel.judges[place], panel.classes, pair, units, level)
        directions.append(_direction(panel.judges[place], panel.ordered, pair, units, level))
    return tuple(moves), tuple(directions)


def _moves(
    judge: str,
    classes: Sequence[str],
    pair: tuple[CodeArray, CodeArray],
    units: IntArray,
    level: float,
) -> Iterator[Movement]:
    source, destination = pair
    table = tabulate(source, destination, (len(classes), len(classes)))
    for k, name in enumerate(classes):
        inside = source == k
        total = int(inside.sum())
        within = units[inside]
        for m, to in enumerate(classes):
            count = int(table[k, m])
            if not total:
                yield Movement(name, to, judge, 0, 0, None, None)
                continue
            went = (destination[inside] == m).astype(np.float64)
            interval = share_interval(went, within, level)
            yield Movement(name, to, judge, count, total, count / total, interval)


def _direction(
    judge: str, ordered: int, pair: tuple[CodeArray, CodeArray], units: IntArray, level: float
) -> Direction:
    source, destination = pair
    inside = (source < ordered) & (destination < ordered)
    steps = np.sign(destination[inside].astype(np.int64) - source[inside])
    n = len(steps)
    lower, higher = int((steps < 0).sum()), int((steps > 0).sum())
    if not n:
        why = dict.fromkeys(("net", "interval"), "no response in the class order")
        return Direction(judge, 0, 0, 0, None, None, why)
    net = (higher - lower) / n
    spread = float(steps.var()) * design_effect(steps.astype(np.float64), units[inside]) / n
    half = normal_quantile((1 + level) / 2) * spread**0.5
    if not spread:  # all alike: what a share of 0 of so many clusters could still be
        half = float(wilson(0, len(np.unique(units[inside])), level)[1])
    interval = (max(-1.0, net - half), min(1.0, net + half))
    return Direction(judge, n, lower, higher, net, interval, {})
