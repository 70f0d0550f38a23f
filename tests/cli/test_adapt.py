"""`safemetry adapt`: tests on responses that are there, and a live test kept in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from calling import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty targets of which forty are for the calibration, and forty items in two categories."""
    folder = tmp_path_factory.mktemp("adapt")
    rng = np.random.default_rng(4)
    theta, difficulty = rng.standard_normal((60, 1)), rng.normal(0, 1, 40)
    codes = (rng.random((60, 40)) < 1 / (1 + np.exp(-2 * (theta - difficulty)))).astype(int)
    for name, rows in (("old", range(40)), ("new", range(40, 60))):
        lines = ["target," + ",".join(f"q{j}" for j in range(40))]
        lines += [f"m{i}," + ",".join(map(str, codes[i])) for i in rows]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    lines = ["item,kind", *(f"q{j},{'ab'[j % 2]}" for j in range(40))]
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def calibration(folder: Path, run: Run) -> Path:
    """Of the forty."""
    made = folder / "calibration"
    if not made.exists():
        assert run("calibrate", folder / "old.csv", "-o", made, "--quiet").code == 0
    return made


def test_new_targets_take_the_test(run: Run, folder: Path, calibration: Path) -> None:
    result = run(
        *("adapt", calibration, "--simulate", folder / "new.csv", "--budget", "12"),
        *("--per", f"{folder}/items.csv:kind", "--json", "-"),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert len(found["sessions"]) == 20
    assert found["in_sample"] == []
    for session in found["sessions"]:
        assert len(session["items"]) == len(session["theta"]) == len(session["se"]) == 12
        assert abs(sum(int(item[1:]) % 2 for item in session["items"]) - 6) <= 1
        assert session["stop"] == "budget"
    last = found["evaluation"]["by_items"][-1]
    assert last["items"] == 12
    assert last["rmse"] < last["random_rmse"]


def test_a_release_question_is_decided(run: Run, folder: Path, calibration: Path) -> None:
    result = run(
        *("adapt", calibration, "--simulate", folder / "new.csv", "--cut-score", "0.5"),
        *("--half-width", "0.5", "--json", "-"),
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    sides = {session["decision"] for session in found["sessions"]}
    assert {"above", "below"} <= sides <= {"above", "below", "cannot_tell"}
    assert found["evaluation"]["decided"] > 0.5


def test_a_live_test_goes_on_where_it_stopped(
    run: Run, folder: Path, calibration: Path, tmp_path: Path
) -> None:
    simulated = run(
        *("adapt", calibration, "--simulate", folder / "new.csv", "--budget", "6", "--json", "-")
    )
    path = json.loads(simulated.out)["sessions"][0]
    header, *rows = (folder / "new.csv").read_text().splitlines()
    answers = dict(zip(header.split(",")[1:], rows[0].split(",")[1:], strict=True))
    state, taken = tmp_path / "m40.json", []
    first = run("adapt", calibration, "--session", state, "--budget", "6", "--json", "-")
    asked = json.loads(first.out)["sessions"][0]["next_item"]
    while asked is not None:
        taken.append(asked)
        again = run("adapt", calibration, "--session", state, "--json", "-")
        assert json.loads(again.out)["sessions"][0]["next_item"] == asked
        result = run(
            *("adapt", calibration, "--session", state, "--answer", answers[asked], "--json", "-")
        )
        assert result.code == 0, result.err
        session = json.loads(result.out)["sessions"][0]
        asked = session["next_item"]
    assert taken == path["items"]
    assert session["stop"] == "budget"
    assert session["theta"] == pytest.approx(path["theta"], abs=1e-9)
    ended = run("adapt", calibration, "--session", state, "--answer", "1")
    assert ended.code == 2
    assert "has ended" in ended.err
    assert "The test has ended: budget" in run("adapt", calibration, "--session", state).out


def test_tests_that_end_early_are_held_against_as_many_random_items(
    run: Run, folder: Path, calibration: Path
) -> None:
    result = run(
        *("adapt", calibration, "--simulate", folder / "new.csv", "--precision", "0.45"),
        *("--per", "none", "--json", "-"),
    )
    found = json.loads(result.out)["evaluation"]
    assert found["longest"] > found["shortest"]
    last = found["by_items"][-1]
    assert last["items"] == found["longest"]
    assert last["random_rmse"] > 0.5 * last["rmse"]


def test_what_a_session_file_says_of_itself_is_not_believed(
    run: Run, calibration: Path, tmp_path: Path
) -> None:
    state = tmp_path / "s.json"
    run("adapt", calibration, "--session", state)
    run("adapt", calibration, "--session", state, "--answer", "1")
    content = json.loads(state.read_text())
    for change, said in (
        ({"theta": [[5.0]], "stop": "classified", "decision": "above"}, None),
        (
            {
                "items": [content["items"][0]] * 2,
                "codes": [1, 1],
                "theta": [[0], [0]],
                "se": [[1], [1]],
            },
            "was answered and",
        ),
        ({"codes": [10**30]}, "no whole number"),
        ({"codes": [0.5]}, "no whole number"),
        ({"settings": []}, "are a mapping"),
        ({"seed": -1}, "no whole number"),
    ):
        state.write_text(json.dumps({**content, **change}))
        result = run("adapt", calibration, "--session", state)
        if said is None:
            assert result.code == 0
            assert "5.00" not in result.out
            assert "has ended" not in result.out
        else:
            assert result.code == 2, said
            assert said in result.err
    state.write_text(json.dumps(content))
    later = run("adapt", calibration, "--session", state, "--cut", "1")
    assert later.code == 2
    assert "belongs to the start" in later.err
    same = run("adapt", calibration, "--session", state, "--json", state)
    assert same.code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Give --simulate SOURCE or --session FILE"),
        (["--simulate", "{new}", "--session", "s.json"], "Give --simulate"),
        (["--simulate", "{new}", "--answer", "1"], "--answer belongs to"),
        (["--session", "{none}", "--answer", "1"], "no session to answer in"),
        (["--session", "{new}"], "is no session"),
        (["--simulate", "{other}"], "no item of the responses is calibrated"),
        (["--simulate", "{new}", "--rule", "trace"], "dimension"),
        (["--simulate", "{new}", "--cut", "0", "--cut-score", "0.5"], "one cut"),
    ],
)
def test_what_cannot_be_done_is_refused(
    run: Run, folder: Path, calibration: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("target,x,y\na,1,0\nb,0,1\n")
    names = {"new": folder / "new.csv", "none": tmp_path / "none.json", "other": other}
    result = run("adapt", calibration, *(one.format(**names) for one in options))
    assert result.code == 2, result.out
    assert said in result.err
