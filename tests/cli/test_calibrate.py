"""`safemetry calibrate` on the screen and on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from safemetry.irt import load_calibration

if TYPE_CHECKING:
    from calling import Run


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty targets on twenty items, as a wide matrix, and the side of each item beside it."""
    rng = np.random.default_rng(2)
    chance = 1 / (1 + np.exp(-rng.standard_normal((40, 1)) * 1.5 - rng.normal(size=20)))
    codes = (rng.random((40, 20)) < chance).astype(int)
    folder = tmp_path_factory.mktemp("matrix")
    lines = ["target," + ",".join(f"q{j}" for j in range(20))]
    lines += [f"m{i}," + ",".join(map(str, row)) for i, row in enumerate(codes)]
    (folder / "matrix.csv").write_text("\n".join(lines) + "\n")
    sides = ["item_id,side", *(f"q{j},{'north' if j % 2 else 'south'}" for j in range(20))]
    (folder / "sides.csv").write_text("\n".join(sides) + "\n")
    return folder / "matrix.csv"


def test_it_shows_targets_items_and_what_the_priors_do(run: Run, matrix: Path):
    result = run("calibrate", matrix)
    assert result.code == 0, result.err
    assert "Abilities (map)" in result.out
    assert "Items (2pl)" in result.out
    assert "The same fit with other priors" in result.out
    assert "2pl model of 20 items and 40 targets in 1 dimension" in result.out


def test_a_structure_comes_from_a_file_beside_the_evidence(run: Run, matrix: Path):
    sides = matrix.with_name("sides.csv")
    result = run("calibrate", matrix, "--structure", f"{sides}:side", "--json", "-")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["dimensions"] == ["south", "north"]
    assert found["settings"]["structure"] == f"{sides}:side"


def test_it_keeps_the_calibration_and_never_replaces_one_unasked(
    run: Run, matrix: Path, tmp_path: Path
):
    kept = tmp_path / "kept"
    assert run("calibrate", matrix, "-o", kept, "--quiet").code == 0
    assert load_calibration(kept).items[0] == "q0"
    again = run("calibrate", matrix, "-o", kept)
    assert again.code == 2
    assert str(kept) in again.err
    assert run("calibrate", matrix, "-o", kept, "--replace", "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--structure", "nothing"], "there is no column 'nothing' of items"),
        (["--structure", "absent.csv:side"], "absent.csv"),
        (["--prior", "absent.yaml"], "the priors cannot be read"),
        (["--model", "grm", "--dims", "2"], "one dimension only"),
    ],
)
def test_what_cannot_be_fitted_is_one_error(
    run: Run, matrix: Path, arguments: list[str], said: str
):
    result = run("calibrate", matrix, *arguments)
    assert result.code == 2
    assert said in result.err
    assert result.out == ""
