"""What is shown of agreement: each pair of judges, all of them, humans and gold."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.findings import plain
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.agreement_table import AgreementTable, measure_agreement
from safemetry.judges.coding import panel_of
from safemetry.readers import read_evidence

QUICK = AgreementSettings(draws=200, by=())
XSTEST = {
    "constants": {"benchmark": "xstest"},
    "columns": {"target": "model", "item": "item_id", "category": "family"},
    "label_columns": {
        name: name for name in ("human_1", "human_2", "human_final", "judge_gpt4", "judge_strmatch")
    },
    "intent": {"column": "prompt_safety", "values": {"safe": "benign", "unsafe": "harmful"}},
    "labels": {"partial": "evasive"},
}
SPEECHMAP = {
    "constants": {"benchmark": "speechmap"},
    "columns": {"target": "model", "item": "item_id", "label": "compliance", "judge": "judge"},
    "labels": {"DENIAL": "refuse", "EVASIVE": "evasive", "COMPLETE": "comply"}
    | dict.fromkeys(
        ["ERROR", "ERROR_ORIGINAL_MODERATION", "ERROR_ORIGINAL_RESPONSE"], "missing:grader_failed"
    ),
    "intent": "contested",
}


def evidence_of(path, given, kind):
    return read_evidence(str(path), evidence_map=make_map(given), kind=kind)


def rng():
    return np.random.default_rng(1)


def pair(table, first, second, intent="all"):
    names = {first, second}
    found = [r for r in table.pairs if {r.first, r.second} == names and r.intent == intent]
    assert len(found) == 1
    return found[0]


def figure(row, name):
    return row.coefficients[name].estimate


@pytest.fixture(scope="module")
def xstest(shared):
    path = shared / "data/xstest_v2/labels_wide.csv"
    return measure_agreement(panel_of(evidence_of(path, XSTEST, "labels")), rng(), QUICK)


def test_xstest_humans_and_judges(xstest):
    humans = pair(xstest, "human_1", "human_2")
    assert humans.n == 2250
    assert round(figure(humans, "raw"), 3) == 0.964
    assert round(figure(humans, "cohen"), 3) == 0.937
    words = pair(xstest, "human_final", "judge_strmatch")
    assert round(figure(words, "raw"), 3) == 0.839
    assert round(figure(words, "cohen"), 3) == 0.699
    low, high = humans.coefficients["cohen"].interval
    assert 0.91 < low < 0.937 < high < 0.96


def test_a_blank_verdict_is_not_a_disagreement(xstest):
    gpt4 = pair(xstest, "human_final", "judge_gpt4")
    assert gpt4.n == 2250 - 11
    assert round(figure(gpt4, "raw"), 3) == 0.803
    assert round(figure(gpt4, "cohen"), 3) == 0.634


def test_intents_are_shown_apart(xstest):
    assert {row.intent for row in xstest.pairs} == {"all", "benign", "harmful"}
    parts = [pair(xstest, "human_1", "human_2", intent).n for intent in ("benign", "harmful")]
    assert parts == [1250, 1000]
    assert plain(xstest)


def test_speechmap_two_judges(shared):
    path = shared / "data/speechmap_criticism/labels_long.parquet"
    given = evidence_of(path, SPEECHMAP, "tidy")
    panel = panel_of(given)
    table = measure_agreement(panel, rng(), QUICK)
    row = next(row for row in table.pairs if row.intent == "all")
    assert row.n == 10_991
    assert round(figure(row, "raw"), 3) == 0.963
    assert round(figure(row, "cohen"), 3) == 0.860
    # One intent: its rows are those of all.
    other = next(row for row in table.pairs if row.intent == "contested")
    assert other.coefficients == row.coefficients


def test_speechmap_binary(shared, panel_from):
    path = shared / "data/speechmap_criticism/labels_long.parquet"
    panel = panel_of(evidence_of(path, SPEECHMAP, "tidy"))
    labels = panel.labels[panel.common]
    comply = panel_from(labels == 2, classes=("refuse", "comply"))
    refuse = panel_from(labels > 0, classes=("refuse", "comply"))
    kappas = [
        figure(measure_agreement(one, rng(), QUICK).pairs[0], "cohen") for one in (comply, refuse)
    ]
    assert 0.899 in [round(value, 3) for value in kappas]


def test_one_judge_has_nobody_to_agree_with(panel_from):
    table = measure_agreement(panel_from([[0], [1]]), rng(), QUICK)
    assert isinstance(table, AgreementTable)
    assert table.pairs == ()
    assert "two judges" in table.why["pairs"]


def test_hostile_panels_give_reasons(panel_from):
    apart = measure_agreement(panel_from([[0, -1], [-1, 1]] * 5), rng(), QUICK)
    assert apart.pairs[0].n == 0
    assert "no response" in apart.pairs[0].coefficients["cohen"].why["estimate"]
    same = measure_agreement(
        panel_from([[2, 2]] * 10, can_emit=np.ones((2, 3), bool)), rng(), QUICK
    ).pairs[0]
    assert figure(same, "cohen") is None
    assert "one class" in same.coefficients["cohen"].why["estimate"]
    assert figure(same, "gwet_ac1") == 1.0
    alone = measure_agreement(panel_from([[2, 2]] * 10), rng(), QUICK).pairs[0]
    assert "only one class to choose" in alone.coefficients["gwet_ac1"].why["estimate"]
    nothing = measure_agreement(panel_from(np.full((4, 3), -1)), rng(), QUICK)
    assert nothing.panel[0].n == 0
    empty = measure_agreement(panel_from(np.zeros((0, 2))), rng(), QUICK)
    assert all(row.n == 0 for row in (*empty.pairs, *empty.panel))
    one = measure_agreement(
        panel_from([[0, 0], [0, 1], [1, 1]], behaviour=["b"] * 3), rng(), QUICK
    ).pairs[0]
    assert one.coefficients["raw"].interval is None
    assert figure(one, "raw") == pytest.approx(2 / 3)
    for table in (apart, nothing, empty):
        plain(table)


def test_perfect_agreement_has_a_lower_end(panel_from):
    labels = np.repeat(np.random.default_rng(1).integers(0, 3, (100, 1)), 3, axis=1)
    table = measure_agreement(panel_from(labels), rng(), QUICK)
    for row in (*table.pairs, *table.panel):
        for found in row.coefficients.values():
            assert found.estimate == 1.0
            assert 0.85 < found.interval[0] < 0.98
            assert found.interval[1] == 1.0


def test_classes_outside_the_order_have_no_distance(panel_from):
    labels = np.array([[0, 0], [1, 2], [2, 2], [3, 3], [3, 0], [1, 1], [2, 1]] * 6)
    classes = ("refuse", "evasive", "comply", "gibberish")
    row = measure_agreement(panel_from(labels, classes=classes, ordered=3), rng(), QUICK)
    kept = labels[(labels < 3).all(axis=1)]
    without = measure_agreement(panel_from(kept), rng(), QUICK)
    assert row.pairs[0].outside_order == 12
    assert row.panel[0].outside_order == 18
    for name in ("cohen_linear", "cohen_quadratic", "gwet_ac2"):
        assert figure(row.pairs[0], name) == pytest.approx(figure(without.pairs[0], name))
    for name in ("krippendorff_ordinal", "krippendorff_interval"):
        assert figure(row.panel[0], name) == pytest.approx(figure(without.panel[0], name))
    assert figure(row.pairs[0], "cohen") != pytest.approx(figure(without.pairs[0], "cohen"))


def test_the_scale_of_a_pair_is_what_the_two_can_emit(panel_from):
    """AC1 of two two-way judges has two classes, also beside a judge with three."""
    rows = np.random.default_rng(3).integers(0, 3, (200, 3))
    rows[:, :2] = np.where(rows[:, :2] == 1, 0, rows[:, :2])
    two = np.minimum(rows[:, :2], 1)
    beside = measure_agreement(panel_from(rows), rng(), QUICK).pairs[0]
    alone = measure_agreement(panel_from(two, classes=("refuse", "comply")), rng(), QUICK).pairs[0]
    for name in ("gwet_ac1", "gwet_ac2", "cohen_linear"):
        assert figure(beside, name) == pytest.approx(figure(alone, name))


def test_the_order_of_rows_and_judges_changes_nothing(panel_from):
    random = np.random.default_rng(4)
    truth = random.integers(0, 3, 120)
    labels = np.where(
        random.random((120, 3)) < 0.8, truth[:, None], random.integers(-1, 3, (120, 3))
    )
    behaviour = [str(place % 40) for place in range(120)]
    one = measure_agreement(panel_from(labels, behaviour=behaviour), rng(), QUICK)
    mixed = random.permutation(120)
    names = ["judge-2", "judge-0", "judge-1"]
    panel = panel_from(
        labels[mixed][:, [2, 0, 1]], behaviour=[behaviour[i] for i in mixed], judges=names
    )
    two = measure_agreement(panel, rng(), QUICK)
    for first, second in (("judge-0", "judge-1"), ("judge-0", "judge-2")):
        rows = [pair(table, first, second) for table in (one, two)]
        for name in ("raw", "cohen", "gwet_ac2"):
            ours, theirs = (row.coefficients[name] for row in rows)
            assert ours.estimate == pytest.approx(theirs.estimate)
            assert ours.interval == pytest.approx(theirs.interval)
    for name, found in one.panel[0].coefficients.items():
        assert found.estimate == pytest.approx(figure(two.panel[0], name))


def test_categories_and_targets_are_shown_within_each_intent(panel_from):
    labels = np.random.default_rng(5).integers(0, 3, (80, 2))
    panel = panel_from(
        labels,
        intent=["harmful", "benign"] * 40,
        category=["a", "b", "c", None] * 20,
        targets=["m"] * 40 + ["n"] * 40,
    )
    table = measure_agreement(panel, rng(), AgreementSettings(draws=100))
    found = {(row.intent, row.by, row.value): row.n for row in table.panel}
    assert found["all", "all", "all"] == 80
    assert found["harmful", "category", "a"] == 20
    assert found["benign", "category", "unclassified"] == 20
    assert found["harmful", "target", "n"] == 20
    assert ("harmful", "category", "b") not in found
    unknown = measure_agreement(panel_from(labels), rng(), QUICK)
    assert {row.intent for row in unknown.panel} == {"all", "unclassified"}


@pytest.mark.parametrize(
    "wrong", [{"level": 1.0}, {"draws": 10}, {"method": "normal"}, {"by": ("language",)}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(InputError):
        AgreementSettings(**wrong)
