"""Short forms and adaptive tests as parts of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from pages import audit_page, captioned, cells, figure, of_kind, read_page

from safemetry.findings import Finding
from safemetry.report.blocks import Figure, Fold, Text
from safemetry.report.sections.adaptive import adaptive_part, cut_of
from safemetry.report.sections.forms import forms_part
from safemetry.report.svg import render_svg

HOSTILE = "</td><script>alert(1)</script>"
METHODS = {"greedy": 0.042, "discrimination": 0.051, "variance": 0.06, "anchors": 0.055}


@dataclass(frozen=True, kw_only=True)
class Made(Finding):
    command: ClassVar[str] = "shorten"
    data: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""

    def records(self) -> Sequence[Mapping[str, Any]]:
        return []

    def sentence(self) -> str:
        return self.said

    def own_keys(self) -> dict[str, Any]:
        return dict(self.data)


def evaluation_rows():
    return [
        {
            "items": items,
            "method": method,
            "recovery": "calibrated",
            "rmse": error * (25 / items) ** 0.5,
            "mae": 0.8 * error * (25 / items) ** 0.5,
            "bias": -0.004,
            "bias_low": 0.011,
            "bias_high": -0.013,
            "spearman": 0.93,
            "sd": 0.004,
            "splits": 20,
            "random_rmse": 0.058 * (25 / items) ** 0.6,
            "random_band": [0.045 * (25 / items) ** 0.6, 0.072 * (25 / items) ** 0.6],
            "coverage": 0.95,
        }
        for items in (10, 25, 50, 100, 200)
        for method, error in METHODS.items()
    ]


def curve():
    theta = np.linspace(-4, 4, 81)
    form = 9 * np.exp(-((theta + 0.4) ** 2) / 1.2) + 0.05
    return {
        "theta": theta.tolist(),
        "form": form.tolist(),
        "all": (12 * np.exp(-(theta**2) / 3) + 4 * form).tolist(),
        "population": np.exp(-(theta**2) / 2).tolist(),
    }


def form(name="hb", **changes):
    items = [f"{name}-{place}" for place in range(25)]
    data = {
        "items": items,
        "details": [
            {
                "item": item,
                "a": 2.1,
                "d": -0.4,
                "information": 0.8,
                "weight": 0.04,
                "properties": {"category": name},
            }
            for item in items
        ],
        "targets": 77,
        "all_items": 400,
        "parallel_forms": [],
        "information_gap": None,
        "evaluation": evaluation_rows(),
        "random_as_good": [
            {"method": "greedy", "recovery": "calibrated", "items": 100},
            {"method": "anchors", "recovery": "calibrated", "items": None, "why": {"items": "no"}},
        ],
        "minimum_detectable_change": {
            "paired": 0.071,
            "unpaired": 0.118,
            "power": 0.8,
            "level": 0.05,
            "pairs": 412,
            "targets": 77,
        },
        "curve": curve(),
    }
    said = "25 of 400 items, chosen by greedy."
    return Made(data={**data, **changes}, settings={"method": "greedy", "seed": 0}, said=said)


def session(name, place, length=25, **more):
    rng = np.random.default_rng(place)
    error = 1.0 / np.sqrt(1 + 0.7 * np.arange(1, length + 1))
    theta = (place - 10) / 6 + np.cumsum(rng.normal(0, 0.2, length)) / np.arange(1, length + 1)
    return {
        "target": f"{name}-{place}",
        "items": [f"item-{number}" for number in range(length)],
        "theta": theta.tolist(),
        "se": error.tolist(),
        "stop": "budget",
        **more,
    }


def adaptive(name="model", **changes):
    sessions = [session(name, place, 10 + place, decision="above") for place in range(20)]
    data = {
        "sessions": sessions,
        "evaluation": {
            "sessions": 20,
            "mean_length": 19.5,
            "shortest": 10,
            "longest": 29,
            "bias": -0.03,
            "rmse": 0.31,
            "highest_exposure": 0.85,
            "never_given": 310,
            "overlap": 0.41,
            "stops": {"budget": 12, "precision": 8},
            "decided": 0.8,
            "wrong": 0.05,
            "by_items": [
                {
                    "items": items,
                    "rmse": 0.1 / items**0.5,
                    "mae": 0.08 / items**0.5,
                    "bias": 0.0,
                    "spearman": 0.9,
                    "random_rmse": 0.14 / items**0.5,
                    "random_band": [0.11 / items**0.5, 0.17 / items**0.5],
                }
                for items in (5, 10, 25)
            ],
        },
        "pool": 400,
        "in_sample": [sessions[0]["target"]],
    }
    settings = {"classification": {"cut": 0.5}, "seed": 0}
    return Made(data={**data, **changes}, settings=settings, said="20 targets took 10 to 29 items.")


def all_words(part):
    return " ".join(block.text for block in of_kind(part, Text))


def test_what_the_form_is_worth_comes_first_and_every_figure_can_be_drawn():
    part = forms_part(form())
    assert part.blocks[0] == Text("25 of 400 items, chosen by greedy.")
    figures = of_kind(part, Figure)
    assert [made.label.split()[0] for made in figures] == ["Error", "Information"]
    for made in figures:
        assert len(made.description) > 40
        assert render_svg(made.draw, made.label).count("<svg") == 2
    assert "25 items 4.20%, random 5.80%" in figure(part, "Error against").description


def test_the_evaluation_stands_in_a_table_with_random_items_beside():
    rows = cells(captioned(forms_part(form()), "How well forms recover"))
    assert len(rows) == 20
    row = next(row for row in rows if (row["method"], row["items"]) == ("greedy", "25"))
    assert (row["error (rms)"], row["random"]) == ("4.20%", "5.80%")
    assert row["random, 5% to 95%"] == "4.50% to 7.20%"
    assert row["bias, highest fifth"] == "\N{MINUS SIGN}1.3"


def test_the_smallest_change_is_told_in_words():
    said = all_words(forms_part(form()))
    assert "80% power is 7.10% when both versions answer the same form" in said
    assert "11.8% when each answers a form of its own" in said
    assert "412 pairs of 77 held-out targets" in said
    assert "greedy from 100 items on; anchors at no length tried" in said


def test_an_unknown_change_is_told_with_its_reason():
    change = {"paired": None, "unpaired": None, "power": 0.8, "why": {"paired": "3 pairs are few"}}
    said = all_words(forms_part(form(minimum_detectable_change=change)))
    assert "is unknown: 3 pairs are few" in said


def test_items_stand_by_id_in_a_fold():
    part = forms_part(form(parallel_forms=[["a"], ["b"]], information_gap=0.02))
    (fold,) = of_kind(part, Fold)
    assert fold.title == "The items by id"
    rows = cells(captioned(part, "Items of the form"))
    assert rows[0] == {
        "item": "hb-0",
        "discrimination": "2.1",
        "information": "0.8",
        "weight": "0.04",
        "category": "hb",
    }
    assert cells(captioned(part, "Items of parallel form 2")) == [{"item": "b"}]
    assert "information differs by up to 2.00%" in all_words(part)


def test_parallel_forms_are_drawn_where_their_information_is_known():
    given = curve()
    given["parallel"] = [given["form"], [1.02 * value for value in given["form"]]]
    part = forms_part(form(curve=given, parallel_forms=[["a"], ["b"]], information_gap=0.02))
    made = figure(part, "Information of parallel forms")
    assert render_svg(made.draw, made.label).count("form 2") == 2


def test_without_an_evaluation_the_reason_stands_there():
    names = ("evaluation", "random_as_good", "minimum_detectable_change")
    reason = "7 targets are too few to hold some out"
    finding = form(**dict.fromkeys(names), why=dict.fromkeys(names, reason))
    part = forms_part(finding)
    rows = cells(captioned(part, "What was not computed"))
    assert {row["reason"] for row in rows} == {reason}
    read_page(audit_page(part, finding))


def test_nothing_but_items_makes_a_part_too():
    finding = Made(data={"items": ["a", "b"]})
    part = forms_part(finding)
    assert [row["item"] for row in cells(captioned(part, "Items of the form"))] == ["a", "b"]
    read_page(audit_page(part, finding))


def test_the_limits_of_a_form_name_sample_and_leakage():
    said = " ".join(forms_part(form()).limits)
    for words in ("convenience sample", "held out resemble", "leak with use"):
        assert words in said


def test_adaptive_tests_are_drawn_told_and_tabled():
    part = adaptive_part(adaptive())
    for made in of_kind(part, Figure):
        assert render_svg(made.draw, made.label).count("<svg") == 2
    assert "The dashed line is the cut, 0.50." in figure(part, "Ability after").description
    said = all_words(part)
    assert "off by 0.31 (root mean square), -0.03 on average" in said
    assert "310 of 400 were never given" in said
    rows = cells(captioned(part, "Sessions"))
    assert [rows[0][name] for name in ("items", "ended", "decision", "calibrated on")] == [
        "10",
        "out of budget",
        "above",
        "yes",
    ]
    facts = {fact.label: fact.value for fact in part.facts}
    assert facts == {
        "Items for each target": "19.5",
        "Decided": "80.0%",
        "Error of the full score": "2.00%",
    }


def test_sessions_in_several_dimensions_or_without_answers_make_a_part():
    empty = {"target": "e", "items": [], "theta": [], "se": [], "stop": "exhausted"}
    several = {
        "target": "s",
        "items": ["a"],
        "theta": [[0.1, 0.2]],
        "se": [[0.5, None]],
        "stop": "budget",
    }
    finding = adaptive(
        sessions=[empty, several], evaluation=None, why={"evaluation": "several dimensions"}
    )
    part = adaptive_part(finding)
    assert "first dimension" in figure(part, "Ability after").description
    rows = cells(captioned(part, "Sessions"))
    assert (rows[0]["ability"], rows[1]["error"]) == ("unknown", "0.50, unknown")
    read_page(audit_page(part, finding))


def test_a_cut_is_read_from_the_settings():
    assert cut_of({"classification": {"cut": -0.2}}) == -0.2
    assert cut_of({"cut": 1}) == 1.0
    assert cut_of({"classification": None}) is None


def test_odd_names_stay_text():
    for make, part_of in ((form, forms_part), (adaptive, adaptive_part)):
        finding = make(name=HOSTILE)
        page = audit_page(part_of(finding), finding)
        assert "<script" not in page
        read_page(page)
