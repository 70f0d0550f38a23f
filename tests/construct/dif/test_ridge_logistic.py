"""Ridge logistic regression of items on ability and group."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from safemetry.construct.dif.ridge_logistic import ridge_logistic, standardised
from safemetry.construct.dif.undefined import Undefined


def made(shape=(4, 31, 25), seed=1, missing=0.0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=shape[:-1])
    slopes, intercepts = rng.lognormal(0.3, 0.5, shape[-1]), rng.normal(0, 1.5, shape[-1])
    chance = 1 / (1 + np.exp(-(theta[..., None] * slopes + intercepts)))
    codes = (rng.random(shape) < chance).astype(np.int8)
    codes[rng.random(shape) < missing] = -1
    return codes, theta, np.arange(shape[-2]) < 11


def maximised(answers, theta, focal, penalty, *, interaction):
    """One regression by a general optimiser."""
    group = focal - 0.5
    columns = [np.ones_like(theta), theta, group, *([theta * group] if interaction else [])]
    design = np.column_stack(columns)
    ridge = np.array([1e-3, 1e-3, penalty, penalty])[: design.shape[1]]

    def loss(place):
        logits = design @ place
        fit = np.logaddexp(0, logits).sum() - answers @ logits
        return fit + (ridge * place**2).sum() / 2, design.T @ (
            1 / (1 + np.exp(-logits)) - answers
        ) + ridge * place

    return minimize(loss, np.zeros(design.shape[1]), jac=True, options={"gtol": 1e-9}).x


@pytest.mark.parametrize("interaction", [False, True])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_the_maximum_of_each_regression(penalty, interaction):
    codes, theta, focal = made(shape=(1, 31, 12))
    found = ridge_logistic(codes, theta, focal, penalty=penalty, non_uniform=interaction)
    scaled = standardised(theta, codes.shape)[0]
    for item in np.flatnonzero(found.defined[0]):
        best = maximised(codes[0, :, item], scaled, focal, penalty, interaction=interaction)
        assert abs(found.group[0, item] - best[2]) < 1e-5
        assert abs(found.slope[0, item] - best[1]) < 1e-4
        if interaction:
            assert abs(found.interaction[0, item] - best[3]) < 1e-5


def test_many_matrices_are_each_alone():
    codes, theta, focal = made(shape=(40, 31, 60))
    found = ridge_logistic(codes, theta, focal)
    for index in (0, 17, 39):
        alone = ridge_logistic(codes[index], theta[index], focal)
        np.testing.assert_allclose(found.group[index], alone.group, atol=1e-9)


@pytest.mark.parametrize("non_uniform", [False, True])
def test_single_precision_is_enough(non_uniform):
    codes, theta, focal = made(shape=(50, 31, 80))
    double = ridge_logistic(codes, theta, focal, non_uniform=non_uniform)
    single = ridge_logistic(codes, theta, focal, non_uniform=non_uniform, dtype=np.float32)
    np.testing.assert_allclose(single.group, double.group, atol=2e-5)
    assert (single.undefined == double.undefined).all()


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 1.0]))
@settings(max_examples=25, deadline=None)
def test_swapped_groups_change_the_sign_and_nothing_else(seed, non_uniform, penalty):
    codes, theta, focal = made(seed=seed, missing=0.1)
    chosen = {"non_uniform": non_uniform, "penalty": penalty}
    found = ridge_logistic(codes, theta, focal, **chosen)
    swapped = ridge_logistic(codes, theta, ~focal, **chosen)
    assert (found.group == -swapped.group).all()
    assert (found.intercept == swapped.intercept).all()
    assert (found.undefined == swapped.undefined).all()
    if found.interaction is not None:
        assert (found.interaction == -swapped.interaction).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_the_order_of_targets_and_items_and_the_scale_of_ability_are_nothing(seed):
    codes, theta, focal = made(seed=seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(codes.shape[1]), rng.permutation(codes.shape[2])
    found = ridge_logistic(codes, theta, focal, non_uniform=True)
    moved = ridge_logistic(
        codes[:, rows][..., columns], 40 - 7 * -theta[:, rows], focal[rows], non_uniform=True
    )
    np.testing.assert_allclose(moved.group, found.group[:, columns], atol=1e-6)
    np.testing.assert_allclose(moved.interaction, found.interaction[:, columns], atol=1e-6)


def test_a_larger_penalty_gives_a_smaller_effect():
    codes, theta, focal = made()
    sizes = [
        np.abs(ridge_logistic(codes, theta, focal, penalty=penalty).group)
        for penalty in (0.1, 1.0, 10.0, 1e6)
    ]
    for loose, tight in pairwise(sizes):
        assert (tight <= loose + 1e-9).all()
    assert sizes[-1].max() < 1e-4


def test_answers_that_ability_or_group_separates_stay_finite():
    theta = np.linspace(-2, 2, 30)
    focal = np.arange(30) % 2 == 0
    codes = np.array([theta > 0, focal, (theta > 0) & focal, theta > 1.9]).T.astype(np.int8)
    for dtype in (np.float64, np.float32):
        for non_uniform in (False, True):
            found = ridge_logistic(codes, theta, focal, non_uniform=non_uniform, dtype=dtype)
            assert found.defined.all()
            assert np.abs(found.slope).max() < 60
            assert abs(found.group[0]) < 0.2
            assert found.group[1] > 2
    free = ridge_logistic(codes, theta, focal, penalty=0)
    assert free.undefined[1] == Undefined.UNBOUNDED
    assert free.group[1] == 0


def test_every_cell_without_a_value_says_why():
    theta, focal = np.linspace(-1, 1, 6), np.array([False] * 3 + [True] * 3)
    codes = np.array(
        [[-1] * 6, [1, 0, 1, -1, -1, -1], [1, 0, 1, -1, 1, -1], [1] * 6, [0, 1, 0, 1, 0, 1]],
        np.int8,
    ).T
    found = ridge_logistic(codes, theta, focal)
    assert [Undefined(code).name for code in found.undefined] == [
        "NO_RESPONSE",
        "SMALL_GROUP",
        "SMALL_GROUP",
        "CONSTANT",
        "DEFINED",
    ]
    for part in (found.group, found.slope, found.intercept):
        assert np.isfinite(part).all()
        assert (part[:4] == 0).all()


def test_a_missing_response_is_a_target_that_is_not_there():
    codes, theta, focal = made(shape=(30, 6), missing=0.2)
    # The scale of ability is that of all targets; the uniform model does not depend on it.
    found = ridge_logistic(codes, theta, focal, separation_ridge=1e-6)
    for item in np.flatnonzero(found.defined):
        there = codes[:, item] >= 0
        alone = ridge_logistic(
            codes[there][:, [item]], theta[there], focal[there], separation_ridge=1e-6
        )
        assert abs(alone.group[0] - found.group[item]) < 1e-4


def test_a_target_of_unknown_ability_is_left_out():
    codes, theta, focal = made(shape=(31, 8))
    unknown = np.where(np.arange(31) == 20, np.nan, theta)
    left = np.arange(31) != 20
    np.testing.assert_allclose(
        ridge_logistic(codes, unknown, focal).group,
        ridge_logistic(codes[left], theta[left], focal[left]).group,
        atol=1e-9,
    )


def test_abilities_by_item():
    codes, theta, focal = made()
    by_item = np.repeat(theta[..., None], codes.shape[2], axis=2)
    by_item[..., 0] = -theta[:, ::-1]
    found = ridge_logistic(codes, by_item, focal, non_uniform=True)
    plain = ridge_logistic(codes, theta, focal, non_uniform=True)
    first = ridge_logistic(codes[..., :1], -theta[:, ::-1], focal, non_uniform=True)
    np.testing.assert_allclose(found.group[:, 1:], plain.group[:, 1:], atol=1e-8)
    np.testing.assert_allclose(found.group[:, :1], first.group, atol=1e-8)


def test_equal_abilities_leave_the_difference_of_the_groups():
    focal = np.arange(40) < 20
    codes = np.concatenate([np.ones(15), np.zeros(5), np.ones(5), np.zeros(15)])[:, None]
    found = ridge_logistic(codes.astype(np.int8), np.zeros(40), focal, penalty=0)
    np.testing.assert_allclose(found.group, 2 * np.log(3), atol=1e-3)
    assert found.slope == 0


@pytest.mark.parametrize(
    "change",
    [
        {"theta": np.zeros(3)},
        {"theta": np.full(31, np.inf)},
        {"focal": np.zeros(3, bool)},
        {"penalty": -1.0},
    ],
)
def test_what_does_not_fit_is_refused(change):
    codes, theta, focal = made(shape=(31, 4))
    with pytest.raises(ValueError, match=r"."):
        ridge_logistic(**{"codes": codes, "theta": theta, "focal": focal, "penalty": 1.0} | change)


def test_recovers_a_planted_difference_of_either_kind():
    rng = np.random.default_rng(3)
    theta, focal = rng.normal(size=(200, 500)), np.arange(500) < 200
    logits = np.stack([theta * 1.2 - 0.6 * focal, theta * (1.2 + 0.8 * focal), theta * 1.2], axis=2)
    codes = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    found = ridge_logistic(codes, theta, focal, penalty=0.1, non_uniform=True)
    np.testing.assert_allclose(found.group.mean(axis=0), [-0.6, 0, 0], atol=0.06)
    np.testing.assert_allclose(found.interaction.mean(axis=0), [0, 0.8, 0], atol=0.06)
    assert (found.delta[:, 0] < 0).mean() > 0.95
