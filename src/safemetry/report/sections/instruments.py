"""Who judged, and what was measured with which settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from safemetry.evidence.border import Instrument
from safemetry.evidence.identity import JudgeIdentity, by_judge
from safemetry.findings import plain
from safemetry.report.blocks import Block, Column, Fold, Table, Text, name_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_ROWS: Final = 400
_UNSTATED: Final = "not stated"


class InstrumentsSection:
    """The judges with what is known of each, and the settings of the targets."""

    name = "instruments"
    order = 600

    def make(self, context: ReportContext) -> Part | None:
        """A table of judges, a row for each identity; the settings of targets on demand."""
        evidence = context.evidence
        known = by_judge(evidence.identities)
        blocks: list[Block] = [
            Text(
                "A judge is its model, decoding, rubric, parser and aggregation. Where one of them "
                "changes it is another judge, even under the same name."
            ),
            Table(
                "The judges",
                (
                    Column("judge", "name"),
                    Column("gives"),
                    Column("model"),
                    Column("rubric (digest)"),
                    Column("identity (digest)"),
                ),
                tuple(
                    _judge(name, instrument, identity)
                    for name, instrument in sorted(evidence.instruments.items())
                    for identity in _identities(known.get(name, ()))
                ),
            ),
        ]
        settings = {name: evidence.targets.get(name) for name in evidence.targets_seen}
        if any(settings.values()):
            blocks.append(Fold("Settings of the targets", (_targets(settings),)))
        unstated = [
            name
            for name in evidence.instruments
            if JudgeIdentity(name) in known.get(name, [JudgeIdentity(name)])
        ]
        return Part(
            title="Who judged",
            blocks=blocks,
            limits=[_unstated(unstated)] if unstated else [],
        )


def _unstated(judges: Sequence[str]) -> str:
    who = "the judge" if len(judges) == 1 else f"{len(judges)} judges"
    return f"Which checkpoint, rubric and settings {who} had: the source does not state them."


def _identities(stated: Sequence[JudgeIdentity]) -> Sequence[JudgeIdentity | None]:
    """The identities of a judge, a row for each; one row too where none is stated."""
    if not stated:
        return [None]
    return sorted(stated, key=lambda identity: identity.digest)


def _judge(
    name: str, instrument: Instrument, identity: JudgeIdentity | None
) -> tuple[str, str, str, str, str]:
    return (
        name_of(name),
        _gives(instrument),
        name_of(identity.model) if identity and identity.model else _UNSTATED,
        name_of(identity.rubric, 16) if identity and identity.rubric else _UNSTATED,
        identity.digest if identity else _UNSTATED,
    )


def _gives(instrument: Instrument) -> str:
    said = []
    if instrument.labels:
        said.append(
            "classes " + ", ".join(name_of(label, 24) for label in sorted(instrument.labels))
        )
    if instrument.scored:
        scale = instrument.scale
        ends = (
            f" from {scale.scale_min:g} to {scale.scale_max:g}"
            if scale.scale_min is not None and scale.scale_max is not None
            else ""
        )
        side = f", higher is {scale.higher_is}" if scale.higher_is else ""
        said.append(f"a score{ends}{side}")
    return "; ".join(said) or "no verdict"


def _targets(settings: Mapping[str, Mapping[str, Any] | None]) -> Table:
    return Table(
        "What the source says of each target",
        (Column("target", "name"), Column("settings")),
        tuple(
            (
                name_of(target),
                name_of(json.dumps(plain(stated), ensure_ascii=False), 240)
                if stated
                else _UNSTATED,
            )
            for target, stated in list(settings.items())[:_ROWS]
        ),
    )
