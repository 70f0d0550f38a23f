"""The audit of one target as a part of a report: verdict first, rates, reasons, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from pages import audit_page, captioned, cells, figure, of_kind, read_page

from safemetry.findings import Finding
from safemetry.report.blocks import Figure, Text
from safemetry.report.sections.audits import audit_part, sentence_of
from safemetry.report.svg import render_svg

HOSTILE = "</td><script>alert(1)</script>"
CATEGORIES = ("chemical_biological", "copyright", "cybercrime", "harassment", None)


@dataclass(frozen=True, kw_only=True)
class Audit(Finding):
    command: ClassVar[str] = "audit"
    data: Mapping[str, Any] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        return []

    def sentence(self) -> str:
        return ""

    def own_keys(self) -> dict[str, Any]:
        return dict(self.data)


def fit_row(name, value, cutoff, side, flagged, quantiles, **more):
    return {
        "statistic": name,
        "value": value,
        "cutoff": cutoff,
        "side": side,
        "p_value": 0.0004 if flagged else 0.31,
        "null_rate": 0.048,
        "flagged": flagged,
        "null_quantiles": quantiles,
        **more,
    }


def audit(name="model-x", categories=CATEGORIES, **changes):
    rng = np.random.default_rng(3)
    residuals = sorted(rng.normal(0, 1.3, 450).tolist(), key=abs, reverse=True)
    names = [f"{name}-kin-{place}" for place in range(8)] + [name]
    values = np.clip(0.7 + 0.05 * rng.normal(size=(9, 9)), 0, 1)
    values[:4, :4] = 0.95
    values = (values + values.T) / 2
    data = {
        "target": name,
        "items": 400,
        "answered": 392,
        "ability": {"theta": -0.62, "se": 0.11, "interval": [-0.84, -0.4]},
        "person_fit": [
            fit_row("l_z_star", -3.9, -1.7, "low", True, [-2.6, -1.7, -0.7, 0.05, 0.72, 1.5, 2.1]),
            fit_row("infit", 1.03, 1.12, "high", False, [0.86, 0.9, 0.96, 1, 1.04, 1.11, 1.17]),
            fit_row("outfit", 1.9, 1.3, "high", True, [0.6, 0.7, 0.86, 0.97, 1.1, 1.3, 1.6]),
            fit_row("u3", 0.21, 0.28, "high", False, [0.1, 0.13, 0.17, 0.2, 0.23, 0.28, 0.33]),
            fit_row("h_t", None, None, "low", None, None, why={"value": "one target is known"}),
        ],
        "joint_null_rate": 0.081,
        "union": {"p_value": 0.0009, "level": 0.05, "flagged": True, "null_rate": 0.047},
        "misfit": [
            {
                "category": category,
                "items": 90 - 10 * place,
                "value": value,
                "p_value": 0.0002 if place == 1 else 0.4,
                "p_adjusted": 0.001 if place == 1 else 1.0,
                "flagged": place == 1,
            }
            for place, (category, value) in enumerate(
                zip(categories, (0.7, -4.6, 1.2, 0.3, -0.4), strict=True)
            )
        ],
        "misfit_items": [
            {
                "item": f"{name}-item-{place}",
                "category": categories[place % len(categories)],
                "residual": residual,
                "expected": 0.7,
                "observed": 1.0 if residual > 0 else 0.0,
            }
            for place, residual in enumerate(residuals)
        ],
        "selective": [
            {
                "category": category,
                "items": 80,
                "difference": value,
                "se": 0.3,
                "p_value": 0.2,
                "p_adjusted": 0.6,
                "flagged": value < -1,
            }
            for category, value in zip(categories, (0.2, -1.6, 0.5, 0.1, -0.2), strict=True)
        ],
        "ability_shift": {
            "difference": -0.54,
            "interval": [-0.85, -0.22],
            "equivalence": {"margin": 0.3, "p_value": 0.9},
            "resolution": {"power": 0.8, "lower": 0.44, "higher": 0.47},
            "points": -6.2,
            "points_interval": [-9.8, -2.5],
            "verdict": "shifted",
        },
        "fingerprint": [
            {
                "reference": names[place],
                "agreement": 0.95 - 0.03 * place,
                "interval": [0.9 - 0.03 * place, 0.98 - 0.03 * place],
                "informative_items": 212,
                "log_likelihood_ratio": 12.4 - 6 * place,
                "verdict": "cannot_tell" if place < 2 else "different",
                "group": [names[0], names[1]] if place < 2 else [names[place]],
            }
            for place in range(8)
        ],
        "identity": {
            "verdict": "cannot_tell",
            "references": names[:2],
            "why": "two known targets are not told apart",
        },
        "agreement_matrix": {
            "names": names,
            "pairs": [
                {
                    "first": names[row],
                    "second": names[column],
                    "agreement": float(values[row, column]),
                    "items": 120,
                }
                for row in range(9)
                for column in range(row)
            ],
        },
        "stream": {
            "e_values": np.exp(np.cumsum(np.full(40, 0.08))).tolist(),
            "threshold": 20.0,
            "stopped_at": 38,
            "verdict": "different",
        },
    }
    return Audit(data={**data, **changes}, settings={"seed": 2026, "simulations": 1000})


def all_words(part):
    return " ".join(block.text for block in of_kind(part, Text))


def test_the_verdict_comes_first_and_names_the_target():
    part = audit_part(audit())
    assert isinstance(part.blocks[0], Text)
    assert "model-x does not answer as a target of its ability would" in part.blocks[0].text
    assert part.headlines[0].text == part.blocks[0].text


@pytest.mark.parametrize(
    ("union", "words"),
    [
        ({"flagged": False, "p_value": 0.4}, "Nothing shows"),
        ({"flagged": None, "why": "too few"}, "cannot be told"),
        (None, "cannot be told"),
    ],
)
def test_a_verdict_that_is_not_reached_is_not_claimed(union, words):
    assert words in sentence_of({"target": "m", "union": union})


def test_every_figure_says_in_words_what_it_shows_and_can_be_drawn():
    figures = of_kind(audit_part(audit()), Figure)
    said = {made.label: made.description for made in figures}
    assert len(said) == len(figures) == 7
    for made in figures:
        assert len(made.description) > 40
        assert render_svg(made.draw, made.label).count("<svg") == 2
    assert "l_z*, outfit are flagged" in said[next(n for n in said if n.startswith("Person fit"))]


def test_achieved_rates_stand_beside_each_statistic_and_for_all_together():
    part = audit_part(audit())
    rows = {row["statistic"]: row for row in cells(captioned(part, "Person fit"))}
    assert rows["l_z*"]["flags of fitting targets"] == "4.80%"
    assert (rows["l_z*"]["p"], rows["l_z*"]["flagged"]) == ("<0.001", "flagged")
    assert rows["H^T"]["flagged"] == "unknown: one target is known"
    assert "at a rate of 8.10%" in all_words(part)
    assert "flagged at level 5.00% (p <0.001), which flags 4.70%" in all_words(part)


def test_categories_and_items_that_carry_the_misfit_are_named():
    part = audit_part(audit())
    assert "copyright" in figure(part, "Misfit by category").description
    assert "selective in: copyright" in all_words(part)
    rows = cells(captioned(part, "Items with the largest residuals"))
    assert len(rows) == 200
    assert rows[0]["item"] == "model-x-item-0"
    assert "250 more" in captioned(part, "Items with the largest residuals").note
    assert {row["category"] for row in rows} >= {"copyright", "no category"}


def test_the_shift_is_told_with_margin_and_resolution():
    part = audit_part(audit())
    text = figure(part, "Ability against history").description
    minus = "\N{MINUS SIGN}"
    assert text.startswith("The ability has shifted.")
    assert f"{minus}0.54, interval {minus}0.85 to {minus}0.22" in text
    assert "up to 0.30 either way" in text
    assert "a fall of 0.44 or a rise of 0.47" in text
    facts = {fact.label: fact.value for fact in part.facts}
    assert facts["Ability against history"] == "shifted"


def test_targets_that_are_not_told_apart_stand_together():
    part = audit_part(audit())
    rows = cells(captioned(part, "Known targets"))
    assert rows[0]["not told apart from"] == "model-x-kin-1"
    assert rows[0]["verdict"] == "cannot tell"
    assert rows[2]["not told apart from"] == ""
    assert "or whether it is one, cannot be told: model-x-kin-0, model-x-kin-1." in all_words(part)


def test_parts_without_numbers_are_named_with_their_reason():
    names = ("ability_shift", "stream", "agreement_matrix", "misfit_items", "selective")
    why = {"ability_shift": "no history was given", "stream": "no order is known"}
    part = audit_part(audit(**dict.fromkeys(names), why=why))
    rows = {row["part"]: row["reason"] for row in cells(captioned(part, "What was not computed"))}
    assert rows == {
        "Ability against history": "no history was given",
        "Sequential check of drift": "no order is known",
    }


def test_nothing_but_a_name_makes_a_part_too():
    finding = Audit(data={"target": "m"})
    part = audit_part(finding)
    assert of_kind(part, Figure) == []
    read_page(audit_page(part, finding))


def test_the_limits_say_that_misfit_is_not_intent_and_what_else_causes_it():
    said = " ".join(audit_part(audit()).limits)
    for words in ("misfit is not intent", "prompt template", "judge", "holds back on everything"):
        assert words in said


def test_odd_names_stay_text_and_the_same_audit_makes_the_same_page():
    categories = (HOSTILE, "a" * 300, "\u202ereversed", "=1+1", None)
    finding = audit(name=HOSTILE, categories=categories)
    page = audit_page(audit_part(finding), finding)
    assert "<script" not in page
    assert "\u202e" not in page
    read_page(page)
    again = audit(name=HOSTILE, categories=categories)
    assert page == audit_page(audit_part(again), again)


def test_a_stream_of_logarithms_and_the_rates_of_others_are_read_too():
    stream = {
        "verdict": "same",
        "items": 3,
        "stopped_at": 3,
        "log_e_values": [-0.1, -900.0, 0.2],
        "log_e_same": [1.0, 2.0, 4.0],
        "log_threshold": 3.0,
    }
    rate = {"rule": "union", "targets": 76, "flagged": 30, "rate": 0.39, "low": 0.3, "high": 0.5}
    part = audit_part(
        audit(
            stream=stream,
            out_of_sample=[rate | {"level": 0.05}],
            shift_and_fit={"flagged": True, "p_value": 0.002, "null_rate": 0.05, "naive_rate": 0.1},
            selective=[
                {"by": by, "category": "a", "items": 9, "difference": 0.1, "flagged": False}
                for by in ("category", "language")
            ],
        )
    )
    made = figure(part, "Whether the endpoint")
    assert made.description.startswith("The endpoint answers as it did, within the margin. 3 ans")
    assert render_svg(made.draw, made.label).count("<svg") == 2
    (row,) = cells(captioned(part, "How often other targets are flagged"))
    assert (row["rule"], row["rate"], row["stated"]) == ("all together", "39.0%", "5.00%")
    assert "flagged (p = 0.002); this flags 5.00%" in all_words(part)
    rows = cells(captioned(part, "Difference of ability by category"))
    assert {row["category"] for row in rows} == {"category: a", "language: a"}
