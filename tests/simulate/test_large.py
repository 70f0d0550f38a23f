"""The large writer writes the rows it says, with unique keys and known words."""

from __future__ import annotations

import hashlib

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence.schema import BY_NAME, CLASSES, OUTSIDE, Reason, Status
from safemetry.simulate import LARGE_COLUMNS, simulate_large
from safemetry.simulate import large as module

SMALL = {"targets": 4, "epochs": 2, "judges": 9, "calls": 3}


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_ROWS", 5_000)
    return simulate_large(tmp_path / "large.parquet", 23_456, 3, **SMALL)


def _rows(query):
    with duckdb.connect() as connection:
        return connection.sql(query).fetchall()


def test_rows_and_columns_are_those_asked_for(written):
    file = pq.ParquetFile(written.path)
    assert file.metadata.num_rows == written.rows == 23_456
    assert file.num_row_groups == 5
    assert tuple(file.schema_arrow.names) == LARGE_COLUMNS
    # Text comes back as plain text, so that a reader need not know how it was stored.
    assert all(field.type == BY_NAME[field.name].type for field in file.schema_arrow)
    group = file.metadata.row_group(0)
    encodings = {
        group.column(i).path_in_schema: group.column(i).encodings for i in range(len(LARGE_COLUMNS))
    }
    assert all("RLE_DICTIONARY" in encodings[name] for name in ("item", "target", "label"))


def test_keys_are_unique_and_runs_of_a_response_share_their_design(written):
    query = f"from '{written.path}'"  # a path of this test
    keys = _rows(f"select count(*) from (select distinct target, item, epoch, judge, call {query})")
    assert keys == [(23_456,)]
    items = _rows(f"select count(distinct item) {query}")[0][0]
    design = _rows(
        f"select count(*) from (select distinct item, category, attack, behaviour, intent {query})"
    )
    assert design[0][0] == items
    assert items <= written.items
    judges = _rows(f"select count(distinct judge) {query}")[0][0]
    assert judges == 9


def test_counts_that_it_reports_are_those_in_the_file(written):
    query = f"from '{written.path}'"
    labels = dict(_rows(f"select label, count(*) {query} where status = 'ok' group by 1"))
    assert labels == written.labels
    reasons = dict(_rows(f"select reason, count(*) {query} where status <> 'ok' group by 1"))
    assert reasons == written.reasons
    assert sum(labels.values()) + sum(reasons.values()) == written.rows


def test_words_are_known_and_nulls_stand_where_they_should(written):
    table = pq.read_table(written.path)
    assert set(table["label"].unique().to_pylist()) == {None, *CLASSES, *OUTSIDE}
    assert set(table["status"].unique().to_pylist()) <= set(Status)
    assert set(table["reason"].unique().to_pylist()) - {None} <= set(Reason)
    assert table["score"].null_count == table.num_rows
    rows = table.to_pylist()
    assert all((row["attack"] is None) == (row["intent"] == "benign") for row in rows)
    assert all((row["label"] is None) == (row["status"] != "ok") for row in rows)
    assert all((row["reason"] is None) == (row["status"] == "ok") for row in rows)


def test_a_response_is_lost_for_every_judge(written):
    lost = _rows(
        f"""select count(*) from (
            select target, item, epoch, count(*) as calls, count(*) filter (label is null) as gone,
            from '{written.path}' group by all having bool_or(reason = 'no_response')
        ) where gone < calls"""
    )
    assert lost == [(0,)]


def test_same_seed_same_bytes(tmp_path):
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = simulate_large(tmp_path / name, 5_000, seed, **SMALL).path
        pa.array(range(100_000 * (1 + seed)))  # memory that is used again holds something else
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_a_failed_write_leaves_no_file_of_that_name(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(module._Names, "table", fail)
    with pytest.raises(RuntimeError):
        simulate_large(tmp_path / "large.parquet", 100)
    assert not (tmp_path / "large.parquet").exists()


def test_a_size_below_one_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least 1"):
        simulate_large(tmp_path / "x", 0)
    with pytest.raises(InputError, match="at least 1"):
        simulate_large(tmp_path / "x", 10, judges=0)
