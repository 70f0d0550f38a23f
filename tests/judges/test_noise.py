"""Repeated calls: how often they flip, and what a majority of them buys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from safemetry.judges.noise import beta_binomial, disagreement, majority_flips, measure_noise
from safemetry.judges.panel import Panel

Make = Callable[..., Panel]


def repeated(chance: np.ndarray, calls: int, seed: int) -> np.ndarray:
    """Calls that succeed with each response's chance, shape (C, R, 1)."""
    rng = np.random.default_rng(seed)
    return (rng.random((calls, len(chance), 1)) < chance[:, None]).astype(np.int8)


def test_flips_are_those_of_the_truth(panel_from: Make) -> None:
    # 20,000 responses of which a fifth are doubtful: two calls differ with chance .2 x .5 = .1,
    # and the standard error of the estimate is about .3 / sqrt(20,000) = .002.
    chance = np.where(np.arange(20_000) % 5 == 0, 0.5, 0.0)
    panel = panel_from(repeated(chance, 2, 1), classes=("refuse", "comply"))
    (row,) = measure_noise(panel).flips
    assert row.overall == pytest.approx(0.1, abs=0.008)
    assert row.interval[0] < 0.1 < row.interval[1]
    assert row.by_boundary["comply"]["1"] == pytest.approx(row.overall)


def test_what_a_majority_of_three_buys(panel_from: Make) -> None:
    # Chances from Beta(.3, .7). The truth is found with fresh majorities of the same responses.
    chance = np.random.default_rng(2).beta(0.3, 0.7, 40_000)
    panel = panel_from(repeated(chance, 3, 3), classes=("refuse", "comply"))
    (row,) = measure_noise(panel).flips
    for votes in (3, 5):
        first, second = (repeated(chance, votes, seed).sum(axis=0) > votes / 2 for seed in (4, 5))
        truth = float((first != second).mean())
        # Standard errors: about .002 of the truth, less of the estimate.
        assert row.by_boundary["comply"][str(votes)] == pytest.approx(truth, abs=0.01)
    found = row.by_boundary["comply"]
    assert found["5"] < found["3"] < found["1"]


def test_shapes_of_the_beta_distribution_are_recovered() -> None:
    chance = np.random.default_rng(6).beta(0.5, 1.5, 50_000)
    events = np.random.default_rng(7).binomial(5, chance)
    a, b = beta_binomial(events, np.full(50_000, 5))
    assert (a, b) == (pytest.approx(0.5, rel=0.05), pytest.approx(1.5, rel=0.05))


def test_certain_and_even_judges() -> None:
    assert majority_flips(1e-4, 1e-4, 3) == pytest.approx(0, abs=1e-3)
    assert majority_flips(1e4, 1e4, 5) == pytest.approx(0.5, abs=1e-3)
    # Beta(1, 1): the mean of 2 p (1 - p) is 1/3 with one call.
    assert majority_flips(1, 1, 1) == pytest.approx(1 / 3, abs=1e-4)


def test_noise_of_a_difference_covers_equal_targets(panel_from: Make) -> None:
    # Two targets with the same chances item by item: repeating the judging, their difference should
    # exceed the noise in 5% of 400 panels; the standard error is 1.1 points.
    chance = np.random.default_rng(8).beta(0.4, 0.6, 300)
    beyond = []
    for seed in range(400):
        calls = repeated(np.concatenate([chance, chance]), 2, 100 + seed)
        panel = panel_from(calls, classes=("refuse", "comply"), targets=["m"] * 300 + ["n"] * 300)
        (row,) = measure_noise(panel).differences
        beyond.append(row.exceeds)
    assert np.mean(beyond) == pytest.approx(0.05, abs=0.035)


def test_judges_with_one_call_are_named(panel_from: Make) -> None:
    found = measure_noise(panel_from([[0, 1], [1, 1]], classes=("refuse", "comply")))
    assert found.without == ("judge-0", "judge-1")
    assert found.flips == ()


def test_disagreement_by_hand() -> None:
    votes = np.array([[2, 1, 0, 1], [0, 1, 2, 1], [0, 0, 0, 1]])
    assert disagreement(votes).tolist() == [0, 1, 0, 1]


def test_a_class_that_never_wins_has_no_flip_rate(panel_from: Make) -> None:
    calls = np.zeros((2, 5, 1), np.int8)
    (row,) = measure_noise(panel_from(calls)).flips
    assert row.by_class == {"refuse": 0.0, "evasive": None, "comply": None}
    assert row.to_dict()["by_class"]["why"]["comply"].startswith("no response")


@pytest.mark.parametrize(("calls", "responses"), [(3, 500), (5, 200), (5, 2000)])
def test_doubts_that_are_spread_evenly_are_recovered(calls: int, responses: int) -> None:
    # Beta(2.6, 2.6): the mean of 2 q (1 - q) is .359 for a majority of three. With 200 responses
    # its standard error is about .02, and a fit that runs to equal chances would give .5.
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        events = rng.binomial(calls, rng.beta(2.6, 2.6, responses))
        found.append(majority_flips(*beta_binomial(events, np.full(responses, calls)), 3))
    assert np.mean(found) == pytest.approx(0.359, abs=0.01)
    assert max(found) < 0.45
