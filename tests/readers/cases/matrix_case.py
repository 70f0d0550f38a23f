"""A wide matrix: two targets, one of which has gaps; the items are columns."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from conformance import ReaderCase

from safemetry.readers.matrix import MatrixReader


def write_csv(folder: Path, ids: list[str]) -> Path:
    path = folder / "matrix.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["model", *ids])
        writer.writerow(["model-a", *("1" for _ in ids)])
        writer.writerow(["model-b", *("" if at % 3 == 2 else "0" for at in range(len(ids)))])
    return path


def write_parquet(folder: Path, ids: list[str]) -> Path:
    path = folder / "matrix.parquet"
    cells = [pa.array([1, None if at % 3 == 2 else 0]) for at in range(len(ids))]
    table = pa.Table.from_arrays([pa.array(["model-a", "model-b"]), *cells], ["model", *ids])
    pq.write_table(table, path)
    return path


CASES = [
    ReaderCase(
        reader=MatrixReader(),
        suffix=".csv",
        make=write_csv,
        rows=lambda _: 2,
        lines=True,
        cut_is_visible=False,
    ),
    ReaderCase(
        reader=MatrixReader(),
        suffix=".parquet",
        make=write_parquet,
        rows=lambda _: 2,
        text=False,
        byte_is_visible=False,
    ),
]
