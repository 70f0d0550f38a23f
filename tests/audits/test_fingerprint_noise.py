"""How much a target differs from itself: recovered from repeated runs, or as stated."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.audits.fingerprint.answers import answer_counts
from safemetry.audits.fingerprint.population import answer_population
from safemetry.audits.fingerprint.reruns import (
    NOISE_SHARES,
    noise_posterior,
    rerun_chances,
    simulate_reruns,
    stated_noise,
)
from safemetry.errors import InputError


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_the_noise_share_is_recovered_and_borrowed_by_targets_with_one_run(share):
    rng = np.random.default_rng(1)
    concentration = share / (1 - share)
    mean = np.broadcast_to(rng.uniform(0.1, 0.9, 400), (8, 400))
    chances = rng.beta(concentration * mean, concentration * (1 - mean))
    runs = (rng.random((4, 8, 400)) < chances).astype(np.int8)
    runs[1:, 7] = -1
    found = noise_posterior(answer_counts(runs, 2), np.stack([1 - mean, mean], -1)) @ NOISE_SHARES
    assert found[:7] == pytest.approx(share, abs=0.07)
    assert found[7] == pytest.approx(share, abs=0.07)


def test_a_stated_disagreement_is_what_a_simulated_rerun_of_every_target_shows():
    rng = np.random.default_rng(2)
    mean = rng.uniform(0.05, 0.95, (3, 2000))
    means = np.stack([1 - mean, mean], -1)
    # The first target answers as most do, the second against them, the third at random.
    usual = (mean > 0.5).astype(np.int8)
    codes = np.stack([usual[0], 1 - usual[1], rng.integers(0, 2, 2000).astype(np.int8)])
    counts = answer_counts(codes, 2)
    noise, stands_for = stated_noise(counts, means, 0.1)
    assert stands_for == pytest.approx(0.1)
    for target in range(3):
        again = simulate_reruns(counts[target], means[target], noise[target], (200, 1), rng)
        assert (again[..., 0] != codes[target]).mean() == pytest.approx(0.1, abs=0.01)


def test_a_disagreement_that_the_items_do_not_allow_is_the_nearest_that_they_do():
    means, counts = np.full((2, 50, 2), [0.99, 0.01]), answer_counts(np.zeros((2, 50), int), 2)
    assert (stated_noise(counts, means, 0.4)[1] < 0.021).all()
    with pytest.raises(InputError):
        stated_noise(counts, means, 0.0)


def test_rerun_chances_lie_between_what_was_seen_and_the_population():
    counts = np.array([[[4.0, 0.0], [1.0, 0.0], [0.0, 0.0]]])
    means = np.full((1, 3, 2), 0.5)
    noise, _ = stated_noise(counts, means, 0.1)
    seen = rerun_chances(counts, means, noise)[0, :, 0]
    assert 1 > seen[0] > seen[1] > seen[2] == pytest.approx(0.5)
    # An item that everybody passes is passed again: noise is shrunk by extremity.
    easy = rerun_chances(counts, np.full((1, 3, 2), [0.98, 0.02]), noise)[0, :, 0]
    assert easy[1] > seen[1]


def test_repeated_simulated_runs_share_the_chances_of_the_target():
    rng = np.random.default_rng(3)
    means, noise = np.full((500, 2), 0.5), np.zeros(len(NOISE_SHARES))
    noise[0] = 1
    shares = simulate_reruns(np.zeros((500, 2)), means, noise, (20, 5), rng)
    assert ((shares < 0.01) | (shares > 0.99)).mean() > 0.95


def test_noise_needs_two_runs():
    counts = answer_counts(np.eye(3, 8, dtype=np.int8), 2)
    with pytest.raises(InputError, match="run twice"):
        noise_posterior(counts, np.full(counts.shape, 0.5))


@pytest.mark.parametrize("model", ["irt", "marginal"])
def test_a_population_knows_that_strong_targets_agree(model):
    rng = np.random.default_rng(4)
    theta, easiness = rng.normal(size=(40, 1)), rng.normal(size=60)
    codes = (rng.random((40, 60)) < 1 / (1 + np.exp(-1.5 * theta - easiness))).astype(np.int8)
    counts = answer_counts(codes, 2)
    population = answer_population(counts, model)
    assert np.exp(population.log_weights).sum() == pytest.approx(1)
    assert np.allclose(population.chances.sum(axis=-1), 1)
    expected = population.expected(codes[..., None] == np.arange(2))[..., 1].mean(axis=1)
    assert np.corrcoef(expected, theta[:, 0])[0, 1] > 0.9
    with pytest.raises(InputError, match="unknown population"):
        answer_population(counts, "rasch")
