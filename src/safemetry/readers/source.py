"""A source: a local path or a URL, read within stated limits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Never

from safemetry.errors import InputError
from safemetry.evidence.maps import Limits
from safemetry.extras import require

HEAD_BYTES = 65_536
_UTF8_BOM = b"\xef\xbb\xbf"
_REPLACEMENT_HINT = "save it as UTF-8, or name its encoding in the map (encoding: cp1252)"


def not_a_number(constant: str) -> Never:
    """Refuse the constants that JSON does not have; pass as `parse_constant`."""
    msg = f"{constant} is not a JSON value"
    raise ValueError(msg)


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

    @property
    def name(self) -> str:
        """The last part of the location: what error messages and `source_file` show."""
        return self.location.rstrip("/").rpartition("/")[2] or self.location

    @property
    def is_folder(self) -> bool:
        """Whether this is a local folder."""
        return not self.is_remote and self.path.is_dir()

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes of the source."""
        try:
            if self.is_remote:
                with require("fsspec").open(self.location, "rb") as stream:
                    yield stream
            else:
                with self.path.open("rb") as stream:
                    yield stream
        except FileNotFoundError as error:
            raise InputError("no such file or folder", file=self.location) from error
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror or error})", file=self.location
            ) from error

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
        return None if self.is_remote else self.path.stat().st_size

    def read_bytes(self) -> bytes:
        """The whole content, refused above the limit for documents."""
        limit = self.limits.document_bytes
        with self.open() as stream:
            content = stream.read(limit + 1)
        if len(content) > limit:
            raise self.too_large(limit, "document_bytes")
        if not content:
            raise InputError("the file is empty", file=self.location)
        return content.removeprefix(_UTF8_BOM)

    def too_large(self, limit: int, name: str) -> InputError:
        """The error for a source above one of its limits."""
        return InputError(
            f"is larger than the limit of {limit:,} bytes",
            file=self.location,
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
                file=self.location,
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
                f"is damaged or cut short ({error.msg} at character {error.pos:,})",
                file=self.location,
                line=error.lineno,
                fix="export it again",
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not valid JSON ({error})", file=self.location) from error

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
                        file=self.location,
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
            raise InputError("the file is empty", file=self.location)

    def read_json_line(self, number: int, line: bytes) -> Any:
        """One line as a JSON value; NaN and infinities are refused."""
        text = self.decode(line, line=number)
        try:
            return json.loads(text, parse_constant=not_a_number)
        except json.JSONDecodeError as error:
            raise InputError(
                f"is damaged or cut short ({error.msg} at character {error.colno:,})",
                file=self.location,
                line=number,
                fix="export it again, or remove the line",
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"is not valid JSON ({error})", file=self.location, line=number
            ) from error


def finite(value: Any) -> float | None:
    """A real number of the source as a float; None where it is NaN, infinite or no number."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON knows whole numbers of any length
        return None
    return number if math.isfinite(number) else None
