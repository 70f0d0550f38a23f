"""Paired differences: the corrected interval covers where splits overlap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from safemetry.construct.dimensions.paired import corrected_interval, paired_difference
from safemetry.errors import InputError


def test_the_interval_is_that_of_nadeau_and_bengio():
    differences = np.array([0.05, 0.04, 0.06, 0.05, 0.07])
    low, high = corrected_interval(differences, test_to_train=0.25)
    variance = (1 / 5 + 0.25) * differences.var(ddof=1)
    assert (low + high) / 2 == pytest.approx(0.054)
    assert high - low == pytest.approx(2 * t.ppf(0.975, 4) * variance**0.5)


def test_it_covers_where_splits_share_cells_and_the_plain_one_does_not():
    rng = np.random.default_rng(1)
    data_sets, cells, splits, level = 2000, 400, 5, 0.9
    values = rng.standard_normal((data_sets, cells))
    order = rng.random((data_sets, splits, cells)).argsort(axis=2)[:, :, : cells // 5]
    means = np.take_along_axis(values[:, None], order, axis=2).mean(axis=2)
    ends = np.array([corrected_interval(row, test_to_train=0.25, level=level) for row in means])
    covered = ((ends[:, 0] < 0) & (ends[:, 1] > 0)).mean()
    reach = t.ppf((1 + level) / 2, splits - 1) * means.std(axis=1, ddof=1) / splits**0.5
    plain = (np.abs(means.mean(axis=1)) < reach).mean()
    assert covered == pytest.approx(level, abs=3 * (level * (1 - level) / data_sets) ** 0.5)
    assert plain < level - 0.1


def test_a_difference_says_who_wins():
    found = paired_difference(
        "best", ("1D 3PL", [0.30, 0.29, 0.31]), ("2D", [0.25, 0.30, 0.27]), test_to_train=0.25
    )
    assert found.won == "2 of 3"
    assert found.wins == 2
    assert found.gain == pytest.approx(0.08 / 3)
    assert found.interval[0] < 0 < found.interval[1]
    assert found.sentence.startswith("2D predicts held-out responses better than 1D 3PL by 0.0267")
    turned = paired_difference(
        "best", ("2D", [0.25, 0.30, 0.27]), ("1D 3PL", [0.30, 0.29, 0.31]), test_to_train=0.25
    )
    assert turned.gain == -found.gain
    assert turned.interval == pytest.approx((-found.interval[1], -found.interval[0]))


def test_one_split_has_no_interval_and_says_why():
    found = paired_difference("best", ("1D", [0.3]), ("2D", [0.2]), test_to_train=0.25)
    assert found.interval is None
    assert found.to_dict()["why"]["interval"]


def test_settings_out_of_range_are_refused():
    for choice in ({"test_to_train": 0.0}, {"test_to_train": 0.25, "level": 1.0}):
        with pytest.raises(InputError, match="the level is"):
            corrected_interval(np.array([0.1, 0.2]), **choice)
