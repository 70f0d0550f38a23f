"""What only a process of its own shows: start-up, pipes, signals, terminals, `python -m`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from calling import Evidence  # noqa: TC002 - a local module, not another package

HEAVY = (
    "numpy",
    "scipy",
    "duckdb",
    "pyarrow",
    "pydantic",
    "narwhals",
    "rich",
    "statsmodels",
    "yaml",
)
SAFEMETRY = [sys.executable, "-m", "safemetry"]
LOADED = "import sys; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"


def loaded(code: str) -> set[str]:
    """Top-level modules that a program has loaded when it ends."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import atexit\natexit.register(lambda: exec({LOADED!r}))\n{code}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(ended.stdout.splitlines()[-1].split())


def test_importing_the_package_is_light():
    assert loaded("import safemetry").isdisjoint({*HEAVY, "click"})


@pytest.mark.parametrize("words", ["--help", "rates --help", "import --help", "compare --help"])
def test_help_is_light(words: str):
    code = f"from safemetry.cli import main\nmain({words.split()!r})"
    assert loaded(code).isdisjoint(HEAVY)


def test_a_plan_reads_no_evidence_and_loads_no_plots():
    code = "from safemetry.cli import main\nmain(['plan', '--ceiling', '0.001'])"
    assert loaded(code).isdisjoint({"statsmodels", "altair", "pandas"})


@pytest.mark.parametrize("module", ["safemetry", "safemetry.cli"])
def test_python_m(module: str):
    ended = subprocess.run(
        [sys.executable, "-m", module, "--version"], check=True, capture_output=True, text=True
    )
    assert ended.stdout.startswith("safemetry, version ")


@pytest.mark.parametrize("extra", [[], ["--json", "-"], ["--help"]])
def test_a_closed_pipe_is_quiet(extra: list[str], evidence: Evidence):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*SAFEMETRY, "rates", evidence.table, *extra],
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_pipe_that_is_closed_before_the_help_is_quiet(option: str):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*SAFEMETRY, option], check=False, stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(evidence: Evidence):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*SAFEMETRY, "rates", evidence.table, "--json", "-"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 2
    assert ended.stderr == "Error: standard output: No space left on device\n"


SLOW = """
import sys, time
import safemetry.rates
from safemetry.cli import main

def measure(*_, **__):
    print("ready", file=sys.stderr, flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        {then}

safemetry.rates.measure_rates = measure
main(["rates", sys.argv[1], "--json", "-"])
"""


@pytest.mark.parametrize("then", ["raise", "raise RuntimeError('Query interrupted') from None"])
def test_an_interrupt_leaves_with_130_and_one_line(then: str, evidence: Evidence):
    started = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(then=then), evidence.table],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    assert started.stderr.readline() == "ready\n"
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out) == (130, "")
    assert err == "Interrupted.\n"


def test_on_a_terminal_json_is_alone_on_stdout_and_notes_go_to_stderr(evidence: Evidence):
    ours, theirs = pty.openpty()
    ended = subprocess.Popen(
        [*SAFEMETRY, "rates", evidence.unclassified, "--json", "-"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65_536):
            seen += piece
    except OSError:  # the end of a terminal on Linux
        pass
    _, err = ended.communicate(timeout=30)
    os.close(ours)
    assert ended.returncode == 0
    assert json.loads(seen)["unclassified"] == 10
    assert err.startswith("Note: 10 judge calls")


def test_a_terminal_without_unicode_gets_escapes(evidence: Evidence, tmp_path: Path):
    table = tmp_path / "table.csv"
    table.write_text("target,item,label,intent\n模型,1,refuse,harmful\n", encoding="utf-8")
    ended = subprocess.run(
        [*SAFEMETRY, "rates", table],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"},
    )
    assert ended.returncode == 0, ended.stderr
    assert b"\\u6a21" in ended.stdout or "模型".encode() in ended.stdout


def test_a_file_name_that_is_no_text_can_be_said(tmp_path: Path):
    name = os.fsdecode(b"t\xff.csv")
    ended = subprocess.run(
        [*SAFEMETRY, "rates", name], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr == "Error: t\\udcff.csv: no such file or folder\n"
