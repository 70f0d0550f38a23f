"""Correlations over complete targets, over pairs, and where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.factors.correlations import correlate, given_correlations
from safemetry.construct.factors.settings import Missing
from safemetry.errors import InputError


def scores(targets: int = 40, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(targets, 1)) + rng.normal(size=(targets, 4)) * [0.5, 1, 2, 4]


NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize("missing", [None, *Missing])
def test_complete_scores_have_the_ordinary_correlations(missing: Missing | None):
    values = scores()
    found = correlate(NAMES, values, missing)
    assert found.values == pytest.approx(np.corrcoef(values, rowvar=False))
    assert found.subjects == 40


def test_pairs_are_over_the_targets_that_have_both():
    values = scores()
    values[:15, 0] = np.nan
    values[10:30, 1] = np.nan
    found = correlate(NAMES, values)
    assert found.missing is Missing.PAIRWISE
    for one in range(4):
        for other in range(4):
            both = np.isfinite(values[:, [one, other]]).all(axis=1)
            expected = np.corrcoef(values[both, one], values[both, other])[0, 1]
            assert found.values[one, other] == pytest.approx(expected)
            assert found.pairs[one, other] == both.sum()
    assert found.subjects == found.pairs.min() == 10


def test_one_incomplete_target_in_ten_is_left_out():
    values = scores()
    values[3, 2] = np.nan
    found = correlate(NAMES, values)
    assert found.missing is Missing.COMPLETE
    assert found.subjects == 39
    assert found.used.sum() == 39
    assert found.values == pytest.approx(np.corrcoef(np.delete(values, 3, axis=0), rowvar=False))


def test_large_offsets_lose_no_digits():
    values = scores()
    values[:30, 0] += 0
    values[5, 1] = np.nan
    far = correlate(NAMES, values + 1e7, Missing.PAIRWISE)
    assert far.values == pytest.approx(correlate(NAMES, values, Missing.PAIRWISE).values, abs=1e-7)


def test_pairs_without_targets_in_common_are_named():
    values = scores()
    values[:20, 0] = np.nan
    values[20:, 1] = np.nan
    with pytest.raises(InputError, match="0 targets have scores on a and b; give more targets"):
        correlate(NAMES, values)
    with pytest.raises(InputError, match=r"on all benchmarks; give more targets$"):
        correlate(NAMES, values, Missing.COMPLETE)


def test_pairs_are_advised_where_they_have_enough_targets():
    values = scores()
    for place in range(values.shape[1]):
        values[place :: values.shape[1], place] = np.nan
    with pytest.raises(InputError, match=r"0 targets have scores on all benchmarks; .* pairwise"):
        correlate(NAMES, values, Missing.COMPLETE)
    assert correlate(NAMES, values, Missing.PAIRWISE).subjects >= 4


def test_a_benchmark_that_is_constant_where_it_counts_is_named():
    values = scores()
    values[:30, 0] = np.nan
    values[30:, 1] = 2.0
    with pytest.raises(InputError, match="a or b is the same for all targets that have both"):
        correlate(NAMES, values)


def test_two_targets_are_too_few():
    with pytest.raises(InputError, match="2 targets have scores"):
        correlate(NAMES, scores(2))


def test_two_benchmarks_are_too_few():
    with pytest.raises(InputError, match="2 benchmarks cannot be told apart"):
        correlate(("a", "b"), scores()[:, :2])
    with pytest.raises(InputError, match="2 benchmarks cannot be told apart"):
        given_correlations(("a", "b"), np.eye(2), 10)


def test_a_matrix_without_its_number_of_subjects_is_asked_for_it():
    with pytest.raises(InputError, match="--subjects N"):
        given_correlations(NAMES, np.eye(4), None)
