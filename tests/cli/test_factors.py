"""`safemetry factors` on the screen, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from calling import Run

CORRELATIONS = "name,a,b,c,d\na,1,.6,.5,-.5\nb,.6,1,.5,-.4\nc,.5,.5,1,-.5\nd,-.5,-.4,-.5,1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Item matrices of three benchmarks, a table of scores, and correlations."""
    folder = tmp_path_factory.mktemp("factors")
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((30, 1)) * 1.5
    for name in ("harm", "jailbreak", "stereotype"):
        chance = 1 / (1 + np.exp(-theta - rng.normal(size=12)))
        codes = (rng.random((30, 12)) < chance).astype(int)
        lines = ["target," + ",".join(f"{name}{j}" for j in range(12))]
        lines += [f"m{i}," + ",".join(map(str, row)) for i, row in enumerate(codes)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    scores = theta + rng.standard_normal((30, 4))
    lines = ["model,w,x,y,z"]
    lines += [f"m{i}," + ",".join(f"{v:.3f}" for v in row) for i, row in enumerate(scores)]
    (folder / "scores.csv").write_text("\n".join(lines) + "\n")
    (folder / "correlations.csv").write_text(CORRELATIONS)
    return folder


def test_a_correlation_matrix_is_told_by_its_content(run: Run, folder: Path):
    result = run("factors", folder / "correlations.csv", "--subjects", "80")
    assert result.code == 0, result.err
    for title in ("Benchmarks", "Solutions (minres)", "Parallel analysis", "Loadings (1 factor)"):
        assert title in result.out
    assert "4 benchmarks over 80 subjects" in result.out
    assert "d runs against the rest: flipped, or safety traded for usefulness" in result.err


def test_a_benign_benchmark_is_named_by_the_user(run: Run, folder: Path):
    result = run("factors", folder / "correlations.csv", "--subjects", "80", "--benign", "d")
    assert "d runs against the rest: safety traded for usefulness" in result.err


def test_a_table_of_scores_is_told_by_its_content(run: Run, folder: Path):
    result = run("factors", folder / "scores.csv", "--json", "-")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["input"], found["subjects"]) == ("scores", 30)


def test_the_settings_say_what_was_asked(run: Run, folder: Path):
    result = run("factors", folder / "scores.csv", "--json", "-")
    settings = json.loads(result.out)["settings"]
    assert settings["sources"] == [str(folder / "scores.csv")]
    for name in ("structure", "success", "judge"):
        assert settings[name] is None
        assert name in settings["why"]


def test_a_misspelt_row_of_a_correlation_matrix_is_named(run: Run, tmp_path: Path):
    (tmp_path / "c.csv").write_text(CORRELATIONS.replace("\nc,", "\ncc,"))
    for more in ((), ("--subjects", "80")):
        result = run("factors", tmp_path / "c.csv", *more)
        assert result.code == 2
        assert "row 3 (line 4), column 'name': 'cc' is no column" in result.err


def test_whole_numbers_are_scores_where_it_is_said(run: Run, tmp_path: Path):
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 100, (20, 1)) + rng.integers(0, 30, (20, 4))
    lines = ["model,w,x,y,z", *(f"m{i}," + ",".join(map(str, r)) for i, r in enumerate(scores))]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    result = run("factors", tmp_path / "s.csv", "--as", "scores", "--json", "-")
    assert result.code == 0, result.err
    assert json.loads(result.out)["subjects"] == 20


def test_several_item_matrices_are_several_benchmarks(run: Run, folder: Path):
    sources = [folder / f"{name}.csv" for name in ("harm", "jailbreak", "stereotype")]
    result = run("factors", *sources, "--dims", "2", "--jobs", "1")
    assert result.code == 0, result.err
    assert "Models of the items on held-out targets" in result.out
    assert "The same with the other measure" in result.out
    assert "3 benchmarks over 30 targets" in result.out


def test_an_over_refusal_set_is_known_by_its_intent(run: Run, tmp_path: Path):
    rng = np.random.default_rng(4)
    caution = rng.standard_normal(30) * 1.5
    lines = ["target,benchmark,item,intent,label"]
    for name, intent in (("h1", "harmful"), ("h2", "harmful"), ("xs", "benign")):
        for item in range(12):
            refuses = rng.random(30) < 1 / (1 + np.exp(-caution - rng.normal()))
            lines += [
                f"m{i},{name},{name}-{item},{intent},{'refuse' if refused else 'comply'}"
                for i, refused in enumerate(refuses)
            ]
    (tmp_path / "tidy.csv").write_text("\n".join(lines) + "\n")
    result = run("factors", tmp_path / "tidy.csv", "--no-cross-validate", "--json", "-")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    intents = {row["benchmark"]: row["intent"] for row in found["benchmarks"]}
    assert intents == {"h1": "harmful", "h2": "harmful", "xs": "benign"}
    against = [row for row in found["coherence"] if row["runs_against"]]
    assert [row["benchmark"] for row in against] == ["xs"]
    assert "no sign that it is flipped" in against[0]["reading"]


def test_a_column_of_a_file_names_the_benchmarks(run: Run, folder: Path):
    items = ["item_id,part", *(f"harm{j},part {j % 3}" for j in range(12))]
    (folder / "items.csv").write_text("\n".join(items) + "\n")
    result = run(
        "factors",
        folder / "harm.csv",
        "--structure",
        f"{folder / 'items.csv'}:part",
        "--measure",
        "ability",
        "--no-cross-validate",
        "--json",
        "-",
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert [row["benchmark"] for row in found["benchmarks"]] == ["part 0", "part 1", "part 2"]
    assert found["settings"]["measure"] == "ability"
    assert found["why"]["cross_validation"] == "not asked for"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["correlations.csv"], "correlations.csv: a correlation matrix does not say over how many"),
        (["correlations.csv", "scores.csv"], "stands alone, and 2 sources are given"),
        (["correlations.csv", "--subjects", "80", "--filter", "item=1"], "no items to filter"),
        (["scores.csv", "--subjects", "80"], "counted where targets are known"),
        (["harm.csv"], "1 benchmark cannot be told apart"),
        (["harm.csv", "--structure", "nothing"], "there is no column 'nothing' of items"),
        (["scores.csv", "--as", "correlation"], "column 'model': 'm0' is no column"),
        (["correlations.csv", "--subjects", "80", "--factors", "4"], "4 factors are asked of 4"),
        (["absent.csv"], "absent.csv: no such file or folder"),
    ],
)
def test_what_cannot_be_used_is_one_error(
    run: Run, folder: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    result = run("factors", *arguments)
    assert result.code == 2
    assert said in result.err
    assert len(result.err.splitlines()) == 1
    assert result.out == ""
