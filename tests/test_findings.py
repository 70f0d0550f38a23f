"""What a finding promises: plain data, no NaN, reasons beside nulls, a row per record."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from safemetry.claims import ItemSet
from safemetry.findings import Finding, plain, resolved


@dataclass(frozen=True, kw_only=True)
class Measured(Finding):
    command: ClassVar[str] = "measure"

    values: tuple[Any, ...] = ()

    def records(self) -> Sequence[Mapping[str, Any]]:
        return [plain(value) for value in self.values]

    def sentence(self) -> str:
        return f"{len(self.values)} values."


class Colour(enum.StrEnum):
    RED = "red"


def test_the_common_keys_come_first(assert_sound):
    finding = Measured(settings={"level": 0.95}, warnings=("few",), values=({"a": 1},))
    read = assert_sound(finding)
    assert list(read) == ["schema", "command", "version", "settings", "warnings", "values"]
    assert (read["schema"], read["command"], read["warnings"]) == (1, "measure", ["few"])
    assert finding.to_json() == finding.to_json()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.ma.masked_array([1.0, 2.0], [False, True]), [1.0, None]),
        ((1, "a", None), [1, "a", None]),
        (Colour.RED, "red"),
        ({Colour.RED: ItemSet(1, "d")}, {"red": {"count": 1, "digest": "d"}}),
        ({1: True}, {"1": True}),
    ],
)
def test_values_become_plain(value, expected):
    found = plain(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert type(found) in {dict, list, float, int, bool, str}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), np.float64("nan"), np.array([np.inf])]
)
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="a number that is not finite"):
        plain({"estimate": [value]})


def test_settings_that_are_not_set_say_so():
    assert resolved({"a": 1, "b": None}) == {"a": 1, "b": None, "why": {"b": "not set"}}
    assert resolved({"a": 1}) == {"a": 1}


def frame(*records):
    return Measured(values=records).to_frame()


def test_nested_parts_are_dotted_columns_and_intervals_have_two_ends():
    found = frame({"rate": 0.5, "interval": (0.4, 0.6), "scope": {"by": {"x": "a"}}, "few": [1, 2]})
    assert found.to_pylist() == [
        {
            "rate": 0.5,
            "interval.low": 0.4,
            "interval.high": 0.6,
            "scope.by.x": "a",
            "few.0": 1,
            "few.1": 2,
        }
    ]


def test_an_interval_that_is_unknown_in_one_row_is_null_in_both_columns():
    found = frame({"interval": (0.4, 0.6), "x": 1}, {"interval": None, "x": 2})
    assert found.column_names == ["interval.low", "interval.high", "x"]
    assert found.to_pylist()[1] == {"interval.low": None, "interval.high": None, "x": 2}
    assert frame({"interval": None}).column_names == ["interval"]


def test_a_list_of_words_is_one_cell_and_mixed_types_are_text():
    found = frame({"attacks": ("a", "b"), "value": 1}, {"attacks": (), "value": "high"})
    assert found.to_pylist() == [
        {"attacks": "a, b", "value": "1"},
        {"attacks": "", "value": "high"},
    ]


def test_no_record_is_a_frame_without_rows():
    assert frame().num_rows == 0


def test_a_finding_without_a_chart_says_none():
    assert Measured().chart() is None
