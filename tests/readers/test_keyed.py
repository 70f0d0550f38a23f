"""A column of groups comes from the evidence, or from a table beside it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.readers.keyed import column_of


@pytest.fixture
def evidence():
    return as_evidence(
        pa.table(
            {
                "target": ["m", "m", "n", "n"],
                "item": ["a", "b", "a", "b"],
                "label": ["refuse"] * 4,
                "category": ["x", None, "x", None],
                "developer": ["lab", "lab", "other", "other"],
            }
        )
    )


def test_a_column_of_the_evidence(evidence):
    assert column_of(evidence, "category", "item") == {"a": "x"}
    assert column_of(evidence, "developer", "target") == {"m": "lab", "n": "other"}


@pytest.mark.parametrize("key", ["item", "item_id"])
def test_a_column_of_a_file(evidence, tmp_path, key):
    file = tmp_path / "with:colon.csv"
    file.write_text(f"{key},side\na,left\nb,\n001,right\n")
    assert column_of(evidence, f"{file}:side", "item") == {"a": "left", "001": "right"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,other\na,1\n", "has no column side"),
        ("name,side\na,1\n", "has no column item or item_id"),
        ("item,side\na,1\na,2\n", "'a' has '1' in one row and '2' in another"),
    ],
)
def test_a_file_that_does_not_say_it_is_one_error(evidence, tmp_path, text, said):
    file = tmp_path / "sides.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        column_of(evidence, f"{file}:side", "item")
    assert caught.value.file == str(file)


def test_an_unknown_column_is_answered_with_those_there_are(evidence):
    with pytest.raises(InputError, match="no column 'nothing' of items; use one of attack"):
        column_of(evidence, "nothing", "item")
