"""Bands of a matching score."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.dif.bands import (
    Banding,
    LackingBand,
    lacking_bands,
    thin_strata,
    usable_share,
)
from safemetry.errors import InputError


def test_tertiles_of_the_groups_hold_a_third_each():
    scores = np.random.default_rng(1).normal(size=(20, 31))
    strata = Banding("quantiles", 3).strata(scores)
    for row in strata:
        # The edges are the 11th and the 21st of 31 scores, which fall in the upper band.
        assert np.bincount(row).tolist() == [10, 10, 11]
    closed = Banding("quantiles", 3, closed="right").strata(scores)
    assert np.bincount(closed[0]).tolist() == [11, 10, 10]


def test_quantiles_of_all_targets_are_those_of_another_set():
    rng = np.random.default_rng(2)
    everyone = rng.normal(size=(5, 77))
    scores = everyone[:, :31] + 1
    banding = Banding("quantiles", 3, reference="all")
    strata = banding.strata(scores, everyone)
    edges = np.quantile(everyone, [1 / 3, 2 / 3], axis=1)
    expected = (scores[..., None] >= edges.T[:, None]).sum(axis=2)
    assert (strata == expected).all()
    assert banding.label == "3 quantile bands of all targets"


@pytest.mark.parametrize("kind", ["quantiles", "scores"])
def test_a_rising_transformation_changes_no_stratum(kind):
    scores = np.random.default_rng(3).normal(size=31).round(1)
    banding = Banding(kind, 5)
    # With 31 scores quintiles are scores themselves, so no edge is interpolated.
    assert (banding.strata(scores) == banding.strata(np.exp(scores))).all()


def test_one_matrix_many_and_strata_by_item_agree():
    scores = np.random.default_rng(4).normal(size=(3, 20, 4))
    for banding in (Banding("quantiles", 4), Banding("edges", edges=(-1, 0.5))):
        whole = banding.strata(scores)
        for index in range(3):
            for item in range(4):
                assert (whole[index, :, item] == banding.strata(scores[index, :, item])).all()
        assert (banding.strata(scores[..., 0]) == whole[..., 0]).all()


def test_a_score_that_is_unknown_is_left_out():
    scores = np.array([1.0, np.nan, 3.0, 2.0])
    for banding in (Banding("quantiles", 2), Banding("edges", edges=(2.0,)), Banding("scores")):
        strata = banding.strata(scores)
        assert strata[1] == -1
        assert (strata[[0, 2]] == [0, strata.max()]).all()


def test_thin_strata_are_the_distinct_scores():
    assert thin_strata(np.array([[3.0, 1.0], [1.0, 2.0]])).tolist() == [[2, 0], [0, 1]]


def test_bands_that_lack_a_group_are_named():
    strata = np.array([0, 0, 1, 1, 2, 2, -1])
    focal = np.array([True, False, True, True, False, False, True])
    assert lacking_bands(strata, focal, ("openai", "anthropic")) == (
        LackingBand(2, "openai", 2),
        LackingBand(3, "anthropic", 2),
    )
    assert usable_share(strata, focal) == pytest.approx(2 / 7)
    assert lacking_bands(strata, focal, count=4)[2:] == (
        LackingBand(4, "reference", 0),
        LackingBand(4, "focal", 0),
    )


@pytest.mark.parametrize(
    "choice",
    [
        {"kind": "quantiles", "count": 0},
        {"kind": "edges"},
        {"kind": "edges", "edges": (1.0, 1.0)},
        {"kind": "edges", "edges": (0.0, float("nan"))},
    ],
)
def test_bands_that_make_no_sense_are_refused(choice):
    with pytest.raises(InputError):
        Banding(**choice)


def test_labels_say_what_was_done():
    assert Banding("scores").label == "each score"
    assert Banding("edges", edges=(-0.5, 1)).label == "edges at -0.5, 1"
