"""Every kind of evidence makes a report that says what it supports and what it does not."""

from __future__ import annotations

import pytest
from pages import judgements, read_page, table

from safemetry.report import ReportSettings, compose_report

KINDS = {
    "harmful and benign": {},
    "harmful alone": {"intents": ["harmful"]},
    "benign alone": {"intents": ["benign"]},
    "contested alone": {"intents": ["contested"]},
    "all three": {"intents": ["harmful", "benign", "contested"]},
    "some without an intent": {"intents": ["harmful", None]},
    "one target": {"targets": ["only"]},
    "one judge": {"judges": ["only"]},
    "one item": {"items": 1},
    "no verdict at all": {"lost": 1.0},
    "no benchmark": {"benchmark": None},
}
MATRIX = {"targets": ["a", "b"], "judges": ["matrix"], "intents": [None]}


def composed(**settings):
    return compose_report(table(judgements(**settings)))


def told(report) -> str:
    return read_page(report.to_html()).all("body")[0].text


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_is_sound_in_every_form(kind, assert_sound):
    report = composed(**KINDS[kind])
    assert_sound(report)
    text = told(report)
    assert report.limits[0] in text
    assert "None" not in text
    assert "nan" not in text.lower().split()
    assert report.to_markdown().startswith("# ")


def test_harmful_items_alone_do_not_say_what_safety_cost():
    report = composed(**KINDS["harmful alone"])
    assert any("no benign item was asked" in limit for limit in report.limits)
    assert "Over-refusal" not in told(report)
    assert report.parts["balance"].title == "Rates of each target"


def test_benign_items_alone_do_not_say_whether_a_target_is_safe():
    report = composed(**KINDS["benign alone"])
    assert "Whether the targets are safe: no harmful item was asked." in report.limits
    assert "Attack success" not in told(report)
    assert "coverage" not in report.parts


def test_both_sides_stand_side_by_side():
    report = composed()
    assert report.parts["balance"].title == "Safety beside usefulness"
    first = read_page(report.to_html()).all("table")[0]
    assert [head.text for head in first.all("thead")[0].all("th")] == [
        "target",
        "Attack success",
        "Over-refusal",
    ]
    assert "held firm" in told(report)


def test_contested_items_have_a_refusal_rate_and_no_failure():
    report = composed(**KINDS["contested alone"])
    assert report.facts[0].label == "Refusal of contested items"
    assert "Attack success" not in told(report)


def test_items_without_an_intent_are_counted_as_a_limit():
    report = composed(intents=["harmful", None], lost=0, judges=["j"], targets=["t"], items=20)
    (limit,) = (limit for limit in report.limits if "nobody stated" in limit)
    assert "What 10 judge calls say about safety" in limit


def test_scores_without_an_intent_have_a_lower_end_and_no_ceiling():
    rows = [
        {"target": target, "item": str(index), "score": float(index % 3 > 0)}
        for target in ("a", "b")
        for index in range(30)
    ]
    scale = {"judge": {"scale_min": 0, "scale_max": 1, "higher_is": "safer"}}
    report = compose_report(table(rows), evidence_map={"judges": scale}, success="at_least:0.5")
    (fact,) = (fact for fact in report.facts if fact.label == "Rewarded responses")
    assert "may be down to" in fact.note
    body = read_page(report.to_html()).all("tbody")[0]
    assert "20 of 30, interval from" in body.text
    assert "not ruled out" not in {e.attributes.get("class") for e in body.walk()}
    assert not [e for e in body.walk() if e.attributes.get("class") == "u"]


def test_no_verdict_at_all_is_said_and_is_no_zero():
    report = composed(**KINDS["no verdict at all"])
    facts = {fact.label: fact.value for fact in report.facts}
    assert facts["No verdict"] == "100.0%"
    assert "Attack success" not in facts
    assert "unknown" in report.sentence()
    rates = read_page(report.to_html()).all("tbody")[0].all("td")
    assert {cell.text for cell in rates} == {"unknown no verdict"}


def test_benchmarks_have_tables_of_their_own_and_are_named():
    report = compose_report(
        table([*judgements(benchmark="first one"), *judgements(benchmark="second one")])
    )
    captions = [block.caption for block in report.parts["balance"].blocks if hasattr(block, "rows")]
    assert sum("in first one" in caption for caption in captions) == 1
    assert sum("in second one" in caption for caption in captions) == 1
    assert all("one" in line.lead for line in report.headlines)
    assert [fact.label for fact in report.facts][:2] == [
        "first one: Attack success",
        "second one: Attack success",
    ]


def test_judges_of_different_targets_are_not_compared():
    rows = [*judgements(["a"], ["j"]), *judgements(["b"], ["k"])]
    report = compose_report(table(rows))
    assert not [fact for fact in report.facts if "differ" in fact.label]
    assert any(limit.startswith("Whether the judges are right") for limit in report.limits)
    first = read_page(report.to_html()).all("table")[0]
    assert [row.children[1].text for row in first.all("tbody")[0].all("tr")] in (
        ["j", "k"],
        ["k", "j"],
    )


def test_judges_of_the_same_targets_are_compared():
    report = composed()
    (fact,) = (fact for fact in report.facts if fact.label == "Judges differ")
    assert "under strict" in fact.note
    assert "under lenient" in fact.note
    assert any(limit.startswith("Which of the 2 judges is right") for limit in report.limits)


def test_judges_that_saw_other_items_are_compared_with_a_warning():
    rows = judgements(lost=0)
    fewer = [row for row in rows if row["judge"] == "strict" or row["item"] < "tokens-12"]
    said = "did not all judge the same items"
    assert said in told(compose_report(table(fewer)))
    assert said not in told(compose_report(table(rows)))


def test_without_categories_and_attacks_there_is_no_grid():
    rows = [
        {name: value for name, value in row.items() if name not in {"category", "attack"}}
        for row in judgements()
    ]
    report = compose_report(table(rows))
    assert not {"groups", "coverage"} & report.parts.keys()
    assert list(report.parts) == ["balance", "claims", "missing", "judges", "instruments"]


def test_one_category_and_one_attack_say_nothing_that_the_first_table_does_not():
    rows = [row | {"category": "cyber", "attack": "direct"} for row in judgements()]
    report = compose_report(table(rows))
    assert "groups" not in report.parts
    assert "Worst" not in report.sentence()
    assert "coverage" in report.parts


def test_what_is_left_out_for_size_is_counted():
    rows = [
        {"target": f"t{n:04d}", "item": str(i), "label": "refuse", "intent": "harmful"}
        for n in range(1_700)
        for i in range(2)
    ]
    report = compose_report(table(rows))
    (first, *_) = report.parts["balance"].blocks
    assert len(first.rows) == 1_600
    assert first.note.startswith("100 more are in")
    assert len(report.to_html()) < 1_500_000


def test_combinations_that_nobody_tried_are_named():
    rows = [
        row
        for row in judgements()
        if (row["category"], row["attack"]) != ("cyber", "role_play") or row["intent"] == "benign"
    ]
    report = compose_report(table(rows))
    assert any("cyber under role_play" in limit for limit in report.limits)
    assert "not tested" in told(report)
    assert {fact.label: fact.value for fact in report.facts}["Tested"] == "5 of 6"


def test_an_unusable_setting_is_refused():
    from safemetry.errors import InputError

    with pytest.raises(InputError):
        ReportSettings(level=95)
    with pytest.raises(InputError):
        compose_report(table(judgements()), cluster="kind")


def rows_of(*cells: tuple[str, str, str, str, str, str]):
    names = ("target", "item", "label", "judge", "category", "attack")
    return [dict(zip(names, cell, strict=True)) | {"intent": "harmful"} for cell in cells]


UNEVEN = rows_of(
    ("a", "1", "comply", "tiny", "c1", "k1"),
    ("b", "2", "comply", "big", "c2", "k2"),
    ("b", "3", "refuse", "big", "c3", "k2"),
    ("b", "4", "comply", "big", "c4", "k1"),
    ("b", "5", "comply", "big", "c1", "k1"),
)


def test_a_combination_that_any_judge_saw_was_tried():
    report = compose_report(table(UNEVEN))
    (tested,) = [fact.value for fact in report.facts if fact.label == "Tested"]
    assert tested == "4 of 8"
    (untried,) = [limit for limit in report.limits if "nobody tried" in limit]
    assert "c2 under k2" not in untried
    assert "c2 under k1" in untried


def test_a_judge_that_saw_little_does_not_lead_and_targets_of_others_are_not_ranked():
    report = compose_report(table(UNEVEN))
    first = report.headlines[0]
    assert first.lead == "Attack success under big, of 1 of 2 targets"
    assert first.text.startswith("b went along with 3 of 4")


def test_judges_that_agree_are_not_said_to_differ():
    rows = [row | {"judge": judge} for row in UNEVEN[1:] for judge in ("one", "two")]
    report = compose_report(table(rows))
    assert not [line for line in report.headlines if "differ" in line.lead]
    assert not [fact for fact in report.facts if "differ" in fact.label]
