"""Fields of nested records that a map names, by dotted path."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS

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
