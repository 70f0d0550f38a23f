"""A column that stands beside the evidence: which group each item or each target is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, groups
from safemetry.evidence.schema import ITEM_COLUMNS, TARGET_COLUMNS
from safemetry.readers.source import Source
from safemetry.readers.tables import read_table

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "item": ("item", "item_id"),
    "target": ("target", "model"),
}
_OWN: Final = {
    "item": frozenset(column.name for column in ITEM_COLUMNS),
    "target": frozenset(column.name for column in TARGET_COLUMNS),
}


def column_of(evidence: Evidence, named: str, of: str) -> dict[str, str]:
    """Value of a column for each item or each target; those without one are left out.

    Parameters
    ----------
    evidence
        The evidence.
    named
        A column of the evidence, or ``FILE:COL`` (split at the last colon): a table with a key
        column (``item`` or ``item_id``; ``target`` or ``model``) and the column.
    of
        ``item`` or ``target``.

    Raises
    ------
    InputError
        For a column that is not there, or a key with two values.
    """
    if named in _OWN[of]:
        return _from_evidence(evidence, named, of)
    file, colon, column = named.rpartition(":")
    if not colon or not file:
        known = ", ".join(sorted(_OWN[of]))
        raise InputError(
            f"there is no column {named!r} of {of}s",
            fix=f"use one of {known}, or FILE:COL with a key column {' or '.join(KEYS[of])}",
        )
    return _from_file(Source(file), column, of)


def _from_evidence(evidence: Evidence, column: str, of: str) -> dict[str, str]:
    if of == "item":
        pairs = zip(
            evidence.items["item"].to_pylist(), evidence.items[column].to_pylist(), strict=True
        )
    else:
        table = groups(evidence.rows, ["target", column])
        pairs = zip(table["target"].to_pylist(), table[column].to_pylist(), strict=True)
    found: dict[str, str] = {}
    for key, value in pairs:
        if value is not None and found.setdefault(key, value) != value:
            raise InputError(
                f"{of} {key!r} has {column} {found[key]!r} and {value!r}", column=column
            )
    return found


def _from_file(source: Source, column: str, of: str) -> dict[str, str]:
    table = read_table(source, columns={column, *KEYS[of]}, in_memory=True)
    keys = [name for name in KEYS[of] if name in table.columns]
    for wanted, is_there in (
        (column, column in table.columns),
        (" or ".join(KEYS[of]), bool(keys)),
    ):
        if not is_there:
            raise InputError(
                f"has no column {wanted}",
                file=source.shown,
                fix=f"its columns are {', '.join(table.columns[:12])}",
            )
    data = table.to_arrow()
    found: dict[str, str] = {}
    pairs = zip(data[keys[0]].to_pylist(), data[column].to_pylist(), strict=True)
    for row, (key, value) in enumerate(pairs, start=1):
        if key is None or value in {None, ""}:
            continue
        if found.setdefault(str(key), str(value)) != str(value):
            raise InputError(
                f"{of} {key!r} has {found[str(key)]!r} in one row and {value!r} in another",
                file=source.shown,
                row=row,
                column=column,
                fix="give each key one value",
            )
    return found
