"""Fixtures of the command line, and leave for its tests to say ``from calling import ...``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from calling import Evidence, Run, call, panel, write_csv  # noqa: E402


@pytest.fixture
def run() -> Run:
    return call


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"SAFEMETRY_SHARED", "SAFEMETRY_REQUIRE_SHARED", "SAFEMETRY_STUDY_SIZE"}
    for name in os.environ:
        if name.startswith("SAFEMETRY_") and name not in kept:
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder = tmp_path_factory.mktemp("evidence")
    table = write_csv(folder / "panel.csv", panel())
    unclassified = write_csv(
        folder / "unclassified.csv",
        [{"target": "m", "item": str(number), "label": "refuse"} for number in range(10)],
    )
    assert call("import", table, "--into", folder / "study", "--quiet").code == 0
    return Evidence(folder, table, folder / "study", unclassified)
