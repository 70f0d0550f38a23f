"""What there is to read under a location: files, folders that are one source, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.study import Study
from safemetry.readers.conversion import Reader
from safemetry.readers.detect import (
    STUDY,
    TABLE_NAMES,
    children_of,
    detect,
    reader_named,
    recognises,
)
from safemetry.readers.source import Source
from safemetry.readers.tables import kind_of_table, not_a_table, read_sample, read_table

NOT_RECOGNISED: Final = "not recognised by any reader"


@dataclass(frozen=True)
class Recognised:
    """A source and the reader that will read it."""

    source: Source
    reader: Reader


@dataclass(frozen=True)
class LeftOut:
    """Something in a folder that is no source, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Refused:
    """A source that cannot be read, and why."""

    path: str
    error: InputError


Found = Recognised | LeftOut | Refused


def find_sources(
    names: Sequence[str], evidence_map: EvidenceMap, kind: str | None
) -> list[str | Found]:
    """What there is to read under some names, in their order; a study stands as its name.

    Raises
    ------
    InputError
        Where there is nothing, as `expand`, or where a source is named twice.
    """
    if not names:
        raise InputError("there is nothing to read", fix="name a source")
    found: list[str | Found] = []
    for name in names:
        Source(name).refuse_unreadable()
        if kind == STUDY or (kind is None and Study.is_study(name)):
            found.append(name)
        else:
            found += expand(name, evidence_map, kind)
    _refuse_named_twice(found)
    return found


def _refuse_named_twice(found: Sequence[str | Found]) -> None:
    """Refuse a source that two names lead to: its rows would count twice."""
    seen: dict[Path | str, str] = {}
    for item in found:
        if not isinstance(item, str | Recognised):
            continue
        location = item if isinstance(item, str) else item.source.location
        is_remote = isinstance(item, Recognised) and item.source.is_remote
        place = location if is_remote else Path(location).resolve()
        if place in seen:
            raise InputError(
                "is named twice, as " + f"{seen[place]} and {location}"
                if seen[place] != location
                else "is named twice",
                file=location,
                fix="name it once: its rows would count twice",
            )
        seen[place] = location


def expand(location: str, evidence_map: EvidenceMap, kind: str | None) -> list[Found]:
    """What there is to read under a location, in a stable order.

    Raises
    ------
    InputError
        Where the location does not exist, is neither a file nor a folder, is an empty folder, is
        ambiguous, or is a file that no reader recognises.
    """
    source = Source(location, evidence_map.limits)
    source.refuse_unreadable()
    if kind is not None:
        return _expand_as(source, reader_named(kind), evidence_map)
    if source.is_folder:
        found = _expand_folder(source, evidence_map)
        if not found:
            raise InputError("the folder is empty", file=source.shown)
        return found
    reader = detect(source, evidence_map)
    if reader is None:
        raise _unrecognised(source, evidence_map)
    return [Recognised(source, reader)]


def _expand_as(source: Source, reader: Reader, evidence_map: EvidenceMap) -> list[Found]:
    """The source as one, or of a folder the files in it that the asked reader can read."""
    if not source.is_folder or (reader.name not in TABLE_NAMES and recognises(reader, source)):
        return [Recognised(source, reader)]

    def choose(child: Source) -> Reader | None:
        if reader.name in TABLE_NAMES:
            return reader if kind_of_table(child, evidence_map.encoding) else None
        return reader if recognises(reader, child) else None

    found = _expand_folder(source, evidence_map, choose)
    if not any(isinstance(item, Recognised | Refused) for item in found):
        raise InputError(f"holds nothing that {reader.name} can read", file=source.shown)
    return found


def _expand_folder(
    folder: Source,
    evidence_map: EvidenceMap,
    choose: Callable[[Source], Reader | None] | None = None,
) -> list[Found]:
    """What lies in a folder; the folder itself where it is one source and holds no others."""

    def known(source: Source) -> Reader | None:
        return choose(source) if choose is not None else detect(source, evidence_map)

    try:
        children = children_of(folder.path)
        reader = known(folder)
    except InputError as error:
        return [Refused(folder.location, error)]
    found: list[Found] = []
    for path in children:
        child = Source(str(path), evidence_map.limits)
        if path.is_symlink() and child.is_folder:
            found.append(LeftOut(str(path), "a link to a folder"))
        elif Study.is_study(path):
            found.append(LeftOut(str(path), "a study, which is named by itself"))
        elif child.is_folder:
            found += _expand_folder(child, evidence_map, choose)
        else:
            found.append(_expand_file(child, known))
    if reader is not None and all(_belongs(item, reader) for item in found):
        return [Recognised(folder, reader)]
    return found


def _belongs(item: Found, reader: Reader) -> bool:
    """Whether a reader of the folder reads this too: it is of its format, or no source at all."""
    return item.reader is reader if isinstance(item, Recognised) else isinstance(item, LeftOut)


def _expand_file(source: Source, known: Callable[[Source], Reader | None]) -> Found:
    try:
        source.refuse_unreadable()
        reader = known(source)
        if reader is not None:
            return Recognised(source, reader)
        return LeftOut(source.location, NOT_RECOGNISED if source.head.strip() else "empty")
    except InputError as error:
        return Refused(source.location, error)


def _unrecognised(source: Source, evidence_map: EvidenceMap) -> InputError:
    """Why no reader takes a file, with the place where a table is damaged."""
    if kind_of_table(source, evidence_map.encoding) is None:
        error = not_a_table(source)
        if not source.head.strip():
            return InputError(error.problem, file=source.shown, fix="name another file")
        said = f"no reader recognises it: it {error.problem}"
        return InputError(
            said if error.problem.startswith("is ") else error.problem,
            file=source.shown,
            fix=error.fix or "say what it is with --as",
        )
    sample = read_sample(source, evidence_map.encoding)
    if sample is None or not sample.rows.num_rows:
        # Reading it fails with the precise place where the table is damaged.
        columns = read_table(source, evidence_map.encoding).columns
    else:
        columns = sample.names
    shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
    return InputError(
        f"its columns ({shown}) make neither a tidy table (target, item, and label or score), "
        "nor a label table, nor a matrix",
        file=source.shown,
        fix="name the columns with --map, or say what it is with --as",
    )


def run_names(found: Sequence[Recognised]) -> dict[str, str]:
    """Location -> the run of its rows that name none: the file name, with folders where needed.

    Two files of the same name are two runs: `a/results.csv` and `b/results.csv`.
    """
    parts = {
        item.source.location: Path(item.source.shown).parts
        if item.source.is_remote
        else item.source.path.absolute().parts
        for item in found
    }
    names = {item.source.location: item.source.name for item in found}
    length = 1
    while clashing := _clashing(names, parts):
        length += 1
        for location in clashing:
            names[location] = "/".join(parts[location][-length:])
        if length > max(len(parts[location]) for location in clashing):
            break
    return names


def _clashing(names: Mapping[str, str], parts: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Locations that share their name with another place."""
    places: dict[str, set[tuple[str, ...]]] = {}
    for location, name in names.items():
        places.setdefault(name, set()).add(parts[location])
    return [location for location, name in names.items() if len(places[name]) > 1]
