"""The report card of the judges: eight items that a reader of a rate needs to know.

Filled from the evidence and from what the user adds. What is in neither is listed as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from safemetry.evidence.identity import JudgeIdentity, by_judge
from safemetry.judges.agreement.against_gold import GoldTable
from safemetry.judges.card.figures import accuracy_item, rate_item
from safemetry.judges.card.instrument import Known, checkpoint_item, rubric_item, temperature_item
from safemetry.judges.card.item import CardItem, Filling
from safemetry.judges.card.notes import EVERYONE, CardNotes
from safemetry.judges.counts import ClassCounts
from safemetry.judges.noise import NoiseFloor
from safemetry.judges.panel import Panel
from safemetry.judges.spread import Spread


@dataclass(frozen=True)
class Card:
    """The report card.

    Parameters
    ----------
    items
        The eight items.
    unused
        Entries of the notes that name a judge, class or target that is not here.
    """

    items: tuple[CardItem, ...]
    unused: tuple[str, ...] = ()

    @property
    def filled(self) -> int:
        """How many items are filled."""
        return sum(item.state == "filled" for item in self.items)

    @property
    def missing(self) -> list[str]:
        """What is missing, with the name of the item before it."""
        return [f"{item.name}: {what}" for item in self.items for what in item.missing]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the card."""
        return {
            "items": [item.to_dict() for item in self.items],
            "missing": self.missing,
            "filled": self.filled,
            "unused": list(self.unused),
        }


def fill_card(  # noqa: PLR0913 - each keyword is one part of an audit
    identities: Sequence[JudgeIdentity],
    panel: Panel,
    *,
    counts: ClassCounts,
    accuracy: GoldTable | None,
    noise: NoiseFloor,
    spread: Sequence[Spread],
    notes: CardNotes | None = None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    gold: Sequence[str] = (),
    benchmarks: Sequence[str] = (),
    level: float = 0.95,
) -> Card:
    """The report card of the judges of a panel.

    Parameters
    ----------
    identities
        What the evidence says of the judges.
    panel
        The verdicts.
    counts, accuracy, noise, spread
        Of the panel; accuracy None without gold.
    notes
        What the user adds.
    targets
        Target -> its settings, where the evidence knows them.
    gold
        Judges whose labels count as the truth.
    benchmarks
        Names of the benchmarks that the items come from, where the evidence knows them.
    level
        Confidence of the intervals of rates, in (0, 1).
    """
    stated = notes or CardNotes()
    known = Known(panel, by_judge(identities), stated, targets or {}, tuple(gold))
    return Card(
        items=(
            checkpoint_item(known),
            accuracy_item(panel, counts, accuracy, known.gold),
            rubric_item(known),
            _class_item(panel, stated),
            temperature_item(known, noise),
            _source_item(panel, stated, benchmarks),
            _people_item(known),
            rate_item(panel, counts, spread, level),
        ),
        unused=_unused(panel, stated),
    )


def _class_item(panel: Panel, notes: CardNotes) -> CardItem:
    filling = Filling()
    order = " < ".join(panel.classes[: panel.ordered])
    outside = panel.classes[panel.ordered :]
    also = f"; outside the order: {', '.join(outside)}" if outside else ""
    filling.add("order, least compliant first", f"{order}{also}", "evidence", answers=False)
    undefined = []
    for name in panel.classes:
        if definition := notes.classes.get(name):
            filling.add(name, definition, "notes")
        else:
            undefined.append(name)
    filling.lacks("definition", undefined, "classes.CLASS in the notes")
    if notes.empty_answer:
        filling.add("an empty answer that refuses nothing", notes.empty_answer, "notes")
    else:
        filling.missing.append(
            "what an empty answer that refuses nothing counts as (empty_answer in the notes)"
        )
    question = "How is each class defined, and what does an empty answer count as?"
    return filling.item(4, "Class definitions", question)


def _source_item(panel: Panel, notes: CardNotes, benchmarks: Sequence[str]) -> CardItem:
    filling = Filling()
    items: dict[str | None, int] = {}
    pair = panel.run.codes * (len(panel.item.names) + 1) + panel.item.codes
    for intent, chosen in panel.intents():
        items[intent] = len(np.unique(pair[chosen]))
    said = ", ".join(f"{count:,} {name or 'of unknown intent'}" for name, count in items.items())
    filling.add("items", said or "none", "evidence", answers=False)
    if benchmarks:
        listed_all = ", ".join(benchmarks[:20]) + (" and more" if len(benchmarks) > 20 else "")
        filling.add("benchmark", listed_all, "evidence")
    if notes.harmful_requests:
        filling.add("source", notes.harmful_requests, "notes")
    elif None in items or "harmful" in items:
        filling.missing.append(
            "where the harmful requests come from (harmful_requests in the notes)"
        )
        if None in items:
            filling.missing.append("which requests are harmful (intent in the map)")
    else:
        filling.add("harmful requests", "none: no item is marked as harmful", "evidence")
    question = "Where do the harmful requests come from?"
    return filling.item(6, "Source of the harmful requests", question)


def _people_item(known: Known) -> CardItem:
    filling = Filling()
    panel, labels = known.panel, known.notes.human_labels
    for name in known.gold:
        labelled = int((panel.labels[:, panel.place(name)] >= 0).sum())
        filling.add(
            f"labels that count as the truth: {name}",
            f"{labelled:,} of {panel.responses:,} responses",
            "evidence",
        )
    if people := known.of_kind("person"):
        filling.add("people", ", ".join(people), "notes")
    if labels == "none":
        filling.add("labels by people", "none", "notes")
    elif labels is None:
        filling.missing.append(
            "whether there are labels by people, and whether those were blind "
            "(human_labels in the notes: none, or blind, people, responses, how)"
        )
    else:
        parts = [
            f"{labels.people:,} people" if labels.people else "",
            f"{labels.responses:,} responses" if labels.responses else "",
            ", ".join(labels.judges),
            labels.how or "",
        ]
        filling.add("labels by people", "; ".join(filter(None, parts)) or "some", "notes")
        if labels.blind is None:
            filling.missing.append("whether the people were blind (human_labels.blind)")
        else:
            blind = "yes" if labels.blind else "no, they knew the target or a judge's verdict"
            filling.add("blind", blind, "notes")
    question = "Which labels did people give, blind to target and judge, if any?"
    return filling.item(7, "Labels by people", question)


def _unused(panel: Panel, notes: CardNotes) -> tuple[str, ...]:
    places = (
        ("judges", notes.judges, panel.judges),
        ("classes", notes.classes, panel.classes),
        ("targets", notes.targets, panel.target.names),
    )
    return tuple(
        f"{place}.{name}"
        for place, stated, here in places
        for name in stated
        if name not in {*here, EVERYONE}
    )
