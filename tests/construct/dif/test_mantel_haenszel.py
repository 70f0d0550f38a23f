"""Mantel-Haenszel statistics: the values of difR, a plain count, symmetries and empty cells."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safemetry.construct.dif.mantel_haenszel import (
    DELTA_PER_LOGIT,
    log_odds_ratios,
    mantel_haenszel,
)
from safemetry.construct.dif.undefined import Undefined, reasons


def read_table(path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name]) for row in rows])
        for name in rows[0]
        if name not in {"item", "flagged"}
    }


@pytest.fixture(scope="module")
def verbal(shared):
    """316 persons, 24 items; the focal group is the one coded 1."""
    rows = np.loadtxt(shared / "oracle/data_verbal_difR.csv", delimiter=",", skiprows=1, dtype=int)
    codes = rows[:, :24].astype(np.int8)
    return codes, codes.sum(axis=1).astype(int), rows[:, 25] == 1


def made(shape=(5, 40, 7), strata=4, missing=0.1, seed=1):
    rng = np.random.default_rng(seed)
    codes = (rng.random(shape) < rng.uniform(0.2, 0.8, shape[-1])).astype(np.int8)
    codes[rng.random(shape) < missing] = -1
    return codes, rng.integers(-1, strata, shape[:-1]), np.arange(shape[-2]) % 3 == 0


def counted_by_hand(codes, strata, focal, smoothing=0.5):
    """One matrix, cell by cell: ln alpha, its variance and the chi-square of every item."""
    found = []
    for item in codes.T:
        above = below = own = cross = other = first = mean = spread = 0.0
        for stratum in np.unique(strata[strata >= 0]):
            inside = (strata == stratum) & (item >= 0)
            a, b = ((item == value)[inside & ~focal].sum() for value in (1, 0))
            c, d = ((item == value)[inside & focal].sum() for value in (1, 0))
            total = a + b + c + d
            if min(a + b, c + d) == 0:
                continue
            above, below = above + a * d / total, below + b * c / total
            own += (a + d) * a * d / total**2
            cross += ((a + d) * b * c + (b + c) * a * d) / total**2
            other += (b + c) * b * c / total**2
            first, mean = first + a, mean + (a + b) * (a + c) / total
            spread += (a + b) * (c + d) * (a + c) * (b + d) / (total**2 * (total - 1))
        above, below = above + smoothing, below + smoothing
        variance = own / above**2 / 2 + cross / (above * below) / 2 + other / below**2 / 2
        found.append((np.log(above / below), variance, (abs(first - mean) - 0.5) ** 2 / spread))
    return np.array(found).T


@pytest.mark.parametrize(("name", "continuity"), [("correctTRUE", 0.5), ("correctFALSE", 0.0)])
def test_the_values_of_difr(verbal, shared, name, continuity):
    table = read_table(shared / f"oracle/difR_verbal_MH_{name}.csv")
    found = mantel_haenszel(*verbal, smoothing=0, continuity=continuity)
    assert found.defined.all()
    np.testing.assert_allclose(found.chi_square, table["MH"], atol=1e-12)
    np.testing.assert_allclose(found.p_value, table["p"], atol=1e-12)
    np.testing.assert_allclose(np.exp(found.log_odds), table["alphaMH"], atol=1e-12)
    np.testing.assert_allclose(found.variance, table["varLambda"], atol=1e-12)
    np.testing.assert_allclose(found.delta, table["deltaMH"], atol=1e-12)


def test_the_p_values_of_difr_after_holm(verbal, shared):
    table = read_table(shared / "oracle/difR_verbal_MH_holm.csv")
    found = mantel_haenszel(*verbal, smoothing=0)
    order = np.argsort(found.p_value)
    stepped = np.maximum.accumulate(found.p_value[order] * np.arange(24, 0, -1))
    np.testing.assert_allclose(np.minimum(stepped, 1), table["adjp"][order], atol=1e-12)


def test_many_matrices_at_once_as_counted_by_hand():
    codes, strata, focal = made()
    found = mantel_haenszel(codes, strata, focal)
    for index in range(len(codes)):
        log_odds, variance, chi_square = counted_by_hand(codes[index], strata[index], focal)
        np.testing.assert_allclose(found.log_odds[index], log_odds, atol=1e-12)
        np.testing.assert_allclose(found.variance[index], variance, atol=1e-12)
        np.testing.assert_allclose(found.chi_square[index], chi_square, atol=1e-12)


def test_the_quick_path_gives_the_same_bits():
    codes, strata, focal = made(shape=(60, 12, 9), strata=3, missing=0.3)
    whole = mantel_haenszel(codes, strata, focal, min_group=3)
    log_odds, defined = log_odds_ratios(codes, strata, focal, min_group=3)
    assert 0 < defined.mean() < 1
    assert (log_odds == whole.log_odds).all()
    assert (defined == whole.defined).all()


def test_strata_of_one_matrix_serve_all():
    codes, strata, focal = made()
    by_target = mantel_haenszel(codes, strata[0], focal)
    repeated = mantel_haenszel(codes, np.repeat(strata[:1], len(codes), axis=0), focal)
    assert (by_target.chi_square == repeated.chi_square).all()


def test_strata_by_item():
    codes, strata, focal = made()
    by_item = np.repeat(strata[..., None], codes.shape[2], axis=2)
    by_item[..., 0] = strata[:, ::-1]
    found = mantel_haenszel(codes, by_item, focal)
    plain = mantel_haenszel(codes, strata, focal)
    first = mantel_haenszel(codes[..., :1], strata[:, ::-1], focal)
    assert (found.log_odds[:, 1:] == plain.log_odds[:, 1:]).all()
    assert (found.log_odds[:, :1] == first.log_odds).all()
    alone = mantel_haenszel(codes[2], by_item[2], focal)
    assert (alone.log_odds == found.log_odds[2]).all()


def test_scores_as_strata_need_no_small_numbers():
    codes, strata, focal = made()
    spread = np.where(strata < 0, -1, strata * 100_003 + 17)
    assert (
        mantel_haenszel(codes, spread, focal).chi_square
        == mantel_haenszel(codes, strata, focal).chi_square
    ).all()


def test_a_stratum_for_each_answer_is_a_score_without_the_item():
    codes, _, focal = made(missing=0)
    total = codes.sum(axis=2).astype(int)
    rest = total[..., None] - codes
    by_item = mantel_haenszel(codes, rest, focal)
    by_answer = mantel_haenszel(codes, total - 1, focal, strata_of_zero=total)
    np.testing.assert_array_equal(by_item.log_odds, by_answer.log_odds)
    np.testing.assert_array_equal(by_item.chi_square, by_answer.chi_square)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]))
@settings(max_examples=25, deadline=None)
def test_swapped_groups_change_the_sign_and_nothing_else(seed, smoothing):
    codes, strata, focal = made(seed=seed)
    found = mantel_haenszel(codes, strata, focal, smoothing=smoothing)
    swapped = mantel_haenszel(codes, strata, ~focal, smoothing=smoothing)
    assert (found.log_odds == -swapped.log_odds).all()
    for name in ("variance", "chi_square", "p_value", "undefined"):
        assert (getattr(found, name) == getattr(swapped, name)).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_order_of_targets_and_items_is_nothing(seed):
    codes, strata, focal = made(seed=seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(codes.shape[1]), rng.permutation(codes.shape[2])
    found = mantel_haenszel(codes, strata, focal)
    moved = mantel_haenszel(codes[:, rows][..., columns], strata[:, rows], focal[rows])
    assert (moved.log_odds == found.log_odds[:, columns]).all()
    assert (moved.chi_square == found.chi_square[:, columns]).all()


def test_swapped_answers_change_the_sign_of_the_classical_estimate():
    codes, strata, focal = made()
    found = mantel_haenszel(codes, strata, focal)
    turned = mantel_haenszel(np.where(codes >= 0, 1 - codes, -1).astype(np.int8), strata, focal)
    np.testing.assert_allclose(turned.log_odds, -found.log_odds, atol=1e-12)


def test_a_missing_response_is_a_target_that_is_not_there():
    codes, strata, focal = made(shape=(1, 30, 1), missing=0.3)
    there = codes[0, :, 0] >= 0
    found = mantel_haenszel(codes[0], strata[0], focal)
    alone = mantel_haenszel(codes[0][there], strata[0][there], focal[there])
    assert found.chi_square == alone.chi_square


def test_every_cell_without_a_value_says_why():
    focal = np.array([False] * 3 + [True] * 3)
    strata = np.array([0, 0, 1, 0, 0, 2])
    columns = {
        "silent": [-1, -1, -1, -1, -1, -1],
        "one group": [1, 0, 1, -1, -1, -1],
        "group of one": [1, 0, 1, -1, 1, -1],
        "apart": [-1, -1, 1, -1, -1, 0],
        "constant": [1, 1, 0, 1, 1, 0],
        "infinite": [1, 1, 0, 0, 0, 1],
        "fine": [1, 0, 0, 0, 1, 1],
    }
    codes = np.array(list(columns.values()), np.int8).T
    classical = mantel_haenszel(codes, strata, focal, smoothing=0, min_group=1)
    smoothed = mantel_haenszel(codes, strata, focal)
    assert [Undefined(code).name for code in classical.undefined] == [
        "NO_RESPONSE",
        "SMALL_GROUP",
        "UNBOUNDED",
        "NO_COMMON_STRATUM",
        "CONSTANT",
        "UNBOUNDED",
        "DEFINED",
    ]
    assert smoothed.undefined[2] == Undefined.SMALL_GROUP
    assert smoothed.undefined[5] == Undefined.DEFINED
    assert classical.chi_square[5] == smoothed.chi_square[5] > 0  # the test needs no smoothing
    for found in (classical, smoothed):
        for name in ("log_odds", "variance", "chi_square", "p_value"):
            assert np.isfinite(getattr(found, name)).all()
        assert (found.log_odds[~found.defined] == 0).all()
    assert reasons(smoothed.undefined, tuple(columns)).keys() == {
        "silent",
        "one group",
        "group of one",
        "apart",
        "constant",
    }


def test_a_stratum_with_one_group_decides_nothing():
    codes, strata, focal = made(strata=2)
    lonely = np.where((strata == 1) & ~focal, -1, strata)
    left_out = np.where(strata == 1, -1, strata)
    assert (
        mantel_haenszel(codes, lonely, focal, min_group=1).chi_square
        == mantel_haenszel(codes, left_out, focal, min_group=1).chi_square
    ).all()


def test_two_targets():
    codes = np.array([[1, 0, 1], [0, 0, -1]], np.int8)
    found = mantel_haenszel(codes, np.zeros(2, int), np.array([False, True]))
    assert (found.undefined[:2] == Undefined.SMALL_GROUP).all()
    found = mantel_haenszel(codes, np.zeros(2, int), np.array([False, True]), min_group=1)
    np.testing.assert_allclose(found.log_odds[0], np.log(2))


@pytest.mark.parametrize(
    "change", [{"strata": np.zeros(3, int)}, {"focal": np.zeros(3, bool)}, {"smoothing": -1.0}]
)
def test_what_does_not_fit_is_refused(change):
    codes, strata, focal = made(shape=(4, 3), strata=2)
    with pytest.raises(ValueError, match=r"."):
        mantel_haenszel(**{"codes": codes, "strata": strata, "focal": focal} | change)


def test_recovers_a_planted_difference_and_keeps_its_error_rate():
    rng = np.random.default_rng(7)
    theta = rng.normal(size=(300, 400)) - 0.5 * (focal := np.arange(400) < 150)
    difficulty = np.linspace(-1.5, 1.5, 30)
    logits = theta[..., None] - difficulty
    logits[..., 0] -= focal * 0.8
    codes = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    found = mantel_haenszel(codes, codes.sum(axis=2, dtype=np.int64), focal, smoothing=0)
    assert abs(found.log_odds[:, 0].mean() - 0.8) < 0.1
    assert (found.p_value[:, 0] < 0.05).mean() > 0.7
    # The other items share one contaminated item in 30, which costs little.
    assert 0.02 < (found.p_value[:, 1:] < 0.05).mean() < 0.06
    np.testing.assert_allclose(
        found.variance[:, 1:].mean(), found.log_odds[:, 1:].var(axis=0).mean(), rtol=0.1
    )
    np.testing.assert_array_equal(found.delta, -DELTA_PER_LOGIT * found.log_odds)
