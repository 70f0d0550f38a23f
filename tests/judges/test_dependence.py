"""Judges that err together: found where planted, and not elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.judges.latent.dawid_skene import DawidSkeneSettings, dawid_skene
from safemetry.judges.latent.dependence import identified

QUICK = DawidSkeneSettings(starts=2)


def independent(rng, rows, hits):
    truth = rng.choice(3, rows, p=[0.6, 0.15, 0.25])
    right = rng.random((rows, len(hits))) < np.array(hits)
    wrong = (truth[:, None] + rng.integers(1, 3, (rows, len(hits)))) % 3
    return truth, np.where(right, truth[:, None], wrong).astype(np.int8)


def variants(rng, labels, count, same):
    """Prompt variants of one judge: its label, or another class in 1 - `same` of responses."""
    other = rng.integers(0, 3, (len(labels), count))
    kept = rng.random((len(labels), count)) < same
    return np.where(kept, labels[:, None], other).astype(np.int8)


def comply(prevalence):
    return next(p.share.estimate for p in prevalence if p.name == "comply" and p.target == "all")


def test_two_copies_among_six_are_named(panel_from):
    rng = np.random.default_rng(1)
    _, labels = independent(rng, 2000, [0.9, 0.9, 0.85, 0.8, 0.75])
    labels = np.column_stack([labels, variants(rng, labels[:, 4], 1, 0.9)])
    (row,) = dawid_skene(panel_from(labels), rng, settings=QUICK)
    dependent = [(p.first, p.second) for p in row.pairs if p.dependent]
    assert ("judge-4", "judge-5") in dependent
    groups = {frozenset(group) for s in row.sensitivity for group in s.groups}
    assert frozenset({"judge-4", "judge-5"}) in groups
    assert any("judge-4 + judge-5" in warning for warning in row.warnings)


def test_nine_variants_of_one_model_are_not_nine_judges(panel_from):
    rng = np.random.default_rng(2)
    truth, labels = independent(rng, 3000, [0.9, 0.85, 0.85])
    model = np.where(rng.random(3000) < 0.3, 0, truth).astype(np.int8)
    labels = np.column_stack([labels, variants(rng, model, 9, 0.95)])
    (row,) = dawid_skene(panel_from(labels), rng, settings=QUICK)
    assert any(pair.dependent for pair in row.pairs)
    nine = {f"judge-{place}" for place in range(3, 12)}
    found = [s for s in row.sensitivity if {*s.groups[0]} == nine]
    assert len(found) == 1
    # All judges together give what the one model says; one of the nine gives the truth.
    assert comply(row.prevalence) == pytest.approx((model == 2).mean(), abs=0.02)
    assert comply(found[0].prevalence) == pytest.approx((truth == 2).mean(), abs=0.02)


def test_declared_models_have_a_row_of_their_own(panel_from):
    rng = np.random.default_rng(3)
    _, labels = independent(rng, 800, [0.9, 0.85, 0.8, 0.8])
    (row,) = dawid_skene(
        panel_from(labels), rng, same_model={"judge-0": "X", "judge-1": "x"}, settings=QUICK
    )
    (declared,) = [s for s in row.sensitivity if s.found_by == "declared"]
    assert declared.groups == (("judge-0", "judge-1"),)
    assert declared.judges == ("judge-0", "judge-2", "judge-3")
    assert declared.prevalence


def test_three_judges_of_two_classes_leave_nothing_to_check(panel_from):
    rng = np.random.default_rng(4)
    _, labels = independent(rng, 500, [0.9, 0.85, 0.8])
    (row,) = dawid_skene(
        panel_from((labels == 2).astype(np.int8), classes=("refuse", "comply")), rng, settings=QUICK
    )
    assert row.fitted
    assert not row.pairs
    assert any("cannot be checked" in warning for warning in row.warnings)


@pytest.mark.parametrize(
    ("classes", "counts", "expected"),
    [(3, (3, 3, 2), True), (3, (3, 2, 2), False), (2, (2, 2, 2), True), (3, (2, 2, 2, 2), False)],
)
def test_identification_counts_combinations_of_labels(classes, counts, expected):
    can_emit = np.arange(classes)[None, :] < np.array(counts)[:, None]
    assert identified(can_emit) is expected


@pytest.mark.slow
def test_study_of_false_warnings_and_power(panel_from, study_size):
    studies = max(60, round(600 * study_size))
    rng = np.random.default_rng(5)
    false, found = 0, 0
    for _ in range(studies):
        _, labels = independent(rng, 500, [0.9, 0.85, 0.8, 0.8, 0.75])
        (row,) = dawid_skene(panel_from(labels), rng, settings=DawidSkeneSettings(starts=1))
        false += any(pair.dependent for pair in row.pairs)
        more = np.column_stack([labels, variants(rng, labels[:, 3], 1, 0.85)])
        (row,) = dawid_skene(panel_from(more), rng, settings=DawidSkeneSettings(starts=1))
        found += any(
            pair.dependent and {pair.first, pair.second} == {"judge-3", "judge-5"}
            for pair in row.pairs
        )
    assert false / studies < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert found / studies > 0.9
