"""Saved calibrations: round trips, whole or not at all, and files that were tampered with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemModel, ItemParameters
from safemetry.irt.responses import make_responses
from safemetry.irt.store import (
    FILE,
    StoredCalibration,
    load_calibration,
    responses_digest,
    save_calibration,
)


def stored(dimensions=2):
    rng = np.random.default_rng(0)
    parameters = ItemParameters(
        rng.normal(size=(3, dimensions)),
        np.array([[1.0, -0.5], [0.25, -np.inf], [0.1, 0.1]]),
        np.array([0.0, 0.2, 0.0]),
        np.array([1.0, 0.9, 1.0]),
    )
    return StoredCalibration(
        ItemModel.GRADED,
        ("first", "zweites «Ä»", "= third"),
        parameters,
        ("model/1", "001"),
        rng.normal(size=(2, dimensions)),
        np.ma.array(
            np.full((2, dimensions), 0.3), mask=np.arange(2 * dimensions).reshape(2, -1) == 1
        ),
        np.eye(dimensions),
        np.zeros(dimensions),
        {"prior": {"slope": {"mean": None, "sd": 0.5}}, "seed": 1},
        {"loglik": -12.5, "why": {"bic": "one target"}},
        ("An item has three responses.",),
        {"slope_1_error": (0.1, None, 0.3)},
        {"outfit": (1.1, 0.9)},
    )


@pytest.fixture
def saved(tmp_path):
    return save_calibration(stored(), tmp_path / "calibration")


def equal(one, other):
    for name, value in vars(one).items():
        against = getattr(other, name)
        if isinstance(value, ItemParameters):
            assert equal(value, against)
        elif isinstance(value, np.ma.MaskedArray):
            assert np.array_equal(value.mask, against.mask)
            assert np.array_equal(value.compressed(), against.compressed())
        elif isinstance(value, np.ndarray):
            assert np.array_equal(value, against), name
        else:
            assert value == against, name
    return True


@pytest.mark.parametrize("dimensions", [1, 3])
def test_what_is_loaded_is_what_was_saved(tmp_path, dimensions):
    before = stored(dimensions)
    assert equal(load_calibration(save_calibration(before, tmp_path / "new" / "place")), before)


def test_the_same_calibration_makes_the_same_tables(tmp_path):
    first, second = (save_calibration(stored(), tmp_path / name) for name in "ab")
    names = {path.name for path in first.iterdir()}
    assert names == {path.name for path in second.iterdir()}
    assert len(names) == 3
    for name in names - {FILE}:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_calibration_is_replaced_on_request_only(saved):
    changed = replace(stored(), abilities=np.ones((2, 2)))
    with pytest.raises(InputError, match="holds a calibration already"):
        save_calibration(changed, saved)
    assert equal(load_calibration(saved), stored())
    save_calibration(changed, saved, replace=True)
    assert equal(load_calibration(saved), changed)
    assert len(list(saved.iterdir())) == 3, "tables of the earlier one are gone"


def test_a_crash_leaves_the_earlier_calibration(saved, monkeypatch):
    def crash(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safemetry.irt.store.settle", crash)
    with pytest.raises(InputError, match=r"cannot be written \(No space left"):
        save_calibration(replace(stored(), abilities=np.ones((2, 2))), saved, replace=True)
    assert equal(load_calibration(saved), stored())


def test_no_number_that_is_not_finite_is_written(tmp_path):
    for wrong in (
        replace(stored(), abilities=np.full((2, 2), np.nan)),
        replace(stored(), results={"loglik": float("inf")}),
        replace(stored(), item_columns={"x": (1.0, float("nan"), 2.0)}),
        replace(stored(), item_columns={"lower": (1.0, 1.0, 2.0)}),
    ):
        with pytest.raises(ValueError, match=r"not finite|has the name"):
            save_calibration(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_where_there_is_none(tmp_path):
    with pytest.raises(InputError, match="holds no calibration; give a directory with"):
        load_calibration(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be read"):
        load_calibration(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        save_calibration(stored(), tmp_path / "file")


def rewrite(folder, **changes):
    record = json.loads((folder / FILE).read_text())
    record |= changes
    (folder / FILE).write_text(json.dumps(record))


def test_a_newer_version_is_refused(saved):
    rewrite(saved, schema=2)
    with pytest.raises(InputError, match=r"newer version of safemetry \(schema 2\); upgrade"):
        load_calibration(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema": 1}',
        b'{"schema": "1; rm"}',
        b'{"schema": NaN}',
        b"\xff\xfe",
        b"[" * 200_000,
    ],
)
def test_a_record_that_is_none_is_damaged(saved, content):
    (saved / FILE).write_bytes(content)
    with pytest.raises(InputError, match="the calibration is damaged"):
        load_calibration(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"dimensions": 10**9},
        {"dimensions": 3},
        {"categories": 4},
        {"kind": "study"},
        {"model": "exec"},
        {"mean": [0.0]},
        {"covariance": [[1.0, 0.0], [0.0]]},
        {"covariance": [[1.0]]},
        {"items": {"file": "../../etc/passwd", "sha256": "0" * 64, "rows": 1}},
        {"items": {"file": "items-" + "0" * 32 + ".parquet", "sha256": "0" * 64, "rows": 3}},
    ],
)
def test_a_record_that_was_altered_is_damaged(saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(InputError, match="the calibration is damaged"):
        load_calibration(saved)


def test_a_large_record_is_not_read(saved, monkeypatch):
    monkeypatch.setattr("safemetry.irt.store._LARGEST_JSON", 100)
    with pytest.raises(InputError, match="larger than"):
        load_calibration(saved)


def test_a_damaged_table_is_found_by_its_digest(saved):
    (items,) = saved.glob("items-*.parquet")
    content = bytearray(items.read_bytes())
    content[len(content) // 2] ^= 1
    items.write_bytes(content)
    with pytest.raises(InputError, match="its bytes are not those that were written"):
        load_calibration(saved)
    items.unlink()
    items.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="no plain file"):
        load_calibration(saved)


def put_table(folder, name, table, rows=None):
    """A table with a digest that fits, as somebody who tampers would make it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content = sink.getvalue().to_pybytes()
    digest = hashlib.sha256(content).hexdigest()
    file = f"{name}-{digest[:32]}.parquet"
    (folder / file).write_bytes(content)
    count = table.num_rows if rows is None else rows
    rewrite(folder, **{name: {"file": file, "sha256": digest, "rows": count}})


def items_with(folder, **columns):
    (path,) = folder.glob("items-*.parquet")
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.drop_columns([name])
        if values is not None:
            table = table.append_column(name, pa.array(values))
    return table


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"slope_2": None}, "column 'slope_2' is missing"),
        ({"slope_2": [1.0, None, 1.0]}, "has a gap"),
        ({"slope_2": [1.0, float("nan"), 1.0]}, "not finite"),
        ({"slope_2": ["1", "2", "3"]}, "another type"),
        ({"item": [1, 2, 3]}, "another type"),
        ({"item": ["a", "a", "b"]}, "missing or repeated"),
        ({"item": ["a", None, "b"]}, "missing or repeated"),
        ({"lower": [0.0, 2.0, 0.0]}, "asymptote"),
        ({"lower": [0.0, 0.95, 0.0]}, "asymptote"),
        ({"intercept_1": [1.0, None, 0.1]}, None),
        ({"intercept_2": [2.0, 1.0, 0.1]}, "do not decrease"),
    ],
)
def test_impossible_values_are_refused_whatever_the_digest(saved, columns, said):
    put_table(saved, "items", items_with(saved, **columns))
    if said is None:
        assert load_calibration(saved).parameters.categories.tolist() == [3, 1, 3]
        return
    with pytest.raises(InputError, match=said):
        load_calibration(saved)


def test_shapes_are_bounded(saved, monkeypatch):
    table = items_with(saved)
    put_table(saved, "items", table, rows=4)
    with pytest.raises(InputError, match="another shape"):
        load_calibration(saved)
    put_table(saved, "items", table)
    monkeypatch.setattr("safemetry.irt.store_tables._LARGEST_TABLE", 200)
    with pytest.raises(InputError, match="too large"):
        load_calibration(saved)


def test_bytes_that_are_no_parquet(saved):
    content = b"PAR1" + bytes(100) + b"PAR1"
    digest = hashlib.sha256(content).hexdigest()
    file = f"items-{digest[:32]}.parquet"
    (saved / file).write_bytes(content)
    rewrite(saved, items={"file": file, "sha256": digest, "rows": 3})
    with pytest.raises(InputError, match="no Parquet table"):
        load_calibration(saved)


def test_the_digest_of_responses_depends_on_all_of_them():
    base = make_responses([[1, 0], [0, -1]])
    digests = {
        responses_digest(responses)
        for responses in (
            base,
            make_responses([[1, 0], [0, 0]]),
            make_responses([[1, 0], [0, -1]], items=["a", "b"]),
            make_responses([[1, 0], [0, -1]], targets=["a", "b"]),
            make_responses([[1, 0], [0, -1]], weights=[1, 2]),
        )
    }
    assert len(digests) == 5
    assert responses_digest(base) == responses_digest(make_responses([[1, 0], [0, -1]]))
