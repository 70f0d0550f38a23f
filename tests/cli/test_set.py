"""`--set`: a column that the source lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from calling import Run


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A table without targets and intents."""
    path = tmp_path / "bare.csv"
    path.write_text("item,label\n1,comply\n2,refuse\n3,refuse\n")
    return path


def test_it_fills_a_column_and_is_recorded(run: Run, bare: Path):
    result = run("rates", bare, "--set", "target=m", "--set", "intent=harmful", "--json", "-")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    claim = next(c for c in found["claims"] if c["metric"] == "attack_success_rate")
    assert (claim["scope"]["target"], claim["events"], claim["trials"]) == ("m", 1, 3)
    assert found["settings"]["set"] == {"target": "m", "intent": "harmful"}


def test_it_wins_over_the_constants_of_a_map(run: Run, bare: Path, tmp_path: Path):
    named = tmp_path / "map.yaml"
    named.write_text("constants: {target: old, intent: harmful}\n")
    result = run("rates", bare, "--map", named, "--set", "target=new", "--json", "-")
    assert {c["scope"]["target"] for c in json.loads(result.out)["claims"]} == {"new"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("targt=m", "--set: 'targt' is not a column of the judgements table"),
        ("label=comply", "--set: label: it is read from each row"),
        ("intent=bad", "--set: intent: 'bad' is not one of harmful, benign, contested"),
        ("target", "is not written COL=VALUE"),
    ],
)
def test_what_cannot_be_set_is_one_error(run: Run, bare: Path, given: str, said: str):
    result = run("rates", bare, "--set", given)
    assert result.code == 2
    assert said in result.err
    assert result.out == ""


def test_a_study_has_its_columns_already(run: Run, bare: Path, tmp_path: Path):
    study = tmp_path / "study"
    assert run("import", bare, "--set", "target=m", "--into", study).code == 0
    result = run("rates", study, "--set", "target=other")
    assert result.code == 2
    assert "a study has them already" in result.err
