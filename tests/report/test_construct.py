"""The construct audit as a part of a report: verdict first, figures in words, reasons named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
from safemetry.findings import Finding
from safemetry.report.blocks import Figure, Sentences, Text
from safemetry.report.context import ReportContext
from safemetry.report.sections import construct
from safemetry.report.sections.construct import ConstructSection, construct_part
from safemetry.report.settings import ReportSettings
from safemetry.report.svg import render_svg

HOSTILE = "</td><script>alert(1)</script>"


@dataclass(frozen=True, kw_only=True)
class Audit(Finding):
    command: ClassVar[str] = "construct"
    data: Mapping[str, Any] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        return []

    def sentence(self) -> str:
        return ""

    def own_keys(self) -> dict[str, Any]:
        return dict(self.data)


def saturation_row(name, informative, **more):
    return {
        "name": name,
        "items": 400,
        "informative_items": informative,
        "modelable": informative >= 200,
        "pass_rate": 0.713,
        "zero_variance": 5,
        "ceiling_share": 0.013,
        "item_rest": {"median": 0.41, "negative": 7},
        "effective_items": 164.2,
        **more,
    }


def model(name, dims, kind, mean, rank):
    return {
        "name": name,
        "dims": dims,
        "kind": kind,
        "log_loss": {"mean": mean, "sd": 0.004, "splits": [mean - 0.004, mean + 0.004]},
        "brier": {"mean": 0.08, "sd": 0.001, "splits": [0.08, 0.08]},
        "aic": 21034.2,
        "bic": 23011.8,
        "restarts": {"sd": 0.0007, "min": mean - 0.001, "max": mean + 0.001},
        "rank": rank,
    }


def dif_row(method, bands, null, flags, *, groups=("OpenAI", "Anthropic"), name="hb"):
    return {
        "scope": "all items",
        "groups": list(groups),
        "method": method,
        "matching": "score",
        "bands": bands,
        "smoothing": 0.5 if bands else None,
        "penalty": None if bands else 1.0,
        "prior": null,
        "null": f"1D 2PL fitted to all items with {null} priors",
        "flags": flags,
        "item_flags": flags + 4,
        "threshold": 2.5,
        "observed_max": 3.2,
        "items": [
            {
                "item": f"{name}-{place}",
                "statistic": 3.2 - 0.1 * place,
                "effect": -2.35 * (3.2 - 0.1 * place),
                "flagged": place < flags,
            }
            for place in range(20)
        ],
    }


def audit(**changes):
    data = {
        "targets": 77,
        "items": 395,
        "saturation": {
            **saturation_row("all", 313),
            "minority": 5,
            "share": 0.5,
            "benchmarks": [],
            "domains": [saturation_row("copyright", 74, structure="type")],
            "sentence": "The items can be modelled.",
        },
        "spectrum": {
            "observed": [139.2, 59.0, 28.9, 10.9, 10.4, 9.5],
            "null_q95": [10.7, 10.2, 9.8, 9.5, 9.3, 9.1],
            "exceed": 6,
            "parallel": [10.5, 10.1, 9.7, 9.4, 9.2, 9.0],
            "null_q95_one_dimension": [141.0, 28.0, 8.5, 8.0, 7.6, 7.2],
            "percentile": 95.0,
        },
        "models": [
            model("1D 2PL", 1, "marginal", 0.299, 3),
            model("4D exploratory", 4, "exploratory", 0.240, 1),
            model("5D exploratory", 5, "exploratory", 0.200, None),
            model("type (3D confirmatory)", 3, "confirmatory", 0.242, 2),
        ],
        "comparisons": [
            {
                "baseline": "1D 2PL",
                "candidate": "4D exploratory",
                "gain": 0.059,
                "interval": [0.053, 0.065],
                "splits": [0.059, 0.059],
                "wins": 2,
                "won": "2 of 2",
            }
        ],
        "nesting_failures": [{"sentence": "5D exploratory fits worse than 4D exploratory."}],
        "factor_correlations": [
            {
                "model": "type (3D confirmatory)",
                "dimensions": ["standard", "contextual", "copyright"],
                "correlations": [[1, 0.785, 0.451], [0.785, 1, 0.603], [0.451, 0.603, 1]],
            }
        ],
        "prior_sensitivity": [
            {"prior": "tight", "model": "1D 2PL", "log_loss": {"mean": 0.428}, "flagged": True}
        ],
        "dif": [
            dif_row("mantel_haenszel", "tertiles of the two groups", "tight", 6),
            dif_row("mantel_haenszel", "tertiles of the two groups", "regularised", 1),
            dif_row("mantel_haenszel", "tertiles of all targets", "tight", 5),
            dif_row("mantel_haenszel", "tertiles of all targets", "regularised", 2),
            dif_row("ridge_logistic", None, "regularised", 0),
        ],
        "dif_groups": [{"refused": [{"group": "Meta", "targets": 6, "why": "6 are too few"}]}],
        "near_duplicates": {
            "groups": [{"targets": ["a-1", "a-2"], "family": None, "least_agreement": 0.995}]
        },
        "verdict": {
            "single_attribute": "rejected",
            "why": "Rejected: 0 of 99 simulated sets gain as much.",
            "gain": 0.059,
            "gain_interval": [0.053, 0.065],
            "statistic": 0.059,
            "null_gains": [0.001 * (place % 5 - 3) for place in range(99)],
            "null_q95": 0.001,
            "p_value": 0.01,
        },
        "by_judge": None,
        "why": {"by_judge": "the evidence has one judge"},
    }
    return Audit(data={**data, **changes}, settings={"seed": 2026, "restarts": 20})


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("rejected", "more than one dimension"),
        ("supported", "One attribute is enough"),
        ("cannot_tell", "cannot be told"),
    ],
)
def test_the_verdict_comes_first_in_one_sentence(state, words):
    part = construct_part(audit(verdict={"single_attribute": state, "why": "Because."}))
    first, second, *_ = part.blocks
    assert isinstance(first, Text)
    assert words in first.text
    assert first.text.count(".") == 1
    assert second == Text("Because.")
    assert part.headlines[0].text == "Because."


def test_every_figure_says_in_words_what_it_shows_and_can_be_drawn():
    figures = of_kind(construct_part(audit()), Figure)
    said = {made.label: made.description for made in figures}
    assert len(said) == len(figures) == 7
    for made in figures:
        assert len(made.description) > 40
        assert render_svg(made.draw, made.label).count("<svg") == 2
    (spectrum,) = [text for label, text in said.items() if label.startswith("Eigenvalues")]
    assert "139.2, 59.0, 28.9, 10.9" in spectrum
    assert "independent items 10.7" in spectrum
    (gain,) = [text for label, text in said.items() if label.startswith("The gain")]
    assert "99 data sets" in gain
    assert "0.0590 with its interval, 0.0530 to 0.0650; 0 of the simulated" in gain
    (map_,) = [text for label, text in said.items() if label.startswith("Correlations")]
    assert "lowest is 0.451, between standard and copyright" in map_


def test_a_failed_fit_is_named_and_never_called_the_best():
    part = construct_part(audit())
    best = figure(part, "How well each model").description
    assert "4D exploratory 0.240" in best
    assert "5D" not in best
    assert Sentences(("5D exploratory fits worse than 4D exploratory.",)) in part.blocks


def test_models_and_differences_stand_in_tables():
    part = construct_part(audit())
    rows = cells(captioned(part, "Models in the order"))
    assert [row["model"] for row in rows][:2] == ["5D exploratory", "4D exploratory"]
    assert rows[1]["log loss"] == "0.2400"
    assert rows[1]["range of starts"] == "0.2390 to 0.2410"
    (row,) = cells(captioned(part, "Differences in held-out"))
    assert (row["gain"], row["interval"], row["splits won"]) == (
        "0.0590",
        "0.0530 to 0.0650",
        "2 of 2",
    )


def test_flagged_items_stand_by_id_with_how_many_choices_flag_them():
    part = construct_part(audit())
    rows = {row["item"]: row for row in cells(captioned(part, "Flagged items"))}
    assert rows.keys() == {f"hb-{place}" for place in range(6)}
    assert rows["hb-0"]["flagged by choices"] == "4 of 5"
    assert rows["hb-5"]["flagged by choices"] == "1 of 5"
    assert rows["hb-0"]["largest effect"] == "-7.52"
    assert rows["hb-0"]["class"] == "C"


def test_where_nothing_can_be_compared_no_number_of_items_is_flagged():
    row = dif_row("mantel_haenszel", "tertiles of the two groups", "tight", 0)
    for item in row["items"]:
        item |= {"statistic": None, "effect": None, "why": {"statistic": "too few responses"}}
    part = construct_part(audit(dif=[row | {"observed_max": None}]))
    facts = {fact.label: fact for fact in part.facts}
    assert facts["Items that differ between groups"].value == "unknown"
    said = [block.text for block in of_kind(part, Text) if "Do items differ" in block.text]
    (text,) = said
    assert text.endswith("of equal ability? No item can be compared: too few responses.")


def test_bands_without_one_of_the_groups_are_a_caveat():
    row = dif_row("mantel_haenszel", "tertiles of the two groups", "tight", 6)
    lacking = [{"band": 1, "lacks": "OpenAI", "targets": 9}]
    more = {"headline": True, "band_count": 3, "lacking_bands": lacking}
    said = [block.text for block in of_kind(construct_part(audit(dif=[row | more])), Text)]
    assert any("Only 2 of 3 bands of ability hold both OpenAI and Anthropic" in t for t in said)


def test_what_the_choices_change_stands_beside_them():
    part = construct_part(audit())
    facts = {fact.label: fact for fact in part.facts}
    assert facts["Items that differ between groups"].value == "0 to 6"
    made = captioned(part, "How many items are flagged under each choice")
    assert [row["flagged"] for row in cells(made)] == ["6", "1", "5", "2", "0"]
    assert {row["priors of the null"] for row in cells(made)} == {"tight", "regularised"}
    strip = figure(part, "Flagged items under each choice")
    assert "tight null 5 to 6; regularised null 1 to 2" in strip.description


def test_groups_that_were_refused_and_parts_that_were_not_computed_are_named():
    part = construct_part(audit(dif=None, why={"dif": "no groups were given"}))
    assert Sentences(("Meta: 6 are too few",), visible=6) in part.blocks
    (row,) = cells(captioned(part, "What was not computed"))
    assert row["reason"] == "no groups were given"
    assert not any("item differs" in limit for limit in part.limits)


def test_nothing_but_a_verdict_makes_a_part_too():
    names = ("saturation", "spectrum", "models", "comparisons", "nesting_failures", "dif")
    more = ("factor_correlations", "prior_sensitivity", "dif_groups", "near_duplicates")
    finding = audit(**dict.fromkeys(names + more), verdict={"single_attribute": "cannot_tell"})
    part = construct_part(finding)
    assert of_kind(part, Figure) == []
    read_page(audit_page(part, finding))


def test_the_limits_name_sample_judges_and_the_number_of_dimensions():
    said = " ".join(construct_part(audit()).limits)
    for words in ("convenience sample", "judge", "How many dimensions", "Why an item differs"):
        assert words in said


def test_odd_names_stay_text():
    finding = audit(
        models=[model(HOSTILE, 1, "marginal", 0.3, 1), model("b", 2, "exploratory", 0.2, 2)],
        dif=[
            dif_row("mantel_haenszel", HOSTILE, null, flags, groups=(HOSTILE, "b"), name=HOSTILE)
            for null, flags in ((HOSTILE, 2), ("other", 1))
        ],
        factor_correlations=[
            {"model": HOSTILE, "dimensions": [HOSTILE, "b"], "matrix": [[1, 0.2], [0.2, 1]]}
        ],
        prior_sensitivity=[{"prior": HOSTILE, "log_loss": {"mean": 0.4}}],
        near_duplicates={"groups": [{"targets": [HOSTILE], "family": HOSTILE}]},
        verdict={"single_attribute": "rejected", "why": HOSTILE},
    )
    page = audit_page(construct_part(finding), finding)
    assert "<script" not in page
    read_page(page)


def test_settings_are_printed_and_the_same_audit_makes_the_same_page():
    finding = audit()
    page = audit_page(construct_part(finding), finding)
    assert page == audit_page(construct_part(audit()), audit())
    pairs = [made.text for made in read_page(page).all("dl")]
    assert any("seed2026" in text.replace(" ", "") for text in pairs)


MANY = [f"target-{place:02d}" for place in range(12)]


def context(*targets, items=60):
    rows = judgements(targets, ["strict"], items=items)
    return ReportContext(as_evidence(table(rows)), ReportSettings())


def test_a_report_shows_the_quick_checks_and_says_what_gives_the_verdict():
    part = ConstructSection().make(context(*MANY))
    assert part is not None
    assert "safemetry construct" in part.blocks[0].text
    rows = cells(captioned(part, "Whether items can be modelled"))
    assert rows[0]["items of"] == "all"
    assert rows[0]["items"] == "60"
    spectrum = figure(part, "Eigenvalues")
    assert "not whether one dimension makes them" in spectrum.description
    assert part.headlines == ()
    assert ConstructSection().make(context(*MANY)) is not None


def test_few_targets_few_items_and_too_much_work_make_no_quick_checks(monkeypatch):
    assert ConstructSection().make(context(*MANY[:9])) is None
    assert ConstructSection().make(context(*MANY, items=18)) is None
    monkeypatch.setattr(construct, "MOST_CELLS", 12 * 60 - 1)
    assert ConstructSection().make(context(*MANY)) is None
