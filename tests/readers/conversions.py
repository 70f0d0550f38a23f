"""What a test asks a conversion: some of its columns, and one of its warnings."""

from __future__ import annotations

from typing import Any

from safemetry.readers import Conversion


def rows(conversion: Conversion, *names: str) -> list[Any]:
    """Values of one column, or tuples of several."""
    listed = conversion.judgements.select(list(names)).to_pylist()
    return [tuple(row.values()) if len(names) > 1 else row[names[0]] for row in listed]


def said(conversion: Conversion, words: str) -> str:
    """The one warning with these words."""
    found = [warning for warning in conversion.warnings if words in warning]
    assert len(found) == 1, list(conversion.warnings)
    return found[0]
