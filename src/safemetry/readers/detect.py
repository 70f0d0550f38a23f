"""Which format a source is in, by its content."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.conversion import Reader
from safemetry.readers.labels import LabelTableReader
from safemetry.readers.matrix import MatrixReader
from safemetry.readers.source import Source
from safemetry.readers.tidy import TidyReader

GROUP: Final = "safemetry.readers"
STUDY: Final = "study"
TABLE_READERS: Final = (TidyReader(), LabelTableReader(), MatrixReader())


@cache
def known_readers() -> dict[str, Reader]:
    """Every reader by name: those of tables, and the entry points of group ``safemetry.readers``.

    An entry point names a class without parameters that follows `Reader`. Another package adds a
    format by declaring one; a name that is taken already is an error.
    """
    readers: dict[str, Reader] = {reader.name: reader for reader in TABLE_READERS}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.name in readers:
            raise InputError(
                f"two readers are called {point.name!r}",
                fix=f"uninstall one of the packages that declare it in the group {GROUP}",
            )
        readers[point.name] = point.load()()
    return readers


def reader_named(name: str) -> Reader:
    """The reader that ``--as`` asks for.

    Raises
    ------
    InputError
        For an unknown name, with the known ones.
    """
    readers = known_readers()
    if name not in readers:
        raise InputError(
            f"there is no reader {name!r}", fix=f"use one of {STUDY}, {', '.join(readers)}"
        )
    return readers[name]


def detect(source: Source, evidence_map: EvidenceMap) -> Reader | None:
    """The one reader that recognises the source, or None.

    Raises
    ------
    InputError
        Where more than one does, naming them.
    """
    tables = {reader.name for reader in TABLE_READERS}
    fits = [
        reader
        for name, reader in known_readers().items()
        if name not in tables and reader.recognises(source)
    ]
    fits += [reader for reader in TABLE_READERS if reader.fits(source, evidence_map)]
    if len(fits) > 1:
        names = " and ".join(reader.name for reader in fits)
        raise InputError(
            f"could be read as {names}",
            file=source.location,
            fix=f"say which with --as {fits[0].name} or --as {fits[1].name}",
        )
    return fits[0] if fits else None


def children_of(folder: Path) -> list[Path]:
    """What lies in a folder, in a stable order; hidden entries and links to folders left out."""
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and not (path.is_symlink() and path.is_dir())
    )


def files_below(folder: Path) -> list[Path]:
    """The files of a folder in a stable order, hidden ones left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
