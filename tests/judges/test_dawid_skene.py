"""Shares of classes without gold labels: recovery, refusals, and panels whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.findings import plain
from safemetry.judges.coding import panel_of
from safemetry.judges.latent.dawid_skene import DawidSkeneSettings, dawid_skene
from safemetry.judges.latent.latent_class import (
    Likelihood,
    distinct_patterns,
    influence,
    named_classes,
)
from safemetry.readers import read_evidence

XSTEST = {
    "constants": {"benchmark": "xstest"},
    "columns": {"target": "model", "item": "item_id", "category": "family"},
    "label_columns": {
        name: name for name in ("human_1", "human_2", "human_final", "judge_gpt4", "judge_strmatch")
    },
    "intent": {"column": "prompt_safety", "values": {"safe": "benign", "unsafe": "harmful"}},
    "labels": {"partial": "evasive"},
    "judges": {"judge_strmatch": {"classes": ["refuse", "comply"]}},
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
JBB = ("human1", "human2", "human3", "harmbench_cf", "gpt4_cf", "llamaguard2_cf", "llama3_cf")


def panel_at(path, given, kind):
    return panel_of(read_evidence(str(path), evidence_map=make_map(given), kind=kind))


def labelled(rng, truth, matrices):
    """A label of each judge, given its confusion matrix."""
    drawn = rng.random((len(truth), len(matrices)))
    steps = np.stack([np.cumsum(matrix, axis=1)[truth] for matrix in matrices], axis=1)
    return (drawn[:, :, None] > steps).sum(axis=2).clip(0, matrices[0].shape[0] - 1).astype(np.int8)


def matrix(hit, classes=3):
    return np.full((classes, classes), (1 - hit) / (classes - 1)) + np.eye(classes) * (
        hit - (1 - hit) / (classes - 1)
    )


def shares(row, target="all"):
    return {one.name: one.share.estimate for one in row.prevalence if one.target == target}


def test_prevalences_and_confusion_matrices_are_recovered(panel_from):
    rng = np.random.default_rng(1)
    target = np.repeat(["a", "b"], 4000).tolist()
    truth = np.concatenate(
        [rng.choice(3, 4000, p=[0.8, 0.15, 0.05]), rng.choice(3, 4000, p=[0.3, 0.2, 0.5])]
    )
    strict = np.array([[0.95, 0.04, 0.01], [0.3, 0.6, 0.1], [0.1, 0.5, 0.4]])
    labels = labelled(rng, truth, [matrix(0.9), strict, matrix(0.8), matrix(0.7)])
    labels[rng.random(labels.shape) < 0.1] = -1
    (row,) = dawid_skene(panel_from(labels, targets=target), np.random.default_rng(2))
    assert row.fitted
    assert row.basis == "model-based"
    for name, expected in (("a", [0.8, 0.15, 0.05]), ("b", [0.3, 0.2, 0.5])):
        assert np.allclose(list(shares(row, name).values()), expected, atol=0.03)
    found = [one.probability.estimate for one in row.confusion if one.judge == "judge-1"]
    assert np.allclose(np.reshape(found, (3, 3)), strict, atol=0.05)
    assert row.starts_agreeing > 0.5
    assert not row.sensitivity
    assert plain(row)


def test_rows_judges_and_names_of_classes_do_not_matter(panel_from):
    rng = np.random.default_rng(3)
    labels = labelled(rng, rng.choice(3, 900, p=[0.6, 0.1, 0.3]), [matrix(0.85)] * 4)
    (row,) = dawid_skene(panel_from(labels), np.random.default_rng(1))
    order = rng.permutation(900)
    (moved,) = dawid_skene(panel_from(labels[order][:, [2, 0, 3, 1]]), np.random.default_rng(9))
    assert np.allclose(list(shares(row).values()), list(shares(moved).values()), atol=1e-4)
    recoded = np.array([2, 0, 1], np.int8)[labels]
    (renamed,) = dawid_skene(panel_from(recoded), np.random.default_rng(1))
    values, others = list(shares(row).values()), list(shares(renamed).values())
    assert np.allclose(values, [others[2], others[0], others[1]], atol=1e-4)


def test_the_information_is_the_curvature_of_the_log_likelihood():
    rng = np.random.default_rng(5)
    labels = labelled(rng, rng.choice(2, 400, p=[0.7, 0.3]), [matrix(0.8, 2)] * 3)
    patterns = distinct_patterns(labels, np.zeros(400, np.int64), 2)
    model = Likelihood(patterns, np.ones((3, 2), bool), 1, 1.0)
    fit = named_classes(model.fit(model.start(), tolerance=1e-10), np.ones(3))
    inverse = influence(model, fit, np.arange(400)).inverse

    def at(step):
        share = np.log(fit.prevalence) + np.array([0, step])
        share = np.exp(share) / np.exp(share).sum()
        return model.objective(share, fit.confusion)

    # Curvature along one logit: the inverse of the inverse, less the directions without meaning.
    curvature = -(at(1e-3) - 2 * at(0) + at(-1e-3)) / 1e-6
    basis = np.zeros((14, 7))
    for block in range(7):
        basis[2 * block : 2 * block + 2, block] = (-0.5, 0.5)
    reduced = np.linalg.inv(basis.T @ inverse @ basis * 4)
    assert reduced[0, 0] == pytest.approx(curvature, rel=1e-3)


def test_fewer_than_three_judges_are_refused(panel_from):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, (100, 2)).astype(np.int8)
    (row,) = dawid_skene(panel_from(labels), rng)
    assert not row.fitted
    assert "not identified" in row.reason
    assert not row.prevalence


def test_three_judges_of_whom_two_know_two_of_three_classes_are_refused(panel_from):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, (200, 3)).astype(np.int8)
    labels[:, 1:] = np.where(labels[:, 1:] == 1, 2, labels[:, 1:])
    (row,) = dawid_skene(panel_from(labels), rng)
    assert not row.fitted
    assert "too few combinations" in row.reason


@pytest.mark.parametrize("code", [0, -1])
def test_one_class_or_no_verdict_is_refused(panel_from, code):
    rng = np.random.default_rng(1)
    (row,) = dawid_skene(panel_from(np.full((20, 4), code, np.int8)), rng)
    assert not row.fitted
    assert row.reason
    assert plain(row)


def test_a_single_cluster_has_no_interval(panel_from):
    rng = np.random.default_rng(1)
    labels = labelled(rng, rng.choice(3, 60), [matrix(0.9)] * 4)
    (row,) = dawid_skene(panel_from(labels, behaviour=["x"] * 60), rng)
    assert row.prevalence[0].share.interval is None
    assert row.prevalence[0].share.why


def test_settings_are_checked(panel_from):
    with pytest.raises(InputError, match="pseudo"):
        DawidSkeneSettings(pseudo=0)
    with pytest.raises(InputError, match="no judge"):
        dawid_skene(
            panel_from(np.zeros((3, 3), np.int8)), np.random.default_rng(1), leave_out=["nobody"]
        )


def test_speechmap_with_its_two_judges_is_refused(shared):
    panel = panel_at(shared / "data/speechmap_criticism/labels_long.parquet", SPEECHMAP, "tidy")
    (row,) = dawid_skene(panel, np.random.default_rng(1))
    assert not row.fitted
    assert "not identified" in row.reason


def test_xstest_against_the_final_human_label(shared):
    panel = panel_at(shared / "data/xstest_v2/labels_wide.csv", XSTEST, "labels")
    rows = dawid_skene(panel, np.random.default_rng(1), leave_out=["human_final"])
    benign, harmful, every = rows
    assert [row.intent for row in rows] == ["benign", "harmful", "all"]
    assert np.allclose(list(shares(benign).values()), [0.138, 0.098, 0.764], atol=0.01)
    # The share that counts on harmful items; refuse and evasive are told apart by people alone.
    assert shares(harmful)["comply"] == pytest.approx(0.136, abs=0.005)
    assert ("human_1", "human_2") in [
        (pair.first, pair.second) for pair in harmful.pairs if pair.dependent
    ]
    assert every.responses == 2250
    assert plain(rows)


def test_jailbreakbench_judges_by_intent(shared):
    path = shared / "data/jbb_judge_comparison/labels_wide.csv"
    given = {
        "constants": {"benchmark": "jbb", "target": "mixed"},
        "columns": {"item": "Index"},
        "label_columns": {name: name for name in JBB},
        "intent": {
            "column": "prompt_equals_goal",
            "values": {"True": "benign", "False": "harmful"},
        },
        "labels": {"0": "refuse", "1": "comply"},
    }
    rows = {
        row.intent: row
        for row in dawid_skene(panel_at(path, given, "labels"), np.random.default_rng(1))
    }
    # The majority of three people reads .550 on attacks; on benign rows they read 0.
    assert shares(rows["harmful"])["comply"] == pytest.approx(0.55, abs=0.06)


@pytest.mark.slow
def test_study_bias_and_coverage(panel_from, study_size):
    studies = max(100, round(1000 * study_size))
    rng = np.random.default_rng(11)
    inside, values = [], []
    for _ in range(studies):
        hard = rng.choice(3, 200, p=[0.6, 0.15, 0.25])
        truth = np.where(
            rng.random(800) < 0.5, np.repeat(hard, 4), rng.choice(3, 800, p=[0.6, 0.15, 0.25])
        )
        labels = labelled(rng, truth, [matrix(hit) for hit in (0.9, 0.85, 0.8, 0.75, 0.7)])
        units = [str(code) for code in np.repeat(np.arange(200), 4)]
        (row,) = dawid_skene(
            panel_from(labels, behaviour=units), rng, settings=DawidSkeneSettings(starts=1)
        )
        found = [one.share for one in row.prevalence if one.target == "all"]
        values.append([one.estimate for one in found])
        inside.append(
            [
                one.interval[0] <= p <= one.interval[1]
                for one, p in zip(found, (0.6, 0.15, 0.25), strict=True)
            ]
        )
    assert np.abs(np.mean(values, axis=0) - [0.6, 0.15, 0.25]).max() < 0.006
    coverage = np.mean(inside, axis=0)
    assert (coverage > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / studies)).all()
