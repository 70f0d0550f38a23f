"""A source: a local path or a URL, read within stated limits."""

from __future__ import annotations

import json
import math
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Never
from urllib.parse import urlsplit, urlunsplit

from safemetry.errors import InputError
from safemetry.evidence.maps import Limits
from safemetry.extras import require

HEAD_BYTES = 65_536
_BLOCK = 4 * 2**20
_UTF8_BOM = b"\xef\xbb\xbf"
_REPLACEMENT_HINT = "save it as UTF-8, or name its encoding in the map (encoding: cp1252)"


def not_a_number(constant: str) -> Never:
    """Refuse the constants that JSON does not have; pass as `parse_constant`."""
    msg = f"{constant} is not a JSON value"
    raise ValueError(msg)


def _said(error: json.JSONDecodeError) -> str:
    return error.msg.removesuffix(" at")


def _strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=not_a_number)


@dataclass(frozen=True)
class Source:
    """One thing to read.

    Parameters
    ----------
    location
        A local path, or a URL that fsspec opens (extra ``remote``).
    limits
        How much is read before the source is refused.
    """

    location: str
    limits: Limits = field(default_factory=Limits)

    @property
    def is_remote(self) -> bool:
        """Whether the location is a URL."""
        return "://" in self.location

    @property
    def path(self) -> Path:
        """The local path."""
        return Path(self.location)

    @cached_property
    def shown(self) -> str:
        """The location as it may be shown and kept: of a URL without user, password and query."""
        if not self.is_remote:
            return self.location
        parts = urlsplit(self.location)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def name(self) -> str:
        """The last part of the location, which is the run of rows that name none."""
        return self.shown.rstrip("/").rpartition("/")[2] or self.shown

    @property
    def is_folder(self) -> bool:
        """Whether this is a local folder."""
        try:
            return not self.is_remote and stat.S_ISDIR(self.path.stat().st_mode)
        except (OSError, ValueError):
            return False

    def refuse_unreadable(self) -> None:
        """Refuse a path where there is nothing, or neither a file nor a folder.

        Raises
        ------
        InputError
            A pipe would be waited for, and a device never ends. Also for a URL of a protocol that
            fsspec does not know, or lacks a package for.
        MissingExtraError
            For a URL, where fsspec is not installed.
        """
        if self.is_remote:
            try:
                require("fsspec").get_filesystem_class(urlsplit(self.location).scheme)
            except (ValueError, ImportError) as error:
                raise self._unreadable(error) from error
            return
        try:
            mode = self.path.stat().st_mode
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(
                "is neither a file nor a folder",
                file=self.shown,
                fix="save what it gives in a file, and name that",
            )

    def _unreadable(self, error: Exception) -> InputError:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return InputError("no such file or folder", file=self.shown)
        said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        said = said.replace(self.location, self.shown)
        return InputError(f"cannot be read ({said or type(error).__name__})", file=self.shown)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes of the source.

        Raises
        ------
        InputError
            Where it cannot be opened or read.
        """
        self.refuse_unreadable()
        opener = self._open_remote if self.is_remote else self.path.open
        try:
            with opener("rb") as stream:
                yield stream
        except OSError as error:
            raise self._unreadable(error) from error

    def _open_remote(self, mode: str) -> Any:
        fsspec = require("fsspec")
        try:
            return fsspec.open(self.location, mode).open()
        except Exception as error:  # each protocol raises errors of its own
            raise self._unreadable(error) from error

    @contextmanager
    def local_copy(self) -> Iterator[Path]:
        """A local file with the bytes of the source: itself, or a copy of what a URL gives.

        Raises
        ------
        InputError
            Where it cannot be read, or a URL gives more than the limit for tables.
        """
        self.refuse_unreadable()
        if not self.is_remote:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="safemetry-") as folder:
            copy, total = Path(folder) / "copy", 0
            with self.open() as stream, copy.open("wb") as target:
                while block := stream.read(_BLOCK):
                    total += len(block)
                    if total > self.limits.table_bytes:
                        raise self.too_large(self.limits.table_bytes, "table_bytes")
                    target.write(block)
            yield copy

    @cached_property
    def head(self) -> bytes:
        """The first bytes, without a byte order mark; empty for a folder."""
        if self.is_folder:
            return b""
        with self.open() as stream:
            return stream.read(HEAD_BYTES).removeprefix(_UTF8_BOM)

    @cached_property
    def size(self) -> int | None:
        """Size in bytes, or None for a URL."""
        self.refuse_unreadable()
        return None if self.is_remote else self.path.stat().st_size

    def read_bytes(self) -> bytes:
        """The whole content, refused above the limit for documents."""
        limit = self.limits.document_bytes
        with self.open() as stream:
            content = stream.read(limit + 1)
        if len(content) > limit:
            raise self.too_large(limit, "document_bytes")
        if not content:
            raise InputError("the file is empty", file=self.shown)
        return content.removeprefix(_UTF8_BOM)

    def too_large(self, limit: int, name: str) -> InputError:
        """The error for a source above one of its limits."""
        return InputError(
            f"is larger than the limit of {limit:,} bytes",
            file=self.shown,
            fix=f"raise limits.{name} in the map if you trust the file",
        )

    def read_text(self) -> str:
        """The whole content as UTF-8 text."""
        return self.decode(self.read_bytes())

    def decode(self, content: bytes, *, line: int | None = None) -> str:
        """Bytes as UTF-8 text, with the place of the first byte that is not."""
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            at = (line or 1) + content.count(b"\n", 0, error.start)
            raise InputError(
                f"byte {content[error.start]:#04x} is not UTF-8",
                file=self.shown,
                line=at,
                fix=_REPLACEMENT_HINT,
            ) from error

    def read_json(self) -> Any:
        """The whole content as one JSON value; NaN and infinities are refused."""
        return self.parse_json(self.read_text())

    def parse_json(self, text: str, *, constant: Callable[[str], Any] = not_a_number) -> Any:
        """Text of this source as one JSON value.

        Parameters
        ----------
        text
            What `read_text` gave.
        constant
            What becomes of NaN and the infinities, which are refused unless told otherwise; `float`
            keeps them, for formats whose writers put them into figures that nobody reads.
        """
        try:
            return json.loads(text, parse_constant=constant)
        except json.JSONDecodeError as error:
            raise InputError(
                f"is damaged or cut short ({_said(error)} at character {error.pos:,})",
                file=self.shown,
                line=error.lineno,
                fix="export it again",
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._not_json(error) from error

    def _not_json(self, error: Exception, *, line: int | None = None) -> InputError:
        """The error for text that JSON's grammar allows, or nearly so, and that is not read."""
        fix = "export it again" if line is None else "export it again, or remove the line"
        problem = f"is not valid JSON ({error})"
        if isinstance(error, RecursionError):
            problem = "is nested too deeply"
        elif "set_int_max_str_digits" in str(error):
            problem = f"holds a number of more than {sys.get_int_max_str_digits():,} digits"
            fix = "write it as a text, or export it again"
        return InputError(problem, file=self.shown, line=line, fix=fix)

    def read_lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with their numbers from 1, blank lines left out.

        Raises
        ------
        InputError
            For an empty file, one above the limit, or a line above its limit.
        """
        total = 0
        number = 0
        seen = False
        with self.open() as stream:
            while line := stream.readline(self.limits.line_bytes + 1):
                number += 1
                total += len(line)
                if len(line) > self.limits.line_bytes:
                    raise InputError(
                        f"is longer than the limit of {self.limits.line_bytes:,} bytes",
                        file=self.shown,
                        line=number,
                        fix="raise limits.line_bytes in the map if you trust the file",
                    )
                if total > self.limits.table_bytes:
                    raise self.too_large(self.limits.table_bytes, "table_bytes")
                if number == 1:
                    line = line.removeprefix(_UTF8_BOM)
                if line.strip():
                    seen = True
                    yield number, line
        if not seen:
            raise InputError("the file is empty", file=self.shown)

    def read_json_line(
        self, number: int, line: bytes, decode: Callable[[str], Any] = _strict_json
    ) -> Any:
        """One line as a JSON value.

        Parameters
        ----------
        number
            Number of the line, from 1.
        line
            Its bytes.
        decode
            What reads the text; by default JSON without NaN and infinities.
        """
        text = self.decode(line, line=number)
        try:
            return decode(text)
        except json.JSONDecodeError as error:
            raise InputError(
                f"is damaged or cut short ({_said(error)} at character {error.colno:,})",
                file=self.shown,
                line=number,
                fix="export it again, or remove the line",
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._not_json(error, line=number) from error


def finite(value: Any) -> float | None:
    """A real number of the source as a float; None where it is NaN, infinite or no number."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON knows whole numbers of any length
        return None
    return number if math.isfinite(number) else None
