"""Items of the report card that consist of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from safemetry.judges.agreement.accuracy import Proportion
from safemetry.judges.agreement.against_gold import GoldTable
from safemetry.judges.agreement.strata import ALL
from safemetry.judges.card.item import CardItem, Filling, listed
from safemetry.judges.counts import ClassCounts
from safemetry.judges.panel import Panel
from safemetry.judges.spread import Spread, boundaries
from safemetry.rates.clusters import clustered_rates
from safemetry.rates.intervals import wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOW_INTENT = "intent in the map"


def accuracy_item(
    panel: Panel, counts: ClassCounts, accuracy: GoldTable | None, gold: Sequence[str]
) -> CardItem:
    """Item 2: class counts beside accuracy."""
    filling = Filling()
    for place, judge in enumerate(counts.judges):
        parts = [
            f"{name} {int(number):,}" + ("" if can or number else " (it cannot give it)")
            for name, number, can in zip(
                counts.classes,
                counts.counts[0, place],
                panel.can_emit[panel.place(judge)],
                strict=True,
            )
        ]
        said = f"{', '.join(parts)} of {int(counts.common[0]):,} common responses"
        filling.add(f"classes: {judge}", said, "evidence")
    measured = set()
    for row in accuracy.accuracy if accuracy else ():
        if row.by == ALL and row.n:
            measured.add(row.judge)
            filling.add(
                f"agrees with {listed(gold)}: {row.judge}, {row.intent} items",
                _share(row.agreeing),
                "evidence",
            )
    lacking = [name for name in counts.judges if name not in measured and name not in gold]
    how = (
        "name judges whose labels are the truth as gold"
        if accuracy is None
        else ("no response with a gold label, or a person among the gold labels")
    )
    filling.lacks("accuracy", lacking, how)
    question = "How often was each class given, and how accurate is the judge?"
    return filling.item(2, "Class counts beside accuracy", question)


def _share(found: Proportion) -> str:
    if found.estimate is None or found.interval is None:
        return "unknown"
    low, high = found.interval
    return (
        f"{found.estimate:.1%} ({low:.1%} to {high:.1%}; {found.events:,} of {found.trials:,} "
        "responses)"
    )


def rate_item(
    panel: Panel, counts: ClassCounts, spread: Sequence[Spread], level: float
) -> CardItem:
    """Item 8: comply and non-refusal rate, each with its boundary."""
    filling = Filling()
    first_of = dict(boundaries(counts.classes, counts.ordered))
    for name, first in first_of.items():
        above = ", ".join(counts.classes[first : counts.ordered])
        below = ", ".join((*counts.classes[:first], *counts.classes[counts.ordered :]))
        filling.add(f"boundary {name}", f"{above} count; {below} do not", "evidence")
    if counts.ordered == 2:
        said = "the order has two classes, so that it is the same as comply"
        filling.add("boundary non_refusal", said, "evidence")
    for row in spread:
        if row.boundary in first_of:
            _tell_rates(filling, panel, counts, (row, first_of[row.boundary]), level)
    if not spread:
        filling.missing.append("rates (no response was judged by every judge)")
    if any(row.intent is None for row in spread):
        filling.missing.append(f"rates of harmful and benign items apart ({_HOW_INTENT})")
    if counts.classes == ("below", "at_least"):
        filling.missing.append("both rates: a score over a threshold is neither")
    question = "What are the comply and the non-refusal rate, and where is the boundary of each?"
    return filling.item(8, "Comply and non-refusal rate", question)


def _tell_rates(
    filling: Filling, panel: Panel, counts: ClassCounts, found: tuple[Spread, int], level: float
) -> None:
    row, first = found
    places = [panel.place(name) for name in counts.judges]
    chosen = _of_intent(panel, row.intent)
    chosen &= (panel.labels[:, places] >= 0).all(axis=1)
    labels = panel.labels[chosen][:, places]
    over = (labels >= first) & (labels < counts.ordered)
    low, high = _intervals(over, panel.cluster[chosen], level)
    for place, judge in enumerate(counts.judges):
        events = int(over[:, place].sum())
        filling.add(
            f"{row.boundary}, {row.intent or 'unknown'} items: {judge}",
            f"{events / len(over):.1%} ({low[place]:.1%} to {high[place]:.1%}; {events:,} of "
            f"{len(over):,} responses)",
            "evidence",
        )


def _of_intent(panel: Panel, intent: str | None) -> NDArray[np.bool_]:
    for name, chosen in panel.intents():
        if name == intent:
            return np.array(chosen)
    return np.zeros(panel.responses, bool)


def _intervals(
    over: NDArray[np.bool_], cluster: NDArray[np.int64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of each judge's rate; Wilson's where no cluster is met twice."""
    trials = np.bincount(cluster)
    met = np.flatnonzero(trials)
    if trials.max() == 1:
        low, high = wilson(over.sum(axis=0), len(over), level)
        return np.asarray(low), np.asarray(high)
    judges = over.shape[1]
    events = np.stack(
        [np.bincount(cluster[over[:, j]], minlength=len(trials)) for j in range(judges)]
    )
    rates = clustered_rates(
        np.repeat(np.arange(judges), len(met)),
        events[:, met].ravel(),
        np.tile(trials[met], judges),
        groups=judges,
        level=level,
    )
    return np.asarray(rates.lower), np.asarray(rates.upper)
