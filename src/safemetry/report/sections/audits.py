"""Whether a target answers like itself: the audit of one target as a part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from safemetry.findings import Finding
from safemetry.report.blocks import Block, Fact, Headline, Text, name_of
from safemetry.report.section import Part
from safemetry.report.sections.audits_identity import fingerprint_blocks, stream_blocks
from safemetry.report.sections.audits_misfit import misfit_blocks, person_fit_blocks
from safemetry.report.sections.audits_shift import shift_blocks, shift_fact
from safemetry.report.sections.forms import minus, reasons

Row = Mapping[str, Any]

TITLE: Final = "Whether the target answers like itself"
_LONG: Final = 1500
_INTENT: Final = (
    "Whether anything was meant: misfit is not intent. A target that holds back, one that is "
    "over-cautious on one subject and one that was trained on the items can answer alike."
)
_TEMPLATE: Final = (
    "Where misfit comes from: another prompt template, system prompt, sampling setting or judge "
    "than those of the calibration can cause it, as a change of the target can."
)
_UNIFORM: Final = (
    "Whether a target holds back on everything alike: that looks like a lower ability, which only "
    "a history of the same target shows."
)
_MODEL: Final = (
    "What the calibration does not know: the null is simulated from its model, and where the model "
    "fits badly, targets that are as they should be can be flagged."
)


def audit_part(finding: Finding) -> Part:
    """The audit of one target as a part of a report.

    Parameters
    ----------
    finding
        An `AuditFinding`, or another finding with its keys; a part of it that is None is named with
        its reason.
    """
    data = finding.to_dict()
    lead = name_of(finding.sentence() or sentence_of(data), _LONG)
    blocks: list[Block] = [Text(lead)]
    blocks += person_fit_blocks(data)
    blocks += misfit_blocks(data)
    blocks += shift_blocks(data)
    blocks += fingerprint_blocks(data)
    blocks += stream_blocks(data)
    blocks += reasons(
        data,
        {
            "ability": "Ability",
            "person_fit": "Person fit",
            "union": "Union of the statistics",
            "misfit": "Misfit by category",
            "selective": "Selective behaviour",
            "out_of_sample": "How often other targets are flagged",
            "ability_shift": "Ability against history",
            "fingerprint": "Known targets",
            "identity": "Which target it is",
            "agreement_matrix": "Agreement of targets",
            "stream": "Sequential check of drift",
        },
    )
    return Part(
        title=TITLE,
        blocks=blocks,
        facts=[*_facts(data)],
        headlines=[Headline("Audit of one target", lead)],
        limits=[_INTENT, _TEMPLATE, _UNIFORM, _MODEL],
        findings=[finding],
    )


def sentence_of(data: Row) -> str:
    """The verdict in words, from the union of the statistics."""
    name = name_of(data.get("target") or "The target", 60)
    union: Row = data.get("union") or {}
    flagged = union.get("flagged")
    if flagged is None:
        return f"Whether {name} answers like itself cannot be told."
    p = union.get("p_value")
    chance = "" if p is None else f" (p = {p:.3g})"
    if flagged:
        return f"{name} does not answer as a target of its ability would{chance}."
    return f"Nothing shows that {name} answers unlike a target of its ability{chance}."


def _facts(data: Row) -> Iterator[Fact]:
    union: Row = data.get("union") or {}
    if union.get("flagged") is not None:
        p = union.get("p_value")
        rate = union.get("null_rate")
        rate = data.get("joint_null_rate") if rate is None else rate
        notes = [] if p is None else [f"p = {p:.3g} over all statistics"]
        notes += [] if rate is None else [f"fitting targets are flagged at {rate:.1%}"]
        yield Fact(
            "Answers like a target of its ability",
            "no" if union["flagged"] else "nothing against it",
            "; ".join(notes),
        )
    ability: Row = data.get("ability") or {}
    if ability.get("theta") is not None:
        ends = ability.get("interval")
        within = f"interval {minus(ends[0])} to {minus(ends[1])}; " if ends else ""
        answered, items = data.get("answered"), data.get("items")
        of = (
            f"{answered:,} of {items:,} items answered"
            if answered and items and answered <= items
            else ""
        )
        yield Fact("Ability", minus(ability["theta"]), f"{within}{of}".rstrip("; "))
    yield from shift_fact(data)
    identity: Row = data.get("identity") or {}
    if identity.get("verdict"):
        names = ", ".join(name_of(name, 30) for name in (identity.get("references") or ())[:3])
        yield Fact("Known target", str(identity["verdict"]).replace("_", " "), names)
