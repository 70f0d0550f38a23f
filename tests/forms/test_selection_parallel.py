"""Parallel forms: disjoint but for what they share, each within its constraints, equally good."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from selection_pools import made, names_of, permuted

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Exclusion, Quota, quotas_of
from safemetry.forms.selection import parallel_forms, random_forms, select_exact

POOL = made(400)


@pytest.mark.parametrize("forms", [2, 4])
@pytest.mark.parametrize("overlap", [None, 5])
def test_no_item_but_the_common_ones_stands_in_two_forms(forms, overlap):
    constraints = Constraints(
        20,
        quotas_of(POOL, "category", 20),
        (Exclusion(frozenset(POOL.items[:10]), 1),),
        required=POOL.items[12:13],
        forbidden=POOL.items[20:24],
    )
    found = parallel_forms(POOL, constraints, forms, overlap=overlap)
    assert len(found.forms) == forms
    assert len(found.common) == (overlap or 1)
    assert 12 in found.common
    for form in found.forms:
        assert constraints.broken(POOL, form) == []
    for first, second in combinations(found.forms, 2):
        assert set(first) & set(second) == set(found.common)


def test_information_is_balanced_far_better_than_by_chance():
    constraints = Constraints(30, quotas_of(POOL, "category", 30))
    found = parallel_forms(POOL, constraints, 3)
    theta, weights = POOL.population()
    information = POOL.information(theta)
    central = np.abs(theta - POOL.mean[0]) <= 1.96 * POOL.sd

    def largest(forms):
        curves = np.array([information[:, form].sum(axis=1) for form in forms])
        return ((curves.max(axis=0) - curves.min(axis=0)) / curves.mean(axis=0))[central].max()

    assert largest(found.forms) == pytest.approx(found.largest_difference)
    drawn = random_forms(POOL, constraints, 30, np.random.default_rng(0))
    by_chance = np.median([largest(drawn[place : place + 3]) for place in range(0, 30, 3)])
    assert found.largest_difference < 0.2 * by_chance
    assert found.largest_difference < 0.1
    curves = np.array([information[:, form].sum(axis=1) @ weights for form in found.forms])
    assert found.mean_information == pytest.approx(curves)
    assert found.mean_difference < found.largest_difference


def test_forms_are_nearly_as_informative_as_the_best_items_allow():
    found = parallel_forms(POOL, Constraints(20), 2)
    best = select_exact(POOL, Constraints(40)).value
    assert found.mean_information.sum() > 0.9 * best
    alone = select_exact(POOL, Constraints(20)).value
    assert found.mean_information.max() <= alone


def test_the_order_of_items_does_not_matter():
    constraints = Constraints(10, quotas_of(POOL, "language", 10)[:2])
    other = permuted(POOL, np.random.default_rng(0).permutation(400))
    found = [
        sorted(names_of(pool, form) for form in parallel_forms(pool, constraints, 2).forms)
        for pool in (POOL, other)
    ]
    assert found[0] == found[1]


def test_the_whole_pool_is_divided_where_forms_need_all_of_it():
    pool = made(24, seed=5)
    found = parallel_forms(pool, Constraints(8), 3)
    assert np.sort(np.concatenate(found.forms)).tolist() == list(range(24))


def test_several_dimensions():
    pool = made(60, dimensions=2)
    found = parallel_forms(pool, Constraints(10), 2)
    assert not set(found.forms[0]) & set(found.forms[1])
    assert 0 <= found.largest_difference < 1


def test_what_cannot_be_is_refused():
    few = sum(value == "c0" for value in POOL.properties["category"])
    with pytest.raises(InputError, match="but not 2 of them with 0 in common"):
        parallel_forms(POOL, Constraints(few, (Quota("category", "c0", few),)), 2)
    with pytest.raises(InputError, match="1 parallel forms"):
        parallel_forms(POOL, Constraints(5), 1)
    with pytest.raises(InputError, match="cannot keep"):
        parallel_forms(POOL, Constraints(5, (Quota("category", "zz", 1),)), 2)
    for overlap in (0, 5):
        with pytest.raises(InputError, match="overlap"):
            parallel_forms(POOL, Constraints(5, required=POOL.items[:1]), 2, overlap=overlap)
