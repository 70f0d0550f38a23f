"""Fixtures that every test may use."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from safemetry.findings import Finding


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of third-party data: SAFEMETRY_SHARED, else ``shared`` beside the checkout.

    Where it is absent the test is skipped, or fails if SAFEMETRY_REQUIRE_SHARED is 1.
    """
    beside_checkout = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SAFEMETRY_SHARED") or beside_checkout).resolve()
    if not folder.is_dir():
        reason = f"third-party data not found at {folder}; set SAFEMETRY_SHARED to its folder"
        if os.environ.get("SAFEMETRY_REQUIRE_SHARED") == "1":
            pytest.fail(f"{reason} (SAFEMETRY_REQUIRE_SHARED is 1)", pytrace=False)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def study_size() -> float:
    """Share of the full number of repetitions that statistical studies run with.

    SAFEMETRY_STUDY_SIZE, else .1; 1 is the full size.
    """
    return float(os.environ.get("SAFEMETRY_STUDY_SIZE") or 0.1)


@pytest.fixture
def install_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Install a package with entry points of one group, for one test.

    Call it with the group, the name of the package, its code, and ``name="module:object"``. Caches
    of what is installed are the caller's to clear.
    """
    site = tmp_path / "site"

    def put(group: str, package: str, code: str, **points: str) -> None:
        site.mkdir(exist_ok=True)
        (site / f"{package}.py").write_text(textwrap.dedent(code))
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(str(site))

    before = set(sys.modules)
    yield put
    for name in set(sys.modules) - before:
        if str(site) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    monkeypatch.undo()


@pytest.fixture(scope="session")
def assert_sound() -> Callable[[Finding], dict[str, Any]]:
    """Check what every finding promises, and return its JSON as read back.

    It round-trips, holds no NaN, says why wherever it holds null, and makes a frame of its records.
    """

    def check(finding: Finding) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            pytest.fail(f"the JSON of a finding holds {constant}")

        read: dict[str, Any] = json.loads(finding.to_json(), parse_constant=refuse)
        assert read == finding.to_dict()
        assert list(read)[:5] == ["schema", "command", "version", "settings", "warnings"]
        _assert_nulls_are_explained(read, "")
        assert finding.to_frame().num_rows == len(finding.records())
        assert finding.sentence().strip()
        return read

    return check


def _assert_nulls_are_explained(value: object, place: str) -> None:
    if isinstance(value, dict):
        reasons = value.get("why") or {}
        for name, entry in value.items():
            if entry is None:
                assert reasons.get(name), f"{place}.{name} is null without a why"
            _assert_nulls_are_explained(entry, f"{place}.{name}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            assert entry is not None, f"{place}[{index}] is null"
            _assert_nulls_are_explained(entry, f"{place}[{index}]")
