"""Tables of scores: what is read, recognised and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.readers.scores import is_score_table, read_scores
from safemetry.readers.source import Source

GOOD = "model,harmbench,xstest\nm1,0.5,-1.25\nm2,,0\nm3,1e-3,7\n"


def written(folder: Path, text: str) -> Source:
    path = folder / "scores.csv"
    path.write_text(text)
    return Source(str(path))


def test_numbers_and_gaps(tmp_path: Path):
    source = written(tmp_path, GOOD)
    assert is_score_table(source)
    found = read_scores(source)
    assert (found.targets, found.benchmarks) == (("m1", "m2", "m3"), ("harmbench", "xstest"))
    assert found.values[:, 1].tolist() == [-1.25, 0, 7]
    assert np.isnan(found.values[:, 0]).tolist() == [False, True, False]


def test_a_parquet_file_and_a_named_target_column(tmp_path: Path):
    table = pa.table({"who": ["a", "b"], "kind": ["x", "y"], "s": [0.5, 1.0], "t": [2.0, 3.0]})
    pq.write_table(table.drop(["kind"]), tmp_path / "s.parquet")
    source = Source(str(tmp_path / "s.parquet"))
    assert is_score_table(source)
    known = make_map({"columns": {"target": "who"}})
    assert read_scores(source, known).values.tolist() == [[0.5, 2.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    "text",
    [
        "target,q1,q2\nm1,0,1\nm2,1.0,\n",
        "target,item,score\nm1,q1,0.5\nm2,q1,0.25\n",
        "model,developer,s\nm1,x,0.5\nm2,y,0.5\n",
    ],
)
def test_item_matrices_and_tidy_tables_are_not_taken_for_one(tmp_path: Path, text: str):
    assert not is_score_table(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("0.5", "half"), "row 1 .line 2., column 'harmbench': 'half' is not a number"),
        (GOOD.replace("0.5", "inf"), "column 'harmbench': 'inf' is not a number"),
        (GOOD.replace("m2", "m1"), "row 2 .line 3., column 'model': target 'm1' has two rows"),
        (GOOD.replace("m2", ""), "row 2 .line 3., column 'model': the cell is empty"),
        ("a,b\n1,2\n", "no column names the targets"),
        ("target\nm1\n", "there is no benchmark|is no CSV"),
    ],
)
def test_every_error_names_its_cell(tmp_path: Path, text: str, said: str):
    with pytest.raises(InputError, match=said):
        read_scores(written(tmp_path, text))
