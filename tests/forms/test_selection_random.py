"""Random forms: every form that keeps the constraints is as likely as any other."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2
from selection_pools import made, possible_forms

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Exclusion, Quota, quotas_of
from safemetry.forms.selection import draws, random_forms, select_random
from safemetry.forms.selection.limits import limits_of
from safemetry.forms.selection.walk import Walk

TINY = made(10, seed=2)
CONSTRAINTS = {
    "no quota": Constraints(3),
    "one property, ranges": Constraints(
        4, (Quota("category", "c0", 0, 2), Quota("category", "c1", 1, 2))
    ),
    "required": Constraints(
        4, (Quota("category", "c0", 1, 2),), required=TINY.items[:1], forbidden=TINY.items[1:2]
    ),
    "crossed": Constraints(
        4,
        (Quota("category", "c1", 1, 1), Quota("language", "en", 2, 2), Quota("language", "de", 1)),
    ),
    "exclusion": Constraints(4, exclusions=(Exclusion(frozenset(TINY.items[:6]), 2),)),
}


def assert_uniform(forms, possible):
    counts = Counter(tuple(form.tolist()) for form in forms)
    assert set(counts) <= set(possible)
    expected = len(forms) / len(possible)
    statistic = sum((counts[form] - expected) ** 2 / expected for form in possible)
    assert statistic < chi2.ppf(0.9999, len(possible) - 1)


@pytest.mark.parametrize("name", list(CONSTRAINTS))
def test_all_forms_are_equally_likely(name):
    constraints = CONSTRAINTS[name]
    possible = possible_forms(TINY, constraints)
    assert len(possible) > 5
    forms = random_forms(TINY, constraints, 20 * len(possible), np.random.default_rng(1))
    assert_uniform(forms, possible)


@pytest.mark.parametrize("name", list(CONSTRAINTS))
def test_the_walk_comes_to_all_forms_equally_often(name):
    constraints = CONSTRAINTS[name]
    possible = possible_forms(TINY, constraints)
    walk = Walk(limits_of(TINY, constraints), np.array(possible[0]), np.random.default_rng(1))
    # Neighbouring forms of the walk depend on each other: every fifth is counted.
    forms = [walk.next_form() for _ in range(25 * len(possible))][::5]
    assert_uniform(forms, possible)


def test_the_walk_moves_between_the_cells_of_crossed_quotas():
    """Two items must change at once: no exchange of one keeps both margins."""
    pool = made(4)
    pool = type(pool)(
        pool.items,
        pool.parameters,
        pool.mean,
        pool.covariance,
        {"row": ("a", "a", "b", "b"), "column": ("x", "y", "x", "y")},
    )
    constraints = Constraints(2, (Quota("row", "a", 1, 1), Quota("column", "x", 1, 1)))
    walk = Walk(limits_of(pool, constraints), np.array([0, 3]), np.random.default_rng(0))
    counts = Counter(tuple(walk.next_form().tolist()) for _ in range(400))
    assert set(counts) == {(0, 3), (1, 2)}
    assert 120 < counts[0, 3] < 280


def test_entangled_forms_keep_their_constraints_and_use_all_items():
    pool = made(300, seed=3)
    twins = tuple(Exclusion(frozenset(pool.items[place : place + 2])) for place in range(0, 300, 2))
    constraints = Constraints(
        60, quotas_of(pool, "category", 60) + quotas_of(pool, "language", 60), twins
    )
    forms = random_forms(pool, constraints, 40, np.random.default_rng(0))
    assert all(constraints.broken(pool, form) == [] for form in forms)
    uses = np.bincount(np.concatenate(forms), minlength=300)
    assert (uses > 0).all()
    # Independent draws would use an item of a share s of the pool in a binomial number of forms.
    assert uses.std() < 1.3 * np.sqrt(40 * 0.2 * 0.8)


def test_a_hundred_long_forms_are_quick():
    pool = made(5000)
    constraints = Constraints(200, quotas_of(pool, "category", 200))
    start = time.perf_counter()
    forms = random_forms(pool, constraints, 100, np.random.default_rng(0))
    assert time.perf_counter() - start < 5
    assert all(constraints.broken(pool, form) == [] for form in forms[::20])


def test_the_same_seed_gives_the_same_form():
    one, two = (select_random(TINY, Constraints(4), np.random.default_rng(9)) for _ in range(2))
    assert (one == two).all()
    assert (one == np.sort(one)).all()


def test_numbers_of_items_follow_the_shares_of_the_pool_where_a_quota_leaves_room():
    pool = made(200)
    wide = Constraints(20, (Quota("category", "c0", 0, 20),))
    forms = random_forms(pool, wide, 2000, np.random.default_rng(4))
    of = np.array([value == "c0" for value in pool.properties["category"]])
    counts = np.array([of[form].sum() for form in forms])
    assert counts.mean() == pytest.approx(20 * of.mean(), abs=0.2)


def test_no_form_at_all_is_refused():
    with pytest.raises(InputError, match="0 random forms"):
        random_forms(TINY, Constraints(3), 0, np.random.default_rng(0))
    assert draws.random_forms(TINY, Constraints(10), 2, np.random.default_rng(0))[
        0
    ].tolist() == list(range(10))
