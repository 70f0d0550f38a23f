"""Tidy tables: the same rows as CSV, as JSON lines and as Parquet, texts beside them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from conformance import MARKER, ReaderCase

from safemetry.readers.tidy import TidyReader


def row(item: str) -> dict[str, object]:
    return {
        "target": "model-a",
        "item": item,
        "prompt": f'{MARKER} says "go",\nand more',
        "judge": "grader",
        "score": 0.625,
        "category": "fraud",
    }


def write_csv(folder: Path, ids: list[str]) -> Path:
    path = folder / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(row("")), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(row, ids))
    return path


def write_json_lines(folder: Path, ids: list[str]) -> Path:
    path = folder / "table.jsonl"
    lines = [json.dumps(row(item), ensure_ascii=False) + "\n" for item in ids]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_parquet(folder: Path, ids: list[str]) -> Path:
    path = folder / "table.parquet"
    pq.write_table(pa.Table.from_pylist([row(item) for item in ids]), path)
    return path


def count(n: int) -> int:
    return n


def case(make: Callable[[Path, list[str]], Path], suffix: str, **flags: object) -> ReaderCase:
    scale = {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}
    return ReaderCase(
        reader=TidyReader(),
        suffix=suffix,
        make=make,
        rows=count,
        map={"judges": {"grader": scale}},
        **flags,
    )


CASES = [
    # A cut last cell may look like a shorter one.
    case(write_csv, ".csv", score_text="0.625", lines=True, cut_is_visible=False),
    case(write_json_lines, ".jsonl", score_text="0.625", lines=True),
    case(write_parquet, ".parquet", text=False, byte_is_visible=False),
]
