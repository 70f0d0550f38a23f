"""JSON lines: one flat object a line, whose numbers stay as they are written."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.readers.source import Source, not_a_number
from safemetry.readers.table import Sample, Table, first_lines

_CHUNK_ROWS: Final = 50_000
_BATCH_ROWS: Final = 500


def sample_json_lines(source: Source) -> Sample | None:
    """The objects of the head; None where its first line is none."""
    entries = []
    for number, line in first_lines(source, "utf-8"):
        try:
            value = source.read_json_line(
                number, line.removeprefix(codecs.BOM_UTF8), _DECODER.decode
            )
        except InputError:
            value = None
        if isinstance(value, dict):
            entries.append(value)
        elif not entries and line.strip():
            return None
    if not entries:
        return None
    try:
        return Sample(_from_objects(entries))
    except (UnicodeEncodeError, pa.ArrowException):
        return None


def read_json_lines(source: Source, columns: Collection[str] | None) -> Table:
    """The rows, every value as the text that a CSV would hold.

    Raises
    ------
    InputError
        For a line that is no JSON object, has a key twice, or holds a list or an object in a
        column that was asked for.
    """
    names: dict[str, None] = {}
    chunks: list[pa.Table] = []
    pending: list[tuple[int, dict[str, Any]]] = []
    rows = 0
    for number, line in source.read_lines():
        entry = _object(source, number, line)
        names.update(dict.fromkeys(entry))
        rows += 1
        kept = {n: v for n, v in entry.items() if columns is None or n in columns}
        pending.append((number, kept))
        if len(pending) == _CHUNK_ROWS:
            chunks.append(_chunk(source, pending, flat=columns is not None))
            pending = []
    if pending:
        chunks.append(_chunk(source, pending, flat=columns is not None))
    return Table(pa.concat_tables(chunks, promote_options="default"), tuple(names), rows)


def json_line_batches(source: Source, columns: Collection[str]) -> Iterator[pa.Table]:
    """The rows piece by piece, as far as the columns are there; a list or object as its JSON.

    Raises
    ------
    InputError
        For a line that is no JSON object or has a key twice.
    """
    pending: list[tuple[int, dict[str, Any]]] = []
    for number, line in source.read_lines():
        entry = _object(source, number, line)
        pending.append((number, {n: v for n, v in entry.items() if n in columns}))
        if len(pending) == _BATCH_ROWS:
            yield _chunk(source, pending, flat=False)
            pending = []
    if pending:
        yield _chunk(source, pending, flat=False)


def _object(source: Source, number: int, line: bytes) -> dict[str, Any]:
    value = source.read_json_line(number, line, _DECODER.decode)
    if not isinstance(value, dict):
        raise InputError(
            "is not a JSON object", file=source.shown, line=number, fix="write one object a line"
        )
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        msg = f"the key {repeated!r} stands twice"
        raise ValueError(msg)
    return entry


_DECODER: Final = json.JSONDecoder(
    parse_int=str,
    parse_float=str,
    parse_constant=not_a_number,
    object_pairs_hook=_without_repeats,
)
"""JSON with numbers as they are written: they are cells, typed where a column is."""


def _chunk(source: Source, rows: list[tuple[int, dict[str, Any]]], *, flat: bool) -> pa.Table:
    """Rows as a table."""
    if flat:
        _refuse_nested(source, rows)
    try:
        return _from_objects([entry for _, entry in rows])
    except (UnicodeEncodeError, pa.ArrowException) as error:
        for number, entry in rows:
            for name, value in entry.items():
                if not _is_writable(name) or not _is_writable(value):
                    raise InputError(
                        "holds half a character, which UTF-8 cannot write",
                        file=source.shown,
                        line=number,
                        column=name.encode(errors="replace").decode(),
                        fix="export it again, or remove the line",
                    ) from error
        raise


def _refuse_nested(source: Source, rows: list[tuple[int, dict[str, Any]]]) -> None:
    for number, entry in rows:
        for name, value in entry.items():
            if isinstance(value, dict | list):
                raise InputError(
                    "holds a list or an object",
                    file=source.shown,
                    line=number,
                    column=name,
                    fix="write one text or number",
                )


def _is_writable(value: Any) -> bool:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_objects(entries: Sequence[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for entry in entries for name in entry)
    # A table without columns would have no rows either.
    names = names or {"": None}
    columns = {
        name: pa.array([_cell(entry.get(name)) for entry in entries], pa.string()) for name in names
    }
    return pa.table(columns)


def _cell(value: Any) -> str | None:
    """A value as the text that a CSV would hold."""
    if type(value) is str:
        return value or None
    if isinstance(value, bool | dict | list):
        return json.dumps(value)  # `true` stays as it stands in the file
    return None if value is None else str(value)
