"""The memory database of PyRIT: an SQLite file, read without touching it or trusting it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.pyrit_components import component_of, components_of
from safemetry.readers.pyrit_records import (
    OUTSIDE,
    UNREAD,
    Memory,
    Wanted,
    attack_result_of,
    piece_of,
    score_of,
)
from safemetry.readers.source import Source
from safemetry.readers.sqlite_file import MAGIC, open_sqlite, plain_tables

UNVERSIONED: Final = "0.10 to 0.13"
"""Releases that wrote no version of their schema."""

VERSIONS: Final = {
    "9c8b7a6d5e4f": "0.14",
    "3f6e8a0c2d4b": "1.0",
    "8d1e3f5a7b9c": "1.1",
}
"""Schema version -> the releases of PyRIT that write it."""

_VERSION_TABLE: Final = "pyrit_memory_alembic_version"
_PIECES: Final = "PromptMemoryEntries"
_SCORES: Final = "ScoreEntries"
_ATTACKS: Final = "AttackResultEntries"
_CONVERSATIONS: Final = "Conversations"
_NEEDED: Final = {
    _PIECES: ("id", "role", "conversation_id", "sequence", "response_error", "original_value"),
    _SCORES: ("id", "score_value", "score_type", "scorer_class_identifier"),
    _ATTACKS: ("id", "conversation_id", "outcome", "objective"),
}
_OPTIONAL: Final = {
    _PIECES: (
        "original_prompt_id",
        "original_value_data_type",
        "original_value_sha256",
        "timestamp",
        "prompt_metadata",
        "converter_identifiers",
        "prompt_target_identifier",
        "attack_identifier",
        "targeted_harm_categories",
        "labels",
    ),
    _SCORES: (
        "prompt_request_response_id",
        "score_value_description",
        "score_category",
        "objective",
        "task",
        "status",
        "scorable",
        "pyrit_version",
    ),
    _ATTACKS: (
        "atomic_attack_identifier",
        "attack_identifier",
        "last_response_id",
        "last_score_id",
        "pruned_conversation_ids",
        "targeted_harm_categories",
        "timestamp",
        "pyrit_version",
        "labels",
        "attack_metadata",
    ),
}
_JSON: Final = frozenset(
    {
        "atomic_attack_identifier",
        "attack_identifier",
        "attack_metadata",
        "converter_identifiers",
        "labels",
        "prompt_metadata",
        "prompt_target_identifier",
        "pruned_conversation_ids",
        "scorable",
        "score_category",
        "scorer_class_identifier",
        "target_identifier",
        "targeted_harm_categories",
    }
)
_CONVERTERS: Final = "converter_identifiers"
_IDENTIFIERS: Final = frozenset(n for n in _JSON if n.endswith("_identifier")) | {_CONVERTERS}
_IDENTIFIERS_KEPT: Final = 1_000


def looks_like_memory(source: Source) -> bool:
    """Whether a file is an SQLite database with the table of message pieces."""
    if not source.head.startswith(MAGIC):
        return False
    if f'"{_PIECES}"'.encode() in source.head:
        return True
    if source.is_remote:
        return False
    # After migrations the names of the tables may stand far behind the head.
    try:
        with open_sqlite(source) as database:
            return _PIECES in plain_tables(database)
    except InputError:
        return False


def read_memory(source: Source, wanted: Wanted) -> Memory:
    """The records of a memory database.

    Raises
    ------
    InputError
        Where it is no database of PyRIT, of an unknown release, damaged, being written, or larger
        than the limit for tables.
    """
    with open_sqlite(source) as database:
        return _Reading(database, source, wanted).memory()


class _Reading:
    """Takes the records out of a database, table by table."""

    def __init__(self, database: sqlite3.Connection, source: Source, wanted: Wanted) -> None:
        self._database = database
        self._source = source
        self._wanted = wanted
        self._tables = plain_tables(database)
        self._known: dict[tuple[str, str], Any] = {}
        self._refuse_unknown()
        self._memory = Memory()

    def memory(self) -> Memory:
        """Everything."""
        self._each(_PIECES, self._columns(_PIECES), self._take_piece)
        if _ATTACKS in self._tables:
            self._each(_ATTACKS, self._columns(_ATTACKS), self._take_attack)
        self._read_targets()
        self._read_scores()
        return self._memory

    # --- which release --------------------------------------------------------------------------

    def _refuse_unknown(self) -> None:
        """Refuse a file that is none of PyRIT, and a schema that is not known."""
        if _PIECES not in self._tables:
            listed = ", ".join(sorted(self._tables)[:8]) or "nothing"
            raise InputError(
                f"is no memory database of PyRIT: it has no table {_PIECES}; it has {listed}",
                file=self._source.shown,
                fix="name the file that PyRIT wrote (pyrit.db in its data folder)",
            )
        if _SCORES not in self._tables:
            raise InputError(
                f"is incomplete: it has no table {_SCORES}, in which every release of PyRIT keeps "
                "its verdicts",
                file=self._source.shown,
                column=_SCORES,
                fix="name the file that PyRIT wrote, or copy it again",
            )
        known = ", ".join(f"{key} (PyRIT {release})" for key, release in VERSIONS.items())
        if _VERSION_TABLE not in self._tables:
            # Such a schema has to name targets on each piece, or it is none that is known.
            if "prompt_target_identifier" not in self._names(_PIECES):
                raise InputError(
                    f"states no schema version, and is not the schema of PyRIT {UNVERSIONED}",
                    file=self._source.shown,
                    fix=f"open it once with PyRIT 1.1, which upgrades it; known are {known}",
                )
            return
        rows = self._select(_VERSION_TABLE, ("version_num",))
        found = [str(version) for _, version in rows]
        if len(found) != 1 or found[0] not in VERSIONS:
            said = ", ".join(version[:40] for version in found) or "none"
            raise InputError(
                f"has schema version {said}, which is not known; known are {known}",
                file=self._source.shown,
                column=f"{_VERSION_TABLE}.version_num",
                fix="open it once with PyRIT 1.1, which upgrades an older schema, or update "
                "safemetry for a newer one",
            )

    def _names(self, table: str) -> tuple[str, ...]:
        """The columns of a table; without a pragma, which the database may not run."""
        cursor = self._database.execute(f'SELECT * FROM "{table}" LIMIT 0')  # noqa: S608
        return tuple(column[0] for column in cursor.description)

    def _columns(self, table: str) -> tuple[str, ...]:
        """The columns to read of a table, none of which is a rowid."""
        present = set(self._names(table))
        lacking = [name for name in _NEEDED[table] if name not in present]
        if lacking:
            raise InputError(
                f"lacks the column {lacking[0]!r} of the table {table}",
                file=self._source.shown,
                fix="name the file that PyRIT wrote",
            )
        texts = ("converted_value",) if table == _PIECES and self._wanted.texts else ()
        wanted = (*_NEEDED[table], *_OPTIONAL[table], *texts)
        return tuple(name for name in wanted if name in present)

    # --- rows -----------------------------------------------------------------------------------

    def _select(self, table: str, columns: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """Rows of a table in the order in which they were written, each with its number there."""
        listed = ", ".join(_selected(table, name) for name in columns)
        query = f'SELECT rowid, {listed} FROM "{table}" ORDER BY rowid'  # noqa: S608
        yield from self._database.execute(query)

    def _records(
        self, table: str, columns: tuple[str, ...]
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        """Each row as a function that decodes it, since decoding may fail for one row alone."""
        for _, *cells in self._select(table, columns):
            yield partial(self._decode, columns, cells)

    def _decode(self, columns: tuple[str, ...], cells: Sequence[Any]) -> dict[str, Any]:
        return {name: self._cell(name, cell) for name, cell in zip(columns, cells, strict=True)}

    def _cell(self, name: str, cell: Any) -> Any:
        if name not in _JSON or cell is None:
            return cell
        if not isinstance(cell, str):
            raise InputError("is no JSON text", column=name)
        if name not in _IDENTIFIERS:
            return _json(cell, name)
        key = (name, cell)
        if key not in self._known:
            if len(self._known) > _IDENTIFIERS_KEPT:
                self._known.clear()
            # One scorer stands beside each of its verdicts; its digest is taken once.
            read = components_of if name == _CONVERTERS else component_of
            self._known[key] = read(_json(cell, name), name)
        return self._known[key]

    def _each(
        self, table: str, columns: tuple[str, ...], take: Callable[[Mapping[str, Any], int], None]
    ) -> None:
        """Take every row of a table as a row of the source; a broken one fails alone."""
        for decoded in self._records(table, columns):
            self._memory.rows += 1
            row = self._memory.rows
            try:
                take(decoded(), row)
            except InputError as error:
                self._fail(error, table, row)

    def _fail(self, error: InputError, table: str, row: int | None) -> None:
        self._memory.failures.append(
            InputError(
                error.problem,
                file=self._source.shown,
                row=row,
                column=f"{table}.{error.column}" if error.column else table,
                fix=error.fix or "mend or remove the row",
            )
        )

    def _take_piece(self, record: Mapping[str, Any], row: int) -> None:
        self._memory.pieces.append(piece_of(record, row, self._wanted))

    def _take_attack(self, record: Mapping[str, Any], row: int) -> None:
        self._memory.attacks.append(attack_result_of(record, row, self._wanted))

    def _read_targets(self) -> None:
        """Whom each conversation was held with; before 1.0 each piece said so."""
        if _CONVERSATIONS not in self._tables:
            return
        columns = ("conversation_id", "target_identifier")
        for decoded in self._records(_CONVERSATIONS, columns):
            try:
                record = decoded()
                target = component_of(record["target_identifier"], "target_identifier")
            except InputError as error:
                raise InputError(
                    error.problem,
                    file=self._source.shown,
                    column=f"{_CONVERSATIONS}.{error.column}",
                    fix="copy it again",
                ) from error
            if target is not None and isinstance(record["conversation_id"], str):
                self._memory.targets[record["conversation_id"]] = target

    def _read_scores(self) -> None:
        """Scores of message pieces belong to the rows of those; others are rows of their own."""
        rows = {piece.id: piece.row for piece in self._memory.pieces}
        failed: set[int] = set()
        for decoded in self._records(_SCORES, self._columns(_SCORES)):
            row: int | None = None
            try:
                record = decoded()
                row = rows.get(str(record.get("prompt_request_response_id")))
                if row is None:
                    self._memory.rows += 1
                    self._memory.skip(_why_unplaced(record))
                    continue
                self._memory.scores.append(score_of(record))
            except InputError as error:
                if row is None:
                    self._memory.rows += 1
                    row = self._memory.rows
                if row not in failed:
                    failed.add(row)
                    self._fail(error, _SCORES, row)
        if failed:
            # A row fails once, and as a whole.
            self._memory.pieces = [p for p in self._memory.pieces if p.row not in failed]


def _selected(table: str, column: str) -> str:
    """A column of a query; of messages only requests are read, for their digests."""
    if table == _PIECES and column == "original_value":
        return "CASE WHEN role = 'user' THEN original_value END"
    return f'"{column}"'


def _json(cell: str, name: str) -> Any:
    """A cell as JSON; metadata may hold NaN, and no verdict is a JSON number."""
    try:
        return json.loads(cell, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:100]
        problem = f"is not valid JSON ({said})"
        if isinstance(error, RecursionError):
            problem = "is nested too deeply"
        raise InputError(problem, column=name) from error


def _why_unplaced(record: Mapping[str, Any]) -> str:
    if record.get("prompt_request_response_id"):
        return UNREAD
    return OUTSIDE
