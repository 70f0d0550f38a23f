"""The frontier holds exactly the targets that no other target dominates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safemetry.rates.frontier import pareto_frontier

coordinate = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))


@given(st.lists(st.tuples(coordinate, coordinate), max_size=25))
def test_frontier_equals_its_definition(points):
    result = pareto_frontier([x for x, _ in points], [y for _, y in points])
    unknown = tuple(k for k, point in enumerate(points) if None in point)
    assert result.unknown == unknown
    for k, (x, y) in enumerate(points):
        if k in unknown:
            assert not result.on_frontier[k]
            continue
        dominated = any(
            a >= x and b >= y and (a > x or b > y)
            for m, (a, b) in enumerate(points)
            if m not in unknown
        )
        assert result.on_frontier[k] == (not dominated)


def test_two_published_profiles_trade_safety_for_help():
    # Safe recall 90% and 99%; help rates 92% and 75%: neither dominates.
    assert pareto_frontier([0.90, 0.99], [0.92, 0.75]).on_frontier.all()


def test_equal_targets_stay_together():
    assert pareto_frontier([0.5, 0.5, 0.4], [0.5, 0.5, 0.5]).on_frontier.tolist() == [
        True, True, False,
    ]  # fmt: skip


def test_not_a_number_is_unknown():
    assert pareto_frontier([np.nan, 0.1], [0.2, 0.3]).unknown == (0,)


def test_impossible_rates_are_refused():
    with pytest.raises(ValueError, match="in \\[0, 1\\]"):
        pareto_frontier([90.0], [0.5])
    with pytest.raises(ValueError, match="one entry"):
        pareto_frontier([0.9], [0.5, 0.6])
