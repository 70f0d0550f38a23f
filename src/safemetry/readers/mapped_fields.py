"""Fields of nested records that a map names, by dotted path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS
from safemetry.readers.fields import encodable, field_of

CONTEXT: Final = frozenset({"user_type", "developer", "access", *(c.name for c in ITEM_COLUMNS)})
"""Columns, beside the item, that a map may fill from a field of a record."""


def translated_fields(evidence_map: EvidenceMap) -> tuple[str, ...]:
    """Fields that the map turns into an intent or a status: the border needs them in the table."""
    specs = (evidence_map.intent, evidence_map.status)
    paths = [spec.column for spec in specs if isinstance(spec, FromColumn)]
    return tuple(path for path in dict.fromkeys(paths) if path not in BY_NAME)


def mapped_fields(
    evidence_map: EvidenceMap, columns: Collection[str] = CONTEXT | {"item"}
) -> tuple[str, ...]:
    """Every field that the map names for one of these columns, for an intent, or for a status."""
    taken = [path for name, path in evidence_map.columns.items() if name in columns]
    return tuple(dict.fromkeys([*taken, *translated_fields(evidence_map)]))


def fields_by_column(
    entry: Mapping[str, Any], evidence_map: EvidenceMap, columns: Collection[str]
) -> dict[str, str | None]:
    """What a map takes from one entry: our column -> value, and the fields that it translates.

    Parameters
    ----------
    entry
        The decoded entry.
    evidence_map
        The map.
    columns
        Our columns that the map may fill; one whose field the entry lacks is left out.
    """
    taken: dict[str, str | None] = {
        ours: value
        for ours, path in evidence_map.columns.items()
        if ours in columns and (value := field_of(entry, path)) is not None
    }
    return taken | {path: field_of(entry, path) for path in translated_fields(evidence_map)}


def refuse_unencodable(context: Mapping[str, Any]) -> None:
    """Refuse columns with text that UTF-8 cannot hold.

    Raises
    ------
    InputError
        Naming the column.
    """
    for name, value in context.items():
        if isinstance(value, str):
            encodable(value, name)
