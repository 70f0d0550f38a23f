"""The baselines: highest discrimination, highest variance, and anchors of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from selection_pools import drawn_codes, made

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Quota, quotas_of
from safemetry.forms.selection import (
    outcome_variances,
    select_anchors,
    select_discrimination,
    select_variance,
)
from safemetry.forms.selection.anchors import cluster

POOL = made(50)
CODES = drawn_codes(POOL, 40)


def test_highest_discrimination():
    chosen = select_discrimination(POOL, Constraints(7))
    assert chosen.tolist() == np.argsort(-POOL.parameters.slopes[:, 0])[:7].tolist()


def test_highest_discrimination_within_values():
    constraints = Constraints(6, (Quota("category", "c0", 2, 2),))
    chosen = select_discrimination(POOL, constraints)
    of = np.array(POOL.properties["category"]) == "c0"
    slopes = POOL.parameters.slopes[:, 0]
    expected = [
        *np.flatnonzero(of)[np.argsort(-slopes[of])[:2]],
        *np.flatnonzero(~of)[np.argsort(-slopes[~of])[:4]],
    ]
    assert set(chosen.tolist()) == set(expected)


def test_highest_variance_of_those_who_answered():
    values = outcome_variances(POOL, CODES)
    for item in (0, 10, 49):
        known = CODES[:, item][CODES[:, item] >= 0]
        assert values[item] == pytest.approx(known.var(ddof=1))
    chosen = select_variance(POOL, Constraints(7), CODES)
    assert values[chosen].sum() == pytest.approx(np.sort(values)[-7:].sum())


def test_variance_of_graded_items_is_on_the_scale_of_outcomes():
    pool = made(3, steps=2)
    codes = np.array([[0, 1, -1], [2, 1, -1], [0, 1, 2], [2, 1, -1]])
    assert outcome_variances(pool, codes) == pytest.approx([1 / 3, 0, 0])


def test_anchors_stand_for_groups_of_items_that_are_answered_alike():
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2, (30, 4))
    group = np.repeat(np.arange(4), [20, 15, 10, 5])
    codes = patterns[:, group].astype(np.int8)
    found = select_anchors(POOL, Constraints(4), rng, codes=codes)
    assert sorted(group[found.positions].tolist()) == [0, 1, 2, 3]
    assert found.weights == pytest.approx([0.4, 0.3, 0.2, 0.1])
    # Where items of a group are answered alike the weighted anchors give the score exactly.
    assert codes[:, found.positions] @ found.weights == pytest.approx(codes.mean(axis=1))


def test_anchors_by_parameters():
    found = select_anchors(POOL, Constraints(5), np.random.default_rng(0))
    assert found.weights.sum() == pytest.approx(1)
    features = np.column_stack([POOL.parameters.slopes, POOL.parameters.intercepts])
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    distance = ((features[:, None] - features[found.positions]) ** 2).sum(axis=2)
    shares = np.bincount(distance.argmin(axis=1), minlength=5) / 50
    assert found.weights == pytest.approx(shares)
    # They cover the items better than any of many random choices.
    drawn = [
        ((features[:, None] - features[np.random.default_rng(s).permutation(50)[:5]]) ** 2)
        .sum(axis=2)
        .min(axis=1)
        .sum()
        for s in range(100)
    ]
    assert distance.min(axis=1).sum() < min(drawn)


def test_anchors_within_quotas_stand_in_as_many_clusters_as_can_be():
    constraints = Constraints(8, quotas_of(POOL, "category", 8))
    found = select_anchors(POOL, constraints, np.random.default_rng(0), codes=CODES)
    assert constraints.broken(POOL, found.positions) == []
    assert (found.weights >= 1 / 50).all()


def test_items_that_are_all_alike_have_anchors_too():
    codes = np.ones((5, 50), np.int8)
    found = select_anchors(POOL, Constraints(6), np.random.default_rng(0), codes=codes)
    assert len(set(found.positions.tolist())) == 6
    assert found.weights.sum() == pytest.approx(1)


def test_items_that_nobody_answered_are_no_error():
    codes = np.full((5, 50), -1, np.int8)
    assert select_variance(POOL, Constraints(4), codes).shape == (4,)
    found = select_anchors(POOL, Constraints(4), np.random.default_rng(0), codes=codes)
    assert found.positions.shape == (4,)


def test_clusters_that_are_far_apart_are_found():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 30)
    points = 20 * rng.normal(size=(5, 3))[truth] + rng.normal(size=(150, 3))
    _, of = cluster(points, 5, rng)
    assert len({(int(a), int(b)) for a, b in zip(truth, of, strict=True)}) == 5


def test_codes_of_other_items_are_refused():
    with pytest.raises(InputError, match="responses have shape"):
        select_variance(POOL, Constraints(4), CODES[:, :10])
    with pytest.raises(InputError, match="above the categories"):
        select_anchors(POOL, Constraints(4), np.random.default_rng(0), codes=CODES + 1)
