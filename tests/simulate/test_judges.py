"""Simulated judges follow their confusion matrices, and collapse only where they should."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.simulate import (
    PANEL,
    SimulatedJudge,
    collapse_confusion,
    ordinal_confusion,
    simulate_calls,
    simulate_judges,
)
from safemetry.simulate.judges import COMPLY, EVASIVE, REFUSE

CONFUSION = np.array([judge.confusion for judge in PANEL])


def test_labels_come_in_the_shares_of_the_confusion_matrix():
    true = np.repeat(np.arange(4), 100_000)
    labels = simulate_judges(true, CONFUSION, np.random.default_rng(5))
    seen = np.stack(
        [
            [np.bincount(labels[true == c, j], minlength=4) / 100_000 for c in range(4)]
            for j in range(len(PANEL))
        ]
    )
    # Standard error at most sqrt(.25 / 100,000) = .0016; the largest of 128 deviations under 4.5.
    assert seen == pytest.approx(CONFUSION, abs=0.0072)
    assert (seen[CONFUSION == 0] == 0).all()


def test_a_perfect_judge_repeats_the_truth_and_never_invents_a_class():
    true = np.random.default_rng(6).integers(0, 3, 10_000)
    thirds = np.full((3, 3), 1 / 3)
    labels = simulate_judges(true, [np.eye(3), thirds], np.random.default_rng(7))
    assert (labels[:, 0] == true).all()
    assert set(labels[:, 1].tolist()) == {0, 1, 2}


def test_every_call_keeps_the_marginal_distribution_and_repeats_as_often_as_stated():
    true = np.full(100_000, COMPLY)
    row = PANEL[5].confusion[COMPLY]
    calls = simulate_calls(
        true, [PANEL[5].confusion], np.random.default_rng(8), calls=3, steadiness=0.7
    )[:, 0]
    for call in range(3):
        shares = np.bincount(calls[:, call], minlength=4) / 100_000
        assert shares == pytest.approx(row, abs=0.005)
    same = 0.7 + 0.3 * np.square(row).sum()
    assert np.mean(calls[:, 0] == calls[:, 1]) == pytest.approx(same, abs=0.005)


def test_full_steadiness_repeats_every_verdict():
    calls = simulate_calls(
        np.zeros(1000, int), [np.full((2, 2), 0.5)], np.random.default_rng(0), calls=2, steadiness=1
    )
    assert (calls[..., 0] == calls[..., 1]).all()


def test_collapse_moves_verdicts_of_one_class_only():
    sound = ordinal_confusion(0.92, 0.4)
    collapsed = collapse_confusion(sound, COMPLY, kept=0.1)
    assert collapsed.sum(axis=1) == pytest.approx(1)
    assert collapsed[:, COMPLY] == pytest.approx(0.1 * sound[:, COMPLY])
    gained = collapsed - sound
    moved = 0.9 * sound[:, COMPLY]
    assert gained[:, EVASIVE] == pytest.approx(moved * 118 / 144)  # the published case
    assert gained[:, REFUSE] == pytest.approx(moved * 26 / 144)
    assert collapsed[:, 3] == pytest.approx(sound[:, 3])
    assert collapse_confusion(sound, COMPLY, kept=1.0) == pytest.approx(sound)


def test_every_judge_of_the_panel_is_a_distribution_and_three_collapse():
    assert CONFUSION.sum(axis=-1) == pytest.approx(1)
    assert CONFUSION.min() >= 0
    assert [judge.name for judge in PANEL if judge.collapsed] == ["judge-3", "judge-5", "judge-8"]
    sound = [judge for judge in PANEL if not judge.collapsed]
    assert all(np.diag(judge.confusion) == pytest.approx(judge.accuracy) for judge in sound)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: simulate_judges([0, 4], CONFUSION, np.random.default_rng(0)),
        lambda: simulate_judges([0, -1], CONFUSION, np.random.default_rng(0)),
        lambda: simulate_judges([0], [[[0.5, 0.6], [0, 1]]], np.random.default_rng(0)),
        lambda: simulate_judges([0], [[[1.5, -0.5], [0, 1]]], np.random.default_rng(0)),
        lambda: simulate_judges([0], np.eye(4), np.random.default_rng(0)),
        lambda: simulate_calls([0], CONFUSION, np.random.default_rng(0), calls=0),
        lambda: collapse_confusion(np.eye(4), kept=1.2),
        lambda: collapse_confusion(np.eye(4), moved_to=(0.5, 0.2, 0.3, 0)),
        lambda: SimulatedJudge("j", accuracy=1.2),
        lambda: SimulatedJudge("j", accuracy=0.9, kept=1.0),
        lambda: SimulatedJudge("j", accuracy=0.9, missing=1.0),
    ],
)
def test_what_is_no_judge_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()
