"""What a command prints: JSON on request, else tables that fit 80 columns."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safemetry.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from safemetry.cli.options import Shared
    from safemetry.findings import Finding


def deliver(finding: Finding, shared: Shared, tables: Sequence[Table], *lines: str) -> None:
    """Write the JSON result where it was asked for, and the tables unless told to be quiet.

    With ``--json -`` standard output holds nothing but JSON, and warnings go to standard error.
    """
    if shared.json_to:
        write_json(finding.to_dict(), shared.json_to)
    if shared.quiet:
        return
    to_stdout = shared.json_to != "-"
    if to_stdout:
        show(tables, lines)
    for warning in finding.warnings:
        note(warning)


def write_json(result: dict[str, Any], path: str) -> None:
    """Write a JSON result to a path in one step, or to standard output for ``-``."""
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if path == "-":
        click.echo(text.encode("utf-8", "surrogatepass"), nl=False)
        return
    write_whole(Path(path), text)


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: it holds the whole text or is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
        ) as stream:
            stream.write(text)
        os.replace(stream.name, path)  # noqa: PTH105 - the temporary name is a string
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", file=str(path)) from error


def show(tables: Sequence[Table], lines: Sequence[str]) -> None:
    """Print tables and lines to standard output."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A pipe or file has no width; the tables are laid out for 80 columns.
        console = Console(highlight=False, width=80)
    for table in tables:
        console.print(table)
    for line in lines:
        console.print(line, markup=False)


def note(message: str) -> None:
    """Print a message to standard error."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(f"Note: {message}", markup=False)


def table(title: str, *columns: tuple[str, str]) -> Table:
    """A table with columns of a name and a justification (``left`` or ``right``)."""
    from rich import box
    from rich.table import Table

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
    )
    for name, justify in columns:
        made.add_column(
            name,
            justify="right" if justify == "right" else "left",
            overflow="fold" if justify == "left" else "ellipsis",
            no_wrap=justify == "right",
        )
    return made


def cell(value: object) -> str:
    """Text for a table, with what a terminal would act on made visible."""
    from rich.markup import escape

    text = "" if value is None else str(value)
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return escape(text if len(text) <= 60 else text[:57] + "...")
