"""Structures: which items load on which dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.structure import bifactor, make_structure


def test_a_mapping_and_a_column_are_the_same():
    items = ["p", "q", "r", "s"]
    column = ["x", "x", "y", "y"]
    by_name = make_structure(items, dict(zip(reversed(items), reversed(column), strict=True)))
    by_place = make_structure(items, column)
    assert by_name.dimensions == by_place.dimensions == ("x", "y")
    assert (by_name.mask == by_place.mask).all()
    assert by_place.simple


def test_an_item_may_load_on_several_dimensions():
    found = make_structure(["p", "q", "r", "s"], ["x", ("y", "x"), "x", "y"])
    assert found.mask.astype(int).tolist() == [[1, 0], [1, 1], [1, 0], [0, 1]]
    assert not found.simple


def test_a_bifactor_structure_has_a_general_dimension_and_no_correlations():
    found = bifactor(["p", "q", "r", "s", "t"], ["x", "x", "y", "y", ""])
    assert found.dimensions == ("general", "x", "y")
    assert found.mask[:, 0].all()
    assert found.mask[4].tolist() == [True, False, False]
    assert not found.correlated


@pytest.mark.parametrize(
    ("loads_on", "words"),
    [
        ({"p": "x", "q": "x"}, "2 items load on no dimension, the first is 'r'"),
        (["x", "x", "x", ""], "the first is 's'"),
        (["x", "x", "x", "y"], "'y' has 1 item"),
        (["x", "x"], "2 of 4"),
        ([("x", "y")] * 4, "have the same items"),
    ],
)
def test_structures_that_say_nothing_are_refused(loads_on, words):
    with pytest.raises(InputError, match=words):
        make_structure(["p", "q", "r", "s"], loads_on)


def test_columns_of_the_mask_follow_first_appearance():
    found = make_structure(list("abcd"), ["late", "early", "late", "early"])
    assert found.dimensions == ("late", "early")
    assert np.array_equal(found.mask.sum(axis=0), [2, 2])
