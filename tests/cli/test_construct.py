"""`safemetry construct` on the screen and as a page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from calling import Run

QUICK = ("--restarts", "1", "--max-dims", "2", "--splits", "2", "--simulations", "39")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty targets on two factors of seven items each, and who made the targets."""
    folder = tmp_path_factory.mktemp("construct")
    rng = np.random.default_rng(4)
    theta = 2 * rng.standard_normal((30, 2))[:, np.arange(14) % 2]
    codes = (rng.random((30, 14)) < 1 / (1 + np.exp(-theta))).astype(int)
    lines = ["target," + ",".join(f"q{j}" for j in range(14))]
    lines += [f"m{i}," + ",".join(map(str, row)) for i, row in enumerate(codes)]
    (folder / "matrix.csv").write_text("\n".join(lines) + "\n")
    for name, names in (("a", "xy"), ("b", "uv")):
        lines = ["item,kind", *(f"q{j},{names[j % 2]}" for j in range(14))]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    lines = ["target,made", *(f"m{i},{('p', 'q', 'r')[min(i // 12, 2)]}" for i in range(30))]
    (folder / "made.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_structures_of_one_column_name_are_kept_apart(run: Run, folder: Path) -> None:
    sides = [f"{folder / name}.csv:kind" for name in ("a", "b")]
    result = run(
        *("construct", folder / "matrix.csv", *QUICK, "--jobs", "1", "--json", "-"),
        *("--structure", sides[0], "--structure", sides[1]),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    confirmatory = [row["name"] for row in found["models"] if row["kind"] == "confirmatory"]
    assert confirmatory == [f"{side} (2D confirmatory)" for side in sides]
    assert found["settings"]["structure"] == sides
    assert found["settings"]["seed"] == 2026


def test_what_is_left_out_is_said_and_the_page_is_written(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    page = tmp_path / "audit.html"
    result = run(
        *("construct", folder / "matrix.csv", *QUICK, "--jobs", "1", "-o", page),
        *("--structure", f"{folder}/a.csv:kind", "--groups", f"{folder}/made.csv:made"),
        *("--published", "1D 1PL=0.1", "--published", "2D exploratory=0.9"),
    )
    assert result.code == 0, result.err
    assert "Of made, groups under 10 targets were not compared: r (6)." in result.err
    assert "Published figures put 1D 1PL (0.100) ahead of 2D exploratory" in result.out
    text = page.read_text(encoding="utf-8")
    assert "Does the score measure one thing?" in text
    assert "<script" not in text


def test_the_help_says_which_seed_it_is(run: Run) -> None:
    assert "[default: 2026]" in run("construct", "--help").out
    assert "[default: 2026]" not in run("calibrate", "--help").out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-o", "page.txt"), "ends in none of .html, .htm, .md"),
        (("--published", "1D 1PL"), "is not written MODEL=LOSS"),
        (("--published", "1D 1PL=low"), "is not a number"),
        (("--null-sets", "98"), "is below 99"),
    ],
)
def test_options_that_cannot_be_read(
    run: Run, folder: Path, options: tuple[str, ...], said: str
) -> None:
    result = run("construct", folder / "matrix.csv", *options)
    assert result.code == 2
    assert said in result.err


def test_a_file_that_names_no_target_is_an_error(run: Run, folder: Path) -> None:
    (folder / "other.csv").write_text("target,made\nnobody,p\n")
    result = run("construct", folder / "matrix.csv", "--groups", f"{folder}/other.csv:made", *QUICK)
    assert result.code == 2
    assert "grouping 'made' names none of the 30 targets" in result.err


def test_a_parquet_matrix_of_categories_is_read(run: Run, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"target": pa.array([f"m{i}" for i in range(12)])}
    columns |= {f"q{j}": pa.array([str((i + j) % 2) for i in range(12)]) for j in range(4)}
    coded = pa.table({name: column.dictionary_encode() for name, column in columns.items()})
    pq.write_table(coded, tmp_path / "m.parquet")
    result = run("construct", tmp_path / "m.parquet", "--max-dims", "1", *QUICK[-2:], "--json", "-")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["targets"], found["items"]) == (12, 4)


def test_a_column_of_the_evidence_without_values_has_no_key_column(run: Run, folder: Path) -> None:
    result = run("construct", folder / "matrix.csv", "--groups", "developer", *QUICK)
    assert result.code == 2
    assert "grouping 'developer' gives no target a group" in result.err
    assert "key" not in result.err
