"""Purification of the matching score, and anchors."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.construct.dif.anchors import given_anchors, lowest_anchors, purified_anchors
from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.matching import match_items
from safemetry.construct.dif.purification import flag_counts, purified_statistics, purify
from safemetry.errors import InputError

THIN = Banding("scores")


def test_the_values_of_difr(shared):
    rows = np.loadtxt(shared / "oracle/data_verbal_difR.csv", delimiter=",", skiprows=1, dtype=int)
    with (shared / "oracle/difR_verbal_MH_purify.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    found, steps = purified_statistics(
        rows[:, :24].astype(np.int8), rows[:, 25] == 1, THIN, smoothing=0
    )
    assert steps.converged
    assert (steps.flagged == [row["flagged"] == "TRUE" for row in table]).all()
    for name, value in (
        ("MH", found.chi_square),
        ("p", found.p_value),
        ("alphaMH", np.exp(found.log_odds)),
        ("varLambda", found.variance),
        ("deltaMH", found.delta),
    ):
        np.testing.assert_allclose(value, [float(row[name]) for row in table], atol=1e-12)


def contaminated(items=20, differing=6, size=1200, seed=1):
    rng = np.random.default_rng(seed)
    theta, focal = rng.normal(size=size), np.arange(size) % 2 == 0
    logits = theta[:, None] - rng.uniform(-1, 1, items)
    logits[:, :differing] -= 0.9 * focal[:, None]
    return (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int8), focal


def test_purification_finds_the_differing_items_and_clears_the_others():
    codes, focal = contaminated()
    plain = match_items(codes, focal, THIN)
    found, steps = purified_statistics(codes, focal, THIN, level=0.01)
    assert steps.converged
    assert steps.flagged[:6].all()
    assert steps.flagged[6:].sum() <= 1
    # Six items against one group make the score unfair to it, so that the others seem to favour it.
    assert plain.log_odds[6:].mean() < -0.15
    assert abs(found.log_odds[6:].mean()) < 0.08
    assert flag_counts(steps)[-1] == steps.flagged.sum()
    assert (purified_anchors(steps).members == ~steps.flagged).all()


def test_nothing_flagged_is_one_round():
    steps = purify(lambda members: np.zeros(5, bool), 5)
    assert (steps.rounds, steps.converged, steps.stopped) == (1, True, "")
    assert steps.members.all()


def test_a_cycle_is_named():
    steps = purify(lambda members: np.array([members[0], not members[0], False]), 3)
    assert not steps.converged
    assert "cycle" in steps.stopped
    assert steps.rounds <= 4


def test_everything_flagged_leaves_the_last_score():
    steps = purify(lambda members: np.ones(3, bool), 3)
    assert not steps.converged
    assert steps.members.all()
    assert "none is left" in steps.stopped


def test_rounds_are_limited():
    rounds = iter(np.eye(12, dtype=bool))
    steps = purify(lambda members: next(rounds), 12, most_rounds=3)
    assert (steps.rounds, steps.converged) == (4, False)
    # The members are those under which the last flags were made.
    assert (steps.members == ~np.eye(12, dtype=bool)[2]).all()
    assert "after 3 rounds" in steps.stopped


def test_the_lowest_statistics_are_clean_anchors():
    codes, focal = contaminated()
    found = match_items(codes, focal, THIN)
    anchors = lowest_anchors(found.log_odds - np.median(found.log_odds), found.defined, 4)
    assert anchors.members.sum() == 4
    assert not anchors.members[:6].any()
    anchored = match_items(codes, focal, THIN, anchors.members)
    assert abs(anchored.log_odds[6:].mean()) < abs(found.log_odds[6:].mean()) / 2


def test_anchors_without_a_value_are_not_chosen():
    anchors = lowest_anchors(np.array([0.0, 1.0, 2.0]), np.array([False, True, True]), 3)
    assert anchors.members.tolist() == [False, True, True]
    assert anchors.caution == "only 2 of 3 items can be compared"
    for count, defined in ((0, [True]), (1, [False])):
        with pytest.raises(InputError):
            lowest_anchors(np.zeros(1), np.array(defined), count)


def test_given_anchors_are_items():
    items = ("a", "b", "c")
    assert given_anchors(["c", "a"], items).names(items) == ("a", "c")
    with pytest.raises(InputError, match="1 anchors are no items of the matrix: d"):
        given_anchors(["a", "d"], items)
    with pytest.raises(InputError, match="no anchor"):
        given_anchors([], items)
