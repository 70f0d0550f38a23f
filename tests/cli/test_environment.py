"""Options that the environment sets."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from calling import TARGETS, Evidence, Run

from safemetry.cli import _COMMANDS, cli


def settings(run: Run, *arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json", "-")
    assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(result.out)["settings"]
    return found


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_option_has_a_variable_named_for_it(command: str):
    made = cli.get_command(click.Context(cli), command)
    assert made is not None
    for option in made.params:
        if isinstance(option, click.Option) and option.name != "help":
            word = next(flag for flag in option.opts if flag.startswith("--"))[2:].upper()
            names = [f"SAFEMETRY_{command.upper()}_{word.replace('-', '_')}"]
            if word in {"SEED", "QUIET", "JOBS"}:
                names.append(f"SAFEMETRY_{word}")
            assert option.envvar == names


def test_the_named_variables_of_the_contract(
    evidence: Evidence, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SAFEMETRY_RATES_SUCCESS", "non_refusal")
    monkeypatch.setenv("SAFEMETRY_PLAN_CEILING", "0.01")
    monkeypatch.setenv("SAFEMETRY_SEED", "11")
    monkeypatch.setenv("SAFEMETRY_JOBS", "1")
    found = settings(run, "rates", evidence.table)
    assert (found["success"], found["seed"]) == ("non_refusal", 11)
    assert settings(run, "plan")["ceiling"] == 0.01
    assert settings(run, "coverage", evidence.table)["success"] == "comply"


def test_the_command_line_wins_over_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SAFEMETRY_PLAN_CEILING", "0.01")
    assert settings(run, "plan", "--ceiling", "0.5")["ceiling"] == 0.5


def test_the_seed_of_one_command_wins_over_that_of_all(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SAFEMETRY_SEED", "1")
    monkeypatch.setenv("SAFEMETRY_PLAN_SEED", "2")
    assert settings(run, "plan", "--ceiling", "0.5")["seed"] == 2


@pytest.mark.parametrize(
    ("value", "says"), [("1", False), ("true", False), ("0", True), ("", True)]
)
def test_quiet(value: str, says: bool, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SAFEMETRY_QUIET", value)
    assert bool(run("plan", "--ceiling", "0.1").out) is says


def test_json_and_lists(evidence: Evidence, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SAFEMETRY_RATES_JSON", "-")
    monkeypatch.setenv("SAFEMETRY_RATES_BY", "category,attack")
    monkeypatch.setenv("SAFEMETRY_RATES_FILTER", f"target={TARGETS[0]}\ncategory=cyber")
    found = json.loads(run("rates", evidence.table).out)
    assert found["settings"]["by"] == ["category", "attack"]
    assert found["settings"]["filter"] == {"target": [TARGETS[0]], "category": ["cyber"]}
    assert {claim["scope"]["by"]["category"] for claim in found["claims"]} == {"cyber"}


def test_a_bad_value_is_traced_to_its_variable(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SAFEMETRY_SEED", "many")
    result = run("plan", "--ceiling", "0.1")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert "'many'" in result.err
    assert "SAFEMETRY_SEED" in result.err


def test_lists_may_be_repeated_or_joined(evidence: Evidence, run: Run):
    joined = settings(run, "rates", evidence.table, "--by", "category,attack")
    repeated = settings(run, "rates", evidence.table, "--by", "category", "--by", "attack")
    assert joined["by"] == repeated["by"] == ["category", "attack"]


def test_shares_may_be_percentages(run: Run):
    assert settings(run, "plan", "--ceiling", "0.1%")["ceiling"] == pytest.approx(0.001)
