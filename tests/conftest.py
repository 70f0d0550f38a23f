"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
