"""Every error is one line that names the place and the fix, and leaves with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calling import TARGETS, Evidence, Run

BAD_FILES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty.csv": (b"", ("empty",)),
    "header.csv": (b"target,item,label\n", ("no rows",)),
    "columns.csv": (b"a,b\nx,y\n", ("columns",)),
    "label.csv": (
        b"target,item,label\nm,1,refuse\nm,2,perhaps\n",
        ("row 2", "line 3", "'label'", "perhaps", "map"),
    ),
    "intent.csv": (
        b"target,item,label,intent\nm,1,refuse,harmful\nm,2,refuse,naughty\n",
        ("row 2", "'intent'", "naughty"),
    ),
    "cells.csv": (b"target,item,label\nm,1,refuse\nm,2\n", ("line 3", "cells")),
    "empty_id.csv": (b"target,item,label\nm,1,refuse\n,2,refuse\n", ("row 2", "'target'")),
    "encoding.csv": (b"target,item,label\nm,caf\xe9,refuse\n", ("line 2", "UTF-8", "map")),
    "number.csv": (b"target,item,score\nm,1,0.5\nm,2,high\n", ("row 2", "'score'", "high")),
    "twice.csv": (b"target,item,label\nm,1,refuse\nm,1,comply\n", ("1",)),
    "columns_twice.csv": (b"target,item,item,label\nm,1,1,refuse\n", ("'item'", "rename")),
    "lines.jsonl": (
        b'{"target": "m", "item": "1", "label": "refuse"}\n{"target": "m", \n',
        ("line 2", "damaged"),
    ),
    "cut.parquet": (b"PAR1\x00\x01", ("cut short",)),
    "noise.bin": (bytes(range(256)), ("recognises", "--as")),
}


def one_line_error(result: object) -> str:
    """The only line of an error of input or usage."""
    code, out, err = (getattr(result, name) for name in ("code", "out", "err"))
    assert code == 2, err
    assert not out
    assert err.startswith("Error: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    return str(err)


@pytest.mark.parametrize("name", list(BAD_FILES))
@pytest.mark.parametrize("command", ["rates", "coverage"])
def test_a_bad_file_is_named_with_the_place_and_the_fix(
    command: str, name: str, run: Run, tmp_path: Path
):
    content, said = BAD_FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    message = one_line_error(run(command, path))
    assert name in message
    for words in said:
        assert words in message


@pytest.mark.parametrize("name", list(BAD_FILES))
def test_a_bad_file_is_refused_by_an_import_and_leaves_valid_json(
    name: str, run: Run, tmp_path: Path
):
    path, study = tmp_path / name, tmp_path / "study"
    path.write_bytes(BAD_FILES[name][0])
    result = run("import", path, "--into", study, "--json", "-")
    assert result.code == 2
    (report,) = json.loads(result.out)["sources"]
    skipped = sum(report["skipped"].values())
    assert report["rows_read"] == report["converted"] + skipped + report["failed"]
    assert name in report["problems"][0]
    assert f"Error: {report['problems'][0]}" in result.err
    assert not study.exists() or not list((study / "judgements").glob("*"))


def test_a_study_cannot_be_imported_into_another(evidence: Evidence, run: Run, tmp_path: Path):
    result = run("import", evidence.study, "--into", tmp_path / "other")
    assert result.code == 2
    assert "name its sources" in result.err


def test_json_on_stdout_stays_empty_where_a_command_fails(run: Run, tmp_path: Path):
    one_line_error(run("rates", tmp_path / "absent.csv", "--json", "-"))


def test_errors_survive_quiet(run: Run, tmp_path: Path):
    assert "no such file" in one_line_error(run("rates", tmp_path / "absent.csv", "--quiet"))


USAGE: dict[str, tuple[list[object], tuple[str, ...]]] = {
    "misspelt command": (["ratse"], ("ratse", "Did you mean 'rates'?")),
    "misspelt option": (["rates", "x.csv", "--succes", "y"], ("'--success'?",)),
    "no source": (["rates"], ("SOURCE",)),
    "no study to import into": (["import", "x.csv"], ("--into", "safemetry import --help")),
    "filter without a value": (["rates", "x.csv", "--filter", "target"], ("COL=VALUE",)),
    "no seed": (["rates", "x.csv", "--seed", "x"], ("--seed", "whole number")),
    "negative seed": (["rates", "x.csv", "--seed", "-1"], ("below 0",)),
    "no jobs": (["rates", "x.csv", "--jobs", "0"], ("--jobs", "below 1")),
    "level as a percentage": (["rates", "x.csv", "--level", "95"], ("between 0 and 1",)),
    "NaN": (["plan", "--ceiling", "nan"], ("finite",)),
    "infinite volume": (["plan", "--ceiling", "0.1", "--volume", "inf"], ("finite",)),
    "negative volume": (["rates", "x.csv", "--volume", "-5"], ("above 0",)),
    "neither ceiling nor source": (["plan"], ("--ceiling", "SOURCE")),
    "ceiling and source": (["plan", "x.csv", "--ceiling", "0.1"], ("not both",)),
    "unknown format": (["export", "x.csv", "--to", "xlsx"], ("parquet", "csv", "eee")),
    "rule for a table": (["export", "x.csv", "--to", "csv", "--success", "comply"], ("--to eee",)),
    "unknown condition": (["items", "x.csv", "--where", "odd"], ("violation", "disagree")),
    "no reason": (["correct", "study", "fixes.csv", "--by", "A"], ("--why",)),
    "filtered import": (["import", "x.csv", "--into", "s", "--filter", "a=b"], ("--filter",)),
    "attempts": (["rates", "x.csv", "--any-of", "two"], ("two", "whole number")),
}


@pytest.mark.parametrize("case", list(USAGE))
def test_usage_errors_are_one_line_and_point_to_the_help(case: str, run: Run):
    arguments, said = USAGE[case]
    message = one_line_error(run(*arguments))
    assert "--help)" in message
    for words in said:
        assert words in message


INPUT: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "absent file": (["rates", "absent.csv"], ("absent.csv", "no such file")),
    "unknown column to group by": (["rates", "TABLE", "--by", "kind"], ("'kind'", "category")),
    "unknown metric": (["rates", "TABLE", "--metric", "asr"], ("'asr'", "attack_success_rate")),
    "unknown rule": (["rates", "TABLE", "--success", "often"], ("'often'", "non_refusal")),
    "unknown judge": (["rates", "TABLE", "--judge", "x"], ("'x'", "'harmbench-classifier'")),
    "unknown cluster": (["rates", "TABLE", "--cluster", "kind"], ("'kind'", "behaviour")),
    "unknown reader": (["rates", "TABLE", "--as", "x"], ("'x'", "tidy", "inspect")),
    "absent map": (["rates", "TABLE", "--map", "absent.yaml"], ("absent.yaml", "map")),
    "filter that nothing fits": (
        ["rates", "TABLE", "--filter", "target=x"],
        ("target=x", TARGETS[0]),
    ),
    "mixed refusal rate": (["rates", "TABLE", "--metric", "refusal_rate"], ("--by intent",)),
    "absent study": (["check", "absent"], ("absent", "no such folder")),
    "a file that is no study": (["check", "TABLE"], ("no study",)),
    "a side that is not there": (
        ["compare", "TABLE", "--baseline", TARGETS[0], "--candidate", "x"],
        ("--candidate", "'x'", TARGETS[1]),
    ),
    "a side without a source": (
        ["compare", "--baseline", "x", "--candidate", "y"],
        ("--baseline", "'x'", "SOURCE"),
    ),
    "a run that is not there": (
        ["compare", "TABLE", "--baseline", "run:x", "--candidate", TARGETS[0]],
        ("run=x",),
    ),
    "a side with several targets": (
        ["compare", "--baseline", "TABLE", "--candidate", "TABLE"],
        ("3 targets", TARGETS[0]),
    ),
    "absent corrections": (
        ["correct", "STUDY", "absent.csv", "--by", "A", "--why", "B"],
        ("absent.csv", "no such file"),
    ),
    "export into no folder": (
        ["export", "TABLE", "--to", "csv", "-o", "absent/x.csv"],
        ("x.csv", "folder"),
    ),
    "table into a folder": (["export", "TABLE", "--to", "csv", "-o", "."], ("is a folder",)),
    "records into a folder in use": (["export", "TABLE", "--to", "eee", "-o", "."], ("in use",)),
    "records by a rule on scores": (
        ["export", "TABLE", "--to", "eee", "--success", "at_least:1"],
        ("comply or non_refusal",),
    ),
    "result into a folder": (["plan", "--ceiling", ".1", "--json", "."], ("cannot be written",)),
    "into a folder of something else": (["import", "TABLE", "--into", "."], ("no study",)),
}


@pytest.mark.parametrize("case", list(INPUT))
def test_input_errors_say_what_is_wrong_and_what_there_is(
    case: str, evidence: Evidence, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "something").touch()
    monkeypatch.chdir(tmp_path)
    arguments, said = INPUT[case]
    places = {"TABLE": evidence.table, "STUDY": evidence.study}
    message = one_line_error(run(*(places.get(word, word) for word in arguments)))
    for words in said:
        assert words in message


def test_two_sets_of_items_are_compared_only_where_they_meet(
    evidence: Evidence, run: Run, tmp_path: Path
):
    lines = evidence.table.read_text().splitlines(keepends=True)
    first = [line for line in lines if line.startswith((TARGETS[0], "target"))]
    second = [
        line for line in lines if line.startswith((TARGETS[1], "target")) and "-7-" not in line
    ]
    left, right = tmp_path / "left.csv", tmp_path / "right.csv"
    left.write_text("".join(first))
    right.write_text("".join(second))
    sides: list[object] = ["compare", "--baseline", left, "--candidate", right]
    message = one_line_error(run(*sides))
    assert "items" in message
    assert "--shared-items" in message
    assert run(*sides, "--shared-items").code == 0


def test_names_cannot_break_an_error_into_lines_or_colour_it(run: Run, tmp_path: Path):
    message = one_line_error(run("rates", tmp_path / "a\nb\x1b[31m.csv"))
    assert "\x1b" not in message
    assert "\\x1b[31m" in message


def test_an_internal_error_is_one_line_and_leaves_with_70(
    evidence: Evidence, run: Run, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("safemetry.rates.measure_rates", fail)
    result = run("rates", evidence.table, "--json", "-")
    assert (result.code, result.out) == (70, "")
    assert len(result.err.splitlines()) == 1
    assert "ZeroDivisionError" in result.err
    monkeypatch.setenv("SAFEMETRY_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("rates", evidence.table)


def test_memory_that_ran_out_comes_with_advice(
    evidence: Evidence, run: Run, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("safemetry.rates.measure_rates", fail)
    result = run("rates", evidence.table)
    assert result.code == 70
    assert "SAFEMETRY_MEMORY" in result.err


def test_without_a_command_the_help_is_shown_as_a_usage_error(run: Run):
    result = run()
    assert (result.code, result.out) == (2, "")
    assert "Commands:" in result.err
