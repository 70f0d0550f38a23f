"""CUSUM against its definition, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.audits.person_fit.cusum import cusum, item_order
from safemetry.errors import InputError


def test_accumulated_sums_are_those_of_the_recursion():
    residuals = np.random.default_rng(1).normal(size=(50, 30))
    upper, lower = np.zeros(50), np.zeros(50)
    highest, lowest = np.zeros(50), np.zeros(50)
    for step in residuals.T / 30:
        upper, lower = np.maximum(0, upper + step), np.minimum(0, lower + step)
        highest, lowest = np.maximum(highest, upper), np.minimum(lowest, lower)
    found = cusum(residuals, 30)
    assert np.allclose(found.upper, highest)
    assert np.allclose(found.lower, lowest)
    assert np.allclose(found.largest, np.maximum(highest, -lowest))


def test_a_run_is_larger_than_the_same_residuals_in_turn():
    run = np.array([[0.5] * 10 + [-0.5] * 10])
    turn = np.array([[0.5, -0.5] * 10])
    assert cusum(run, 20).largest > 5 * cusum(turn, 20).largest


def test_equal_keys_keep_the_order_given():
    assert item_order(["b", "a", "b", "a"], 4).tolist() == [1, 3, 0, 2]
    with pytest.raises(InputError, match="several kinds"):
        item_order(["b", 1], 2)
    with pytest.raises(InputError, match="items of 3"):
        item_order([1], 3)
