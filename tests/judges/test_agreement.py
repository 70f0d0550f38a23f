"""Coefficients of agreement: published worked examples, values of other packages, invariances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safemetry.judges.agreement.agreement_sums import choices, pair_sums, panel_sums
from safemetry.judges.agreement.tables import (
    PanelSums,
    agreement_weights,
    cohen,
    cohen_null_error,
    fleiss,
    fleiss_null_error,
    gwet,
    krippendorff,
    raw_disagreement,
)

# Krippendorff (2011): four observers, twelve units, five values, missing verdicts. The
# same table is the example of irrCAC with four raters and missing verdicts.
RELIABILITY = """
1 1 . 1 / 2 2 3 2 / 3 3 3 3 / 3 3 3 3 / 2 2 2 2 / 1 2 3 4 /
4 4 4 4 / 1 1 2 1 / 2 2 2 2 / . 5 5 5 / . . 1 1 / . . 3 .
"""
# Fleiss (1971): six psychiatrists, thirty patients, five diagnoses.
DIAGNOSES = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""


def labels_of(text: str) -> np.ndarray:
    rows = [row.split() for row in text.split("/")]
    return np.array([[-1 if v == "." else int(v) - 1 for v in row] for row in rows], np.int8)


def sums_of(labels: np.ndarray, classes: int) -> PanelSums:
    return PanelSums.of_choices(choices(np.asarray(labels, np.int8), classes).T)


def oracle_labels(shared: Path, name: str) -> np.ndarray:
    given = np.genfromtxt(
        shared / "oracle" / name, delimiter=",", skip_header=1, missing_values="NA"
    )
    return np.where(np.isnan(given), -1, given).astype(np.int8)


def pair_table(first: np.ndarray, second: np.ndarray, classes: int) -> np.ndarray:
    both = np.stack([first, second], axis=1).astype(np.int8)
    return pair_sums(both, [(0, 1)], np.zeros(len(both), np.int64), classes)[0, 0]


@pytest.mark.parametrize(
    ("metric", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_own_example(metric, published):
    found = krippendorff(sums_of(labels_of(RELIABILITY), 5), metric).coefficient
    assert round(float(found), 3) == published


# Made with irrCAC 0.4.4 from the same table.
@pytest.mark.parametrize(
    ("distance", "of_fleiss", "of_gwet"),
    [
        ("nominal", 0.76117, 0.77544),
        ("linear", 0.81794, 0.85874),
        ("quadratic", 0.86494, 0.91400),
        ("ordinal", 0.85021, 0.89894),
    ],
)
def test_gwets_raters_with_missing_verdicts_and_weights(distance, of_fleiss, of_gwet):
    sums, weights = sums_of(labels_of(RELIABILITY), 5), agreement_weights(distance, range(5))
    assert round(float(fleiss(sums, weights).coefficient), 5) == of_fleiss
    assert round(float(gwet(sums, weights).coefficient), 5) == of_gwet


def test_fleiss_own_example():
    counts = np.array([[int(digit) for digit in row] for row in DIAGNOSES.split()])
    found = fleiss(PanelSums.of_choices(counts))
    assert round(float(found.coefficient), 3) == 0.430
    assert 1 - float(found.observed) == pytest.approx(0.5556, abs=5e-5)


def test_gwets_paradox_where_one_class_prevails():
    """Gwet (2008): 118 of 125 agree on one class, kappa is negative and AC1 .941."""
    table = [[118, 5], [2, 0]]
    assert round(float(cohen(table).coefficient), 4) == -0.0234
    assert round(float(gwet(PanelSums.of_pair(table)).coefficient), 4) == 0.9408


def test_kappa_of_the_paper_on_its_standard_error():
    """Fleiss, Cohen & Everitt (1969): 200 subjects: kappa .429."""
    assert round(float(cohen([[106, 10, 4], [22, 28, 10], [2, 12, 6]]).coefficient), 3) == 0.429


def test_two_raters_of_the_oracle(shared):
    labels = oracle_labels(shared, "data_raters_200x3.csv")
    table = pair_table(labels[:, 0], labels[:, 1], 2)
    kappa = float(cohen(table).coefficient)
    assert kappa == pytest.approx(0.585691188358933, rel=1e-12)
    assert kappa / cohen_null_error(table) == pytest.approx(8.29351692274262, rel=1e-12)
    assert 1 - raw_disagreement(PanelSums.of_pair(table)).observed == pytest.approx(0.795)


def test_three_raters_of_the_oracle(shared):
    labels = oracle_labels(shared, "data_raters_200x3.csv")
    kappa = float(fleiss(sums_of(labels, 2)).coefficient)
    assert kappa == pytest.approx(0.450377586129854, rel=1e-12)
    z = kappa / fleiss_null_error(choices(labels, 2).T)
    assert z == pytest.approx(11.0319527760452, rel=1e-12)
    missing = oracle_labels(shared, "data_raters_200x3_missing.csv")
    alpha = float(krippendorff(sums_of(missing, 2)).coefficient)
    assert alpha == pytest.approx(0.448166666666667, rel=1e-12)


def test_alpha_of_the_complete_oracle_table_counts_its_verdicts_once(shared):
    """The oracle has .450836 there, which is alpha with 1,200 verdicts; there are 600.

    The `krippendorff` package (0.9.0) gives .4512936234863042, like Krippendorff's formula.
    """
    labels = oracle_labels(shared, "data_raters_200x3.csv")
    found = krippendorff(sums_of(labels, 2))
    assert float(found.coefficient) == pytest.approx(0.4512936234863042, rel=1e-12)
    without_correction = found.observed / found.expected * 600 / 599
    assert 1 - without_correction * 1199 / 1200 == pytest.approx(0.450835604808079, rel=1e-12)


# 60 units, 3 raters, 4 classes, 15% missing. Made with krippendorff 0.9.0 and irrCAC 0.4.4, Cohen's
# on the first two raters where both have a verdict.
RATED = """
223 333 000 .23 .02 22. 222 ..1 333 000 110 111 223 ... 00. 000 000 000 000 331 000 22. .21 0.0 112
111 100 333 000 33. .31 333 .00 112 232 111 22. 213 ..0 010 333 2.2 333 12. 112 333 010 0.0 1.1 2.2
0.0 3.3 1.. 000 222 3.3 331 331 101 000
"""


def test_values_of_other_packages_on_ordered_classes_with_missing_verdicts():
    rows = [[-1 if v == "." else int(v) for v in row] for row in RATED.split()]
    labels = np.array(rows, np.int8)
    sums = sums_of(labels, 4)
    for metric, value in (
        ("nominal", 0.6304056523328054),
        ("ordinal", 0.835389554570505),
        ("interval", 0.8263461660430012),
    ):
        assert float(krippendorff(sums, metric).coefficient) == pytest.approx(value, rel=1e-12)
    table = pair_table(labels[:, 0], labels[:, 1], 4)
    for distance, of_fleiss, of_gwet, of_cohen in (
        ("nominal", 0.63096, 0.63622, 0.78125),
        ("linear", 0.73024, 0.72321, 0.87588),
        ("quadratic", 0.81517, 0.80311, 0.94122),
        ("ordinal", 0.7878, 0.7767, None),
    ):
        weights = agreement_weights(distance, range(4))
        assert round(float(fleiss(sums, weights).coefficient), 5) == of_fleiss
        assert round(float(gwet(sums, weights).coefficient), 5) == of_gwet
        if of_cohen:
            assert round(float(cohen(table, weights).coefficient), 5) == of_cohen


def test_one_class_leaves_the_kappas_undefined_and_ac1_at_one():
    table = np.array([[50.0, 0], [0, 0]])
    sums = PanelSums.of_pair(table)
    for undefined in (cohen(table), fleiss(sums), krippendorff(sums)):
        assert np.isnan(undefined.coefficient)
    assert gwet(sums).coefficient == 1.0
    assert np.isnan(gwet(sums.only([0])).coefficient)
    with pytest.raises(ValueError, match="one class"):
        cohen_null_error(table)
    with pytest.raises(ValueError, match="one class"):
        fleiss_null_error([[2, 0], [2, 0]])
    with pytest.raises(ValueError, match="same number"):
        fleiss_null_error([[2, 0], [1, 0]])


def test_nothing_in_common_is_undefined():
    sums = sums_of(np.array([[0, -1], [-1, 1]]), 2)
    assert np.isnan(raw_disagreement(sums).coefficient)
    assert np.isnan(krippendorff(sums, "ordinal").coefficient)
    assert np.isnan(cohen(np.zeros((2, 2))).coefficient)


tables = st.lists(st.integers(0, 30), min_size=9, max_size=9).map(
    lambda cells: np.array(cells, float).reshape(3, 3)
)


@given(tables)
def test_the_order_of_judges_and_the_names_of_classes_change_nothing(table):
    mixed = table[np.ix_([2, 0, 1], [2, 0, 1])]
    back = table[::-1, ::-1]
    for name in ("nominal", "linear", "quadratic"):
        weights = agreement_weights(name, range(3))
        one = cohen(table, weights).coefficient
        assert np.allclose(one, cohen(table.T, weights).coefficient, equal_nan=True)
        assert np.allclose(one, cohen(back, weights).coefficient, equal_nan=True)
    for coefficient in (fleiss, gwet, krippendorff):
        one, two = (coefficient(PanelSums.of_pair(part)).coefficient for part in (table, mixed))
        assert np.allclose(one, two, equal_nan=True)


@given(tables)
def test_two_ordered_classes_have_no_distances(table):
    part = table[:2, :2]
    values = [float(cohen(part, agreement_weights(name, [0, 2])).coefficient) for name in WEIGHTS]
    assert np.allclose(values, values[0], equal_nan=True)
    sums = PanelSums.of_pair(part)
    alphas = [krippendorff(sums, metric).coefficient for metric in ("nominal", "ordinal")]
    assert np.allclose(*alphas, equal_nan=True)


WEIGHTS = ("nominal", "linear", "quadratic", "ordinal")


def test_a_judge_agrees_with_itself():
    labels = np.random.default_rng(1).integers(0, 3, 200)
    table = pair_table(labels, labels, 3)
    sums = PanelSums.of_pair(table)
    for name in WEIGHTS:
        weights = agreement_weights(name, range(3))
        for found in (cohen(table, weights), fleiss(sums, weights), gwet(sums, weights)):
            assert found.coefficient == 1.0


def test_judges_that_guess_agree_by_chance():
    labels = np.random.default_rng(2).choice(3, (20_000, 4), p=[0.6, 0.1, 0.3])
    sums = sums_of(labels, 3)
    for found in (fleiss(sums), krippendorff(sums, "ordinal"), krippendorff(sums, "interval")):
        assert abs(float(found.coefficient)) < 0.02
    assert abs(float(cohen(pair_table(labels[:, 0], labels[:, 1], 3)).coefficient)) < 0.03


def test_sums_of_units_add_up_and_know_missing_verdicts():
    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 3, (500, 4)).astype(np.int8)
    units = rng.integers(0, 7, 500)
    parts = panel_sums(labels, units, 3)
    whole = sums_of(labels, 3)
    for name in ("coincidence", "matched", "share"):
        assert np.allclose(getattr(parts, name).sum(0), getattr(whole, name))
    again = PanelSums.of_flat(parts.flat(), 3)
    assert np.array_equal(again.matched, parts.matched)
    assert np.array_equal(again.share, parts.share)
    pairs = [(0, 1), (2, 3), (0, 3)]
    tables = pair_sums(labels, pairs, units, 3)
    assert tables.shape == (7, 3, 3, 3)
    for unit in range(7):
        for place, (one, other) in enumerate(pairs):
            for c in range(3):
                for d in range(3):
                    count = (units == unit) & (labels[:, one] == c) & (labels[:, other] == d)
                    assert tables[unit, place, c, d] == count.sum()
