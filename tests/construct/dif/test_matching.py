"""Matching scores with and without the studied item, on all items and on some."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.mantel_haenszel import mantel_haenszel
from safemetry.construct.dif.matching import match_items, matching_scores
from safemetry.construct.dif.ridge_logistic import ridge_logistic
from safemetry.construct.dif.undefined import Undefined

THIN = Banding("scores")


def made(shape=(3, 60, 8), missing=0.0, seed=1):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(*shape[:-1], 1)) + rng.normal(size=shape[-1])
    codes = (rng.random(shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    codes[rng.random(shape) < missing] = -1
    return codes, np.arange(shape[-2]) % 3 == 0


@pytest.mark.parametrize("with_studied", [True, False])
@pytest.mark.parametrize("some", [True, False])
def test_scores_as_summed_for_each_item(with_studied, some):
    codes, _ = made()
    members = np.arange(8) < 5 if some else np.ones(8, bool)
    for score in matching_scores(codes, members, with_studied=with_studied):
        counted = np.broadcast_to(members[:, None], (8, 8)).copy()
        np.fill_diagonal(counted, with_studied)
        expected = codes.astype(float) @ counted
        np.testing.assert_array_equal(score.by_item(codes), expected[..., score.studied])


def test_missing_cells_are_prorated():
    codes = np.array([[1, 1, -1, 0], [-1, -1, -1, 1], [1, 0, 1, 0]], np.int8)
    (total,) = matching_scores(codes)
    np.testing.assert_allclose(total.of_one, [8 / 3, 4, 2])
    (rest,) = matching_scores(codes, with_studied=False)
    np.testing.assert_allclose(rest.by_item(codes)[0, [0, 1, 3]], [1.5, 1.5, 3])
    assert np.isnan(rest.by_item(codes)[1, 3])  # no response but that to the studied item


@pytest.mark.parametrize("with_studied", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_statistics_are_those_of_each_items_own_strata(with_studied, missing):
    codes, focal = made(missing=missing)
    members = np.arange(8) < 6
    found = match_items(codes, focal, THIN, members, with_studied=with_studied)
    for score in matching_scores(codes, members, with_studied=with_studied):
        strata = THIN.strata(score.by_item(codes))
        alone = mantel_haenszel(codes[..., score.studied], strata, focal)
        np.testing.assert_allclose(found.log_odds[..., score.studied], alone.log_odds, atol=1e-12)
        assert (found.undefined[..., score.studied] == alone.undefined).all()


def test_one_matrix_or_many():
    codes, focal = made()
    for banding in (THIN, Banding("quantiles", 3), Banding("edges", edges=(3.5,))):
        for with_studied in (True, False):
            many = match_items(codes, focal, banding, with_studied=with_studied)
            one = match_items(codes[1], focal, banding, with_studied=with_studied)
            assert (many.chi_square[1] == one.chi_square).all()


def test_an_item_that_matches_on_itself_alone_says_nothing():
    codes, focal = made()
    found = match_items(codes[0], focal, THIN, np.arange(8) == 0)
    assert found.undefined[0] == Undefined.CONSTANT
    assert found.defined[1:].all()
    rest = match_items(codes[0], focal, THIN, np.arange(8) == 0, with_studied=False)
    assert rest.undefined[0] == Undefined.NO_RESPONSE
    with pytest.raises(ValueError, match="one item"):
        matching_scores(codes, np.zeros(8, bool))


def test_the_studied_item_takes_part_of_its_own_difference():
    """In a short test a difference is smaller on the score that includes the item."""
    rng = np.random.default_rng(2)
    theta, focal = rng.normal(size=4000), np.arange(4000) % 2 == 0
    logits = theta[:, None] - np.linspace(-1, 1, 6)
    logits[:, 2] -= 1.0 * focal
    codes = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    with_it = match_items(codes, focal, THIN)
    without = match_items(codes, focal, THIN, with_studied=False)
    clean = np.arange(6) != 2
    # Counted in, a Rasch item keeps its difference of 1; left out, others look different too.
    assert abs(with_it.log_odds[2] - 1) < 0.25
    assert np.abs(without.log_odds[clean]).max() > 0.05
    # Matched on clean items only, the difference is whole and the clean items have none.
    purified = match_items(codes, focal, THIN, clean)
    assert abs(purified.log_odds[2] - 1) < 0.25
    assert np.abs(purified.log_odds[clean]).max() < 0.2


def test_scores_without_the_item_for_logistic_regression():
    codes, focal = made(shape=(200, 8))
    (rest,) = matching_scores(codes, with_studied=False)
    found = ridge_logistic(codes, rest.by_item(codes), focal)
    for item in range(8):
        score = codes.sum(axis=1) - codes[:, item]
        alone = ridge_logistic(codes[:, [item]], score.astype(float), focal)
        np.testing.assert_allclose(found.group[item], alone.group[0], atol=1e-9)
