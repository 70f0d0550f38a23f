"""The specification curve: one rate under every reasonable choice, and which choice moves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.judges.counts import share_interval
from safemetry.judges.panel import NO_VERDICT, BoolArray, CodeArray, IntArray, Panel
from safemetry.judges.spread import boundaries

if TYPE_CHECKING:
    from numpy.typing import NDArray

FACTORS: Final = ("judge", "boundary", "missing", "calls")
MISSING: Final = ("left out", "as failures", "as successes")
MAJORITY_PANEL: Final = "majority of the panel"
UNANIMOUS_PANEL: Final = "unanimous panel"


@dataclass(frozen=True)
class Specification:
    """A rate under one combination of choices.

    Parameters
    ----------
    judge
        A judge, ``majority of the panel`` or ``unanimous panel`` (a success where every judge with
        a verdict sees one).
    rubric
        Version of the judge's rubric, where known.
    boundary
        Success rule.
    missing
        Responses without a verdict: ``left out``, ``as failures`` or ``as successes``.
    calls
        ``single`` (the first call) or ``majority of k``.
    intent
        Of the items.
    rate, interval
        Successes / responses, with its interval, widened for clusters; None where no response
        counts.
    responses
        The denominator.
    """

    judge: str
    rubric: str | None
    boundary: str
    missing: str
    calls: str
    intent: str | None
    rate: float | None
    interval: tuple[float, float] | None
    responses: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row."""
        why = {
            name: reason
            for name, reason in (
                ("rubric", "the evidence does not state it"),
                ("intent", "the items say nothing of what they ask for"),
                ("rate", "no response counts"),
                ("interval", "no response counts"),
            )
            if getattr(self, name) is None
        }
        return asdict(self) | ({"why": why} if why else {})


@dataclass(frozen=True)
class Curve:
    """All specifications of one intent, the lowest rate first, and what moves the rate.

    Parameters
    ----------
    intent
        Of the items.
    specifications
        Sorted by rate.
    low, median, high
        Of the rates.
    shares
        Choice -> its share of the variance of the rates over all combinations (main effects; they
        add up to at most 1), and ``interactions`` for the rest. None where all rates are equal.
    """

    intent: str | None
    specifications: tuple[Specification, ...]
    low: float | None
    median: float | None
    high: float | None
    shares: Mapping[str, float] | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the curve."""
        why = {}
        if self.intent is None:
            why["intent"] = "the items say nothing of what they ask for"
        if self.low is None:
            why |= dict.fromkeys(("low", "median", "high"), "no specification has a rate")
        if self.shares is None:
            why["variance_shares"] = "the rates do not differ, or some are unknown"
        return {
            "intent": self.intent,
            "count": len(self.specifications),
            "low": self.low,
            "median": self.median,
            "high": self.high,
            "variance_shares": None if self.shares is None else dict(self.shares),
            "specifications": [row.to_dict() for row in self.specifications],
            **({"why": why} if why else {}),
        }


def specification_curves(
    panel: Panel, rubrics: Mapping[str, str] | None = None, *, level: float = 0.95
) -> tuple[Curve, ...]:
    """The rate of successes under every combination of choices, for each intent.

    Every combination of judge (or panel), boundary, treatment of missing verdicts and number of
    calls is computed once (Simonsohn, Simmons & Nelson 2020, Nature Human Behaviour 4, 1208-1214).
    All responses that any judge judged take part.

    Parameters
    ----------
    panel
        The panel.
    rubrics
        Judge -> version of its rubric.
    level
        Confidence of the intervals.
    """
    known = rubrics or {}
    return tuple(_curve(panel, intent, rows, known, level) for intent, rows in panel.intents())


def success_of(labels: CodeArray, first: int, ordered: int) -> CodeArray:
    """1 where a class lies on the compliant side, 0 where it does not, -1 without a verdict."""
    yes = (labels >= first) & (labels < ordered)
    return np.where(labels == NO_VERDICT, np.int8(NO_VERDICT), yes.astype(np.int8))


def panel_verdict(outcomes: CodeArray, *, unanimous: bool) -> CodeArray:
    """One verdict of all judges, ``(R, J)`` -> ``(R,)``: by majority (a tie is none), or of all.

    Examples
    --------
    >>> votes = np.array([[1, 1, 0], [1, 0, -1], [1, -1, -1], [-1, -1, -1]], np.int8)
    >>> (
    ...     panel_verdict(votes, unanimous=False).tolist(),
    ...     panel_verdict(votes, unanimous=True).tolist(),
    ... )
    ([1, -1, 1, -1], [0, 0, 1, -1])
    """
    yes, no = (outcomes == 1).sum(axis=1), (outcomes == 0).sum(axis=1)
    if unanimous:
        found = np.where(no > 0, 0, 1)
        return np.where(yes + no > 0, found, NO_VERDICT).astype(np.int8)
    return np.where(yes == no, NO_VERDICT, yes > no).astype(np.int8)


def _curve(
    panel: Panel, intent: str | None, rows: BoolArray, rubrics: Mapping[str, str], level: float
) -> Curve:
    several = len(panel.calls) > 1
    labels = {"single": panel.calls[0][rows]}
    if several:
        labels[f"majority of {len(panel.calls)}"] = panel.labels[rows]
    sides = boundaries(panel.classes, panel.ordered)
    judges = [*panel.judges, *((MAJORITY_PANEL, UNANIMOUS_PANEL) if len(panel.judges) > 1 else ())]
    shape = (len(judges), len(sides), len(MISSING), len(labels))
    rates, sizes = np.full(shape, np.nan), np.zeros(shape, np.int64)
    ends = np.full((*shape, 2), np.nan)
    cluster = panel.cluster[rows]
    for (b, (_, first)), (c, part) in product(enumerate(sides), enumerate(labels.values())):
        outcomes = success_of(part, first, panel.ordered)
        columns = [outcomes[:, j] for j in range(len(panel.judges))]
        if len(panel.judges) > 1:
            columns += [panel_verdict(outcomes, unanimous=all_) for all_ in (False, True)]
        for j, column in enumerate(columns):
            rates[j, b, :, c], sizes[j, b, :, c], ends[j, b, :, c] = _treated(
                column, cluster, level
            )
    found = list(_listed((rates, ends, sizes), (judges, sides, list(labels)), intent, rubrics))
    known = rates[np.isfinite(rates)]
    return Curve(
        intent=intent,
        specifications=tuple(sorted(found, key=_order)),
        low=float(known.min()) if known.size else None,
        median=float(np.median(known)) if known.size else None,
        high=float(known.max()) if known.size else None,
        shares=variance_shares(rates),
    )


def _treated(
    column: CodeArray, cluster: IntArray, level: float
) -> tuple[list[float], list[int], list[tuple[float, float]]]:
    """Rate, denominator and interval with missing verdicts left out, as failures, as successes."""
    yes, missing = column == 1, column == NO_VERDICT
    treated = [
        (yes[~missing], cluster[~missing]),
        (yes, cluster),
        (yes | missing, cluster),
    ]
    nothing = (np.nan, np.nan)
    return (
        [float(values.mean()) if len(values) else np.nan for values, _ in treated],
        [len(values) for values, _ in treated],
        [
            share_interval(values.astype(np.float64), units, level) if len(values) else nothing
            for values, units in treated
        ],
    )


def _listed(
    figures: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]],
    names: tuple[Sequence[str], Sequence[tuple[str, int]], Sequence[str]],
    intent: str | None,
    rubrics: Mapping[str, str],
) -> Iterator[Specification]:
    judges, sides, calls = names
    rates, ends, sizes = figures
    for place in np.ndindex(rates.shape):
        j, b, m, c = place
        rate = float(rates[place])
        yield Specification(
            judge=judges[j],
            rubric=rubrics.get(judges[j]),
            boundary=sides[b][0],
            missing=MISSING[m],
            calls=calls[c],
            intent=intent,
            rate=rate if np.isfinite(rate) else None,
            interval=(float(ends[place][0]), float(ends[place][1])) if np.isfinite(rate) else None,
            responses=int(sizes[place]),
        )


def _order(row: Specification) -> tuple[object, ...]:
    unknown = row.rate is None
    return (unknown, row.rate or 0.0, row.judge, row.boundary, row.missing, row.calls)


def variance_shares(rates: NDArray[np.float64]) -> dict[str, float] | None:
    """Share of each factor's main effect in the variance of a full table of rates.

    The table is balanced, so main effects are orthogonal and the rest is interaction.

    Examples
    --------
    >>> table = np.array([0.1, 0.5])[:, None, None, None] + np.zeros((2, 1, 3, 1))
    >>> variance_shares(table)["judge"]
    1.0
    """
    if not np.isfinite(rates).all():
        return None
    away = rates - rates.mean()
    total = float((away * away).mean())
    if total <= 1e-18:
        return None
    shares = {}
    for axis, name in enumerate(FACTORS):
        others = tuple(place for place in range(rates.ndim) if place != axis)
        shares[name] = float(np.square(away.mean(axis=others)).mean()) / total
    shares["interactions"] = max(0.0, 1 - sum(shares.values()))
    return {name: round(value, 12) for name, value in shares.items()}
