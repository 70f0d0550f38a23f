"""Every way to choose a form keeps every constraint, and the better ways give better forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection_pools import drawn_codes, made, names_of, permuted, possible_forms

from safemetry.errors import InputError
from safemetry.forms.constraints import UNKNOWN, Constraints, Exclusion, Quota, quotas_of
from safemetry.forms.selection import Method, criterion, select, select_exact, select_greedy
from safemetry.forms.selection.draws import random_forms

POOL = made(60)
CODES = drawn_codes(POOL, 30)
HOSTILE = {
    "none": Constraints(10),
    "one property": Constraints(12, quotas_of(POOL, "category", 12)),
    "crossed": Constraints(12, quotas_of(POOL, "category", 12) + quotas_of(POOL, "language", 12)),
    "ranges": Constraints(
        9,
        (Quota("category", "c0", 2, 4), Quota("category", "c1", 0, 1), Quota("language", "en", 5)),
    ),
    "unknown values": Constraints(6, (Quota("language", UNKNOWN, 6, 6),)),
    "twins": Constraints(
        20,
        exclusions=tuple(
            Exclusion(frozenset((POOL.items[place], POOL.items[place + 1])))
            for place in range(0, 60, 2)
        ),
    ),
    "everything": Constraints(
        12,
        (*quotas_of(POOL, "category", 12), Quota("language", "de", 3, 5)),
        (Exclusion(frozenset(POOL.items[:8]), 2), Exclusion(frozenset(POOL.items[4:12]), 1)),
        (POOL.items[1], POOL.items[20]),
        (POOL.items[30], POOL.items[31]),
    ),
    "one item": Constraints(1),
    "all items": Constraints(60),
    "only required": Constraints(3, required=POOL.items[:3]),
}


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("name", list(HOSTILE))
def test_every_method_keeps_every_constraint(method, name):
    constraints = HOSTILE[name]
    found = select(POOL, constraints, method, codes=CODES, rng=np.random.default_rng(0))
    assert constraints.broken(POOL, found.positions) == []
    assert len(set(found.positions.tolist())) == constraints.length
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights > 0).all()
    assert found.method == method


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("name", ["crossed", "everything"])
def test_the_order_of_items_does_not_matter(method, name):
    order = np.random.default_rng(5).permutation(60)
    constraints, other = HOSTILE[name], permuted(POOL, order)
    found = [
        names_of(
            pool,
            select(pool, constraints, method, codes=codes, rng=np.random.default_rng(1)).positions,
        )
        for pool, codes in ((POOL, CODES), (other, CODES[:, order]))
    ]
    assert found[0] == found[1]


def test_the_order_of_items_that_are_all_alike_does_not_matter():
    alike = POOL.select(np.zeros(12, np.int64) + np.arange(12))
    alike = type(alike)(
        alike.items, alike.parameters.select(np.zeros(12, np.int64)), alike.mean, alike.covariance
    )
    other = permuted(alike, np.arange(12)[::-1])
    for method in (Method.GREEDY, Method.EXACT, Method.DISCRIMINATION):
        found = [names_of(p, select(p, Constraints(4), method).positions) for p in (alike, other)]
        assert found[0] == found[1]


@pytest.mark.parametrize("name", list(HOSTILE))
@pytest.mark.parametrize("objective", ["mean", "maximin"])
def test_exact_is_no_worse_than_greedy_which_is_no_worse_than_random(name, objective):
    constraints = HOSTILE[name]
    goal = criterion(POOL, objective)
    measure = goal.value if objective == "mean" else goal.least
    exact = select_exact(POOL, constraints, objective=objective, time_limit=2)
    greedy = select_greedy(POOL, constraints, objective=objective)
    drawn = random_forms(POOL, constraints, 20, np.random.default_rng(2))
    assert measure(exact.positions) == pytest.approx(exact.value)
    assert exact.value >= measure(greedy) * (1 - 1e-4)
    assert measure(greedy) >= np.mean([measure(form) for form in drawn]) * (1 - 1e-9)


@pytest.mark.parametrize("objective", ["variance", "score", "determinant"])
def test_greedy_is_better_than_any_of_many_random_forms(objective):
    goal = criterion(POOL, objective)
    for constraints in (HOSTILE["one property"], HOSTILE["everything"]):
        greedy = goal.value(select_greedy(POOL, constraints, objective=objective))
        drawn = random_forms(POOL, constraints, 200, np.random.default_rng(3))
        assert greedy > max(goal.value(form) for form in drawn)


@pytest.mark.parametrize("objective", ["variance", "score", "determinant"])
def test_greedy_is_within_a_percent_of_the_best_of_all_forms(objective):
    pool = made(14, seed=8)
    constraints = Constraints(5, (Quota("category", "c0", 1), Quota("language", "en", 2, 2)))
    goal = criterion(pool, objective)
    best = max(goal.value(np.array(form)) for form in possible_forms(pool, constraints))
    found = goal.value(select_greedy(pool, constraints, objective=objective))
    assert found == pytest.approx(best, rel=0.01)


def test_greedy_order_is_that_of_what_each_item_adds():
    chosen = select_greedy(POOL, Constraints(8))
    goal = criterion(POOL, "score")
    for count in range(8):
        after = goal.after(chosen[:count])[chosen[count:]]
        assert after[0] == pytest.approx(after.max())


def test_exchanges_never_make_a_form_worse():
    goal = criterion(POOL, "score")
    for constraints in HOSTILE.values():
        without = goal.value(select_greedy(POOL, constraints, exchange=False))
        assert goal.value(select_greedy(POOL, constraints)) >= without * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 6),
    bounds=st.lists(
        st.tuples(
            st.sampled_from(
                [("category", "c0"), ("category", "c1"), ("language", "en"), ("language", "de")]
            ),
            st.integers(0, 3),
            st.one_of(st.none(), st.integers(0, 3)),
        ),
        max_size=4,
    ),
    twins=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=3),
)
def test_a_form_is_found_if_and_only_if_there_is_one(seed, length, bounds, twins):
    pool = made(9, seed=seed)
    constraints = Constraints(
        length,
        tuple(
            Quota(by, value, least, None if most is None else least + most)
            for (by, value), least, most in bounds
        ),
        tuple(Exclusion(frozenset((pool.items[i], pool.items[j]))) for i, j in twins),
    )
    there_is_one = bool(possible_forms(pool, constraints))
    for method in ("greedy", "exact", "random", "anchors", "discrimination"):
        rng = np.random.default_rng(0)
        if there_is_one:
            found = select(pool, constraints, method, rng=rng)
            assert constraints.broken(pool, found.positions) == []
        else:
            with pytest.raises(InputError, match="cannot keep"):
                select(pool, constraints, method, rng=rng)


@pytest.mark.parametrize("method", list(Method))
def test_what_cannot_be_kept_is_named(method):
    rng = np.random.default_rng(0)

    def refused(constraints):
        with pytest.raises(InputError) as caught:
            select(POOL, constraints, method, codes=CODES, rng=rng)
        return str(caught.value)

    said = refused(Constraints(5, (Quota("category", "zz", 2), Quota("category", "c0", 1))))
    assert "at least 2 of category 'zz' (the pool has 0)" in said
    assert "c0" not in said
    said = refused(
        Constraints(
            5, (Quota("category", "c0", 3), Quota("language", "en", 0), Quota("category", "c1", 3))
        )
    )
    assert "category 'c0'" in said
    assert "category 'c1'" in said
    assert "language" not in said
    twins = Exclusion(frozenset(POOL.items[:2]))
    said = refused(Constraints(4, exclusions=(twins,), required=POOL.items[:2]))
    assert f"item {POOL.items[0]!r} is required" in said
    assert "at most 1 of" in said
    assert "20 forbidden items" in refused(Constraints(50, forbidden=POOL.items[:20]))
    assert "61 items are asked for and the pool has 60" in refused(Constraints(61))
    assert "no property 'topic'" in refused(Constraints(5, (Quota("topic", "x", 1),)))
    assert "no item 'nowhere'" in refused(Constraints(5, required=("nowhere",)))


def test_what_a_method_lacks_is_said():
    with pytest.raises(InputError, match="no method 'magic' to choose items; use greedy"):
        select(POOL, Constraints(5), "magic")
    with pytest.raises(InputError, match="needs the responses"):
        select(POOL, Constraints(5), "variance")
    with pytest.raises(InputError, match="needs a random generator"):
        select(POOL, Constraints(5), "random")
    with pytest.raises(InputError, match="has no objective"):
        select(POOL, Constraints(5), "random", objective="mean", rng=np.random.default_rng(0))


def test_forbidden_and_excluded_items_that_the_pool_lacks_do_not_matter():
    constraints = Constraints(
        5, exclusions=(Exclusion(frozenset(("gone", POOL.items[0]))),), forbidden=("gone too",)
    )
    assert select(POOL, constraints).positions.shape == (5,)


@pytest.mark.parametrize("method", list(Method))
def test_several_dimensions_and_graded_items(method):
    pool = made(40, dimensions=3, steps=2)
    codes = np.random.default_rng(0).integers(-1, 3, (15, 40)).astype(np.int8)
    constraints = Constraints(8, quotas_of(pool, "category", 8))
    found = select(pool, constraints, method, codes=codes, rng=np.random.default_rng(0))
    assert constraints.broken(pool, found.positions) == []
