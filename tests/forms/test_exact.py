"""The exact form: equal to the best of all by trial, proven or with its gap, and in time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from selection_pools import made, possible_forms

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Exclusion, Quota, quotas_of
from safemetry.forms.selection import Wished, criterion, select_exact
from safemetry.irt.parameters import ItemParameters


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", ["mean", "maximin"])
def test_equal_to_the_best_of_all_forms(seed, objective):
    pool = made(13, seed=seed)
    wished = Wished((-1.5, 0.0, 1.5), (1.0, 2.0, 1.0)) if seed % 2 else None
    constraints = Constraints(
        4,
        (Quota("language", "en", 1, 2),),
        (Exclusion(frozenset(pool.items[:5]), 2),),
        required=pool.items[2:3],
        forbidden=pool.items[7:8],
    )
    goal = criterion(pool, objective, wished)
    measure = goal.value if objective == "mean" else goal.least
    best = max(measure(np.array(form)) for form in possible_forms(pool, constraints))
    found = select_exact(pool, constraints, objective=objective, wished=wished)
    assert found.value == pytest.approx(best, rel=1e-4)
    assert found.bound >= best * (1 - 1e-9)
    assert found.optimal
    assert found.gap <= 1e-4


def test_mean_information_without_quotas_is_that_of_the_best_items():
    pool = made(500)
    found = select_exact(pool, Constraints(30))
    goal = criterion(pool, "mean")
    assert set(found.positions.tolist()) == set(np.argsort(-goal.values)[:30].tolist())
    assert list(goal.values[found.positions]) == sorted(goal.values[found.positions], reverse=True)


def test_a_search_that_is_cut_short_says_how_far_it_may_be():
    pool = made(800)
    constraints = Constraints(20, quotas_of(pool, "category", 20))
    found = select_exact(pool, constraints, objective="maximin", time_limit=0.2)
    assert constraints.broken(pool, found.positions) == []
    assert 0 <= found.gap < 0.1
    assert found.bound == pytest.approx(found.value * (1 + found.gap))
    longer = select_exact(pool, constraints, objective="maximin", time_limit=3)
    assert longer.value >= found.value * (1 - 1e-9)
    assert longer.value <= found.bound * (1 + 1e-6)


def test_maximin_balances_what_the_mean_neglects():
    pool = made(200)
    wished = Wished((-2.0, -1.0, 0.0, 1.0, 2.0))
    level, mean = (
        select_exact(pool, Constraints(20), objective=one, wished=wished, time_limit=3)
        for one in ("maximin", "mean")
    )
    goal = criterion(pool, "maximin", wished)
    assert goal.least(level.positions) > 1.1 * goal.least(mean.positions)


def test_25_of_5067_items_with_8_quotas_in_ten_seconds():
    pool = made(5067)
    groups = tuple(f"g{place % 8}" for place in np.random.default_rng(1).permutation(5067))
    pool = type(pool)(pool.items, pool.parameters, pool.mean, pool.covariance, {"group": groups})
    constraints = Constraints(25, quotas_of(pool, "group", 25))
    assert len(constraints.quotas) == 8
    start = time.perf_counter()
    found = select_exact(pool, constraints)
    assert time.perf_counter() - start < 10
    assert found.optimal
    assert constraints.broken(pool, found.positions) == []


def test_objectives_that_are_no_linear_programme_are_refused():
    with pytest.raises(InputError, match="no linear programme"):
        select_exact(made(10), Constraints(3), objective="variance")
    with pytest.raises(InputError, match="time limit"):
        select_exact(made(10), Constraints(3), time_limit=0)


def test_a_form_that_tells_nothing_has_no_gap_but_a_reason():
    pool = made(6)
    nothing = ItemParameters(np.zeros((6, 1)), np.zeros((6, 1)), np.zeros(6), np.ones(6))
    silent = type(pool)(pool.items, nothing, pool.mean, pool.covariance)
    for objective in ("mean", "maximin"):
        found = select_exact(silent, Constraints(2), objective=objective)
        assert found.value == 0
        for name in ("bound", "gap"):
            value = getattr(found, name)
            assert np.isfinite(value) if value is not None else found.why[name]
