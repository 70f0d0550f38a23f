"""`safemetry audit`: what it says of targets that are in order, hold back, or have changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from calling import Run

QUICK = ("--simulations", "199", "--json", "-")
ITEMS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty targets on 120 items in four categories; one answers a category as if far less able."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(8)
    kind = np.arange(ITEMS) % 4
    theta, difficulty = rng.standard_normal((40, 1)), rng.normal(0, 1, ITEMS)
    theta[0] = theta[1] = 0.5
    log_odds = 1.5 * (theta - difficulty)
    codes = (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int)
    again = np.where(rng.random(ITEMS) < 0.03, 1 - codes[1], codes[1])
    held = (rng.random(ITEMS) < 1 / (1 + np.exp(-log_odds[0] + 4 * (kind == 2)))).astype(int)
    codes[0] = held

    def write(name: str, rows: dict[str, Any]) -> None:
        lines = ["target," + ",".join(f"q{j}" for j in range(ITEMS))]
        lines += [f"{target}," + ",".join(map(str, row)) for target, row in rows.items()]
        (folder / name).write_text("\n".join(lines) + "\n")

    named = {f"m{i}": row for i, row in enumerate(codes)}
    write("now.csv", named)
    write("before.csv", {"m1": again})
    write("other.csv", {"m1": 1 - codes[1]})
    lines = ["item,kind", *(f"q{j},{'abcd'[kind[j]]}" for j in range(ITEMS))]
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_target_that_holds_back_in_one_category_is_found(run: Run, folder: Path) -> None:
    by = f"{folder}/items.csv:kind"
    result = run("audit", folder / "now.csv", "--target", "m0", "--by", by, *QUICK)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    flagged = {row["category"] for row in found["misfit"] if row["flagged"]}
    assert "c" in flagged
    worst = min(found["selective"], key=lambda row: row["difference"])
    assert (worst["category"], worst["flagged"]) == ("c", True)
    assert found["union"]["flagged"]
    assert 0 < found["union"]["null_rate"] <= 0.05
    assert all(row["null_rate"] <= 0.05 for row in found["person_fit"])
    assert found["joint_null_rate"] >= max(row["null_rate"] for row in found["person_fit"])
    assert "reason" not in result.err


def test_one_that_is_in_order_is_the_same_as_before(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    result = run(
        *("audit", folder / "now.csv", "--target", "m1", "--before", folder / "before.csv"),
        *("--disagreement", "0.05", "-o", page, *QUICK),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["ability_shift"]["verdict"] != "shifted"
    assert found["ability_shift"]["interval"][0] < 0 < found["ability_shift"]["interval"][1]
    assert found["fingerprint"][0]["reference"] == "m1 (before)"
    assert found["fingerprint"][0]["verdict"] == "same"
    assert found["stream"]["verdict"] != "different"
    assert "<svg" in page.read_text()


def test_another_endpoint_under_the_same_name_is_found(run: Run, folder: Path) -> None:
    result = run(
        *("audit", folder / "now.csv", "--target", "m1", "--before", folder / "other.csv"),
        *("--disagreement", "0.05", *QUICK),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["stream"]["verdict"] == "different"
    assert found["stream"]["stopped_at"] < 20
    assert {row["reference"]: row["verdict"] for row in found["fingerprint"]}["m1 (before)"] == (
        "different"
    )


def test_the_screen_names_statistics_categories_and_references(run: Run, folder: Path) -> None:
    by = f"{folder}/items.csv:kind"
    result = run(
        *("audit", folder / "now.csv", "--target", "m0", "--by", by, "--simulations", "199"),
        *("--statistics", "l_z_star,outfit,cusum", "--order", by, "--reference", "m1,m2,m3"),
    )
    assert result.code == 0, result.err
    for word in ("l_z_star", "outfit", "cusum", "all together", "misfit", "m2"):
        assert word in result.out
    assert "u3" not in result.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "zz"], "there is no target 'zz'"),
        (["--target", "m1", "--by", "nothing"], "no column 'nothing'"),
        (["--target", "m1", "--statistics", "l_zz"], "there is no statistic 'l_zz'"),
        (["--target", "m1", "--statistics", "cusum"], "needs an order"),
        (["--target", "m1", "--reference", "m2,yy"], "there is no known target 'yy'"),
        (["--target", "m1", "--before", "{items}"], "items.csv"),
        (["--target", "m1", "--history", "{folder}"], "calibration"),
        (["--target", "m1", "--level", "0.6"], "0.6"),
        (["--target", "m1", "-o", "x.txt"], "ends in none of"),
    ],
)
def test_what_cannot_be_done_is_refused(
    run: Run, folder: Path, options: list[str], said: str
) -> None:
    filled = [one.format(items=f"{folder}/items.csv", folder=folder) for one in options]
    result = run("audit", folder / "now.csv", *filled)
    assert result.code == 2, result.out
    assert said in result.err


def test_too_few_others_leave_person_fit_unknown(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = (folder / "now.csv").read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join(rows[:5]) + "\n")
    result = run("audit", few, "--target", "m1", *QUICK)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["person_fit"] is None
    assert "too few to calibrate" in found["why"]["person_fit"]
    assert len(found["fingerprint"]) == 3
