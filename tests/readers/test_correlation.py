"""Correlation matrices as files: what is read, recognised and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.readers import read_evidence
from safemetry.readers.correlation import is_correlation, read_correlations
from safemetry.readers.source import Source

GOOD = "name,a,b,c\na,1,.5,-.2\nb,.5,1,.1\nc,-.2,.1,1\n"


def written(folder: Path, text: str) -> Source:
    path = folder / "r.csv"
    path.write_text(text)
    return Source(str(path))


def test_names_and_numbers(tmp_path: Path):
    source = written(tmp_path, GOOD)
    assert is_correlation(source)
    found = read_correlations(source)
    assert found.names == ("a", "b", "c")
    assert found.values.tolist() == [[1, 0.5, -0.2], [0.5, 1, 0.1], [-0.2, 0.1, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "name,a,b,c\na,1,,\nb,.5,1,\nc,-.2,.1,1\n",
        "name,a,b,c\na,1,.5,-.2\nb,,1,.1\nc,,,1\n",
        ",a,b,c\nc,-.2,.1,1\nb,.5,1,.1\na,1,.5,-.2\n",
        "name,a,b,c\na,1.000,.5004,-.2\nb,.5,1,.1\nc,-.2,.1,.9999\n",
    ],
)
def test_half_a_matrix_rows_in_another_order_and_rounding_will_do(tmp_path: Path, text: str):
    source = written(tmp_path, text)
    assert is_correlation(source)
    expected = [[1, 0.5, -0.2], [0.5, 1, 0.1], [-0.2, 0.1, 1]]
    assert read_correlations(source).values == pytest.approx(np.array(expected), abs=3e-4)


def test_a_parquet_file_is_read_too(tmp_path: Path):
    table = pa.table({"name": ["a", "b"], "a": [1.0, 0.3], "b": [0.3, 1.0]})
    pq.write_table(table, tmp_path / "r.parquet")
    source = Source(str(tmp_path / "r.parquet"))
    assert is_correlation(source)
    assert read_correlations(source).values[0, 1] == 0.3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace(".5,1", ".6,1"), "row 2 .line 3., column 'a': the matrix is not symmetric"),
        (GOOD.replace("a,1", "a,.9"), "row 1 .line 2., column 'a': the diagonal is 0.9"),
        (GOOD.replace("a,1", "a,"), "column 'a': the diagonal is empty"),
        (GOOD.replace(".1,1", "1.2,1"), "row 3 .line 4., column 'b': 1.2 is no correlation"),
        (GOOD.replace(".1,1", "x,1"), "row 3 .line 4., column 'b': 'x' is not a number"),
        (GOOD.replace(".1,1", "nan,1"), "column 'b': nan is no correlation"),
        (GOOD.replace("c,-.2", "d,-.2"), "row 3 .line 4., column 'name': 'd' is no column"),
        (GOOD.replace("c,-.2,.1,1\n", ""), "column 'c': has no row of its own"),
        (GOOD + "a,1,.5,-.2\n", "'a' has two rows"),
        (GOOD.replace("-.2", ""), "row 3 .line 4., column 'a': the cell is empty in both halves"),
    ],
)
def test_every_error_names_its_cell(tmp_path: Path, text: str, said: str):
    with pytest.raises(InputError, match=said) as caught:
        read_correlations(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "r.csv"))


@pytest.mark.parametrize(
    "text",
    [
        "target,q1,q2\nm1,0,1\nm2,1,1\n",
        "target,item,label\nm1,q1,refuse\n",
        "name,a,b\na,1,.5\n",
        "a\n1\n",
    ],
)
def test_other_tables_are_not_taken_for_one(tmp_path: Path, text: str):
    assert not is_correlation(written(tmp_path, text))


@pytest.mark.parametrize("kind", ["correlation", "scores"])
def test_readers_of_responses_say_who_reads_it(tmp_path: Path, kind: str):
    source = written(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"holds no responses.*safemetry factors"):
        read_evidence(source.location, kind=kind)
