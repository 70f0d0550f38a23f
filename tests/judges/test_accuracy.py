"""Judges against gold labels, and the ceiling that humans set."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.findings import plain
from safemetry.judges.agreement.accuracy import (
    confusion_by_cluster,
    false_negatives,
    false_positives,
    proportions,
    sensitivity,
    specificity,
)
from safemetry.judges.agreement.against_gold import compare_with_gold
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.coding import panel_of
from safemetry.rates.intervals import wilson
from safemetry.readers import read_evidence

QUICK = AgreementSettings(draws=200, by=())
HUMANS = ("human1", "human2", "human3")
JUDGES = ("harmbench_cf", "gpt4_cf", "llamaguard2_cf", "llama3_cf")
JBB = {
    "constants": {"benchmark": "jbb", "target": "several"},
    "columns": {"item": "Index", "behaviour": "goal_id"},
    "label_columns": {name: name for name in (*HUMANS, "human_majority", *JUDGES)},
    "intent": {"column": "prompt_equals_goal", "values": {"True": "benign", "False": "harmful"}},
    "labels": {"0": "refuse", "1": "comply"},
}


def rng():
    return np.random.default_rng(1)


@pytest.fixture(scope="module")
def jbb(shared):
    path = shared / "data/jbb_judge_comparison/labels_wide.csv"
    return panel_of(read_evidence(str(path), evidence_map=make_map(JBB), kind="labels"))


@pytest.fixture(scope="module")
def against_humans(jbb):
    panel = jbb.select(judges=[*HUMANS, *JUDGES])
    return compare_with_gold(panel, HUMANS, rng(), pooled=True, settings=QUICK)


def boundary(table, intent, judge):
    row = next(r for r in table.accuracy if (r.intent, r.judge) == (intent, judge))
    found = {one.boundary: one for one in row.boundaries}
    return found["comply"]


def test_the_majority_of_the_humans_is_the_published_gold(jbb):
    gold = gold_of(jbb, HUMANS)
    assert (gold.labels == jbb.labels[:, jbb.place("human_majority")]).all()
    assert not gold.tied.any()


@pytest.mark.parametrize(
    ("judge", "fpr", "fnr"),
    [
        ("harmbench_cf", 0.268, 0.127),
        ("gpt4_cf", 0.100, 0.091),
        ("llamaguard2_cf", 0.132, 0.109),
        ("llama3_cf", 0.116, 0.055),
    ],
)
def test_published_error_rates_are_those_of_the_mixture(against_humans, judge, fpr, fnr):
    found = boundary(against_humans, "all", judge)
    assert round(found.false_positive_rate.estimate, 3) == fpr
    assert round(found.false_negative_rate.estimate, 3) == fnr


def test_harmbench_matches_humans_on_attacks_and_calls_benign_answers_jailbreaks(against_humans):
    attacks = boundary(against_humans, "harmful", "harmbench_cf")
    assert attacks.judge_rate.estimate == pytest.approx(0.53)
    assert attacks.gold_rate.estimate == pytest.approx(0.55)
    assert round(attacks.false_positive_rate.estimate, 3) == 0.111
    assert round(attacks.false_negative_rate.estimate, 3) == 0.127
    benign = boundary(against_humans, "benign", "harmbench_cf")
    assert benign.judge_rate.estimate == pytest.approx(0.41)
    assert benign.gold_rate.estimate == 0.0
    assert benign.gold_rate.interval[1] > 0.03
    assert benign.false_negative_rate.estimate is None
    assert "no response" in benign.false_negative_rate.why["estimate"]
    assert plain(against_humans)


def test_intents_are_pooled_on_request_only(jbb):
    panel = jbb.select(judges=[*HUMANS, *JUDGES])
    table = compare_with_gold(panel, HUMANS, rng(), settings=QUICK)
    assert {row.intent for row in table.accuracy} == {"benign", "harmful"}
    assert {row.intent for row in table.ceiling} == {"benign", "harmful"}


def test_the_ceiling_is_the_mean_of_the_published_human_kappas(against_humans):
    ceiling = next(row for row in against_humans.ceiling if row.intent == "all")
    kappa = ceiling.between_humans["cohen"]
    assert kappa.estimate == pytest.approx((0.809 + 0.826 + 0.886) / 3, abs=5e-4)
    assert kappa.interval[0] < kappa.estimate < kappa.interval[1]
    harmbench = next(row for row in ceiling.judges if row.judge == "harmbench_cf")
    gap = harmbench.below_ceiling["cohen"]
    assert gap.interval[0] > 0
    mean = harmbench.with_humans["cohen"].estimate
    assert gap.estimate == pytest.approx(kappa.estimate - mean)
    others = ceiling.humans_against_others
    assert [row.judge for row in others] == list(HUMANS)
    assert others[0].gold == ("human2", "human3")
    assert others[0].n + others[0].tied == 300


def test_where_humans_use_one_class_kappa_says_why(against_humans):
    ceiling = next(row for row in against_humans.ceiling if row.intent == "benign")
    assert ceiling.between_humans["cohen"].estimate is None
    assert "one class" in ceiling.between_humans["cohen"].why["estimate"]
    assert ceiling.between_humans["raw"].estimate == 1.0
    assert ceiling.between_humans["raw"].interval is None


def test_gold_may_be_one_column_with_the_humans_beside_it(jbb):
    table = compare_with_gold(jbb, ["human_majority"], rng(), humans=HUMANS, settings=QUICK)
    assert {row.judge for row in table.accuracy} == set(JUDGES)
    assert table.ceiling[0].humans == HUMANS
    alone = compare_with_gold(
        jbb.select(judges=["human_majority", "gpt4_cf"]), ["human_majority"], rng(), settings=QUICK
    )
    assert alone.ceiling == ()
    assert "two people" in alone.why["ceiling"]


def test_sensitivity_and_specificity_by_hand():
    gold = np.array([0, 0, 0, 1, 1, 2, 2, 2, -1, 1], np.int8)
    judged = np.array([0, 0, 1, 1, 0, 2, 1, 1, 0, -1], np.int8)
    tables = confusion_by_cluster(gold, judged, np.arange(10), 3)
    assert tables.shape == (8, 3, 3)
    wanted = [make(3, code) for code in range(3) for make in (sensitivity, specificity)]
    found = proportions(tables, wanted)
    counts = [(one.events, one.trials) for one in found]
    assert counts == [(2, 3), (4, 5), (1, 2), (3, 6), (1, 3), (5, 5)]
    low, high = wilson(2, 3)
    assert found[0].interval == (float(low), float(high))
    assert found[0].method == "wilson"


def test_a_boundary_is_the_two_classes_of_its_sides():
    rng = np.random.default_rng(2)
    gold, judged = rng.integers(0, 4, (2, 500)).astype(np.int8)
    positive = np.array([False, True, True, False])  # the fourth class is outside the order
    tables = confusion_by_cluster(gold, judged, np.arange(500) // 5, 4)
    found = proportions(tables, [false_positives(positive), false_negatives(positive)])
    is_gold, is_judged = positive[gold], positive[judged]
    assert found[0].estimate == pytest.approx(is_judged[~is_gold].mean())
    assert found[1].estimate == pytest.approx((~is_judged[is_gold]).mean())
    assert found[0].method == "korn_graubard"
    assert found[0].clusters <= 100


def test_clusters_widen_the_interval():
    rng = np.random.default_rng(3)
    right = np.repeat(rng.random(40) < 0.8, 10)
    gold = np.zeros(400, np.int8)
    judged = np.where(right, 0, 1).astype(np.int8)
    together, apart = (
        proportions(confusion_by_cluster(gold, judged, cluster, 2), [sensitivity(2, 0)])[0]
        for cluster in (np.repeat(np.arange(40), 10), np.arange(400))
    )
    widths = [np.diff(one.interval)[0] for one in (together, apart)]
    assert together.estimate == apart.estimate
    assert widths[0] > 2 * widths[1]


def test_large_tables_are_counted_in_parts(monkeypatch):
    rng = np.random.default_rng(4)
    gold, judged = rng.integers(0, 3, (2, 600)).astype(np.int8)
    tables = confusion_by_cluster(gold, judged, rng.integers(0, 200, 600), 3)
    wanted = [sensitivity(3, code) for code in range(3)]
    whole = proportions(tables, wanted)
    monkeypatch.setattr("safemetry.judges.agreement.accuracy._MOST_ROWS", 250)
    assert proportions(tables, wanted) == whole


def test_no_response_in_common_is_said(panel_from):
    panel = panel_from([[0, -1], [-1, 1]], judges=["human", "judge"], intent=["harmful"] * 2)
    row = compare_with_gold(panel, ["human"], rng(), settings=QUICK).accuracy[0]
    assert row.n == 0
    assert row.agreeing.estimate is None
    assert row.agreeing.why["estimate"]


def test_ties_are_counted_and_no_gold(panel_from):
    labels = [[0, 2, 0], [0, 0, 0], [-1, 2, 2], [-1, -1, 1]]
    panel = panel_from(labels, judges=["a", "b", "judge"])
    gold = gold_of(panel, ["a", "b"])
    assert gold.labels.tolist() == [-1, 0, 2, -1]
    assert gold.tied.tolist() == [True, False, False, False]
    row = compare_with_gold(panel, ["a", "b"], rng(), settings=QUICK).accuracy[0]
    assert (row.n, row.tied, row.intent) == (2, 1, "unclassified")


def test_a_judge_without_a_class_is_told_from_one_that_misses_it(panel_from):
    labels = [[0, 0], [1, 0], [1, 2], [2, 2]] * 5
    panel = panel_from(labels, judges=["human", "words"])
    row = compare_with_gold(panel, ["human"], rng(), settings=QUICK).accuracy[0]
    evasive = next(one for one in row.classes if one.name == "evasive")
    assert not evasive.can_emit
    assert evasive.sensitivity.estimate == 0.0
    assert plain(row)["classes"][1]["class"] == "evasive"


def test_by_category_and_target_within_intent(panel_from):
    labels = np.random.default_rng(6).integers(0, 3, (80, 2))
    panel = panel_from(
        labels,
        judges=["human", "judge"],
        intent=["harmful", "benign"] * 40,
        category=["a", "b", "c", "b"] * 20,
        targets=["m"] * 40 + ["n"] * 40,
    )
    table = compare_with_gold(panel, ["human"], rng(), settings=AgreementSettings(draws=100))
    found = {(row.intent, row.by, row.value): row.n for row in table.accuracy}
    assert found["harmful", "category", "a"] == 20
    assert found["benign", "target", "m"] == 20
    assert ("benign", "category", "b") not in found  # all of them: nothing to tell apart


def test_impossible_golds_are_refused(panel_from):
    panel = panel_from([[0, 0]], judges=["a", "b"])
    for gold, match in (
        ([], "no judge"),
        (["a", "a"], "twice"),
        (["c"], "no judge 'c'"),
        (["a", "b"], "every judge"),
    ):
        with pytest.raises(InputError, match=match):
            compare_with_gold(panel, gold, rng())
