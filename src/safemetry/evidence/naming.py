"""Naming: which column of a source is which of ours, and what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.evidence.arrival import Arrival, Place, untranslated
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import BY_NAME, COLUMNS, REAL, WHOLE


def name_columns(
    frame: nw.LazyFrame[Any],
    evidence_map: EvidenceMap,
    scales: Mapping[str, Scale],
    place: Place,
) -> Arrival:
    """Give a table our names, and make each of its columns text or a number.

    Parameters
    ----------
    frame
        Lazy frame as the source has it.
    evidence_map
        What is known about the source.
    scales
        Scales that the format fixes; the map overrides them.
    place
        Name of the source for error messages.

    Raises
    ------
    InputError
        For a column that the map names and the table lacks, or one that evidence needs.
    """
    schema = frame.collect_schema()
    translations = _translations(evidence_map)
    sources = _sources(evidence_map, schema.names())
    _require_mapped(evidence_map, translations, schema.names(), place)
    _require_needed({*sources, *evidence_map.constants}, schema.names(), place)
    theirs = sources | {untranslated(name): spec.column for name, spec in translations.items()}
    named = frame.select(
        *(_plain(source, ours, schema[source]).alias(ours) for ours, source in theirs.items())
    )
    return Arrival(named, theirs, named.collect_schema(), evidence_map, scales, place)


def near_misses(names: Iterable[str], evidence_map: EvidenceMap) -> list[str]:
    """A sentence for each column that is not read and looks like one of ours.

    Parameters
    ----------
    names
        Columns of the table.
    evidence_map
        What is known about the source; a column that it names is read.
    """
    present = list(names)
    read = {*evidence_map.columns.values(), *_sources(evidence_map, present).values()}
    ours = {_spelling(name): name for name in BY_NAME} | {_spelling("behavior"): "behaviour"}
    missed = {
        name: ours[_spelling(name)]
        for name in present
        if name not in read and _spelling(name) in ours
    }
    return [
        f"Column {theirs!r} is not read; if it is meant to be {name!r}, rename it or add to the "
        f"map: columns: {{{name}: {theirs!r}}}."
        for theirs, name in missed.items()
        if name not in evidence_map.constants
        and name not in evidence_map.columns
        and name not in present
    ]


def _spelling(name: str) -> str:
    """A name without case, spaces and punctuation."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _translations(evidence_map: EvidenceMap) -> dict[str, FromColumn]:
    """Our column -> the column and values that the map translates into it."""
    specs = {"intent": evidence_map.intent, "status": evidence_map.status}
    return {name: spec for name, spec in specs.items() if isinstance(spec, FromColumn)}


def _sources(evidence_map: EvidenceMap, names: Collection[str]) -> dict[str, str]:
    """Our column -> theirs, for each that the table has and the map does not make constant."""
    wanted = {
        column.name: evidence_map.columns.get(column.name, column.name)
        for column in COLUMNS
        if column.name not in evidence_map.constants
    }
    return {ours: theirs for ours, theirs in wanted.items() if theirs in names}


def _require_mapped(
    evidence_map: EvidenceMap,
    translations: Mapping[str, FromColumn],
    names: Collection[str],
    place: Place,
) -> None:
    """Refuse a map that names columns which are not there."""
    mapped = [*evidence_map.columns.values(), *(spec.column for spec in translations.values())]
    for theirs in mapped:
        if theirs not in names:
            raise InputError(
                f"the map names a column {theirs!r} that is not there",
                file=place.name,
                fix=f"the columns are {_listed(names)}",
            )


def _require_needed(known: Collection[str], names: Collection[str], place: Place) -> None:
    """Refuse a table without a column that evidence needs."""
    for column in COLUMNS:
        if column.required and column.name not in known:
            raise InputError(
                f"there is no column {column.name!r}",
                file=place.name,
                fix=f"rename one, or add to the map: columns: {{{column.name}: THEIR_NAME}}; "
                f"the columns are {_listed(names)}",
            )
    if not any(name in known for name in ("label", "score", "status")):
        raise InputError(
            "there is neither a column 'label' nor a column 'score'",
            file=place.name,
            fix="rename one, or add to the map: columns: {label: THEIR_NAME}; "
            f"the columns are {_listed(names)}",
        )


def _listed(names: Iterable[str], most: int = 20) -> str:
    shown = list(names)
    tail = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + tail


def _plain(name: str, ours: str, kind: Any) -> nw.Expr:
    """Booleans as ``True`` and ``False``, other values that are not numbers as text."""
    column: nw.Expr = nw.col(name)
    if kind.is_float():
        column = nw.when(~column.is_nan()).then(column).otherwise(None)
    if kind == nw.Boolean():
        return (
            nw.when(column)
            .then(nw.lit("True"))
            .otherwise(nw.when(~column).then(nw.lit("False")).otherwise(None))
        )
    target = BY_NAME.get(ours)
    if kind.is_numeric() and target is not None and target.type in {WHOLE, REAL}:
        return column
    return column if kind == nw.String() else column.cast(nw.String())
