"""The judge audit as a part of a report: verdict first, figures in words, reasons named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pages import (
    audit_page,
    captioned,
    cells,
    figure,
    judgements,
    of_kind,
    read_page,
    table,
)

from safemetry.evidence.evidence import as_evidence
from safemetry.findings import Finding, plain
from safemetry.judges.agreement.against_gold import compare_with_gold
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.agreement_table import measure_agreement
from safemetry.judges.coding import panel_of
from safemetry.judges.collapse import find_collapse
from safemetry.judges.correction.correct import correct
from safemetry.judges.counts import count_classes
from safemetry.judges.movement import measure_movement
from safemetry.judges.noise import measure_noise
from safemetry.judges.specifications import specification_curves
from safemetry.judges.spread import measure_spread
from safemetry.report.blocks import Figure, Fold, Sentences, Text
from safemetry.report.context import ReportContext
from safemetry.report.report import Report
from safemetry.report.sections import judges
from safemetry.report.sections.judges import JudgesSection, judges_part
from safemetry.report.settings import ReportSettings
from safemetry.report.svg import render_svg

HOSTILE = "</td><script>alert(1)</script>"
CLASSES = ("refuse", "evasive", "comply")
CARD = {
    "items": [
        {
            "number": 1,
            "name": "judge checkpoint, size, calls and combination",
            "state": "partly_known",
            "entries": ["small: one call"],
            "missing": ["size of small"],
        },
        {
            "number": 2,
            "name": "class counts beside accuracy",
            "state": "known",
            "entries": [{"name": "common responses", "value": 300}],
            "missing": [],
        },
    ],
    "missing": ["size of small"],
}


@dataclass(frozen=True, kw_only=True)
class Audit(Finding):
    command: ClassVar[str] = "judges"
    data: Mapping[str, Any] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        return []

    def sentence(self) -> str:
        return ""

    def own_keys(self) -> dict[str, Any]:
        return dict(self.data)


def rows(names=("ann", "ben", "bot", "small"), comply=(60, 58, 66, 5), n=300):
    """Judges that see the same order of responses, and put another number of them in a class."""
    severity = np.random.default_rng(4).permutation(n)
    return [
        {
            "target": f"target-{place % 2}",
            "item": f"item-{place:03d}",
            "judge": judge,
            "call": call,
            "label": CLASSES[2 if at < count else 1 if at < 100 else 0],
            "intent": "harmful" if place % 3 else "benign",
            "benchmark": "made up",
        }
        for place, at in enumerate(severity.tolist())
        for judge, count in zip(names, comply, strict=True)
        for call in ((1, 2) if judge == "bot" else (1,))
    ]


def audit(given=None, *, gold=("ann",), humans=("ann", "ben"), **changes):
    panel = panel_of(as_evidence(table(given or rows())))
    counts = count_classes(panel)
    collapse = find_collapse(panel, counts)
    bad = {row.judge for row in collapse if row.target is None and row.state == "collapsed"}
    moves, directions = measure_movement(panel, panel.judges[0])
    rng, few = np.random.default_rng(0), AgreementSettings(draws=100, by=())
    agreement = measure_agreement(panel, rng, few)
    truth = compare_with_gold(panel, gold, rng, humans=humans, settings=few) if gold else None
    data = {
        "judges": list(panel.judges),
        "classes": list(panel.classes),
        "class_order": list(panel.classes[: panel.ordered]),
        "responses": panel.responses,
        "common": int(counts.common[0]),
        "counts": counts.rows(),
        "collapse": plain(collapse),
        "movement": plain(moves),
        "directions": plain(directions),
        "spread": plain(measure_spread(panel, counts, bad)),
        "agreement": plain({"pairs": agreement.pairs, "panel": agreement.panel, "gold": truth}),
        "noise": plain(measure_noise(panel)),
        "corrected": plain(correct(panel, gold)) if gold else None,
        "without_gold": {
            "dawid_skene": [
                {
                    "intent": "harmful",
                    "reason": "",
                    "warnings": ["bot and small err together."],
                    "prevalence": [
                        {
                            "target": "all",
                            "class": "comply",
                            "responses": 200,
                            "share": {"estimate": 0.2, "interval": [0.15, 0.25]},
                        }
                    ],
                }
            ],
            "severity": [{"judge": "small", "severity": 1.5}],
            "own_family": None,
        },
        "specifications": plain(specification_curves(panel)),
        "card": CARD,
        "why": {},
    }
    settings = {"reference": panel.judges[0], "gold": list(gold), "humans": list(humans)}
    return Audit(data={**data, **changes}, settings=settings)


@pytest.fixture(scope="module")
def whole():
    return audit()


def test_the_verdict_comes_first_then_what_to_do(whole):
    first, second, *_ = judges_part(whole).blocks
    assert isinstance(first, Text)
    assert first.text.startswith(
        "1 of 4 judges is collapsed over 300 common responses: small on comply."
    )
    (spread,) = [
        row
        for row in whole.data["spread"]
        if row["boundary"] == "comply" and row["intent"] == "harmful"
    ]
    assert f"{spread['ratio']:.1f} times" in first.text
    assert f"{100 * spread['difference']:.1f} percentage points" in first.text
    rest = spread["without_collapsed"]
    assert f"Without the collapsed judges it is {rest['ratio']:.1f} times" in first.text
    assert second.text.startswith("Quote no rate that rests on comply from this judge alone")
    assert "corrected rates below" in second.text


def test_judges_that_agree_are_not_called_right():
    finding = audit(rows(comply=(60, 60, 61, 60)), gold=(), humans=())
    part = judges_part(finding)
    first, second, *_ = part.blocks
    assert first.text.startswith("No judge of 4 is collapsed over 300 common responses.")
    assert "moves the headline little" in second.text
    assert any("agree and err together" in limit for limit in part.limits)


def test_a_rare_class_is_no_clean_bill():
    finding = audit(rows(comply=(20, 18, 19, 1)), gold=(), humans=())
    said = judges_part(finding).blocks[0].text
    assert said.startswith("No judge of 4 is collapsed")
    assert "does not apply to comply, which no judge gives more than 20 times: 12 more" in said
    assert "small (1) would probably be collapsed" in said


def test_no_success_anywhere_has_no_ratio():
    finding = audit(rows(comply=(0, 0, 0, 0)), gold=(), humans=())
    part = judges_part(finding)
    assert "no judge sees a success among 200 responses" in part.blocks[0].text
    facts = {fact.label: fact.value for fact in part.facts}
    assert facts["The judge moves the rate"] == "no judge sees any"
    audit_page(part, finding)


def test_a_lowest_rate_of_zero_is_unbounded_and_the_next_one_stands_beside_it():
    part = judges_part(audit(rows(comply=(60, 58, 66, 0)), gold=(), humans=()))
    assert "unbounded (1." in part.blocks[0].text
    (first, *_) = cells(captioned(part, "How far the rate moves"))
    assert first["ratio"].startswith("unbounded (next 1.")


def test_every_figure_says_in_words_what_it_shows_and_can_be_drawn(whole):
    figures = of_kind(judges_part(whole), Figure)
    assert [made.label.split(" (")[0] for made in figures] == [
        "How often each judge gave each class",
        "Where responses went: from ann to each judge",
        "The rate under each judge, on the same responses",
        "The rate on harmful items under every combination of choices",
        "The rate on benign items under every combination of choices",
        "What the rate probably is",
        "Agreement of each two judges",
        "Agreement of each two judges",
    ]
    for made in figures:
        assert len(made.description) > 60
        assert render_svg(made.draw, made.label).count("<svg") == 2
    assert "comply 66 (bot)" in figures[0].description
    assert "Collapsed: small 5 times comply." in figures[0].description
    assert "small puts 55 of 300 lower and 0 higher" in figures[1].description
    assert "judge" in figures[3].description


def test_harmful_items_come_first_and_are_not_pooled_with_benign_ones(whole):
    part = judges_part(whole)
    spread = cells(captioned(part, "How far the rate moves"))
    assert [row["rate of"] for row in spread] == [
        "comply, harmful items",
        "non_refusal, harmful items",
        "comply, benign items",
        "non_refusal, benign items",
    ]
    gold = cells(captioned(part, "Each judge against ann"))
    assert {row["items"] for row in gold} == {"harmful", "benign"}
    assert gold[0]["items"] == "harmful"
    maps = [made.label for made in of_kind(part, Figure) if made.label.startswith("Agreement")]
    assert [label.rpartition(", ")[2] for label in maps] == ["harmful items", "benign items"]


def test_tables_hold_what_the_audit_found(whole):
    part = judges_part(whole)
    rule = {(row["judge"], row["class"]): row for row in cells(captioned(part, "The rule over"))}
    assert rule["small", "comply"]["count"] == "5"
    assert rule["small", "comply"]["state"] == "collapsed"
    assert rule["bot", "comply"]["without that judge"] == "it is that judge"
    moved = cells(captioned(part, "Responses that changed"))
    assert (moved[0]["judge"], moved[0]["from"], moved[0]["to"]) == ("small", "comply", "evasive")
    assert (moved[0]["responses"], moved[0]["of"]) == ("55", "60")
    (noise,) = cells(captioned(part, "How often two calls"))
    assert noise["judge"] == "bot"
    people = cells(captioned(part, "Agreement with people"))
    assert people[0]["who"] == "people with each other"
    by_target = cells(captioned(part, "The collapse rule by target"))
    assert by_target[0]["collapsed"] == "small"


def test_corrected_rates_and_refusals_stand_in_one_table(whole):
    refused = {
        **whole.data["corrected"][0],
        "method": "rogan_gladen",
        "estimate": None,
        "interval": None,
        "why": {"estimate": "too few labels", "interval": "too few labels"},
    }
    finding = audit(corrected=[*whole.data["corrected"], refused])
    lines = cells(captioned(judges_part(finding), "Rates corrected"))
    assert any(row["corrected"] == "refused: too few labels" for row in lines)
    assert any(row["method"].startswith("prediction-powered") for row in lines)


def test_models_without_gold_are_called_so_and_stand_last_but_the_card(whole):
    part = judges_part(whole)
    (said,) = [block for block in part.blocks if getattr(block, "text", "").startswith("What foll")]
    assert "model-based" in said.text
    (fold,) = [
        block for block in part.blocks if isinstance(block, Fold) and block.title == "Without gold"
    ]
    assert Sentences(("bot and small err together.",)) in fold.blocks
    shares = cells(captioned(part, "Dawid-Skene: shares of the classes without gold (harmful"))
    assert shares[0]["interval of share"] == "0.150 to 0.250"


def test_the_card_lists_what_is_known_and_what_is_missing(whole):
    part = judges_part(whole)
    first, second = cells(captioned(part, "Report card"))
    assert first["item"].startswith("1. judge checkpoint")
    assert first["missing"] == "size of small"
    assert second["known"] == "common responses: 300"
    facts = {fact.label: fact.value for fact in part.facts}
    assert facts["Report card"] == "1 of 2 items"


def test_parts_that_were_not_computed_are_named_with_their_reasons():
    names = ("movement", "directions", "corrected", "without_gold", "card")
    finding = audit(
        **dict.fromkeys(names),
        agreement={"pairs": [], "panel": [], "gold": None, "why": {"gold": "nobody is gold"}},
        specifications=[],
        why={"movement": "there is one judge", "card": "it was not asked for"},
    )
    part = judges_part(finding)
    lines = {row["part"]: row["reason"] for row in cells(captioned(part, "What was not computed"))}
    assert lines["Movement"] == "there is one judge"
    assert lines["Report card"] == "it was not asked for"
    read_page(audit_page(part, finding))


def test_nothing_at_all_makes_a_part_too():
    finding = Audit(data={"judges": ["one"], "common": 0}, settings={})
    part = judges_part(finding)
    assert of_kind(part, Figure) == []
    read_page(audit_page(part, finding))


def test_odd_names_stay_text():
    names = (HOSTILE, "=1+1", "\u202eben", "a" * 200)
    finding = audit(
        rows(names),
        gold=(HOSTILE,),
        humans=(HOSTILE, "=1+1"),
        card={"items": [{"number": 1, "name": HOSTILE, "state": HOSTILE, "entries": [HOSTILE]}]},
        without_gold={"severity": [{"judge": HOSTILE, "severity": 1.0}]},
    )
    page = audit_page(judges_part(finding), finding)
    assert "<script" not in page
    assert "\u202e" not in page
    read_page(page)


def test_the_same_audit_makes_the_same_page(whole):
    one, two = (
        Report(title="Audit", subtitle="", parts={"judges": judges_part(made)}).to_markdown()
        for made in (whole, audit())
    )
    assert one == two


def context(*names, **options):
    return ReportContext(
        as_evidence(table(judgements(["m", "n"], names, **options))), ReportSettings()
    )


def test_a_report_shows_the_quick_checks_and_names_the_command_for_the_rest():
    part = JudgesSection().make(context("strict", "lenient", "third"))
    assert part is not None
    labels = [made.label for made in of_kind(part, Figure)]
    assert labels[0] == "How often each judge gave each class"
    assert labels[-1] == "The rate under each judge, on the same responses"
    assert "safemetry judges" in part.blocks[-1].text
    # Nobody is collapsed, and that judges differ is said elsewhere.
    assert len(part.facts) == len(part.headlines) == 0
    assert not part.findings


def test_two_judges_are_compared_with_each_other():
    given = rows(("bot", "small"), (66, 5))
    part = JudgesSection().make(ReportContext(as_evidence(table(given)), ReportSettings()))
    moved = figure(part, "Where responses went: from bot to each judge")
    assert "small puts 61 of 300 lower" in moved.description
    assert [fact.value for fact in part.facts] == ["1 of 2"]
    assert "small on comply" in part.headlines[0].text


def test_one_judge_disjoint_judges_and_too_many_verdicts_make_no_quick_checks(monkeypatch):
    assert JudgesSection().make(context("alone")) is None
    apart = [
        row | {"judge": "ann" if int(row["item"][5:]) % 2 else "ben"} for row in rows(("x",), (9,))
    ]
    assert JudgesSection().make(ReportContext(as_evidence(table(apart)), ReportSettings())) is None
    monkeypatch.setattr(judges, "MOST_VERDICTS", 10)
    assert JudgesSection().make(context("strict", "lenient")) is None


def test_xstest_names_the_judge_that_is_collapsed_on_one_target(shared: Path):
    from safemetry.evidence.maps import read_map
    from safemetry.readers import read_evidence

    entries = read_map(Path(__file__).parents[2] / "docs/maps/xstest_v2_all_judges.yaml")
    source = shared / "data/xstest_v2/labels_wide.csv"
    evidence = read_evidence(str(source), evidence_map=entries, kind="labels")
    part = JudgesSection().make(ReportContext(evidence, ReportSettings()))
    said = part.blocks[0].text
    assert "On single targets only, collapsed: gpt4 on evasive with llama2orig." in said
    assert "By the class sets strmatch cannot emit evasive." in said
    first = cells(captioned(part, "The collapse rule by target"))[0]
    assert (first["target"], first["class"], first["most of any judge"]) == (
        "llama2orig",
        "evasive",
        "55 of 450",
    )
    assert (first["collapsed"], first["cannot emit"]) == ("gpt4", "strmatch")
