"""CSV files, strictly: every cell is text, and a lost quote or separator is noticed."""

from __future__ import annotations

import codecs
import csv
import io
import mmap
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from safemetry.errors import InputError
from safemetry.readers.source import HEAD_BYTES, Source
from safemetry.readers.table import (
    SAMPLE_ROWS,
    Sample,
    Table,
    first_lines,
    numbered,
    refuse_repeated_names,
)

SEPARATORS: Final = (",", "\t", ";")
QUOTED: Final = re.compile(r'"[^"]*"')
_BLOCK: Final = 4 * 2**20
_RECORD_IN_MESSAGE = re.compile(r"Row #(\d+)")
_FIELDS_IN_MESSAGE = re.compile(r"Expected (\d+) columns?, got (\d+)")


def sample_csv(source: Source, encoding: str) -> Sample | None:
    """The first rows, damaged ones left out; None where there is no header."""
    lines = b"".join(line for _, line in first_lines(source, encoding))
    text = lines.decode(encoding, errors="replace").removeprefix("\ufeff")
    separator = _separator(text)
    content = text.encode()
    names = _header(content, separator)
    if not names:
        return None
    try:
        rows = _parse_csv(io.BytesIO(content), names, separator, on_damage=lambda _: "skip")
    except pa.ArrowException:
        rows = pa.table({name: pa.array([], pa.string()) for name in numbered(names)})
    return Sample(rows.rename_columns(numbered(rows.column_names)).slice(0, SAMPLE_ROWS))


def _separator(text: str) -> str:
    """The separator that the header uses most, outside quotes."""
    first = QUOTED.sub("", text.lstrip("\r\n")).splitlines() or [""]
    return max(SEPARATORS, key=first[0].count)


def _header(content: bytes, separator: str) -> list[str]:
    """Names of the columns, as the parser of the rows reads them too."""
    try:
        reader = pacsv.open_csv(
            io.BytesIO(content + b"\n"),
            read_options=pacsv.ReadOptions(
                use_threads=False, autogenerate_column_names=True, block_size=len(content) + 1
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                invalid_row_handler=lambda _: "skip",
            ),
            convert_options=pacsv.ConvertOptions(default_column_type=pa.string()),
        )
        first = reader.read_next_batch()
    except (pa.ArrowException, StopIteration):
        return []
    return [str(column[0].as_py() or "") for column in first.columns] if first.num_rows else []


def read_csv(source: Source, encoding: str, columns: Collection[str] | None) -> Table:
    """The rows, every cell as text and empty ones as null.

    Raises
    ------
    InputError
        For bytes of another encoding, a zero byte, a quote that is not closed, two columns of one
        name, or a row with more or fewer cells than the header.
    """
    with _as_utf8(source, encoding) as path:
        lines, separator, names = _inspect_csv(source, path)
        kept = [name for name in names if columns is None or name in columns]
        try:
            table = _parse_with_room(source, path, names, kept, separator)
        except pa.ArrowException as error:
            raise _csv_error(source, path, separator, error) from error
    return Table(
        table,
        tuple(names),
        table.num_rows,
        # Blank lines and cells of several lines move rows away from the lines of their number.
        header_lines=1 if lines == table.num_rows + 1 else 0,
    )


@contextmanager
def _as_utf8(source: Source, encoding: str) -> Iterator[Path]:
    """A local file with the table in UTF-8: the source itself, or a copy."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError as error:
        raise unknown_encoding(source, encoding) from error
    with source.local_copy() as path:
        if name == "utf-8":
            yield path
            return
        decoder = codecs.getincrementaldecoder(name)()
        with tempfile.TemporaryDirectory(prefix="safemetry-") as folder:
            copy = Path(folder) / "utf-8"
            line = 1
            with path.open("rb") as stream, copy.open("wb") as target:
                while block := stream.read(_BLOCK):
                    try:
                        text = decoder.decode(block)
                    except UnicodeDecodeError as error:
                        before = bytes(error.object[: error.start])
                        raise InputError(
                            f"byte {error.object[error.start]:#04x} is not in the encoding "
                            f"{encoding}",
                            file=source.shown,
                            line=line + before.decode(name, errors="replace").count("\n"),
                            fix="name another encoding in the map",
                        ) from error
                    line += text.count("\n")
                    target.write(text.encode())
            yield copy


def unknown_encoding(source: Source, encoding: str) -> InputError:
    """The error for an encoding that Python does not know."""
    return InputError(
        f"there is no encoding {encoding!r}",
        file=source.shown,
        fix="write a name that Python knows, such as utf-8 or cp1252, under encoding in the map",
    )


def _inspect_csv(source: Source, path: Path) -> tuple[int, str, list[str]]:
    """Number of lines, separator and header of a file whose bytes and quotes are in order."""
    if not path.stat().st_size:
        raise InputError("the file is empty", file=source.shown)
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        if (at := content.find(b"\x00")) >= 0:
            raise InputError(
                "holds a zero byte, as files do that were cut off while they were written",
                file=source.shown,
                line=content[:at].count(b"\n") + 1,
                fix="export it again",
            )
        start = len(codecs.BOM_UTF8) if content[:3] == codecs.BOM_UTF8 else 0
        head = content[start : start + HEAD_BYTES].decode(errors="replace")
        separator = _separator(head)
        if not _is_well_quoted(content, start, separator):
            _refuse_stray_quote(source, content, start, separator)
        header = content[start : start + _header_end(content, start)]
        source.decode(header)
        names = _header(header, separator)
        lines = sum(content[at : at + _BLOCK].count(b"\n") for at in range(0, len(content), _BLOCK))
        lines += content[len(content) - 1 : len(content)] != b"\n"
    refuse_repeated_names(source, names, line=1)
    return lines, separator, names


def _header_end(content: mmap.mmap, start: int) -> int:
    """Length of the first lines, up to one where every quote is closed."""
    content.seek(start)
    header = b""
    while line := content.readline():
        header += line
        if header.strip() and header.count(b'"') % 2 == 0:
            break
    return len(header)


def _is_well_quoted(content: mmap.mmap, start: int, separator: str) -> bool:
    """Whether quotes alternate between opening a cell, where one begins, and closing it.

    A doubled quote inside a cell closes and opens it again at once. If this holds for all quotes,
    none is open at the end, and none was lost on the way.
    """
    beside = np.zeros(256, dtype=bool)
    beside[list(f'"\r\n{separator}'.encode())] = True
    seen, size = 0, len(content)
    whole = np.frombuffer(content, dtype=np.uint8)
    for block in range(start, size, _BLOCK):
        quotes = np.flatnonzero(whole[block : block + _BLOCK] == ord('"')) + block
        opening, closing = quotes[seen % 2 :: 2], quotes[1 - seen % 2 :: 2]
        seen += len(quotes)
        before = whole[opening[opening > start] - 1]
        after = whole[closing[closing < size - 1] + 1]
        if not (beside[before].all() and beside[after].all()):
            return False
    return seen % 2 == 0


def _refuse_stray_quote(source: Source, content: mmap.mmap, start: int, separator: str) -> None:
    """Refuse the first quote that neither opens a cell nor closes one.

    After a lost quote a parser takes rows for the text of a cell, and after a lost separator the
    text of a cell for other cells.
    """
    mark = re.escape(separator).encode()
    well_quoted = re.compile(
        rb'(?:[^"]++'
        rb"|(?:\A|(?<=\xef\xbb\xbf)|(?<=[" + mark + rb"\r\n]))"
        rb'"[^"]*+(?:""[^"]*+)*+"(?=[' + mark + rb"\r\n]|\Z))*+"
    )
    found = well_quoted.match(content)
    at = found.end() if found else start
    if at == len(content):
        return
    opens = at == start or content[at - 1 : at] in {b"\r", b"\n", separator.encode()}
    raise InputError(
        "a quoted cell begins here that does not end before a separator"
        if opens
        else "a quote stands amid an unquoted cell",
        file=source.shown,
        line=content[:at].count(b"\n") + 1,
        fix='quote the whole cell and double every " inside it, or export a damaged file again',
    )


def _parse_with_room(
    source: Source, path: Path, names: list[str], kept: list[str], separator: str
) -> pa.Table:
    """The table, with larger blocks where a row does not fit into one."""
    limit = max(source.limits.line_bytes, _BLOCK)
    for block_size in (_BLOCK, limit):
        try:
            with path.open("rb") as stream:
                return _parse_csv(stream, names, separator, kept=kept, block_size=block_size)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                raise
    raise InputError(
        f"a row is longer than the limit of {limit:,} bytes",
        file=source.shown,
        fix="raise limits.line_bytes in the map if you trust the file",
    )


def csv_batches(source: Source, encoding: str, columns: Collection[str]) -> Iterator[pa.Table]:
    """The rows piece by piece, as far as the columns are there; the whole is never in memory.

    Raises
    ------
    InputError
        As `read_csv`.
    """
    with _as_utf8(source, encoding) as path:
        _, separator, names = _inspect_csv(source, path)
        kept = [name for name in names if name in columns]
        if not kept:
            return
        try:
            with path.open("rb") as stream:
                options = _options(
                    names, separator, kept=kept, block_size=max(source.limits.line_bytes, _BLOCK)
                )
                for batch in pacsv.open_csv(stream, **options):
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise _csv_error(source, path, separator, error) from error


def _parse_csv(
    stream: IO[bytes],
    names: Sequence[str],
    separator: str,
    *,
    kept: Sequence[str] | None = None,
    block_size: int = _BLOCK,
    on_damage: Any = None,
) -> pa.Table:
    options = _options(names, separator, kept=kept, block_size=block_size, on_damage=on_damage)
    return pacsv.read_csv(stream, **options)


def _options(
    names: Sequence[str],
    separator: str,
    *,
    kept: Sequence[str] | None,
    block_size: int,
    on_damage: Any = None,
) -> dict[str, Any]:
    """How the parser reads rows: every cell as text, and empty ones as null."""
    return {
        # Row numbers in error messages exist only on one thread.
        "read_options": pacsv.ReadOptions(use_threads=False, block_size=block_size),
        "parse_options": pacsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=on_damage
        ),
        "convert_options": pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=kept or None,
            strings_can_be_null=True,
            null_values=[""],
        ),
    }


def _csv_error(source: Source, path: Path, separator: str, error: Exception) -> InputError:
    said = str(error)
    if "UTF8" in said or "UTF-8" in said:
        for at, content in Source(str(path), source.limits).read_lines():
            try:
                source.decode(content, line=at)
            except InputError as precise:
                return precise
    if "Empty CSV" in said:
        return InputError("the table has a header but no rows", file=source.shown)
    record = _RECORD_IN_MESSAGE.search(said)
    fields = _FIELDS_IN_MESSAGE.search(said)
    number = int(record.group(1)) if record else None
    row = number - 1 if number else None
    line = _line_of(path, separator, number) if number else None
    if fields:
        return InputError(
            f"has {fields.group(2)} cells where the header has {fields.group(1)}",
            file=source.shown,
            row=row,
            line=line,
            fix="quote cells that hold a separator, or complete the row",
        )
    shown = said.partition(": ")[2] or said
    return InputError(
        f"cannot be read as a table ({' '.join(shown.split())[:200]})",
        file=source.shown,
        row=row,
        line=line,
    )


def _line_of(path: Path, separator: str, record: int) -> int | None:
    """The line where a record begins; records are counted from 1, blank lines left out."""
    with path.open(encoding="utf-8", errors="replace", newline="") as text:
        reader = csv.reader(text, delimiter=separator)
        ends = ((cells, reader.line_num) for cells in reader)
        try:
            if record == 1:
                return next(end for cells, end in ends if cells)
            seen = 0
            for (cells, before), (after, _) in pairwise(ends):
                seen += bool(cells)
                if seen == record - 1 and after:
                    return before + 1
        except csv.Error:  # a cell beyond the limit of Python's own parser
            return None
    return None
