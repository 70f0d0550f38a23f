"""What a command prints: JSON on request, else tables that fit the terminal."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.tables import Column, Table, table, wrapped
from safemetry.display import visible
from safemetry.errors import InputError

if TYPE_CHECKING:
    from safemetry.cli.options import Shared
    from safemetry.findings import Finding

ROWS_ON_SCREEN: Final = 40
_STYLES: Final[dict[str, dict[str, Any]]] = {
    "title": {"bold": True},
    "header": {"dim": True},
    "group": {"bold": True},
    "plain": {},
}


def deliver(finding: Finding, shared: Shared, tables: Sequence[Table], *lines: str) -> None:
    """Write the JSON result where it was asked for, and the tables unless told to be quiet.

    With ``--json -`` standard output holds nothing but JSON, and warnings go to standard error.
    """
    shared.busy.stop()
    if shared.json_to:
        result = finding.to_dict()
        result["settings"] = explained({**shared.settings(), **result["settings"]})
        write_json(result, shared.json_to)
    if shared.quiet:
        return
    if shared.json_to != "-":
        show(tables, lines)
    for warning in finding.warnings:
        note(warning)


def explained(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which every null has its reason beside it: nobody gave that option."""
    made = {
        name: explained(value) if isinstance(value, Mapping) and name != "why" else value
        for name, value in settings.items()
    }
    silent = [name for name, value in made.items() if value is None]
    if silent:
        made["why"] = {**dict.fromkeys(silent, "not given"), **(made.get("why") or {})}
    return made


def write_json(result: Mapping[str, Any], path: str) -> None:
    """Write a JSON result to a path in one step, or to standard output for ``-``."""
    write_text(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n", Path(path))


def write_text(text: str, path: Path) -> None:
    """Write a text to a path in one step, or to standard output for ``-``."""
    if str(path) == "-":
        # Half a character, as in a file name that is no UTF-8, becomes an escape.
        click.echo(text.encode("utf-8", "backslashreplace"), nl=False)
        return
    write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: it holds the whole text or is not there."""
    content = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            path.write_bytes(content)  # a pipe or a device has no other name to be moved to
            return
        final = path.resolve()
        final.parent.mkdir(parents=True, exist_ok=True)
        draft = final.with_name(f".{final.name[:100]}.{os.getpid()}.draft")
        try:
            draft.write_bytes(content)
            draft.replace(final)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})", file=str(path)
        ) from error


def show(tables: Sequence[Table], lines: Sequence[str]) -> None:
    """Print tables and lines to standard output.

    A terminal gets words wrapped at its width and the first rows of each table; a pipe or file
    gets all rows, and sentences in one piece.
    """
    on_screen = sys.stdout.isatty()
    width = screen_width()
    for index, made in enumerate(tables):
        if index:
            _print("")
        for line in made.lines(width, most=ROWS_ON_SCREEN if on_screen else None):
            _print(line.text, **_STYLES[line.style])
        hidden = len(made.rows) - ROWS_ON_SCREEN
        if on_screen and hidden > 0:
            _print("    (narrow them with --filter, or send the output into a file)", dim=True)
    if tables and lines:
        _print("")
    for text in lines:
        safe = visible(text)
        # A command to go on with must stay whole, to be copied.
        as_it_is = not on_screen or safe.lstrip().startswith("safemetry ")
        for piece in (safe,) if as_it_is else wrapped(safe, width):
            _print(piece)


def note(message: str) -> None:
    """Print a message to standard error."""
    _say("Note:", message, "yellow")


def complain(message: str) -> None:
    """Print an error to standard error, in one line unless a terminal wraps it."""
    _say("Error:", message, "red")


def _say(word: str, message: str, colour: str) -> None:
    text = f"{word} {visible(' '.join(message.split()))}"
    pieces = list(wrapped(text, screen_width())) if sys.stderr.isatty() else [text]
    head, *rest = pieces
    styled = click.style(word, fg=colour, bold=True) + head.removeprefix(word)
    for piece in (styled, *rest):
        click.echo(piece, err=True, color=_colour())


def screen_width() -> int:
    """Columns of the terminal, of the environment variable ``COLUMNS``, or 80."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def _print(text: str, **style: Any) -> None:
    click.echo(click.style(text, **style) if style and text else text, color=_colour())


def _colour() -> bool | None:
    """False where colour is unwanted; None where click decides by whether there is a terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


class Busy:
    """A sign of life on standard error while a command works, on a terminal only.

    Parameters
    ----------
    doing
        What is being done.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to count the seconds, where somebody can see them."""
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Remove the sign; nothing of it is left in the way of what is printed."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        started = time.monotonic()
        if self._done.wait(1.0):
            return
        while not self._done.wait(0.5):
            seconds = time.monotonic() - started
            sys.stderr.write(f"\r{self._doing} {seconds:.0f} s")
            sys.stderr.flush()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@contextmanager
def busy(doing: str, *, quiet: bool) -> Iterator[Busy]:
    """A sign of life that ends with the block, whatever happens in it."""
    sign = Busy(doing)
    if not quiet:
        sign.start()
    try:
        yield sign
    finally:
        sign.stop()


__all__ = [
    "Busy",
    "Column",
    "Table",
    "busy",
    "complain",
    "deliver",
    "note",
    "show",
    "table",
    "write_json",
    "write_text",
    "write_whole",
]
