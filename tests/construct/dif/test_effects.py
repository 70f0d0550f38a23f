"""The delta scale and its classes."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.construct.dif.effects import (
    R2_LIMITS,
    delta_classes,
    delta_of_group,
    delta_of_log_odds,
    r2_classes,
)
from safemetry.construct.dif.homogeneity import breslow_day, standardised_difference
from safemetry.construct.dif.mantel_haenszel import mantel_haenszel
from safemetry.construct.dif.ridge_logistic import ridge_logistic
from safemetry.construct.dif.undefined import Undefined


@pytest.fixture(scope="module")
def verbal(shared):
    rows = np.loadtxt(shared / "oracle/data_verbal_difR.csv", delimiter=",", skiprows=1, dtype=int)
    codes = rows[:, :24].astype(np.int8)
    return codes, codes.sum(axis=1).astype(int), rows[:, 25] == 1


def column(path, name):
    with path.open(newline="") as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


def test_both_methods_share_scale_and_sign(verbal):
    codes, score, focal = verbal
    by_odds = mantel_haenszel(codes, score, focal)
    by_logit = ridge_logistic(codes, score.astype(float), focal, penalty=0)
    assert np.corrcoef(by_odds.delta, by_logit.delta)[0, 1] > 0.97
    assert np.abs(by_odds.delta - by_logit.delta).max() < 0.6
    assert (by_odds.delta == delta_of_log_odds(by_odds.log_odds)).all()
    assert (by_logit.delta == delta_of_group(by_logit.group)).all()


def test_classes_need_size_and_significance():
    delta = np.array([0.99, 1.0, -1.49, 1.5, -1.5, 3.0])
    assert "".join(delta_classes(delta)) == "ABBCCC"
    significant = np.array([True, False, True, True, False, True])
    assert "".join(delta_classes(delta, significant=significant)) == "AABCAC"
    error = np.array([0.1, 0.1, 0.1, 0.31, 0.29, 1.3])
    assert "".join(delta_classes(delta, error=error)) == "ABBBCB"
    defined = delta < 3
    assert delta_classes(delta, defined=defined)[-1] == ""


def test_classes_do_not_depend_on_which_group_is_focal(verbal):
    codes, score, focal = verbal
    for groups in (focal, ~focal):
        found = mantel_haenszel(codes, score, groups)
        classes = delta_classes(
            found.delta, error=2.35 * np.sqrt(found.variance), significant=found.p_value < 0.05
        )
        # The seven items that the test flags, of which four are surely above 1.
        assert (classes != "A").sum() == 6
        assert set(np.flatnonzero(classes == "C")) <= set(np.flatnonzero(found.p_value < 0.05))


def test_classes_of_r2():
    change = np.array([0.034, 0.035, 0.07, 0.2, 0.3])
    assert "".join(r2_classes(change)) == "ABCCC"
    assert "".join(r2_classes(change, limits="zumbo_thomas")) == "AAABC"
    assert "".join(r2_classes(change, significant=np.zeros(5, bool))) == "AAAAA"
    assert set(R2_LIMITS) == {"jodoin_gierl", "zumbo_thomas"}


def test_homogeneity_as_difr_prints_it(verbal, shared):
    path = shared / "oracle/difR_verbal_BreslowDay.csv"
    found = breslow_day(*verbal)
    np.testing.assert_allclose(found.statistic, column(path, "X1"), atol=5.1e-5)
    np.testing.assert_array_equal(found.degrees, column(path, "X2"))
    np.testing.assert_allclose(found.p_value, column(path, "X3"), atol=5.1e-5)


def test_standardised_differences_of_difr(verbal, shared):
    difference, undefined = standardised_difference(*verbal)
    expected = column(shared / "oracle/difR_verbal_Std.csv", "PDIF")
    np.testing.assert_allclose(difference, expected, atol=1e-12)
    assert not undefined.any()


def test_homogeneity_finds_a_difference_that_changes_sign():
    rng = np.random.default_rng(1)
    theta, focal = rng.normal(size=3000), np.arange(3000) % 2 == 0
    logits = np.stack([theta * (1 + 1.2 * focal), theta - 0.5 * focal], axis=1)
    codes = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    strata = np.digitize(theta, [-1, 0, 1])
    found = breslow_day(codes, strata, focal)
    assert found.p_value[0] < 0.001
    assert found.p_value[1] > 0.01
    swapped = breslow_day(codes, strata, ~focal)
    np.testing.assert_allclose(found.statistic, swapped.statistic, atol=1e-9)


def test_cells_without_a_value_say_why():
    focal = np.array([False] * 3 + [True] * 3)
    codes = np.array([[1] * 6, [-1] * 6, [1, 0, 1, -1, -1, -1], [1, 0, 1, 0, 0, 1]], np.int8).T
    strata = np.zeros(6, int)
    found = breslow_day(codes, strata, focal)
    assert found.undefined[:3].tolist() == [
        Undefined.CONSTANT,
        Undefined.NO_RESPONSE,
        Undefined.SMALL_GROUP,
    ]
    assert (found.p_value == 1).all()
    difference, undefined = standardised_difference(codes, strata, focal)
    assert undefined.tolist() == [0, Undefined.NO_RESPONSE, Undefined.SMALL_GROUP, 0]
    assert difference[0] == 0
    np.testing.assert_allclose(difference[3], -1 / 3)
