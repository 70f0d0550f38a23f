"""A label table: three judges side by side, one of which gave nothing."""

from __future__ import annotations

import csv
from pathlib import Path

from conformance import MARKER, ReaderCase

from safemetry.readers.labels import LabelTableReader


def make(folder: Path, ids: list[str]) -> Path:
    path = folder / "labels.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["model", "item_id", "response", "human_1", "judge_a", "judge_b"])
        for item in ids:
            writer.writerow(["model-a", item, f"{MARKER}, at length", "comply", "", "evasive"])
    return path


CASE = ReaderCase(
    reader=LabelTableReader(),
    suffix=".csv",
    make=make,
    rows=lambda n: n,
    map={"label_columns": ["human_1", "judge_a", "judge_b"]},
    lines=True,
    cut_is_visible=False,
)
