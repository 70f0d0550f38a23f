"""Options that every command shares, gathered into one object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from safemetry.evidence.evidence import Evidence
    from safemetry.evidence.maps import EvidenceMap

Command = Callable[..., Any]
KINDS = "study, tidy, labels, matrix, or a reader (inspect, helm, garak)"


@dataclass(frozen=True)
class Shared:
    """What the shared options say.

    Parameters
    ----------
    map_file
        Path of the map, or None.
    filters
        ``COL=VALUE`` pairs.
    kind
        What the source is, where content alone does not decide.
    seed, jobs
        For draws and parallel work.
    quiet
        Whether messages and tables are left out.
    json_to
        Path of the JSON result, ``-`` for standard output, or None.
    """

    map_file: Path | None
    filters: tuple[str, ...]
    kind: str | None
    seed: int
    jobs: int | None
    quiet: bool
    json_to: str | None

    def evidence_map(self) -> EvidenceMap:
        """The map, or an empty one."""
        from safemetry.evidence.maps import EvidenceMap, read_map

        return read_map(self.map_file) if self.map_file else EvidenceMap()

    def evidence(self, sources: tuple[str, ...]) -> Evidence:
        """The filtered evidence of the sources."""
        from safemetry.evidence.engine import connect
        from safemetry.readers import read_evidence

        found = read_evidence(
            *sources,
            evidence_map=self.evidence_map(),
            kind=self.kind,
            connection=connect(jobs=self.jobs),
        )
        return found.filter(**self.filter_values()) if self.filters else found

    def filter_values(self) -> dict[str, str]:
        """The filters by column."""
        values = {}
        for pair in self.filters:
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise click.UsageError(f"--filter {pair!r} is not written COL=VALUE")
            values[name] = value
        return values


def shared_options(command: Command) -> Command:
    """Give a command the shared options; it receives them as one `Shared` in `shared`."""

    @click.option(
        "--map",
        "map_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML file that names columns, labels, intents and scales.",
    )
    @click.option(
        "--filter", "filters", multiple=True, metavar="COL=VALUE", help="Keep only these rows."
    )
    @click.option("--as", "kind", metavar="KIND", help=f"What the source is: {KINDS}.")
    @click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        envvar="SAFEMETRY_SEED",
        show_default=True,
        help="Seed of every draw.",
    )
    @click.option(
        "--jobs", type=click.IntRange(min=1), envvar="SAFEMETRY_JOBS", help="Threads to use."
    )
    @click.option(
        "--quiet", is_flag=True, envvar="SAFEMETRY_QUIET", help="No tables and no messages."
    )
    @click.option(
        "--json", "json_to", metavar="PATH|-", help="Write the result as JSON; - for stdout."
    )
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        map_file: Path | None,
        filters: tuple[str, ...],
        kind: str | None,
        seed: int,
        jobs: int | None,
        quiet: bool,
        json_to: str | None,
        **options: Any,
    ) -> Any:
        shared = Shared(map_file, filters, kind, seed, jobs, quiet, json_to)
        return command(*arguments, shared=shared, **options)

    return wrapped


def comma_list(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    """Callback for options that take names separated by commas."""
    del ctx, parameter
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def example(text: str) -> str:
    """An epilog with a real call, shown as it is typed."""
    return f"\b\nExample:\n  {text}"
