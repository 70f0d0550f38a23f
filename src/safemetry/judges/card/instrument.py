"""Items of the report card that say which instrument a judge is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from safemetry.evidence.identity import JudgeIdentity
from safemetry.judges.card.item import CardItem, Filling, grouped, listed
from safemetry.judges.card.notes import CardNotes, JudgeNote
from safemetry.judges.noise import NoiseFloor
from safemetry.judges.panel import NO_VERDICT, Panel

_VERSIONED: Final = re.compile(r"\d{4}|@\S")
"""A name with a date, a number of a snapshot, or a revision. A name without one stands for whatever
the provider serves at the time."""


@dataclass(frozen=True)
class Known:
    """What is known of the judges and targets of a panel.

    Parameters
    ----------
    panel
        The verdicts.
    identities
        Judge -> what the evidence says of it; a swapped judge has several.
    notes
        What the user adds.
    targets
        Target -> its settings.
    gold
        Judges whose labels count as the truth.
    """

    panel: Panel
    identities: Mapping[str, Sequence[JudgeIdentity]]
    notes: CardNotes
    targets: Mapping[str, Mapping[str, Any]]
    gold: tuple[str, ...]

    def of_kind(self, *kinds: str) -> list[str]:
        """The judges that the notes call so."""
        return [name for name in self.panel.judges if self.notes.of_judge(name).kind in kinds]

    def models(self) -> list[str]:
        """The judges that are models, as far as is known."""
        others = self.of_kind("person", "rule")
        return [name for name in self.panel.judges if name not in others]

    def stated(self, judge: str, part: str) -> list[Any]:
        """A part of the judge's identities, each value once."""
        values = [getattr(one, part) for one in self.identities.get(judge, ())]
        return list(dict.fromkeys(value for value in values if value))


def checkpoint_item(known: Known) -> CardItem:
    """Item 1: judge checkpoint, size, calls and combination."""
    filling = Filling()
    lacking: dict[str, list[str]] = {}
    models = known.models()
    for judge in known.panel.judges:
        note = known.notes.of_judge(judge)
        _tell_judge(filling, known, judge, note)
        if judge in models:
            for part in _lacks(known, judge, note):
                lacking.setdefault(part, []).append(judge)
    for part in ("checkpoint", "size", "calls", "combination"):
        filling.lacks(part, lacking.get(part, ()), f"judges.NAME.{part} in the notes")
    if any(known.notes.of_judge(name).kind is None for name in _unstated(lacking)):
        filling.missing.append(
            "where one of these is no model: judges.NAME.kind, person or rule, in the notes"
        )
    question = "Which judge gave the verdicts: checkpoint, size, calls and their combination?"
    return filling.item(1, "Judge", question)


def _unstated(lacking: Mapping[str, Sequence[str]]) -> dict[str, None]:
    return dict.fromkeys(name for names in lacking.values() for name in names)


def _tell_judge(filling: Filling, known: Known, judge: str, note: JudgeNote) -> None:
    calls, label = _verdicts(known.panel, judge), judge
    for name, values in (
        ("model", known.stated(judge, "model")),
        ("parser", known.stated(judge, "parser")),
        ("combination", known.stated(judge, "aggregation")),
    ):
        if values:
            filling.add(
                f"{label}: {name}", " / ".join(values), "evidence", answers=name != "parser"
            )
    if len(known.identities.get(judge, ())) > 1:
        several = f"{len(known.identities[judge])} judges under one name"
        filling.add(f"{label}: identities", several, "evidence", answers=False)
    said = "1 verdict a response"
    if calls > 1:
        said = f"up to {calls} verdicts a response, combined here by their majority"
    filling.add(f"{label}: verdicts", said, "evidence", answers=calls > 1)
    for name in ("kind", "checkpoint", "size", "calls", "combination"):
        value = getattr(note, name)
        if value is not None:
            filling.add(f"{label}: {name}", str(value), "notes")


def _verdicts(panel: Panel, judge: str) -> int:
    """The most verdicts that the judge gave on one response."""
    if len(panel.calls) == 1:
        return 1
    given = (panel.calls[:, :, panel.place(judge)] != NO_VERDICT).sum(axis=0)
    return int(given.max(initial=0))


def _lacks(known: Known, judge: str, note: JudgeNote) -> Iterator[str]:
    names = known.stated(judge, "model")
    versioned = [name for value in names for name in value.split(", ")]
    if not note.checkpoint and not (versioned and all(map(_VERSIONED.search, versioned))):
        yield "checkpoint"
    if not note.size:
        yield "size"
    repeated = _verdicts(known.panel, judge) > 1
    combined = note.combination or known.stated(judge, "aggregation") or repeated
    if note.calls is None and not repeated:
        yield "calls"
    if not combined and note.calls != 1:
        yield "combination"


def rubric_item(known: Known) -> CardItem:
    """Item 3: rubric text and edit history."""
    filling = Filling()
    notes = {name: known.notes.of_judge(name) for name in known.panel.judges}
    digests = [(n, " / ".join(map(str, known.stated(n, "rubric")))) for n in notes]
    for digest, names in grouped((n, value) for n, value in digests if value).items():
        filling.add(f"digest: {listed(names)}", digest, "evidence")
    texts = grouped((name, note.rubric) for name, note in notes.items() if note.rubric)
    for text, names in texts.items():
        filling.add(f"text: {listed(names)}", text, "notes")
    edits = grouped((name, _edits(note)) for name, note in notes.items() if note.rubric_history)
    for text, names in edits.items():
        filling.add(f"edits: {listed(names)}", text, "notes")
    filling.lacks(
        "text",
        [n for n, note in notes.items() if not note.rubric],
        "judges.NAME.rubric in the notes",
    )
    filling.lacks(
        "edit history",
        [name for name, note in notes.items() if not note.rubric_history],
        "judges.NAME.rubric_history in the notes, or none if it was never edited",
    )
    question = "What was the judge told, and how did that text change?"
    return filling.item(3, "Rubric", question)


def _edits(note: JudgeNote) -> str:
    if not note.rubric_history or note.rubric_history == "none":
        return "never edited"
    return "\n".join(f"{edit.version}: {edit.change}" for edit in note.rubric_history)


def temperature_item(known: Known, noise: NoiseFloor) -> CardItem:
    """Item 5: temperature of targets and judges, and the noise floor."""
    filling = Filling()
    notes = known.notes
    ours = {
        name: known.targets.get(name, {}).get("temperature") for name in known.panel.target.names
    }
    told = {name: notes.temperature_of(name) for name in ours}
    _temperatures(filling, "target", ours, told, "targets.NAME.temperature")
    of_judge = {name: _decoded(known.identities.get(name, ())) for name in known.models()}
    told = {name: notes.of_judge(name).temperature for name in of_judge}
    _temperatures(filling, "judge", of_judge, told, "judges.NAME.temperature")
    for row in noise.flips:
        filling.add(
            f"noise floor: {row.judge}",
            f"two verdicts on a response differ in class with a chance of {row.overall:.1%} "
            f"({row.responses:,} responses, up to {row.calls} verdicts each)",
            "evidence",
        )
    single = [name for name in noise.without if name in of_judge]
    filling.lacks("noise floor", single, "judge some responses again, as further calls")
    question = "At which temperatures did target and judge run, and how often does a judge flip?"
    return filling.item(5, "Temperature and noise floor", question)


def _temperatures(
    filling: Filling,
    what: str,
    evidence: Mapping[str, Any],
    notes: Mapping[str, str | None],
    how: str,
) -> None:
    """Temperatures from the evidence, else from the notes; where both differ, that is said."""
    seen = {name: _number(value) for name, value in evidence.items() if value is not None}
    for value, names in grouped(seen.items()).items():
        filling.add(f"{what} temperature {value}", listed(names), "evidence")
    told = {name: value for name, value in notes.items() if value is not None}
    added = [(n, value) for n, value in told.items() if seen.get(n) != value]
    for value, names in grouped(added).items():
        filling.add(f"{what} temperature {value}", listed(names), "notes")
    lacking = [name for name in evidence if name not in seen and name not in told]
    filling.lacks(f"temperature ({what})", lacking, f"{how} in the notes")
    contradicted = [name for name, _ in added if name in seen]
    filling.lacks(
        f"which temperature ({what}) is right, that of the evidence or that of the notes,",
        contradicted,
        how,
    )


def _decoded(identities: Sequence[JudgeIdentity]) -> str | None:
    """Temperature of a judge: one for all its models, or those of each."""
    found: list[str] = []
    for one in identities:
        parts = [one.decoding, *(v for v in one.decoding.values() if isinstance(v, Mapping))]
        values = [part["temperature"] for part in parts if part.get("temperature") is not None]
        if not values:
            return None
        found += [_number(value) for value in values]
    return " / ".join(dict.fromkeys(found)) or None


def _number(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return format(value, "g") if is_number else str(value)
