"""Whether the judges can be believed: the judge audit as a part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.findings import Finding, plain
from safemetry.report.blocks import Block, Fact, Headline, Text, name_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part
from safemetry.report.sections.construct_tables import plain_table
from safemetry.report.sections.judges_agreement import agreement_blocks
from safemetry.report.sections.judges_card import card_blocks, model_blocks
from safemetry.report.sections.judges_checks import (
    correction_blocks,
    curve_blocks,
    label_blocks,
    noise_blocks,
)
from safemetry.report.sections.judges_counts import count_blocks, movement_blocks, spread_blocks
from safemetry.report.sections.judges_words import Row, advice, facts, verdict

MOST_VERDICTS: Final = 2_000_000
_TITLE: Final = "Whether the judges can be believed"
_PARTS: Final = {
    "collapse": "Class counts and collapse",
    "movement": "Movement",
    "spread": "Spread",
    "agreement": "Agreement",
    "agreement.gold": "Accuracy against gold",
    "noise": "Noise floor",
    "corrected": "Corrected rates",
    "without_gold": "Models without gold",
    "specifications": "Specification curve",
    "card": "Report card",
}
_NOT_RIGHT: Final = (
    "Which judge is right: nobody's labels are named as the truth, and judges can agree "
    "and err together."
)
_AS_GOLD: Final = "Whether the labels that count as truth are right: they are taken as they are."
_LEADER: Final = (
    "Whether a judge that gives a class seldom is too strict, or the one that gives it most is too "
    "lenient: the collapse rule compares the two."
)
_COMMON: Final = (
    "What class counts and spread would be over responses that only some of the judges judged."
)


class JudgesSection:
    """Counts, collapse, movement and spread where several judges judged the same responses."""

    name = "judges"
    order = 580

    def make(self, context: ReportContext) -> Part | None:
        """The quick checks, against the majority of the panel, or from one judge to the other."""
        data = _quick(context)
        if data is None:
            return None
        # How far the judges differ is on the first screen already.
        collapsed = any(row["state"] == "collapsed" for row in data["collapse"])
        return Part(
            title=_TITLE,
            blocks=[
                Text(verdict(data)),
                Text(advice(data)),
                *count_blocks(data),
                *movement_blocks(data),
                *spread_blocks(data),
                Text(
                    "These are quick checks. Agreement, accuracy against people, the noise floor, "
                    "corrected rates and the specification curve are what safemetry judges shows."
                ),
            ],
            facts=[*facts(data)][:1] if collapsed else [],
            headlines=[Headline("The judges", verdict(data))] if collapsed else [],
            limits=[_NOT_RIGHT, _LEADER, _COMMON],
        )


def judges_part(finding: Finding) -> Part:
    """The whole judge audit as a part of a report.

    Parameters
    ----------
    finding
        A `JudgesFinding`, or another finding with its keys; a part of it that is None is named with
        its reason.
    """
    data = finding.to_dict()
    said = verdict(data)
    blocks: list[Block] = [
        Text(said),
        Text(advice(data)),
        *count_blocks(data),
        *movement_blocks(data),
        *spread_blocks(data),
        *curve_blocks(data),
        *correction_blocks(data),
        *label_blocks(data),
        *agreement_blocks(data),
        *noise_blocks(data),
        *model_blocks(data.get("without_gold")),
        *card_blocks(data.get("card")),
        *_not_computed(data),
    ]
    gold = (data.get("settings") or {}).get("gold")
    return Part(
        title=_TITLE,
        blocks=blocks,
        facts=[*facts(data), *_card_fact(data.get("card"))],
        headlines=[Headline("The judges", said)],
        limits=[_AS_GOLD if gold else _NOT_RIGHT, _LEADER, _COMMON],
        findings=[finding],
    )


def _card_fact(card: Row | None) -> Iterator[Fact]:
    items = (card or {}).get("items") or []
    if items:
        whole = sum(not item.get("missing") for item in items)
        note = "nothing is missing" if whole == len(items) else "the rest lacks something"
        yield Fact("Report card", f"{whole} of {len(items)} items", note)


def _not_computed(data: Mapping[str, Any]) -> Iterator[Block]:
    """A sentence for each part that is None, with the reason."""
    reasons: dict[str, str] = dict(data.get("why") or {})
    inner = (data.get("agreement") or {}).get("why") or {}
    reasons |= {f"agreement.{name}": why for name, why in inner.items()}
    rows = [
        {"part": words, "reason": name_of(reasons[name], 300)}
        for name, words in _PARTS.items()
        if name in reasons and (data.get(name) is None)
    ]
    if rows:
        yield plain_table("What was not computed", rows)


def _quick(context: ReportContext) -> Row | None:
    """The keys of an audit that take no time; None where there is nothing to compare."""
    evidence = context.evidence
    if len(evidence.instruments) < 2 or _verdicts(context) > MOST_VERDICTS:
        return None
    from safemetry.judges.coding import panel_of
    from safemetry.judges.collapse import find_collapse
    from safemetry.judges.counts import count_classes
    from safemetry.judges.movement import PANEL_MAJORITY, measure_movement
    from safemetry.judges.spread import measure_spread

    rule = context.rule if context.rule.threshold is not None else None
    try:
        panel = panel_of(evidence, success=rule)
    except InputError:  # the rule reads no judge: the rates say so
        return None
    if len(panel.judges) < 2 or not panel.common.any():
        return None
    counts = count_classes(panel)
    collapse = find_collapse(panel, counts)
    inside = set(panel.classes[: panel.ordered])
    collapsed = {
        row.judge
        for row in collapse
        if row.target is None and row.state == "collapsed" and row.name in inside
    }
    # Two judges have a majority only where they agree, so that nothing would move.
    reference = PANEL_MAJORITY if len(panel.judges) > 2 else panel.judges[0]
    try:
        moves, directions = measure_movement(panel, reference, level=context.settings.level)
    except InputError:  # the judges are split evenly everywhere
        moves, directions = (), ()
    return {
        "judges": list(panel.judges),
        "classes": list(panel.classes),
        "class_order": list(panel.classes[: panel.ordered]),
        "common": int(counts.common[0]),
        "collapse": plain(collapse),
        "movement": plain(moves),
        "directions": plain(directions),
        "spread": plain(measure_spread(panel, counts, collapsed)),
        "settings": {"reference": reference},
    }


def _verdicts(context: ReportContext) -> int:
    rows = context.evidence.rows.select(nw.len())
    return int(rows.collect("pyarrow").item())
