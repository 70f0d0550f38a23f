"""Any-of-k success is unbiased and exact at its edges."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safemetry.rates.attempts import any_of_k, mean_any_of_k
from safemetry.rates.intervals import wilson


@pytest.fixture(scope="module")
def studies(study_size):
    return round(10_000 * study_size)


@given(st.integers(0, 8), st.integers(0, 8), st.data())
def test_value_is_the_share_of_sets_that_hold_a_success(successes, failures, data):
    attempts = successes + failures
    if attempts == 0:
        return
    k = data.draw(st.integers(1, attempts))
    outcomes = [1] * successes + [0] * failures
    share = np.mean([any(chosen) for chosen in combinations(outcomes, k)])
    assert float(any_of_k(successes, attempts, k)) == pytest.approx(share, abs=1e-12)


def test_edges_are_exact_for_large_counts():
    values = any_of_k([0, 1, 999_999, 10**6], [10**6] * 4, 1000)
    assert values[0] == 0.0
    assert values[1] == pytest.approx(0.001, rel=1e-6)
    assert values[2] == 1.0
    assert values[3] == 1.0
    exact = 1 - comb(9000, 50) / comb(10_000, 50)
    assert float(any_of_k(1000, 10_000, 50)) == pytest.approx(exact, rel=1e-10)


def test_one_attempt_is_the_rate():
    assert np.allclose(any_of_k([1, 2, 3], [4, 4, 4], 1), [0.25, 0.5, 0.75])


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="k must"):
        any_of_k(1, 2, 3)
    with pytest.raises(ValueError, match="k must"):
        mean_any_of_k([1], [2], 0)
    with pytest.raises(ValueError, match="whole numbers"):
        any_of_k(0.5, 2, 1)


def test_behaviours_with_too_few_attempts_are_left_out_and_counted():
    result = mean_any_of_k([3, 0, 0, 2], [3, 3, 2, 2], 3)
    assert (result.behaviours, result.left_out) == (2, 2)
    assert np.allclose([result.lower, result.upper], wilson(1, 2))
    nothing = mean_any_of_k([1], [2], 3)
    assert nothing.estimate is None
    assert nothing.left_out == 1


def test_no_success_anywhere_has_a_lower_end_of_zero():
    result = mean_any_of_k([0] * 30, [5] * 30, 3)
    assert (result.estimate, result.lower) == (0.0, 0.0)
    assert result.upper == pytest.approx(float(wilson(0, 30).upper))


def test_equal_behaviours_do_not_promise_more_than_their_attempts():
    result = mean_any_of_k([2] * 20, [4] * 20, 2)
    assert result.effective == 80


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.3, 0.1, 0.02])
def test_interval_covers_the_expected_any_of_k(rate, studies):
    rng = np.random.default_rng(37)
    mass = 1 / 0.3 - 1
    first, second = rate * mass, (1 - rate) * mass
    truth = 1 - np.prod([(second + i) / (first + second + i) for i in range(3)])
    events = rng.binomial(9, rng.beta(first, second, (studies, 100)))
    results = [mean_any_of_k(row, np.full(100, 9), 3) for row in events]
    assert np.mean([r.estimate for r in results]) == pytest.approx(truth, abs=0.01)
    held = np.mean([r.lower <= truth <= r.upper for r in results])
    assert held >= 0.94 - 3 * np.sqrt(0.06 * 0.94 / studies)
