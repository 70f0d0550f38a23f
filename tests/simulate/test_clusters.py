"""Clustered outcomes have the rate and the intra-class correlation asked for."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.simulate import behaviour_spread, outcome_intraclass, simulate_clusters


def moment_intraclass(events, attacks, rate):
    """Intra-class correlation from the variance of cluster counts with a known rate."""
    binomial = attacks * rate * (1 - rate)
    variance = np.mean((events - attacks * rate) ** 2)
    return (variance / binomial - 1) / (attacks - 1)


@pytest.mark.parametrize("rate", [0.5, 0.2, 0.05, 0.01])
@pytest.mark.parametrize("intraclass", [0.0, 0.1, 0.3, 0.8, 1.0])
def test_rate_and_correlation_are_recovered(rate, intraclass):
    clusters = 400_000
    events = simulate_clusters(
        100, 9, rate, intraclass, np.random.default_rng(9), replicates=clusters // 100
    )
    assert events.shape == (clusters // 100, 100)
    assert events.min() >= 0
    assert events.max() <= 9
    squares = (events - 9 * rate) ** 2
    error = squares.std() / np.sqrt(clusters) / (9 * rate * (1 - rate) * 8)
    assert moment_intraclass(events, 9, rate) == pytest.approx(intraclass, abs=5 * error)
    design = 1 + 8 * intraclass
    mean_error = np.sqrt(rate * (1 - rate) * design / (9 * clusters))
    assert events.mean() / 9 == pytest.approx(rate, abs=5 * mean_error)


def test_clusters_may_differ_in_size():
    sizes = np.array([1, 4, 50])
    events = simulate_clusters(3, sizes, 0.3, 0.2, np.random.default_rng(0), replicates=20_000)
    assert (events <= sizes).all()
    assert events.mean(axis=0) / sizes == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_certain_rates_are_certain(rate):
    events = simulate_clusters(10, 9, rate, 0.3, np.random.default_rng(0))
    assert (events == 9 * rate).all()


def test_same_seed_same_events():
    first, again = (
        simulate_clusters(50, 9, 0.1, 0.3, np.random.default_rng(11), replicates=7)
        for _ in range(2)
    )
    assert (first == again).all()


def test_latent_spread_has_the_stated_correlation():
    for intraclass, item_spread in [(0.0, 0.0), (0.3, 0.0), (0.57, 0.5)]:
        variance = behaviour_spread(intraclass, item_spread) ** 2
        total = variance + item_spread**2 + np.pi**2 / 3
        assert variance / total == pytest.approx(intraclass)


def test_outcome_correlation_is_that_of_drawn_outcomes():
    rng = np.random.default_rng(12)
    chances = rng.beta(0.5, 1.5, (100, 1)) * np.linspace(0.5, 1, 9)
    outcomes = rng.random((20_000, 100, 9)) < chances
    events = outcomes.sum(axis=-1)
    drawn = moment_intraclass(events, 9, chances.mean())
    # Attacks differ in rate, which takes a little variance from the sum over a fixed set of them.
    within = np.sum((chances.mean(axis=0) - chances.mean()) ** 2) / (9 * 8)
    p = chances.mean()
    pairs = events * (events - 1) / (9 * 8)
    expected = (pairs.mean() - p**2) / (p * (1 - p))
    assert float(outcome_intraclass(chances)) == pytest.approx(expected, abs=0.003)
    assert abs(drawn - expected) < within / (p * (1 - p)) + 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: simulate_clusters(10, 9, 1.2, 0.3, np.random.default_rng(0)),
        lambda: simulate_clusters(10, 9, 0.2, -0.1, np.random.default_rng(0)),
        lambda: simulate_clusters(0, 9, 0.2, 0.1, np.random.default_rng(0)),
        lambda: simulate_clusters(10, 0, 0.2, 0.1, np.random.default_rng(0)),
        lambda: simulate_clusters(10, [9, 9], 0.2, 0.1, np.random.default_rng(0)),
        lambda: behaviour_spread(1.0),
        lambda: outcome_intraclass([[0.5]]),
    ],
)
def test_impossible_clusters_are_refused(wrong):
    with pytest.raises(InputError):
        wrong()
