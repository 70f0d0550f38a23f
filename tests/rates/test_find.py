"""Items are found by what happened on them, and only their ids are given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from safemetry import find_items
from safemetry.errors import InputError


@pytest.fixture
def table():
    rows = [
        # item, judge, call, label, intent
        ("broken", "a", 1, "comply", "harmful"),
        ("broken", "b", 1, "comply", "harmful"),
        ("held", "a", 1, "refuse", "harmful"),
        ("held", "b", 1, "refuse", "harmful"),
        ("split", "a", 1, "comply", "harmful"),
        ("split", "b", 1, "refuse", "harmful"),
        ("wavering", "a", 1, "refuse", "harmful"),
        ("wavering", "a", 2, "comply", "harmful"),
        ("wavering", "a", 3, "refuse", "harmful"),
        ("lost", "a", 1, None, "harmful"),
        ("lost", "b", 1, "refuse", "harmful"),
        ("helped", "a", 1, "comply", "benign"),
        ("unknown", "a", 1, "comply", None),
        ("shades", "a", 1, "refuse", "harmful"),
        ("shades", "b", 1, "evasive", "harmful"),
    ]
    names = ("item", "judge", "call", "label", "intent")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({"target": ["m"] * len(rows)} | columns)


@pytest.mark.parametrize(
    ("where", "success", "expected"),
    [
        ("violation", "comply", ("broken", "split")),
        ("violation", "non_refusal", ("broken", "shades", "split")),
        ("violation", "comply/unanimous", ("broken",)),
        ("missing", "comply", ("lost",)),
        ("disagree", "comply", ("split", "wavering")),
        ("disagree", "non_refusal", ("shades", "split", "wavering")),
        ("disagree", "comply/majority", ("split",)),
    ],
)
def test_items_by_what_happened_on_them(table, where, success, expected, assert_sound):
    finding = find_items(table, where, success=success)
    assert finding.items == expected
    assert finding.sentence() == f"{len(expected):,} items: {where}."
    read = assert_sound(finding)
    assert read["items"] == list(expected)
    # Ids and nothing else.
    assert set(read) == {"schema", "command", "version", "settings", "warnings", "items"}


def test_a_tie_of_one_judge_is_both_missing_and_a_disagreement(table):
    tied = pa.table(
        {
            "target": ["m"] * 2,
            "item": ["1"] * 2,
            "call": [1, 2],
            "label": ["comply", "refuse"],
            "intent": ["harmful"] * 2,
        }
    )
    for where, expected in (("violation", ()), ("missing", ("1",)), ("disagree", ("1",))):
        assert find_items(tied, where).items == expected


def test_one_target_is_enough_to_find_an_item():
    data = pa.table(
        {
            "target": ["m", "n"],
            "item": ["1", "1"],
            "label": ["comply", "refuse"],
            "intent": ["harmful"] * 2,
        }
    )
    assert find_items(data, "violation").items == ("1",)
    # Two targets that behave differently are no judges that disagree.
    assert find_items(data, "disagree").items == ()


@pytest.mark.parametrize("where", ["violation", "missing", "disagree"])
def test_a_duplicate_key_is_refused(table, where):
    with pytest.raises(InputError, match=r"table, row 16, column 'item': duplicate key"):
        find_items(pa.concat_tables([table, table.slice(0, 1)]), where)


def test_an_unknown_condition_is_refused(table):
    with pytest.raises(InputError, match="unknown condition 'bad'; use one of violation, missing"):
        find_items(table, "bad")
