"""`safemetry shorten`: quotas, the kept form, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from safemetry.forms import load_form

if TYPE_CHECKING:
    from calling import Run

QUICK = ("--splits", "2", "--random-sets", "3", "--budgets", "5,10", "--jobs", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty targets and thirty items of one dimension, in two categories and fifteen pairs."""
    folder = tmp_path_factory.mktemp("shorten")
    rng = np.random.default_rng(4)
    theta, difficulty = rng.standard_normal((30, 1)), rng.normal(0, 1, 30)
    codes = (rng.random((30, 30)) < 1 / (1 + np.exp(-1.5 * (theta - difficulty)))).astype(int)
    lines = ["target," + ",".join(f"q{j}" for j in range(30))]
    lines += [f"m{i:02d}," + ",".join(map(str, row)) for i, row in enumerate(codes)]
    (folder / "matrix.csv").write_text("\n".join(lines) + "\n")
    lines = ["item,kind,pair", *(f"q{j},{'ab'[j >= 10]},p{j // 2}" for j in range(30))]
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_form_keeps_what_was_asked_and_can_be_read_again(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    items, kept = f"{folder}/items.csv", tmp_path / "form.json"
    result = run(
        *("shorten", folder / "matrix.csv", "--items", "9", *QUICK, "--json", "-"),
        *("--per", f"{items}:kind", "--apart", f"{items}:pair", "--require", "q0"),
        *("--forbid", "q2,q3", "--form", kept),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    names = found["items"]
    assert len(set(names)) == 9
    assert sum(int(name[1:]) < 10 for name in names) == 3
    assert len({int(name[1:]) // 2 for name in names}) == 9
    assert "q0" in names
    assert not {"q2", "q3"} & set(names)
    lengths = {(row["items"], row["method"]) for row in found["evaluation"]}
    assert {(5, "predictive"), (9, "predictive"), (10, "random")} <= lengths
    form = load_form(kept)
    assert list(form.items) == names
    scores = form.scores(np.ones((1, 9), np.int8), ["new"])
    assert scores[0].score is not None
    assert scores[0].score > 0.7


def test_quotas_with_one_end_or_one_number(run: Run, folder: Path) -> None:
    items = f"{folder}/items.csv"
    result = run(
        *("shorten", folder / "matrix.csv", "--items", "6", *QUICK, "--json", "-"),
        *("--quota", f"{items}:kind=a:4-", "--quota", f"{items}:kind=b:-2"),
    )
    assert result.code == 0, result.err
    names = json.loads(result.out)["items"]
    assert sum(int(name[1:]) < 10 for name in names) >= 4


def test_parallel_forms_share_no_item(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "form.html"
    result = run(
        *("shorten", folder / "matrix.csv", "--items", "5", *QUICK, "--forms", "3", "-o", page),
        *("--json", tmp_path / "r.json"),
    )
    assert result.code == 0, result.err
    forms = json.loads((tmp_path / "r.json").read_text())["parallel_forms"]
    assert len(forms) == 3
    assert len({item for form in forms for item in form}) == 15
    assert "<svg" in page.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--items", "40"], "40"),
        (["--quota", "kind=a"], "COL=VALUE:MIN-MAX"),
        (["--quota", "{items}:kind=a:9-2"], "9 to 2 items"),
        (["--quota", "{items}:kind=z:2-"], "z"),
        (["--per", "nothing"], "no column 'nothing'"),
        (["--require", "zz"], "zz"),
        (["--items", "3", "--require", "q0", "--forbid", "q0"], "required and forbidden"),
        (["-o", "form.txt"], "ends in none of"),
    ],
)
def test_forms_that_cannot_be_made_are_refused(
    run: Run, folder: Path, options: list[str], said: str
) -> None:
    filled = [one.format(items=f"{folder}/items.csv") for one in options]
    result = run("shorten", folder / "matrix.csv", *QUICK, *filled)
    assert result.code == 2, result.out
    assert said in result.err


def test_a_length_that_cannot_be_made_does_not_take_the_others_along(
    run: Run, folder: Path
) -> None:
    result = run(
        *("shorten", folder / "matrix.csv", "--items", "8", "--splits", "2", "--random-sets", "3"),
        *("--budgets", "5,25", "--apart", f"{folder}/items.csv:pair", "--json", "-"),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert {row["items"] for row in found["evaluation"]} == {5, 8}
    assert any("25 items" in said for said in found["warnings"])


def test_a_rare_class_does_not_end_the_evaluation(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((40, 1))
    codes = np.clip(np.round(1 + theta + rng.normal(0, 0.8, (40, 20))), 0, 2).astype(int)
    codes[:, ::4] = np.minimum(codes[:, ::4], 1)
    codes[3, ::4] = 2
    lines = ["target," + ",".join(f"q{j}" for j in range(20))]
    lines += [f"m{i}," + ",".join(map(str, row)) for i, row in enumerate(codes)]
    (tmp_path / "graded.csv").write_text("\n".join(lines) + "\n")
    result = run(
        *("shorten", tmp_path / "graded.csv", "--items", "6", *QUICK, "--graded", "--json", "-")
    )
    assert result.code == 0, result.err
    methods = {row["method"] for row in json.loads(result.out)["evaluation"]}
    assert {"predictive", "adaptive", "random"} <= methods


@pytest.mark.parametrize("option", ["--form", "-o", "--json"])
def test_no_result_replaces_a_file_that_is_read(run: Run, folder: Path, option: str) -> None:
    items = folder / "items.csv"
    held = items.read_text()
    result = run(
        *("shorten", folder / "matrix.csv", *QUICK, "--per", f"{items}:kind", option, items)
    )
    assert result.code == 2
    assert "which is read" in result.err or "ends in none of" in result.err
    assert items.read_text() == held


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1, "kind": "form"}', "[" * 9000])
def test_a_file_that_is_no_form_is_refused(tmp_path: Path, text: str) -> None:
    from safemetry.errors import InputError

    file = tmp_path / "form.json"
    file.write_text(text)
    with pytest.raises(InputError, match="no form that can be read"):
        load_form(file)
