"""Which groups are compared, and which are refused with a reason."""

from __future__ import annotations

import csv

import pytest

from safemetry.construct.dif.groups import SMALLEST_GROUP, group_pairs
from safemetry.errors import InputError


def developers(shared):
    with (shared / "data" / "helm_safety" / "models.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    return [row["model"] for row in rows], {row["model"]: row["developer"] for row in rows}


def test_two_developers_of_helm_have_enough_targets_and_the_others_are_named(shared):
    found = group_pairs(*developers(shared))
    assert [pair.names for pair in found.pairs] == [("openai", "anthropic")]
    assert found.pairs[0].sizes == (20, 11)
    assert len(found.refused) == 14
    assert found.refused[0].group == "meta"
    assert all("fewer than 10" in refused.why for refused in found.refused)


def test_all_pairs_of_large_groups_are_compared_whatever_the_order_of_the_targets():
    names = [f"{group}{place}" for group in "abc" for place in range(12)]
    groups = {name: name[0] for name in names}
    forwards = group_pairs(names, groups)
    backwards = group_pairs(names[::-1], groups)
    assert [pair.names for pair in forwards.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.names for pair in backwards.pairs] == [pair.names for pair in forwards.pairs]
    assert forwards.pairs[1].is_focal.sum() == 12


def test_targets_without_a_group_are_in_no_pair():
    names = [str(place) for place in range(30)]
    groups = {name: "x" if int(name) < 12 else "y" for name in names[:25]} | {"25": ""}
    found = group_pairs(names, groups)
    assert found.ungrouped == ("25", "26", "27", "28", "29")
    assert len(found.pairs[0].rows) == 25


@pytest.mark.parametrize(
    "sizes", [{"x": 30}, {"x": 30, "y": 9}, {"x": 9, "y": 9}, {}], ids=["one", "small", "two", "no"]
)
def test_without_two_large_groups_nothing_can_be_compared(sizes):
    names = [f"{group}{place}" for group, size in sizes.items() for place in range(size)]
    with pytest.raises(InputError, match=f"groups have {SMALLEST_GROUP} targets or more"):
        group_pairs([*names, "other"], {name: name[0] for name in names})


def test_a_minimum_below_two_is_refused():
    with pytest.raises(InputError, match="2 or more"):
        group_pairs(["a", "b"], {"a": "x", "b": "y"}, minimum=1)
