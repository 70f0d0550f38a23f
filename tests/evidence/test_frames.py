"""Tables of any library reach an engine, with the same values and rows that can be named."""

from __future__ import annotations

import duckdb
import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence import frames


@pytest.fixture
def connection():
    with duckdb.connect() as open_connection:
        yield open_connection


def rows(frame):
    return frame.collect("pyarrow").to_arrow().to_pylist()


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_rows_are_numbered_from_one_in_the_order_of_the_table(make, connection):
    frame = frames.lazy(make({"x": ["c", "a", "b"]}), connection)
    assert frame.implementation is nw.Implementation.DUCKDB
    numbered = sorted((row["source_row"], row["x"]) for row in rows(frame))
    assert numbered == [(1, "c"), (2, "a"), (3, "b")]


def test_row_numbers_of_the_source_stay(connection):
    frame = frames.lazy(pa.table({"x": ["a", "b"], "source_row": [7, 9]}), connection)
    assert sorted(row["source_row"] for row in rows(frame)) == [7, 9]


def test_nan_becomes_null_and_infinity_stays(connection):
    data = pl.DataFrame({"x": [1.5, float("nan"), float("inf"), None]})
    found = {row["source_row"]: row["x"] for row in rows(frames.lazy(data, connection))}
    assert found == {1: 1.5, 2: None, 3: float("inf"), 4: None}


def test_a_column_of_nulls_and_a_dictionary_column_are_text(connection):
    data = pa.table({"empty": pa.nulls(2), "word": pa.array(["a", "b"]).dictionary_encode()})
    frame = frames.lazy(data, connection)
    schema = frame.collect_schema()
    assert (schema["empty"], schema["word"]) == (nw.String(), nw.String())
    assert sorted(row["word"] for row in rows(frame)) == ["a", "b"]


def test_a_relation_stays_on_its_own_connection(connection):
    with duckdb.connect() as other:
        relation = other.sql("SELECT 1 AS x")
        assert frames.lazy(relation, connection).to_native() is relation


@pytest.mark.parametrize("data", [{"x": [1]}, [1], "a.csv", None, pd.Series([1])])
def test_what_is_no_table_is_refused(data, connection):
    with pytest.raises(InputError, match="is not a table; give a data frame"):
        frames.lazy(data, connection)


def test_two_columns_of_one_name_are_refused(connection):
    twice = pd.DataFrame([["a", "b"]], columns=["label", "label"])
    with pytest.raises(InputError, match=r"two columns have the same name .*'label' 2 times"):
        frames.lazy(twice, connection)
