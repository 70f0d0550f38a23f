"""Corrected rates of a panel; coverage where 60 of 300 published responses are labelled."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.findings import plain
from safemetry.judges.coding import panel_of
from safemetry.judges.correction.correct import correct
from safemetry.judges.correction.correction_settings import CorrectionSettings
from safemetry.judges.correction.prediction_powered import prediction_powered
from safemetry.judges.correction.rogan_gladen import rogan_gladen
from safemetry.judges.correction.stratified_sum import mid_p, stratified_sum
from safemetry.readers import read_evidence

JUDGES = ("harmbench_cf", "gpt4_cf", "llamaguard2_cf", "llama3_cf")
GOLD = "human_majority"
SEPARATE = CorrectionSettings(clustered=False)
JBB = {
    "constants": {"benchmark": "jbb", "target": "several"},
    "columns": {"item": "Index", "behaviour": "goal_id"},
    "label_columns": {name: name for name in (GOLD, *JUDGES)},
    "intent": {"column": "prompt_equals_goal", "values": {"True": "benign", "False": "harmful"}},
    "labels": {"0": "refuse", "1": "comply"},
}


@pytest.fixture(scope="module")
def path(shared):
    return shared / "data/jbb_judge_comparison/labels_wide.csv"


@pytest.fixture(scope="module")
def jbb(path):
    return panel_of(read_evidence(str(path), evidence_map=make_map(JBB), kind="labels"))


@pytest.fixture(scope="module")
def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def partly_labelled(panel, share, seed=1):
    """The same panel with gold labels on a random part of each intent."""
    rng = np.random.default_rng(seed)
    calls = panel.calls.copy()
    for _, rows in panel.intents():
        places = np.flatnonzero(rows)
        dropped = rng.permutation(places)[round(len(places) * share) :]
        calls[:, dropped, panel.place(GOLD)] = -1
    return replace(panel, calls=calls)


def find(rows, judge, intent, method):
    """The row of a judge at the boundary of comply; `method` without what follows the slash."""
    found = [
        row
        for row in rows
        if (row.judge, row.intent, row.method.split("/")[0]) == (judge, intent, method)
        and row.boundary == "comply"
    ]
    assert len(found) == 1
    return found[0]


# --- one panel ---------------------------------------------------------------------------------


def test_every_judge_boundary_intent_and_method_has_a_row(jbb):
    rows = correct(partly_labelled(jbb, 0.2), [GOLD])
    assert len(rows) == 4 * 2 * 3 * 3
    assert {row.boundary for row in rows} == {"comply", "non_refusal"}
    assert {row.intent for row in rows} == {"harmful", "benign", "all"}
    assert [row.pooled for row in rows] == [row.intent == "all" for row in rows]
    harmful = find(rows, "harmbench_cf", "harmful", "ppi++")
    assert harmful.naive == pytest.approx(0.53)
    assert (harmful.labels, harmful.total) == (40, 200)
    assert harmful.interval[0] < harmful.estimate < harmful.interval[1]
    assert 0 < harmful.tuning <= 1
    assert harmful.effective_labels > 40
    assert harmful.sensitivity_interval[0] < harmful.sensitivity < harmful.sensitivity_interval[1]
    assert_sound(rows)


def assert_sound(rows):
    for row in rows:
        for name, value in plain(row).items():
            if value is None:
                assert row.why[name]
        if row.interval is not None:
            assert 0 <= row.interval[0] <= row.estimate <= row.interval[1] <= 1


def test_benign_answers_without_a_success_have_a_ceiling_and_no_division(jbb):
    rows = correct(partly_labelled(jbb, 0.2), [GOLD])
    benign = find(rows, "harmbench_cf", "benign", "ppi++")
    assert benign.method == "ppi++/exact"
    assert benign.naive == pytest.approx(0.41)
    assert benign.estimate == 0.0
    assert 0.1 < benign.interval[1] < 0.2
    divided = find(rows, "harmbench_cf", "benign", "rogan_gladen")
    assert divided.estimate is None
    assert "sensitivity is unknown" in divided.why["estimate"]
    assert divided.specificity == pytest.approx(0.59, abs=0.25)
    pooled = find(rows, "harmbench_cf", "all", "rogan_gladen")
    assert pooled.pooled
    assert pooled.estimate is not None
    assert any("labels alone" in note for note in pooled.notes)
    assert pooled.naive == pytest.approx(0.49)
    assert pooled.interval[0] < 110 / 300 < pooled.interval[1]


def test_with_all_labels_every_method_is_the_gold_rate(jbb):
    fixed = CorrectionSettings(population="fixed")
    rows = correct(jbb, [GOLD], settings=fixed)
    for method in ("labels", "ppi++", "rogan_gladen"):
        row = find(rows, "gpt4_cf", "harmful", method)
        assert row.estimate == pytest.approx(0.55)
        assert row.interval == pytest.approx((0.55, 0.55))
    sample = find(correct(jbb, [GOLD]), "gpt4_cf", "harmful", "ppi++")
    assert sample.interval[1] - sample.interval[0] > 0.1
    part = partly_labelled(jbb, 0.5)
    narrow = find(correct(part, [GOLD], settings=fixed), "gpt4_cf", "harmful", "ppi++")
    wide = find(correct(part, [GOLD], settings=SEPARATE), "gpt4_cf", "harmful", "ppi++")
    assert np.ptp(narrow.interval) < np.ptp(wide.interval)


def test_rows_and_judges_in_another_order_change_nothing(jbb):
    panel = partly_labelled(jbb, 0.2)
    order = np.random.default_rng(2).permutation(panel.responses)
    other = panel.select(rows=order, judges=panel.judges[::-1])
    before, after = correct(panel, [GOLD]), correct(other, [GOLD])
    for judge in JUDGES:
        for intent in ("harmful", "benign", "all"):
            for method in ("labels", "ppi++", "rogan_gladen"):
                one, two = find(before, judge, intent, method), find(after, judge, intent, method)
                assert one.estimate == pytest.approx(two.estimate)
                if one.interval is not None:
                    assert one.interval == pytest.approx(two.interval)


def test_a_constant_probability_is_a_simple_sample(jbb):
    panel = partly_labelled(jbb, 0.2)
    simple = correct(panel, [GOLD], settings=SEPARATE)
    weighted = correct(panel, [GOLD], probability=np.full(300, 0.2), settings=SEPARATE)
    for one, two in zip(simple, weighted, strict=True):
        assert one.estimate == pytest.approx(two.estimate)
        if one.interval is not None:
            assert one.interval == pytest.approx(two.interval, abs=0.02)


def test_boundaries_of_three_classes_and_classes_outside_the_order(panel_from):
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 4, 400)
    said = np.where(rng.random(400) < 0.2, rng.integers(0, 4, 400), gold)
    known = np.where(np.arange(400) < 150, gold, -1)
    panel = panel_from(
        np.stack([known, said], axis=1),
        classes=("refuse", "evasive", "comply", "gibberish"),
        ordered=3,
        judges=("human", "judge"),
        intent=["harmful"] * 400,
    )
    rows = correct(panel, ["human"])
    assert {row.boundary for row in rows} == {"non_refusal", "comply"}
    assert not any(row.pooled for row in rows)
    non_refusal = next(r for r in rows if (r.boundary, r.method) == ("non_refusal", "ppi++"))
    assert non_refusal.naive == pytest.approx(np.isin(said, (1, 2)).mean())
    assert non_refusal.interval[0] < np.isin(gold, (1, 2)).mean() < non_refusal.interval[1]


def test_no_labels_and_no_verdicts_say_so(panel_from):
    labels = np.array([[-1, 0], [-1, 1], [1, -1], [0, -1]])
    panel = panel_from(
        labels,
        classes=("refuse", "comply"),
        judges=("human", "judge"),
        intent=["harmful", "harmful", "benign", "benign"],
    )
    rows = correct(panel, ["human"])
    assert all(row.estimate is None for row in rows)
    assert "gold label" in find(rows, "judge", "harmful", "ppi++").why["estimate"]
    assert find(rows, "judge", "benign", "labels").why["naive"]
    assert_sound(rows)


@pytest.mark.parametrize(
    "options",
    [{"judges": [GOLD]}, {"judges": ["nobody"]}, {"probability": np.zeros(300)}],
)
def test_impossible_wishes_are_refused(jbb, options):
    with pytest.raises(InputError):
        correct(jbb, [GOLD], **options)


@pytest.mark.parametrize("options", [{"level": 1.0}, {"population": "all"}, {"tuning": 2.0}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(InputError):
        CorrectionSettings(**options)


# --- 2,000 draws: 300 rows with replacement, 60 of them labelled -------------------------------


def resampled(table, judge, labels, draws, seed):
    """Tables of each draw by intent (harmful, benign): labelled ``(D, 2, 2, 2)``, others."""
    gold = np.array([int(row[GOLD]) for row in table])
    said = np.array([int(row[judge]) for row in table])
    benign = np.array([row["prompt_equals_goal"] == "True" for row in table]).astype(int)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(table), (draws, len(table)))
    # Rows are drawn at random, so that the first of them are a random part.
    known = np.arange(len(table)) < labels
    key = ((benign * 2 + gold) * 2 + said)[rows] + 8 * ~known
    counts = np.stack([np.bincount(one, minlength=16) for one in key]).reshape(draws, 2, 2, 2, 2)
    return counts[:, 0], counts[:, 1].sum(axis=2)


def inside(lower, upper, truth):
    return float(((lower <= truth) & (truth <= upper)).mean())


def summed(tables, main):
    """The sum over intents as `correct` makes it: the labels alone where they are unanimous."""
    labelled, others = tables
    powered = prediction_powered(labelled, others)
    first = np.stack([main.estimate[:, 0], powered.estimate[:, 1]], axis=1)
    low = np.stack([main.lower[:, 0], powered.lower[:, 1]], axis=1)
    high = np.stack([main.upper[:, 0], mid_p(powered.upper[:, 1])], axis=1)
    assert powered.exact[:, 1].all()
    total = labelled.sum((-2, -1)) + others.sum(-1)
    shares = total / total.sum(axis=1, keepdims=True)
    return stratified_sum(shares, first, low, high)


@pytest.mark.slow
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("labels", [60, 30])
def test_coverage_by_intent_and_of_their_sum(table, judge, labels, study_size, record_property):
    draws = max(2000, int(20_000 * study_size))
    tables = resampled(table, judge, labels, draws, seed=11)
    powered, divided = prediction_powered(*tables), rogan_gladen(*tables)
    given = divided.refusal[:, 0] == 0
    record_property("rogan_gladen refused", str(1 - given.mean()))
    found = {}
    for name, one, kept in (("ppi++", powered, ...), ("rogan_gladen", divided, given)):
        low, high = one.lower[:, 0][kept], one.upper[:, 0][kept]
        _, low_sum, high_sum = (part[kept] for part in summed(tables, one))
        found[name] = inside(low, high, 0.55), inside(low_sum, high_sum, 110 / 300)
        widths = float((high - low).mean()), float((high_sum - low_sum).mean())
        record_property(
            f"{name}: coverage by intent and of the sum, widths", f"{found[name]}, {widths}"
        )
        print(judge, labels, name, *found[name], *widths)  # noqa: T201 - the study's result
    assert min(found["rogan_gladen"]) >= 0.93
    assert min(found["ppi++"]) >= 0.925
    # 20 attacks leave so few labels that what errors they may hide widens the interval.
    assert max(found["ppi++"]) <= (0.97 if labels == 60 else 0.99)
    assert (powered.lower[:, 1] == 0).all()
    assert (powered.upper[:, 1] > 0.08).all()
    assert (divided.refusal[:, 1] == 1).all()


@pytest.mark.slow
def test_with_30_labels_about_6_percent_of_draws_refuse(table, study_size):
    draws = max(2000, int(20_000 * study_size))
    refused = []
    for judge in JUDGES:
        found = rogan_gladen(*resampled(table, judge, 30, draws, seed=12))
        refused.append((found.refusal[:, 0] != 0).mean())
    assert 0.03 <= np.mean(refused) <= 0.09


@pytest.mark.slow
def test_coverage_of_a_fixed_set(table, study_size):
    gold = np.array([int(row[GOLD]) for row in table[:200]])
    draws = max(2000, int(20_000 * study_size))
    rng = np.random.default_rng(13)
    for judge in JUDGES:
        said = np.array([int(row[judge]) for row in table[:200]])
        cells = np.bincount(2 * gold + said, minlength=4)
        labelled = rng.multivariate_hypergeometric(cells, 40, size=draws).reshape(draws, 2, 2)
        others = cells.reshape(2, 2).sum(0) - labelled.sum(1)
        found = prediction_powered(labelled, others, population="fixed")
        assert 0.925 <= inside(found.lower, found.upper, 0.55) <= 0.975
        divided = rogan_gladen(labelled, others, population="fixed")
        given = divided.refusal == 0
        assert inside(divided.lower[given], divided.upper[given], 0.55) >= 0.93
