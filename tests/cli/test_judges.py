"""`safemetry judges`: the way from placed labels to a corrected rate, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from calling import Run


def write(path: Path, labelled: set[int]) -> Path:
    """A judge that calls a third of the refusals compliance, and people on some responses."""
    rng = np.random.default_rng(3)
    lines = ["target,item,judge,label,intent"]
    for item in range(400):
        truth = rng.random() < 0.2
        said = truth or rng.random() < 0.3
        for judge, label in (("judge", said), ("human", truth)):
            if judge == "judge" or item in labelled:
                lines.append(f"m,i{item},{judge},{'comply' if label else 'refuse'},harmful")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_placed_labels_come_back_as_a_corrected_rate(run: Run, tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", set(range(0, 400, 10)))
    sheet = tmp_path / "sheet.csv"
    placed = run(
        *("judges", table, "--gold", "human", "--draws", "100", "--json", "-"),
        *("--label-next", "60", "--sheet", sheet),
    )
    assert placed.code == 0, placed.err
    found = json.loads(placed.out)["labels"]
    assert (found["judge"], found["boundary"], len(found["next"]["ids"])) == ("judge", "comply", 60)
    with sheet.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 400
    chosen = {int(row["item"][1:]) for row in rows if row["ask"] == "yes" or row["label"]}
    assert len(chosen) == 100
    write(table, chosen)
    corrected = run(
        *("judges", table, "--gold", "human", "--draws", "100", "--json", "-"),
        *("--sampling", sheet),
    )
    assert corrected.code == 0, corrected.err
    result = json.loads(corrected.out)
    assert result["settings"]["sampling"] == str(sheet)
    low, high = next(
        row["interval"] for row in result["corrected"] if row["method"].startswith("ppi++")
    )
    assert low < 0.2 < high < 0.35


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sheet", "x.csv"], "--sheet needs --label-next"),
        (["--label-next", "20000"], "20,000 labels to place next"),
        (["--width", "0"], "width"),
        (["--label-next", "9", "--sheet", "x.txt"], "ends in none of .csv, .parquet"),
        (["--label-next", "9", "--sheet", "{table}"], "which is read"),
        (["--gold", "human", "--sampling", "{part}"], "no row for the response"),
        (["--sampling", "{part}"], "no judge is named as gold"),
    ],
)
def test_plans_that_cannot_be_made_are_refused(
    run: Run, tmp_path: Path, options: list[str], said: str
) -> None:
    table = write(tmp_path / "table.csv", set(range(40)))
    part = tmp_path / "part.csv"
    part.write_text("target,item,probability\nm,i0,0.5\n")
    result = run("judges", table, *(one.format(part=part, table=table) for one in options))
    assert result.code == 2
    assert said in result.err
