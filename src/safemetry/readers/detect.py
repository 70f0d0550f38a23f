"""Which format a source is in, by its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from safemetry.errors import InputError, SafemetryError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.study import Study
from safemetry.plugins import load_plugins
from safemetry.readers.conversion import Conversion, Reader, ResponseText, TextReader
from safemetry.readers.correlation import CORRELATION
from safemetry.readers.labels import LabelTableReader
from safemetry.readers.matrix import MatrixReader
from safemetry.readers.scores import SCORES
from safemetry.readers.source import Source
from safemetry.readers.tables import read_sample
from safemetry.readers.tidy import TidyReader

GROUP: Final = "safemetry.readers"
STUDY: Final = "study"
TABLE_READERS: Final = (TidyReader(), LabelTableReader(), MatrixReader())
WITHOUT_RESPONSES: Final = frozenset({CORRELATION, SCORES})
"""Tables of which only the analysis of factors makes something."""
TABLE_NAMES: Final = frozenset(reader.name for reader in TABLE_READERS)


@dataclass(frozen=True)
class Readers:
    """The readers of this installation.

    Parameters
    ----------
    by_name
        Those that work, by name: tables first, then the entry points in the order of their names.
    broken
        Name -> what is wrong, for entry points of other packages that cannot be used. They stop
        nobody who does not ask for them.
    """

    by_name: Mapping[str, Reader]
    broken: Mapping[str, str]

    def warnings(self) -> tuple[str, ...]:
        """A sentence for each reader that was not asked."""
        return tuple(
            f"The reader {name!r} was not asked whether it knows the source: {what}."
            for name, what in self.broken.items()
        )


@cache
def installed_readers() -> Readers:
    """The readers of tables, and the entry points of the group ``safemetry.readers``.

    An entry point names a class without parameters that follows `Reader`, under the `name` of the
    reader.
    """
    tables: dict[str, Reader] = {reader.name: reader for reader in TABLE_READERS}
    added = load_plugins(
        GROUP, Reader, parts="name, version, recognises or read", taken={*tables, STUDY}
    )
    return Readers({**tables, **added.by_name}, added.broken)


def known_readers() -> dict[str, Reader]:
    """Every reader that works, by name."""
    return dict(installed_readers().by_name)


def reader_named(name: str) -> Reader:
    """The reader that ``--as`` asks for.

    Raises
    ------
    InputError
        For an unknown name, with the known ones, and for a reader that does not work.
    """
    readers = installed_readers()
    if name in WITHOUT_RESPONSES:
        raise InputError(
            f"a source read --as {name} holds no responses, which this command needs",
            fix="use `safemetry factors`, which reads it",
        )
    if name in readers.broken:
        raise InputError(
            f"the reader {name!r} cannot be used: {readers.broken[name]}",
            fix="update or uninstall that package",
        )
    if name not in readers.by_name:
        raise InputError(
            f"there is no reader {name!r}", fix=f"use one of {STUDY}, {', '.join(readers.by_name)}"
        )
    return readers.by_name[name]


def detect(source: Source, evidence_map: EvidenceMap) -> Reader | None:
    """The one reader that recognises the source, or None.

    Raises
    ------
    InputError
        Where more than one does, naming them; or none does, and one could not look.
    """
    fits: list[Reader] = []
    problems: list[InputError] = []
    for name, reader in installed_readers().by_name.items():
        if name in TABLE_NAMES:
            continue
        try:
            if recognises(reader, source):
                fits.append(reader)
        except InputError as error:
            problems.append(error)
    try:
        sample = read_sample(source, evidence_map.encoding)
    except InputError as error:
        problems.append(error)
    else:
        if sample is not None:
            fits += [reader for reader in TABLE_READERS if reader.fits(sample, evidence_map)]
    if len(fits) > 1:
        raise InputError(
            f"could be read as {' and '.join(reader.name for reader in fits)}",
            file=source.shown,
            fix="say which with " + " or ".join(f"--as {reader.name}" for reader in fits),
        )
    if not fits and problems:
        raise problems[0]
    return fits[0] if fits else None


def recognises(reader: Reader, source: Source) -> bool:
    """Whether a reader recognises a source.

    Raises
    ------
    InputError
        Where the source cannot be read, or the reader of another package fails.
    """
    try:
        return reader.recognises(source)
    except SafemetryError:
        raise
    except Exception as error:
        if _is_own(reader):
            raise
        raise _failed(reader, source, error) from error


def convert(reader: Reader, source: Source, evidence_map: EvidenceMap) -> Conversion:
    """What a reader makes of a source.

    Raises
    ------
    InputError
        Where the source cannot be used, or the reader of another package fails.
    MissingExtraError
        Where the reader needs a package that is not installed.
    """
    try:
        return reader.read(source, evidence_map)
    except InputError as error:
        raise error.at(source.shown) from error
    except SafemetryError:
        raise
    except Exception as error:
        if _is_own(reader):
            raise
        raise _failed(reader, source, error) from error


def texts_of(
    reader: TextReader, source: Source, evidence_map: EvidenceMap
) -> Iterator[ResponseText]:
    """The texts that a reader finds in a source.

    Raises
    ------
    InputError, MissingExtraError
        As `convert`.
    """
    try:
        yield from reader.texts(source, evidence_map)
    except InputError as error:
        raise error.at(source.shown) from error
    except SafemetryError:
        raise
    except Exception as error:
        if _is_own(reader):
            raise
        raise _failed(reader, source, error) from error


def _is_own(reader: Reader) -> bool:
    return type(reader).__module__.startswith("safemetry.")


def _failed(reader: Reader, source: Source, error: Exception) -> InputError:
    """The error of another package, as one about the source; an error of ours stays a defect."""
    said = " ".join(str(error).split())[:200]
    return InputError(
        f"the reader {reader.name!r} of {type(reader).__module__} failed "
        f"({type(error).__name__}: {said})",
        file=source.shown,
        fix="report it to the authors of that package, or say with --as how to read the source",
    )


def children_of(folder: Path) -> list[Path]:
    """What lies in a folder, in a stable order; hidden entries left out.

    Raises
    ------
    InputError
        Where the folder cannot be listed, or is a study that lost its `study.json`.
    """
    Study.refuse_lost(folder)
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"cannot be listed ({error.strerror})", file=str(folder)) from error


def files_below(folder: Path) -> list[Path]:
    """The files of a folder in a stable order, hidden ones left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
