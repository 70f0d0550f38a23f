"""The tidy table of a study: the join of its tables, with no more tables than are needed."""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS, KEY, NAMES, TARGET_COLUMNS
from safemetry.evidence.study_commits import Commit
from safemetry.evidence.study_import import RESPONSE_CONTEXT
from safemetry.evidence.study_tables import (
    TABLES,
    identifier,
    listed,
    literal,
    scan,
    typed_null,
)


@dataclass(frozen=True, slots=True)
class Level:
    """What a correction speaks of: one judgement, an item, or a target.

    Attributes
    ----------
    name
        The word for it.
    key
        Columns of the table `corrections` that say which one.
    fields
        Columns of the tidy table that can be corrected.
    """

    name: str
    key: tuple[str, ...]
    fields: tuple[str, ...]


JUDGEMENT: Final = Level("judgement", KEY, ("label", "score", "status", "reason"))
ITEM: Final = Level(
    "item",
    ("run", "benchmark", "item"),
    tuple(column.name for column in ITEM_COLUMNS if column.name != "benchmark"),
)
TARGET: Final = Level("target", ("target",), tuple(column.name for column in TARGET_COLUMNS))
LEVELS: Final = (JUDGEMENT, ITEM, TARGET)
BY_FIELD: Final = {name: level for level in LEVELS for name in level.fields}

_CONTEXTS: Final = {
    "items": tuple(column.name for column in ITEM_COLUMNS),
    "targets": TARGET.fields,
    "responses": RESPONSE_CONTEXT,
}
_JOIN: Final = {
    "items": ("item", "item_key"),
    "targets": ("target_key",),
    "responses": ("item", "response_key"),
}


def live_files(study: Path, commits: Iterable[Commit], table: str) -> list[Path]:
    """The parts of one table, in the order of their commits."""
    return [study / file for commit in commits for file in commit.files(table)]


def tidy_query(
    study: Path,
    commits: Sequence[Commit],
    columns: Sequence[str] = NAMES,
    *,
    distinct: bool = False,
) -> str:
    """The tidy table as a query over the parts of the live commits; distinct rows if asked for.

    Small tables are joined only where one of `columns` comes from them and holds a value
    anywhere, responses only where a column of theirs does, corrections only where there are some.
    """
    filled = {
        (part.table, name) for commit in commits for part in commit.parts for name in part.filled
    }
    corrected = {name for commit in commits for name in commit.fields}
    levels = [level for level in LEVELS if corrected.intersection(level.fields, columns)]
    wanted = {*columns, *(("benchmark",) if ITEM in levels else ())}
    source: dict[str, str] = {}
    joins = []
    keys = {name for level in levels for name in level.key}
    for table, names in _CONTEXTS.items():
        held = [name for name in names if name in wanted and (table, name) in filled]
        source |= {
            name: f"{table}.{identifier(name)}" if name in held else typed_null(BY_NAME[name].type)
            for name in names
        }
        if held:
            joins.append(_context_join(table, held, live_files(study, commits, table)))
            keys.update(_JOIN[table])
    own = [name for name in NAMES if name in TABLES["judgements"].names]
    source |= {name: f"j.{identifier(name)}" for name in own}
    corrections = live_files(study, commits, "corrections")
    for level in levels:
        fields = [name for name in level.fields if name in corrected and name in columns]
        joins.append(_correction_join(level, fields, corrections, source))
    for level in levels:
        source |= _corrected(level, corrected.intersection(columns), source)
    shown = ", ".join(f"{source[name]} AS {identifier(name)}" for name in columns)
    judgements = scan("judgements", live_files(study, commits, "judgements"))
    if not distinct:
        return f"SELECT {shown} FROM {judgements} AS j {' '.join(joins)}"
    # The joins then meet each combination of what they look at once, not each judgement.
    used = [name for name in TABLES["judgements"].names if name in {*keys, *columns}]
    few = f"(SELECT DISTINCT {listed(used)} FROM {judgements})"
    return f"SELECT DISTINCT {shown} FROM {few} AS j {' '.join(joins)}"


def _context_join(table: str, names: Sequence[str], paths: Sequence[Path]) -> str:
    """Join with one row for each context, which several imports may have written alike."""
    on = _JOIN[table]
    rows = scan(table, paths)
    if table != "responses":
        same = ", ".join(f"any_value({identifier(name)}) AS {identifier(name)}" for name in names)
        rows = f"(SELECT {listed(on)}, {same} FROM {rows} GROUP BY {listed(on)})"
    equal = " AND ".join(f"{table}.{identifier(name)} = j.{identifier(name)}" for name in on)
    return f"LEFT JOIN {rows} AS {table} ON {equal}"


def _correction_join(
    level: Level, names: Sequence[str], paths: Sequence[Path], source: Mapping[str, str]
) -> str:
    """Join with the latest correction of each key and field, one row for each key."""
    key = listed(level.key)
    fields = ", ".join(literal(name) for name in names)
    ranked = (
        f'SELECT *, row_number() OVER (PARTITION BY {key}, field ORDER BY "when" DESC, batch DESC)'
        f" AS place FROM {scan('corrections', paths)} WHERE field IN ({fields})"
    )
    latest = ", ".join(
        f"bool_or(field = {literal(name)}) AS {identifier('has_' + name)}, "
        f"max(value) FILTER (field = {literal(name)})::{_sql_type(name)} AS {identifier(name)}"
        for name in names
    )
    rows = f"(SELECT {key}, {latest} FROM ({ranked}) WHERE place = 1 GROUP BY {key})"
    alias = f"{level.name}_corrections"
    known = dict(source)
    if level is ITEM:
        known["run"] = f"CASE WHEN {source['benchmark']} IS NULL THEN {source['run']} END"
    equal = " AND ".join(
        f"{alias}.{identifier(name)} IS NOT DISTINCT FROM {known[name]}" for name in level.key
    )
    return f"LEFT JOIN {rows} AS {alias} ON {equal}"


def _corrected(level: Level, names: Iterable[str], source: Mapping[str, str]) -> dict[str, str]:
    alias = f"{level.name}_corrections"
    return {
        name: f"CASE WHEN {alias}.{identifier('has_' + name)} "
        f"THEN {alias}.{identifier(name)} ELSE {source[name]} END"
        for name in names
        if name in level.fields
    }


def _sql_type(name: str) -> str:
    return typed_null(BY_NAME[name].type).removeprefix("NULL::")
