"""SQLite files from anywhere: read without touching them or trusting them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.source import Source

MAGIC: Final = b"SQLite format 3\x00"

_LOGS: Final = {"-wal": "write-ahead log", "-journal": "rollback journal"}
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_HEADER: Final = 100
_PAGE_SIZE: Final = slice(16, 18)
_PAGE_COUNT: Final = slice(28, 32)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LONGEST: Final = 2**31 - 1


@contextmanager
def open_sqlite(source: Source) -> Iterator[sqlite3.Connection]:
    """A database that can only be selected from.

    The file is opened read-only and as immutable, so nothing is written beside it. It cannot attach
    another file, run a function or a pragma, or return a value above `limits.line_bytes`.

    Raises
    ------
    InputError
        Where it is no database, above `limits.table_bytes`, cut short, damaged, locked, or has a
        log beside it with rows that are not in the file yet.
    """
    _refuse_unfinished(source)
    with source.local_copy() as path:
        _refuse_cut(path, source)
        try:
            with _opened(path, source) as database:
                yield database
        except sqlite3.Error as error:
            raise _unusable(error, source) from error


def plain_tables(database: sqlite3.Connection) -> frozenset[str]:
    """The names of its tables; views and virtual tables, which compute, are left out."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return frozenset(
        str(name)
        for name, sql in rows
        if not str(sql or "").lstrip().upper().startswith("CREATE VIRTUAL")
    )


@contextmanager
def _opened(path: Path, source: Source) -> Iterator[sqlite3.Connection]:
    address = path.absolute().as_uri() + "?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as database:
        database.text_factory = _text
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(source.limits.line_bytes, _LONGEST))
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        database.set_authorizer(_allow)
        yield database


def _text(content: bytes) -> str:
    """Text whatever its bytes; what is no UTF-8 is noticed where it has to be."""
    return content.decode("utf-8", "surrogateescape")


def _allow(action: int, *_: Any) -> int:
    """Let SQLite select and nothing else, whatever the schema of the file holds."""
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _unusable(error: sqlite3.Error, source: Source) -> InputError:
    """The one error for everything that SQLite cannot do with the file."""
    code = getattr(error, "sqlite_errorcode", None)
    said = " ".join(str(error).split())[:200]
    if code is not None and code & 0xFF in _BUSY:
        return InputError(
            f"is locked by another program ({said})", file=source.shown, fix="close it first"
        )
    if isinstance(error, sqlite3.DataError):
        return InputError(
            f"holds a value above the limit of {source.limits.line_bytes:,} bytes",
            file=source.shown,
            fix="raise limits.line_bytes in the map if you trust the file",
        )
    return InputError(
        f"is damaged, or no database that can be read ({said})",
        file=source.shown,
        fix="copy it again while no program writes it",
    )


def _refuse_unfinished(source: Source) -> None:
    """Refuse a database whose last rows lie in a log beside it.

    They would be missing in silence: the file alone is a whole database of an earlier moment.
    """
    if source.is_remote:
        return
    for suffix, what in _LOGS.items():
        log = source.path.with_name(source.path.name + suffix)
        try:
            size = log.stat().st_size
        except (OSError, ValueError):
            continue
        if size:
            raise InputError(
                f"is being written, or was not closed: {log.name} beside it is a {what} of "
                f"{size:,} bytes, whose rows are not in the file yet",
                file=source.shown,
                fix="close the program that writes it, or open and close the file once with "
                "sqlite3, which merges the two",
            )


def _refuse_cut(path: Path, source: Source) -> None:
    """Refuse a file above the limit, or shorter than its own header says."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            header = stream.read(_HEADER)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise InputError(f"cannot be read ({said})", file=source.shown) from error
    if size > source.limits.table_bytes:
        raise source.too_large(source.limits.table_bytes, "table_bytes")
    if not header.startswith(MAGIC):
        raise InputError("is no SQLite database", file=source.shown, fix="name another file")
    page = int.from_bytes(header[_PAGE_SIZE], "big")
    page = 65_536 if page == 1 else page
    pages = int.from_bytes(header[_PAGE_COUNT], "big")
    if size < page * pages:
        raise InputError(
            f"is cut short: {size:,} bytes of {page * pages:,}",
            file=source.shown,
            fix="copy it again",
        )
