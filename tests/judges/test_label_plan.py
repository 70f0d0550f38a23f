"""What labelling would buy, from the plan to the corrected rate."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.export import export_table
from safemetry.judges import audit_judges, read_sampling
from safemetry.judges.correction.correct import correct
from safemetry.judges.correction.label_plan import plan_labels
from safemetry.judges.panel import NO_VERDICT


@pytest.fixture
def three(panel_from):
    """Two judges of 1,200 responses, of which people labelled 80; the truth of all of them."""
    rng = np.random.default_rng(5)
    truth = (rng.random(1200) < np.where(np.arange(1200) < 800, 0.3, 0.1)).astype(int)
    good = np.where(rng.random(1200) < 0.05, 1 - truth, truth)
    poor = np.where(rng.random(1200) < 0.35, 1 - truth, truth)
    known = np.where(rng.permutation(1200) < 80, truth, NO_VERDICT)
    panel = panel_from(
        np.stack([good, known, poor], axis=1),
        classes=("refuse", "comply"),
        judges=("good", "human", "poor"),
        intent=["harmful"] * 800 + ["benign"] * 400,
    )
    return panel, truth


def test_the_plan_is_for_the_judge_that_saves_most(three):
    panel, _ = three
    plan = plan_labels(panel, ["human"], np.random.default_rng(1), further=50)
    assert (plan.judge, plan.boundary) == ("good", "comply")
    rows = plan.to_dict()["needed"]
    assert {(row["judge"], row["intent"]) for row in rows} == {
        (judge, intent) for judge in ("good", "poor") for intent in ("harmful", "benign")
    }
    by = {(row["judge"], row["intent"]): row for row in rows}
    assert by["good", "harmful"]["with_judge"] < by["poor", "harmful"]["with_judge"]
    assert sum(row["labels"] for row in rows if row["judge"] == "good") == 80
    named = plan_labels(panel, ["human"], np.random.default_rng(1), further=50, judge="poor")
    assert named.judge == "poor"


def test_without_gold_the_first_labels_are_placed_too(three):
    panel, _ = three
    plan = plan_labels(panel.select(judges=["good", "poor"]), (), np.random.default_rng(1))
    assert plan.to_dict()["why"]["needed"].startswith("no judge is named")
    assert plan.next is None
    plan = plan_labels(
        panel.select(judges=["good", "poor"]), (), np.random.default_rng(1), further=40
    )
    assert len(plan.next.ids) == plan.next.sheet["ask"].to_pylist().count("yes") == 40
    assert plan.next.sheet["label"].null_count == plan.next.sheet.num_rows == 1200


def test_the_sheet_leads_back_to_the_corrected_rate(three, tmp_path):
    panel, truth = three
    rng = np.random.default_rng(2)
    plan = plan_labels(panel, ["human"], rng, further=120)
    sheet = tmp_path / "sheet.csv"
    assert export_table(plan.next.sheet, sheet, "csv") == 1200
    assert plan.next.sheet["ask"].to_pylist()[:121] == ["yes"] * 120 + ["no"]
    chosen = np.array([int(one["item"]) for one in plan.next.ids])
    labels = panel.labels.copy()
    labels[chosen, 1] = truth[chosen]
    later = replace(panel, calls=labels[None])
    labelled = labels[:, 1] != NO_VERDICT
    chances = read_sampling(str(sheet)).of(later, labelled)
    assert (chances[~labelled] == 1).all()
    assert 1 / chances[labelled] @ np.ones(200) == pytest.approx(1200, rel=1e-9)
    rows = correct(later, ["human"], judges=["good"], probability=chances)
    for row in rows:
        if row.method.startswith("ppi++") and not row.pooled:
            part = truth[:800] if row.intent == "harmful" else truth[800:]
            assert row.interval[0] <= part.mean() <= row.interval[1]


def test_labels_by_the_plan_give_the_rate_without_bias(three):
    """Over 150 plans the mean of the estimate is the rate; unequal chances ignored, it is not.

    The estimate has a standard error near .02 in each plan, so that of the mean is near .0016.
    """
    panel, truth = three
    truth, panel = truth[:800], panel.select(rows=np.arange(800))
    weighted, plain = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        labels = panel.labels.copy()
        labels[:, 1] = np.where(rng.permutation(800) < 40, truth, NO_VERDICT)
        start = replace(panel, calls=labels[None])
        found = plan_labels(start, ["human"], rng, further=80, judge="poor").next
        chosen = np.array([int(one["item"]) for one in found.ids])
        labels[chosen, 1] = truth[chosen]
        later = replace(panel, calls=labels[None])
        place = dict(zip(*_columns(found.sheet), strict=True))
        chance = np.array([place[str(item)] for item in range(800)])
        for kept, given in ((weighted, chance), (plain, None)):
            kept += [
                row.estimate
                for row in correct(later, ["human"], judges=["poor"], probability=given)
                if row.method.startswith("labels")
            ]
    assert np.mean(weighted) == pytest.approx(truth.mean(), abs=0.006)
    assert abs(np.mean(plain) - truth.mean()) > 0.01


def test_a_second_round_for_another_judge_keeps_the_chances_of_the_first(panel_from):
    """Labels placed for one judge and then for another: the mean over 100 rounds is the rate.

    Without the chances of the first round the labels are too often where the first judge was in
    doubt, and the rate is some points too high. One estimate has a standard error near .03.
    """
    means = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = (rng.random(800) < 0.3).astype(int)
        said = np.where(rng.random((800, 3)) < 0.35, 1 - truth[:, None], truth[:, None])
        labels = np.column_stack([said, np.full(800, NO_VERDICT)])
        names = ("first", "second", "third", "human")
        chance = None
        for judge, further in (("first", 120), ("second", 60)):
            panel = panel_from(labels, classes=("refuse", "comply"), judges=names)
            gold = ("human",) if chance is not None else ()
            known = panel if gold else panel.select(judges=names[:3])
            found = plan_labels(known, gold, rng, further=further, judge=judge, earlier=chance).next
            place = dict(zip(*_columns(found.sheet), strict=True))
            chance = np.array([place[str(item)] for item in range(800)])
            chosen = np.array([int(one["item"]) for one in found.ids])
            labels[chosen, 3] = truth[chosen]
        panel = panel_from(labels, classes=("refuse", "comply"), judges=names)
        rows = correct(panel, ["human"], judges=["second"], probability=chance)
        means.append(next(r.estimate for r in rows if r.method.startswith("labels")) - truth.mean())
    assert np.mean(means) == pytest.approx(0.0, abs=0.01)


def test_a_plan_that_leaves_a_kind_of_response_unseen_is_refused(three):
    panel, _ = three
    alone = panel.select(judges=["good", "poor"])
    with pytest.raises(InputError, match="do not reach all 8 kinds"):
        plan_labels(alone, (), np.random.default_rng(1), further=5)


def test_a_judge_without_a_label_is_not_chosen(panel_from):
    labels = np.full((300, 3), NO_VERDICT)
    rng = np.random.default_rng(1)
    labels[:200, 0], labels[200:, 1] = rng.integers(0, 2, 200), rng.integers(0, 2, 100)
    labels[:150, 2] = rng.integers(0, 2, 150)
    panel = panel_from(labels, classes=("refuse", "comply"), judges=("a", "b", "human"))
    assert plan_labels(panel, ["human"], rng, further=40).judge == "a"


def test_few_clusters_need_more_labels_than_there_are(panel_from):
    """60 items answered 40 times each, alike: labels are worth no more than 60."""
    rng = np.random.default_rng(1)
    item = np.repeat(np.arange(60), 40)
    truth = (rng.random(60) < 0.3)[item].astype(int)
    said = np.where(rng.random(2400) < 0.05, 1 - truth, truth)
    known = np.where(rng.permutation(2400) < 200, truth, NO_VERDICT)
    panel = panel_from(
        np.column_stack([said, known]),
        classes=("refuse", "comply"),
        judges=("judge", "human"),
        behaviour=[f"b{place}" for place in item],
    )
    (row,) = plan_labels(panel, ["human"], rng).needed
    assert row.needed.without_judge is None
    assert row.needed.with_judge is None
    assert "too few" in row.needed.why["without_judge"]


def _columns(sheet):
    return sheet["item"].to_pylist(), sheet["probability"].to_pylist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target,item\nm,1\n", "no column probability"),
        ("target,item,probability\nm,1,1.5\n", "'1.5' is no probability"),
        ("target,item,probability\nm,1,\n", "is no probability"),
        ("target,item,probability\nm,1,.5\nm,1,.2\n", "probabilities 0.5 and 0.2"),
    ],
)
def test_a_sheet_that_cannot_be_used_is_named(tmp_path, text, said):
    file = tmp_path / "sheet.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_sampling(str(file))


def test_a_label_without_a_chance_is_named(three, tmp_path):
    panel, _ = three
    file = tmp_path / "sheet.csv"
    file.write_text("target,item,probability\nm,1,.5\n")
    with pytest.raises(InputError, match="has no row for the response of target 'm'"):
        read_sampling(str(file)).of(panel, panel.labels[:, 1] != NO_VERDICT)


def test_the_audit_holds_the_plan():
    rng = np.random.default_rng(1)
    rows = [
        {"target": "m", "item": f"i{item:03d}", "judge": judge, "label": label, "intent": "harmful"}
        for item in range(200)
        for judge, label in (
            ("judge", ("refuse", "comply")[rng.random() < 0.4]),
            ("human", ("refuse", "comply")[rng.random() < 0.4]),
        )
        if judge != "human" or item % 5 == 0
    ]
    finding = audit_judges(pa.Table.from_pylist(rows), gold=("human",), draws=100, further=20)
    found = json.loads(json.dumps(finding.to_dict()))
    assert len(found["labels"]["next"]["ids"]) == 20
    assert "sheet" not in found["labels"]["next"]
    assert [row["labels"] for row in found["labels"]["needed"]] == [40, 40]
    assert set(found["labels"]["next"]["ids"][0]) == {"run", "target", "item", "epoch", "cell"}
