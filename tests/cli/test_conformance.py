"""What holds for every command: help, JSON, quiet, exit codes, width."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import TARGETS, Evidence, Run

from safemetry.cli import _COMMANDS
from safemetry.display import cell_width

ANSI = re.compile(r"\x1b\[[0-9;]*[mK]")  # colours, and the erasing of a line of progress
COMMON = {"schema", "command", "version", "settings", "warnings"}
CLAIM = {
    "metric",
    "estimate",
    "interval",
    "level",
    "method",
    "events",
    "trials",
    "clusters",
    "effective_trials",
    "missing",
    "bounds_if_missing",
    "ceiling",
    "rule_of_three",
    "projection",
    "inference",
    "scope",
}
SCOPE = {
    "target",
    "target_settings",
    "benchmark",
    "items",
    "attack_set",
    "epochs",
    "language",
    "judge",
    "success",
    "by",
}
COMPARISON = {
    "metric",
    "difference",
    "interval",
    "test",
    "p_value",
    "p_adjusted",
    "discordant",
    "minimum_detectable",
    "power",
}
OWN_KEYS: dict[str, dict[str, set[str]]] = {
    "import": {"sources": {"path", "format", "rows_read", "converted", "skipped", "failed"}},
    "check": {"problems": set()},
    "correct": {"corrected": set()},
    "items": {"items": set()},
    "export": {"path": set(), "rows": set()},
    "report": {
        "facts": {"label", "value", "note"},
        "headlines": {"lead", "text"},
        "limits": set(),
        "sections": {"name", "title", "headlines", "limits", "findings"},
    },
    "rates": {"claims": CLAIM, "pairs": set(), "frontier": set(), "unclassified": set()},
    "compare": {"comparisons": COMPARISON},
    "plan": {"trials": set()},
    "calibrate": {
        "items": {"item", "a", "d", "b", "se_a", "se_d", "g", "u", "thresholds"},
        "abilities": {"target", "theta", "se"},
        "loadings": {"item", "loadings"},
        "loglik": set(),
        "prior_sensitivity": {"prior", "loglik"},
    },
    "factors": {
        "solutions": {
            "factors",
            "variance",
            "rmsea",
            "cfi",
            "loadings",
            "correlations",
            "heywood",
        },
        "parallel": set(),
        "coherence": {"benchmark", "with_rest", "runs_against", "reading"},
    },
    "judges": {
        "counts": {"judge", "class", "target", "count", "n_common"},
        "collapse": {
            *{"judge", "class", "target", "count", "n_common", "max_count", "max_judge", "state"},
            *{"state_without_leader", "can_emit", "missing_labels"},
        },
        "movement": {"from", "to", "judge", "count", "interval"},
        "spread": {
            *{"boundary", "rate_max", "rate_min", "max_judge", "min_judge", "ratio", "ratio_next"},
            *{"difference", "trimmed_ratio", "given_non_refusal_ratio", "without_collapsed"},
        },
        "agreement": set(),
        "noise": set(),
        "corrected": set(),
        "labels": set(),
        "specifications": {"intent", "specifications"},
        "card": set(),
    },
    "shorten": {
        "items": set(),
        "evaluation": {
            *{"items", "method", "rmse", "mae", "bias", "spearman", "sd", "splits", "random_rmse"}
        },
        "minimum_detectable_change": set(),
        "random_as_good": {"method", "items"},
    },
    "adapt": {
        "sessions": {"target", "items", "theta", "se", "stop"},
        "evaluation": set(),
    },
    "audit": {
        "person_fit": {"statistic", "value", "cutoff", "null_rate", "flagged"},
        "joint_null_rate": set(),
        "misfit": {"category", "value"},
        "ability_shift": set(),
        "fingerprint": {"reference", "agreement", "verdict"},
    },
    "construct": {
        "saturation": set(),
        "spectrum": set(),
        "models": set(),
        "comparisons": set(),
        "nesting_failures": set(),
        "prior_sensitivity": set(),
        "factor_correlations": set(),
        "dif": {
            *{"scope", "groups", "method", "matching", "bands", "smoothing", "null", "prior"},
            *{"flags", "item_flags", "threshold", "observed_max", "items"},
        },
        "verdict": set(),
    },
    "coverage": {"grid": {"category", "attack", "tested", "trials", "violations"}},
}
Calls = Callable[[str], list[object]]


def matrix(path: Path) -> Path:
    """Ten targets on eight items that tell them apart."""
    rows = [[int((7 * i + 5 * j * j) % 10 < i) for j in range(8)] for i in range(10)]
    lines = ["target," + ",".join(f"q{j}" for j in range(8))]
    lines += [f"m{i}," + ",".join(map(str, row)) for i, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def developers(path: Path) -> Path:
    """Who made the ten targets."""
    lines = ["target,developer", *(f"m{i},{'acme' if i % 2 else 'bolt'}" for i in range(10))]
    path.write_text("\n".join(lines) + "\n")
    return path


def kinds(path: Path) -> Path:
    """Two kinds of items."""
    lines = ["item,kind", *(f"q{j},{'easy' if j < 4 else 'hard'}" for j in range(8))]
    path.write_text("\n".join(lines) + "\n")
    return path


def calibrated(folder: Path, run: Run) -> Path:
    """A calibration of the matrix."""
    made = folder / "calibration"
    if not made.exists():
        source = matrix(folder / "matrix.csv")
        assert run("calibrate", source, "-o", made, "--quiet").code == 0
    return made


def correlations(path: Path) -> Path:
    """Six benchmarks, one of which runs against the others."""
    loadings = [0.9, 0.8, 0.7, 0.6, 0.5, -0.4]
    names = [f"benchmark-{number}" for number in range(len(loadings))]
    rows = [
        ",".join([name, *(f"{1.0 if i == j else a * b:.2f}" for j, b in enumerate(loadings))])
        for i, (name, a) in enumerate(zip(names, loadings, strict=True))
    ]
    path.write_text("\n".join([",".join(["benchmark", *names]), *rows]) + "\n")
    return path


@pytest.fixture
def calls(evidence: Evidence, tmp_path: Path, run: Run) -> Calls:
    """A call of each command that succeeds."""

    def of(command: str) -> list[object]:
        table, study = evidence.table, evidence.study
        if command == "correct":
            study = tmp_path / "corrected"
            assert run("import", table, "--into", study, "--quiet").code == 0
        fixes = tmp_path / "fixes.csv"
        fixes.write_text(
            "target,item,judge,field,value\n"
            f"{TARGETS[0]},item-0-harmful,gpt-4o-2024-05-13,label,comply\n"
        )
        arguments: dict[str, list[object]] = {
            "import": [table, "--into", tmp_path / "imported"],
            "check": [study],
            "correct": [study, fixes, "--by", "A. Reviewer", "--why", "misread"],
            "items": [table, "--where", "violation"],
            "export": [study, "--to", "csv", "-o", tmp_path / "judgements.csv"],
            "report": [study, "-o", tmp_path / "report.html"],
            "rates": [study, "--by", "category", "--volume", "1e6", "--any-of", "1,50"],
            "compare": [table, "--baseline", TARGETS[0], "--candidate", TARGETS[1]],
            "plan": ["--ceiling", "0.001"],
            "calibrate": [matrix(tmp_path / "matrix.csv")],
            "judges": [table, "--draws", "100"],
            "construct": [  # too few items to compare models, which takes no time
                matrix(tmp_path / "matrix.csv"),
                *("--groups", f"{developers(tmp_path / 'made.csv')}:developer"),
                *("--simulations", "100", "--minimum-group", "5"),
            ],
            "shorten": [
                matrix(tmp_path / "matrix.csv"),
                *("--items", "3", "--budgets", "2,4", "--splits", "2", "--random-sets", "2"),
            ],
            "adapt": [
                calibrated(tmp_path, run),
                *("--simulate", matrix(tmp_path / "matrix.csv"), "--budget", "4"),
            ],
            "audit": [
                matrix(tmp_path / "matrix.csv"),
                *("--target", "m4", "--simulations", "99"),
                *("--history", calibrated(tmp_path, run)),
                *("--by", f"{kinds(tmp_path / 'items.csv')}:kind"),
            ],
            "factors": [correlations(tmp_path / "correlations.csv"), "--subjects", "60"],
            "coverage": [study],
        }
        return [command, *arguments[command]]

    return of


every_command = pytest.mark.parametrize("command", list(OWN_KEYS))


def test_every_command_is_under_test():
    assert set(OWN_KEYS) == set(_COMMANDS) - {"demo"}  # has a test file of its own


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_help_has_an_example_of_its_command_and_fits_80_columns(command: str, run: Run):
    result = run(command, "--help")
    assert result.code == 0
    assert not result.err
    assert re.search(rf"Examples?:\n  +safemetry {command} ", result.out)
    assert max(map(len, result.out.splitlines())) <= 80
    for option in ("--map", "--filter", "--as", "--seed", "--jobs", "--quiet", "--json"):
        assert f"{option} " in result.out


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_examples_of_the_help_can_be_parsed(command: str, run: Run):
    import shlex

    import click

    from safemetry.cli import cli

    shown = run(command, "--help").out.partition("Example")[2].splitlines()[1:]
    made = cli.get_command(click.Context(cli), command)
    assert made is not None
    for line in shown:
        words = shlex.split(line)
        assert words[:2] == ["safemetry", command]
        made.make_context(command, words[2:])


def test_group_help_lists_every_command_with_a_whole_sentence(run: Run):
    result = run("--help")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80
    for command, (_, said) in _COMMANDS.items():
        assert re.search(rf"^  {command} +{re.escape(said)}$", result.out, re.MULTILINE)


# --- JSON ----------------------------------------------------------------------------------------


def nulls_without_reason(value: Any, place: str = "") -> Iterator[str]:
    """Places of null values that no `why` beside them explains."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if entry is None and name not in (value.get("why") or {}):
                yield f"{place}.{name}"
            yield from nulls_without_reason(entry, f"{place}.{name}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if entry is None:
                yield f"{place}[{index}]"
            yield from nulls_without_reason(entry, f"{place}[{index}]")


def parsed(text: str) -> dict[str, Any]:
    """One JSON object that holds neither NaN nor an infinity."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} in JSON")

    found = json.loads(text, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


@every_command
@pytest.mark.parametrize("on_screen", [False, True])
def test_json_to_stdout_is_nothing_but_the_contract(
    command: str, on_screen: bool, calls: Calls, run: Run
):
    result = run(*calls(command), "--json", "-", on_screen=on_screen)
    assert result.code == 0, result.err
    found = parsed(result.out)
    assert found.keys() >= COMMON | OWN_KEYS[command].keys()
    assert found["command"] == command
    assert isinstance(found["schema"], int)
    assert isinstance(found["settings"], dict)
    assert isinstance(found["warnings"], list)
    assert not list(nulls_without_reason(found))
    for name, keys in OWN_KEYS[command].items():
        if keys:
            assert found[name]
            assert all(entry.keys() >= keys for entry in found[name])


def test_a_claim_holds_what_the_contract_names(calls: Calls, run: Run):
    found = parsed(run(*calls("rates"), "--json", "-").out)
    for claim in found["claims"]:
        assert claim["scope"].keys() >= SCOPE
        assert claim["scope"]["items"].keys() == {"count", "digest"}
        assert claim["missing"].keys() == {"total", "by_reason"}
        assert claim["scope"]["by"].keys() == {"category"}
        low, high = claim["interval"]
        assert 0 <= low <= claim["estimate"] <= high <= 1
        assert claim["estimate"] == pytest.approx(claim["events"] / claim["trials"])
    assert sum(claim["missing"]["total"] for claim in found["claims"]) > 0


@every_command
def test_json_to_a_file_leaves_the_tables_and_is_the_same(
    command: str, calls: Calls, run: Run, tmp_path: Path
):
    path = tmp_path / "new folder" / "result.json"
    result = run(*calls(command), "--json", path)
    assert result.code == 0
    assert result.out.strip()
    found = parsed(path.read_text(encoding="utf-8"))
    assert found["command"] == command
    assert [entry.name for entry in path.parent.iterdir()] == ["result.json"]


def test_json_over_an_existing_file_is_whole_or_not_there(calls: Calls, run: Run, tmp_path: Path):
    path = tmp_path / "result.json"
    path.write_text("before")
    assert run("rates", tmp_path / "absent.csv", "--json", path).code == 2
    assert path.read_text() == "before"
    assert run(*calls("plan"), "--json", path).code == 0
    assert parsed(path.read_text())["trials"] == 2995
    assert not list(tmp_path.glob(".*"))


def test_json_is_readable_by_those_who_may_read_other_files(calls: Calls, run: Run, tmp_path: Path):
    ordinary, path = tmp_path / "ordinary", tmp_path / "result.json"
    ordinary.touch()
    assert run(*calls("plan"), "--json", path).code == 0
    assert path.stat().st_mode == ordinary.stat().st_mode


def test_json_through_a_link_keeps_the_link(calls: Calls, run: Run, tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    assert run(*calls("plan"), "--json", link).code == 0
    assert link.is_symlink()
    assert parsed(real.read_text())["trials"] == 2995


def test_json_to_a_device_leaves_the_device(calls: Calls, run: Run):
    assert run(*calls("plan"), "--json", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("command", sorted(OWN_KEYS.keys() - {"import", "correct"}))
def test_the_same_call_gives_the_same_json(command: str, calls: Calls, run: Run):
    arguments = calls(command)
    first, second = (run(*arguments, "--json", "-", "--jobs", jobs).out for jobs in (1, 2))
    assert first == second


# --- quiet, terminal, colour ---------------------------------------------------------------------


@every_command
def test_quiet_says_nothing_and_still_writes_json(
    command: str, calls: Calls, run: Run, tmp_path: Path
):
    result = run(*calls(command), "--quiet", "--json", tmp_path / "result.json", on_screen=True)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert parsed((tmp_path / "result.json").read_text())["command"] == command


@every_command
def test_output_fits_a_terminal_of_80_columns(
    command: str, calls: Calls, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*calls(command), on_screen=True)
    assert result.code == 0
    lines = ANSI.sub("", result.out + result.err).splitlines()
    assert lines
    # A path or an id of a test may be wider; it stands alone on its line then.
    assert not [line for line in lines if cell_width(line) > 80 and " " in line.strip()]


@every_command
def test_colour_only_on_a_terminal_that_wants_it(
    command: str, calls: Calls, run: Run, monkeypatch: pytest.MonkeyPatch
):
    arguments = calls(command)
    assert "\x1b" not in run(*arguments).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*calls(command), on_screen=True).out


def test_titles_are_bold_on_a_terminal(calls: Calls, run: Run):
    assert "\x1b[1m" in run(*calls("rates"), on_screen=True).out


# --- shared options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["items", "report", "rates", "compare", "coverage", "export", "plan"]
)
def test_an_unknown_column_to_filter_by_is_an_input_error(command: str, calls: Calls, run: Run):
    if command == "plan":
        arguments: list[object] = ["plan", *calls("rates")[1:2]]
    else:
        arguments = calls(command)
    result = run(*arguments, "--filter", "self=1")
    assert (result.code, result.out) == (2, "")
    assert "there is no column 'self'" in result.err


def test_filters_of_one_column_widen_and_of_two_narrow(evidence: Evidence, run: Run):
    def targets(*filters: str) -> dict[str, set[str]]:
        words = [word for pair in filters for word in ("--filter", pair)]
        found = parsed(run("rates", evidence.table, *words, "--json", "-").out)
        assert found["settings"]["filter"].keys() == {pair.partition("=")[0] for pair in filters}
        return {
            name: {claim["scope"][name] for claim in found["claims"]}
            for name in ("target", "judge")
        }

    first, second, _ = TARGETS
    assert targets(f"target={first}")["target"] == {first}
    assert targets(f"target={first}", f"target={second}")["target"] == {first, second}
    narrow = targets(f"target={first}", "judge=harmbench-classifier")
    assert narrow == {"target": {first}, "judge": {"harmbench-classifier"}}


def test_settings_record_what_decided_the_result(evidence: Evidence, run: Run):
    result = run(
        *("rates", evidence.table, "--judge", "harmbench-classifier", "--seed", "5"),
        *("--metric", "attack_success_rate", "--json", "-"),
    )
    settings = parsed(result.out)["settings"]
    assert settings["judge"] == "harmbench-classifier"
    assert settings["seed"] == 5
    assert settings["metrics"] == ["attack_success_rate"]
    assert settings["map"] is None
    assert settings["why"]["map"] == "not given"
