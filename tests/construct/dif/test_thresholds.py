"""Thresholds hold their rate for any number of simulations."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.dif.thresholds import family_threshold, rank, simulated_p_values
from safemetry.errors import InputError


@pytest.mark.parametrize("simulations", [19, 200, 999, 5000])
def test_a_further_draw_exceeds_the_threshold_at_the_stated_rate(simulations):
    rng = np.random.default_rng(simulations)
    repetitions = 400_000 // simulations
    draws = rng.normal(size=(repetitions, simulations))
    values = np.sort(draws, axis=1)[:, rank(simulations, 0.05) - 1]
    exceeding = (rng.normal(size=(50, repetitions)) > values).mean()
    stated = (simulations + 1 - rank(simulations, 0.05)) / (simulations + 1)
    assert stated <= 0.05
    assert exceeding == pytest.approx(stated, abs=4 * np.sqrt(0.05 / repetitions) * 0.3 + 0.003)


def test_the_usual_numbers_give_exact_ranks():
    assert rank(199, 0.05) == 190
    assert rank(99, 0.05) == 95
    assert rank(19, 0.05) == 19
    assert rank(999, 0.01) == 990


def test_too_few_simulations_are_refused_with_the_number_needed():
    with pytest.raises(InputError, match="run 19 or more"):
        rank(18, 0.05)
    with pytest.raises(InputError, match="run 99 or more"):
        family_threshold(np.zeros(50), 0.01)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_an_impossible_rate_is_refused(alpha):
    with pytest.raises(InputError, match="between 0 and 1"):
        rank(100, alpha)


@pytest.mark.parametrize("simulations", [19, 200, 5000])
def test_a_p_value_of_at_most_alpha_is_a_statistic_above_the_threshold(simulations):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=simulations)
    threshold = family_threshold(draws).value
    for observed in rng.normal(1.6, 0.3, size=200):
        p_value = simulated_p_values(np.array((draws >= observed).sum()), simulations)
        assert (p_value <= 0.05) == (observed > threshold)


def test_the_interval_of_the_threshold_covers_the_quantile():
    rng = np.random.default_rng(1)
    found = [family_threshold(rng.exponential(size=500)) for _ in range(1000)]
    inside = np.mean([one.low <= -np.log(0.05) <= one.high for one in found])
    assert 0.92 < inside < 0.98
