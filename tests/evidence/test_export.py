"""An exported file is whole, and no spreadsheet runs a cell of it."""

from __future__ import annotations

import csv
import re

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safemetry.errors import InputError
from safemetry.evidence.export import defuse, export_table

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def test_parquet_holds_what_was_given(tmp_path):
    table = pa.table({"a": ["=1", "", None], "n": [1, 2, None]})
    assert export_table(table, tmp_path / "t.parquet") == 3
    assert pq.read_table(tmp_path / "t.parquet").equals(table)


def test_csv_is_defused(tmp_path):
    texts = ["=1+1", "-cmd", "@x", "-5", "+3.5e4", "ok", 'a"b,c\nd', "", None, "é"]
    table = pa.table({"text": texts, "n": [-1.5, *[None] * 9], "=evil": range(10)})
    assert export_table(table, tmp_path / "t.csv", "csv") == 10
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["text", "n", "'=evil"]
    assert [row[0] for row in rows] == [
        "'=1+1", "'-cmd", "'@x", "-5", "+3.5e4", "ok", 'a"b,c\nd', "", "", "é",
    ]  # fmt: skip
    assert rows[0][1] == "-1.5"
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert lines[-3:-1] == ['"",,7', ",,8"]


@given(st.text(st.sampled_from("=+-@\t\r\n'15.e x\uff1d\uff20")))
def test_defusing_can_be_undone(text):
    written = defuse(pa.array([text]))[0].as_py()
    number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
    assert number or not written.startswith(DANGEROUS)
    undone = written[1:] if written.startswith("'") and written.lstrip("'").startswith(
        DANGEROUS) else written  # fmt: skip
    assert undone == text


def test_a_relation_is_written_in_pieces(tmp_path):
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT i, 'x' || i AS t FROM range(600000) r(i)")
        assert export_table(relation, tmp_path / "t.parquet") == 600_000
        assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups > 1
        assert export_table(relation, tmp_path / "t.csv", "csv") == 600_000
        back = connection.read_csv(str(tmp_path / "t.csv")).aggregate("count(*), sum(i)")
        assert back.fetchall() == [(600_000, 600_000 * 599_999 // 2)]


def test_a_failed_export_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    with duckdb.connect() as connection:
        broken = connection.sql("SELECT error('boom') FROM range(3)")
        with pytest.raises(duckdb.Error):
            export_table(broken, path, "csv")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(InputError, match="choose parquet or csv"):
        export_table(pa.table({"a": [1]}), tmp_path / "t", "xlsx")
    with pytest.raises(InputError, match="cannot be written"):
        export_table(pa.table({"a": [1]}), tmp_path / "none" / "t.csv", "csv")
    with pytest.raises(InputError, match="cannot be written as csv"):
        export_table(pa.table({"a": [[1]]}), tmp_path / "t.csv", "csv")
