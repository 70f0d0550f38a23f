"""Columns as they are named on the command line."""

from __future__ import annotations

from collections.abc import Sequence


def short_names(named: Sequence[str]) -> dict[str, str]:
    """The column of each FILE:COL, or the whole where two files have a column of one name."""
    once = list(dict.fromkeys(named))
    columns = [name.rpartition(":")[2] or name for name in once]
    return {
        column if columns.count(column) == 1 else name: name
        for column, name in zip(columns, once, strict=True)
    }
