"""Starting: what a user waits for before anything is measured, beside an idle interpreter."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import Row, command_row, compare, run_command

REPEATS = 9


def measure(*, demo: bool = True) -> list[Row]:
    """The rows of the table about starting."""
    idle = [sys.executable, "-c", "pass"]
    rows = [
        _beside_idle("`import safemetry`", [sys.executable, "-c", "import safemetry"], idle),
        _beside_idle("`safemetry --help`", [sys.executable, "-m", "safemetry.cli", "--help"], idle),
    ]
    if demo and _has_demo():
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "safemetry.cli",
                "demo",
                "-o",
                str(Path(folder) / "demo"),
            ]
            rows.append(command_row("`safemetry demo`", command, 1))
    return rows


def _beside_idle(job: str, command: list[str], idle: list[str]) -> Row:
    peaks = run_command(command)[2], run_command(idle)[2]
    return compare(
        job,
        lambda: run_command(command),
        lambda: run_command(idle),
        REPEATS,
        peer_name="idle Python, launcher included",
        peaks=peaks,
    )


def _has_demo() -> bool:
    command = [sys.executable, "-m", "safemetry.cli", "demo", "--help"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
