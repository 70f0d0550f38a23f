"""Where the files of Every Eval Ever lie: records, and the lines beside them.

A record names the file of its lines by a path inside the datastore. Only its last part is used:
the lines of a record lie beside it, and nothing outside that folder is opened.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.maps import Limits
from safemetry.readers.every_eval_ever_record import Record, parse_record
from safemetry.readers.source import Source

LINES_END: Final = "_samples.jsonl"
RECORD_END: Final = ".json"

_IN_LINE: Final = ("schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id")
_IN_RECORD: Final = ("schema_version", "evaluation_id", "source_metadata", "model_info")
_ENTRIES: Final = 500_000
_SNIFFED: Final = 2_000
_BLOCK: Final = 4 * 2**20


@dataclass(frozen=True)
class Part:
    """Lines that belong together, and the record that speaks of them.

    Parameters
    ----------
    lines
        The file with the lines.
    name
        How the judgements name it.
    record
        The record, or None where there is none beside it.
    """

    lines: Source
    name: str
    record: Record | None = None


@dataclass(frozen=True)
class Found:
    """What a source holds.

    Parameters
    ----------
    parts
        In the order of their names.
    records
        Number of records that lines belong to.
    bare
        Number of records without lines.
    failures
        Records that cannot be used.
    """

    parts: tuple[Part, ...]
    records: int = 0
    bare: int = 0
    failures: tuple[InputError, ...] = ()


def is_lines(source: Source) -> bool:
    """Whether the first line is one of a sample, by the keys that open it."""
    return _has_keys(source.head.lstrip().partition(b"\n")[0], _IN_LINE)


def is_record(source: Source) -> bool:
    """Whether the head is that of an aggregate record."""
    head = source.head.lstrip()
    return _has_keys(head, _IN_RECORD) and not is_lines(source)


def _has_keys(head: bytes, names: tuple[str, ...]) -> bool:
    return head.startswith(b"{") and all(
        re.search(rb'"' + name.encode() + rb'"\s*:', head) for name in names
    )


def looks_like(source: Source) -> bool:
    """Whether a source is of the format, by the head of a file or a bounded look at a folder."""
    if not source.is_folder:
        return is_lines(source) or is_record(source)
    return any(
        _is_known(Source(str(path), source.limits)) for path in _files(source.path, _SNIFFED)
    )


def _is_known(source: Source) -> bool:
    try:
        return is_lines(source) or is_record(source)
    except InputError:
        return False


def find(source: Source) -> Found:
    """The lines of a source, with their records.

    Raises
    ------
    InputError
        Where there are none: for a record without lines, with the reason.
    """
    if source.is_folder:
        return _in_folder(source)
    if not is_record(source):
        record = None if source.is_remote else _record_of(source.path, source.limits)
        return Found((Part(source, source.name, record),), records=int(record is not None))
    record = parse_record(source)
    lines = lines_of(record)
    if lines is None:
        raise InputError(
            "is an aggregate record without lines of its samples; rates are counted from samples, "
            "and figures of others are only compared with them",
            file=source.shown,
            fix=f"put the {LINES_END} of the same run beside it",
        )
    return Found((Part(lines, lines.name, record),), records=1)


def lines_of(record: Record) -> Source | None:
    """The file with the lines of a record, or None where there is none.

    A record that names none still has those that lie beside it under its own name.

    Raises
    ------
    InputError
        Where it is not there, is not a file of lines, or lies outside the folder of the record.
    """
    if record.details is None:
        beside = record.source.path.with_name(record.source.path.stem + LINES_END)
        found = Source(str(beside), record.source.limits)
        has_lines = not record.source.is_remote and beside.is_file() and is_lines(found)
        return found if has_lines and _stays(beside, record) else None
    kind, named = record.details.get("format"), record.details.get("file_path")
    if not isinstance(named, str) or not named.strip():
        raise _bad_reference(record, "names no file with the lines of its samples")
    if kind is not None and kind != "jsonl":
        raise _bad_reference(
            record, f"keeps the lines of its samples as {str(kind)[:40]!r}, and only jsonl is read"
        )
    if record.source.is_remote or "://" in named:
        raise _bad_reference(
            record,
            "refers to lines that lie elsewhere, and nothing is fetched that was not named",
            fix="save the record and its lines in one folder, or name the lines themselves",
        )
    name = PureWindowsPath(named.strip()).name
    beside = record.source.path.parent / name
    # `..` and the like have no name of their own; a null byte is no part of any.
    if not name or name in {".", ".."} or "\0" in name or not beside.is_file():
        raise _bad_reference(
            record,
            f"refers to lines in {name[:200]!r}, which does not lie beside it",
            fix="put it into the folder of the record, or name the lines themselves",
        )
    if not _stays(beside, record):
        raise _bad_reference(
            record,
            f"refers to lines in {name[:200]!r}, a link that leads out of its folder",
            fix="copy the file that it leads to into the folder",
        )
    found = Source(str(beside), record.source.limits)
    if not is_lines(found):
        raise _bad_reference(record, f"refers to {name[:200]!r}, which holds no lines of samples")
    return found


def _stays(path: Path, record: Record) -> bool:
    """Whether a file lies in the folder of the record, links followed."""
    return path.resolve().parent == record.source.path.parent.resolve()


def _bad_reference(
    record: Record, problem: str, *, column: str | None = None, fix: str | None = None
) -> InputError:
    place = "detailed_evaluation_results"
    return InputError(
        problem,
        file=record.source.shown,
        column=f"{place}.{column}" if column else place,
        fix=fix or "export the record again",
    )


def _sibling(lines: Path) -> Path | None:
    """The record that shares the name of a file of lines, where there is one."""
    if not lines.name.endswith(LINES_END):
        return None
    beside = lines.with_name(lines.name.removesuffix(LINES_END) + RECORD_END)
    return beside if beside.is_file() else None


def _record_of(lines: Path, limits: Limits) -> Record | None:
    """The record beside a file of lines.

    Raises
    ------
    InputError
        Where it is damaged: without it, the lines would be read under other names.
    """
    beside = _sibling(lines)
    if beside is None or beside.resolve().parent != lines.parent.resolve():
        return None
    record = parse_record(Source(str(beside), limits))
    found = lines_of(record)
    return record if found is not None and found.path == lines else None


def _in_folder(folder: Source) -> Found:
    """Every record and file of lines below a folder."""
    records: dict[Path, Record] = {}
    failed: dict[Path, InputError] = {}
    lines: list[Path] = []
    bare = 0
    for path in _files(folder.path, _ENTRIES):
        source = Source(str(path), folder.limits)
        try:
            if is_lines(source):
                lines.append(path)
            elif is_record(source):
                bare += not _add_record(records, parse_record(source))
        except InputError as error:
            failed[path] = error
    for path in lines:
        _add_alone(records, failed, path, folder.limits)
    found = sorted({*records, *(path for path in lines if _sibling(path) not in failed)})
    if not found:
        raise next(iter(failed.values()), _nothing(folder, bare))
    parts = tuple(
        Part(
            Source(str(path), folder.limits),
            path.relative_to(folder.path).as_posix(),
            records.get(path),
        )
        for path in found
    )
    return Found(parts, records=len(records), bare=bare, failures=tuple(failed.values()))


def _add_record(records: dict[Path, Record], record: Record) -> bool:
    """Note a record under the file of its lines; False where it has none."""
    lines = lines_of(record)
    if lines is None:
        return False
    if lines.path in records:
        raise _bad_reference(record, "refers to the lines of another record")
    records[lines.path] = record
    return True


def _add_alone(
    records: dict[Path, Record], failed: dict[Path, InputError], path: Path, limits: Limits
) -> None:
    """Note the record that shares the name of lines which no record refers to."""
    beside = _sibling(path)
    if beside is None or path in records or beside in failed:
        return
    try:
        # It is there and was not recognised, or refers to other lines.
        _record_of(path, limits)
    except InputError as error:
        failed[beside] = error


def _nothing(folder: Source, bare: int) -> InputError:
    return InputError(
        f"holds {bare:,} aggregate records and no lines of their samples"
        if bare
        else "holds neither records nor lines of Every Eval Ever",
        file=folder.shown,
        fix=f"rates are counted from samples: put the {LINES_END} files beside the records",
    )


def _files(root: Path, most: int) -> Iterator[Path]:
    """The JSON files below a folder, in order; hidden ones and links to folders left out."""
    left = most
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            left -= 1
            if left < 0:
                if most == _SNIFFED:
                    return
                raise InputError(
                    f"holds more than {most:,} files",
                    file=str(root),
                    fix="name a folder inside it",
                )
            path = Path(folder, name)
            if not name.startswith(".") and name.endswith((".json", ".jsonl")) and path.is_file():
                yield path


def changed(part: Part) -> str | None:
    """What the record says of the bytes of its lines that is not so, as a clause.

    Raises
    ------
    InputError
        Where the record names its kind of checksum by something else than a text.
    """
    details: Any = (part.record.details if part.record else None) or {}
    algorithm, stated = details.get("hash_algorithm"), details.get("checksum")
    if part.record and algorithm is not None and not isinstance(algorithm, str):
        raise _bad_reference(part.record, "is no text", column="hash_algorithm")
    if algorithm not in {"sha256", "md5"} or not isinstance(stated, str) or part.lines.is_remote:
        return None
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with part.lines.open() as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() == stated.strip().casefold():
        return None
    return f"its {algorithm} checksum is not the one that the record states"
