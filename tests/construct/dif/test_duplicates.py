"""Near-duplicates are named, and strong targets that merely pass everything are not."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dif.duplicates import near_duplicates, shared_answers
from safemetry.errors import InputError
from safemetry.irt.responses import make_responses


def matrix(shared, name):
    with (shared / "data" / "helm_safety" / f"{name}_matrix.csv").open() as stream:
        rows = list(csv.reader(stream))
    codes = np.array([[int(cell) for cell in row[1:]] for row in rows[1:]], np.int8)
    return codes, [row[0] for row in rows[1:]]


def test_copies_with_a_few_flips_are_found_and_named_by_family(shared):
    codes, names = matrix(shared, "harmbench")
    copies = codes[[0, 0, 40]]
    copies[[0, 1, 2], [11, 22, 33]] ^= 1
    every = [*names, "copy a", "copy b", "copy c"]
    families = {names[0]: "olmo", "copy a": "olmo", "copy b": "olmo", names[40]: "one"}
    responses = make_responses(np.vstack([codes, copies]), targets=every)
    found = near_duplicates(responses, families)
    assert [group.family for group in found.groups] == ["olmo", None]
    assert set(found.groups[0].targets) == {names[0], "copy a", "copy b"}
    assert set(found.groups[1].targets) == {names[40], "copy c"}
    assert found.groups[0].least_agreement > 0.99 > found.groups[0].expected_agreement
    assert set(found.clusters) == {names[0], "copy a", "copy b", names[40], "copy c"}
    assert found.to_dict()["groups"][1]["why"]["family"]


@pytest.mark.parametrize("name", ["harmbench", "antredteam", "simplesafety"])
def test_published_matrices_hold_no_near_duplicates_on_informative_items(shared, name):
    codes, names = matrix(shared, name)
    assert near_duplicates(make_responses(codes, targets=names)).clusters == {}


def test_strong_targets_that_pass_nearly_everything_are_not_duplicates():
    rng = np.random.default_rng(1)
    theta = np.concatenate([rng.normal(6, 0.3, 30), rng.normal(-1, 1, 20)])
    codes = (rng.random((50, 300)) < expit(theta[:, None] + rng.normal(0, 1, 300))).astype(np.int8)
    agreement = (codes[:30, None] == codes[None, :30]).mean(axis=2)
    assert (agreement > 0.99).sum() > 60  # with themselves alone 30
    found = near_duplicates(make_responses(codes))
    assert all(group.may_be_chance for group in found.groups)
    assert found.clusters == {}


def test_equal_rows_of_a_saturated_set_are_named_and_may_be_chance():
    codes = np.ones((30, 200), np.int8)
    codes[0, :50] = 0
    found = near_duplicates(make_responses(codes))
    (group,) = found.groups
    assert len(group.targets) == 29
    assert group.identical
    assert group.may_be_chance
    assert found.clusters == {}
    assert "0 items" in found.why
    assert "29 targets answer identically (10, 11, 12, 13, ...), which may be chance" in (
        found.sentence()
    )
    assert "other than exact copies could not be looked for: 0 items" in found.sentence()
    assert found.to_dict()["why"]["groups"] == f"copies only: {found.why}"


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_named_however_few_items_are_informative(seed):
    rng = np.random.default_rng(seed)
    easy = rng.normal(size=24)
    rows = rng.random((6, 24)) < expit(1.2 * (rng.normal(size=(6, 1)) - easy))
    found = near_duplicates(make_responses(np.repeat(rows.astype(np.int8), 5, axis=0)))
    assert sum(len(group.targets) for group in found.groups) == 30
    assert all(group.identical for group in found.groups)
    # What is nearly all passed, or all failed, may be chance.
    assert len(found.clusters) >= 20
    assert f"{len(found.clusters)} targets answer identically" in found.sentence()


def test_equal_rows_of_few_answers_are_no_copies():
    codes = np.tile([[1, 0, 1, 0, 1, 0, 1, 0, 1], [0, 1] * 4 + [1]], (3, 1)).astype(np.int8)
    found = near_duplicates(make_responses(codes))
    assert found.groups == ()
    assert found.sentence().startswith("Near-duplicates other than exact copies could not")


def test_targets_with_few_common_items_are_not_judged():
    rng = np.random.default_rng(2)
    codes = (rng.random((40, 100)) < 0.5).astype(np.int8)
    codes[1] = codes[0]
    codes[1, 15:] = -1
    assert near_duplicates(make_responses(codes)).groups == ()


def test_the_order_of_the_targets_decides_nothing():
    rng = np.random.default_rng(3)
    codes = (rng.random((30, 100)) < expit(rng.normal(size=(30, 1)))).astype(np.int8)
    codes[[4, 9]] = codes[20]
    names = [f"t{place}" for place in range(30)]
    order = rng.permutation(30)
    found = near_duplicates(make_responses(codes, targets=names))
    shuffled = near_duplicates(
        make_responses(codes[order], targets=[names[place] for place in order])
    )
    assert [group.targets for group in found.groups] == [("t20", "t4", "t9")]
    assert [group.targets for group in shuffled.groups] == [("t20", "t4", "t9")]


@pytest.mark.parametrize("agreement", [0.0, 1.0])
def test_an_impossible_agreement_is_refused(agreement):
    with pytest.raises(InputError, match="between 0 and 1"):
        near_duplicates(make_responses(np.eye(3, dtype=np.int8)), agreement=agreement)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8, 1.0])
def test_the_share_of_common_answers_is_recovered(rho):
    rng = np.random.default_rng(4)
    targets, items = 6, 4000
    chances = expit(rng.normal(size=(targets, 1)) * 0.3 + rng.normal(size=items))
    number = rng.random((targets, items))
    joins = rng.random((targets, items)) < np.sqrt(rho)
    number = np.where(joins, rng.random(items), number)
    codes = (number < chances).astype(np.int8)
    found = shared_answers(codes, chances, np.array([0, 0, 0, 0, 0, 1]))
    assert found[0] == pytest.approx(rho, abs=0.04)
    assert found[1] == 0
