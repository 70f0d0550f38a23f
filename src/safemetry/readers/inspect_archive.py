"""The zip archive of an Inspect log, looked over before Inspect opens it.

Inspect reads a log without comparing check sums and without a limit on what a member expands to,
so a damaged byte could become another score and a small file could fill the memory. Members are
expanded here once, in pieces that are thrown away, only to count and check their bytes.
"""

from __future__ import annotations

import importlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import IO, Any, Final

from safemetry.errors import InputError
from safemetry.readers.source import Source

HEADER: Final = "header.json"
START: Final = "_journal/start.json"
SAMPLES: Final = "samples/"

_FIRST_BYTES: Final = (b"PK\x03\x04", b"PK\x05\x06")
_LOCAL_HEADER: Final = 30
_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\x05\x06"
_LONGEST_COMMENT: Final = 0xFFFF
_LOCATOR: Final = struct.Struct("<4sLQL")
_LOCATOR_SIGNATURE: Final = b"PK\x06\x07"
_MORE: Final = 0xFFFF
"""Count of members that stands for "see the larger record"."""
_COUNT_64: Final = 32
"""Place of the count in that record."""
_PIECE: Final = 1 << 20
_ZSTANDARD: Final = 93
_ENCRYPTED: Final = 0x1
_AGAIN: Final = "copy or download it again"


def is_zip(head: bytes) -> bool:
    """Whether bytes are the start of a zip archive."""
    return head.startswith(_FIRST_BYTES)


def starts_like_a_log(head: bytes) -> bool:
    """Whether the first member of an archive is the journal that Inspect writes first."""
    return head[_LOCAL_HEADER:].startswith(START.encode())


def names_a_log(path: Path) -> bool:
    """Whether the directory of an archive names the members that make it an Inspect log."""
    try:
        with zipfile.ZipFile(path) as archive:
            return not {HEADER, START}.isdisjoint(archive.NameToInfo)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


@contextmanager
def opened(source: Source, path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive of a log, with the limits on what it expands to checked.

    Parameters
    ----------
    source
        Names the log in errors, and holds the limits.
    path
        Local copy of the log.

    Raises
    ------
    InputError
        Where the directory is damaged or cut off, the archive is no Inspect log, or its members
        would expand beyond the limits.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InputError(
            "is damaged or cut short (the directory of the archive is not readable)",
            file=source.location,
            fix=_AGAIN,
        ) from error
    with archive:
        if len(archive.infolist()) != _stated_count(path):
            raise InputError(
                "is damaged (the directory of the archive does not list all of its parts)",
                file=source.location,
                fix=_AGAIN,
            )
        if {HEADER, START}.isdisjoint(archive.NameToInfo):
            raise InputError(
                f"is a zip archive but no Inspect log (neither {HEADER} nor {START} is in it)",
                file=source.location,
                fix="name the format with --as",
            )
        _check_expansion(source, archive.infolist(), path.stat().st_size)
        yield archive


def _stated_count(path: Path) -> int | None:
    """How many members the end of the archive states.

    Neither `zipfile` nor Inspect compares it with the directory, so that one damaged length there
    makes them overlook every member that follows.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        start = max(0, size - _END.size - _LONGEST_COMMENT)
        stream.seek(start)
        tail = stream.read()
        at = tail.rfind(_END_SIGNATURE)
        if at < 0 or at + _END.size > len(tail):
            return None
        count: int = _END.unpack_from(tail, at)[4]
        stream.seek(max(0, start + at - _LOCATOR.size))
        signature, _, offset, _ = _LOCATOR.unpack(stream.read(_LOCATOR.size).rjust(_LOCATOR.size))
        if signature != _LOCATOR_SIGNATURE or count != _MORE:
            return count
        stream.seek(offset + _COUNT_64)
        return int.from_bytes(stream.read(8), "little")


def _check_expansion(source: Source, members: Iterable[zipfile.ZipInfo], size: int) -> None:
    expanded = sum(member.file_size for member in members)
    limits = source.limits
    if expanded > limits.expanded_bytes:
        raise InputError(
            f"expands to {expanded:,} bytes, above the limit of {limits.expanded_bytes:,}",
            file=source.location,
            fix="raise limits.expanded_bytes in the map if you trust the file",
        )
    if expanded > limits.expansion * size:
        raise InputError(
            f"expands to {expanded // size:,} times its size, above the limit of "
            f"{limits.expansion:,}",
            file=source.location,
            fix="raise limits.expansion in the map if you trust the file",
        )


def check_members(source: Source, archive: zipfile.ZipFile, names: Iterable[str]) -> None:
    """Check that members expand to the size and the check sum that the directory states.

    Raises
    ------
    InputError
        Naming the first member that does not, or that is above the limit for one document.
    """
    for name in names:
        member = archive.getinfo(name)  # of a name given twice the later one, as in Inspect
        if member.file_size > source.limits.document_bytes:
            raise source.too_large(source.limits.document_bytes, "document_bytes")
        try:
            whole = _is_whole(archive, member)
        except Exception as error:
            # zlib, zstandard and zipfile each have errors of their own for the same damage
            raise _damaged(source, name) from error
        if not whole:
            raise _damaged(source, name)


def _damaged(source: Source, member: str) -> InputError:
    return InputError(
        f"is damaged (the part {member!r} does not match its check sum)",
        file=source.location,
        fix=_AGAIN,
    )


def _is_whole(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    if member.flag_bits & _ENCRYPTED:
        return False
    # Read as if stored, the member is its compressed bytes, whatever the method; the local header
    # is compared on the way.
    raw = copy(member)
    raw.compress_type = zipfile.ZIP_STORED
    raw.file_size = member.compress_size
    raw.CRC = None  # type: ignore[assignment]
    size = sum_so_far = 0
    with archive.open(raw) as stream:
        for piece in _EXPAND[member.compress_type](stream):
            size += len(piece)
            sum_so_far = zlib.crc32(piece, sum_so_far)
            if size > member.file_size:
                return False
    return size == member.file_size and sum_so_far == member.CRC


def _stored(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _inflated(stream: IO[bytes]) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in _stored(stream):
        rest = piece
        while rest:
            yield inflate.decompress(rest, _PIECE)
            rest = inflate.unconsumed_tail
    yield inflate.flush()


def _unzstd(stream: IO[bytes]) -> Iterator[bytes]:
    zstandard: Any = importlib.import_module("zstandard")  # comes with inspect-ai
    # Inspect starts a new frame after 200 MiB.
    with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
        while piece := reader.read(_PIECE):
            yield piece


_EXPAND: Final = {
    zipfile.ZIP_STORED: _stored,
    zipfile.ZIP_DEFLATED: _inflated,
    _ZSTANDARD: _unzstd,
}
