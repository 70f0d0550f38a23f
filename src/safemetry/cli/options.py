"""Options: those that every command shares, their types, and how they are set and explained."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from safemetry.cli.output import Busy
    from safemetry.evidence.evidence import Evidence
    from safemetry.evidence.maps import EvidenceMap
    from safemetry.readers import Texts

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
KINDS: Final = (
    "study, tidy, labels, matrix, correlation, scores, or a reader: inspect, helm, garak, "
    "promptfoo, pyrit, jailbreakbench, lm-eval, eee, modelbench, deepteam"
)
PREFIX: Final = "SAFEMETRY"
_OF_EVERY_COMMAND: Final = frozenset({"seed", "quiet", "jobs"})
"""Options that one environment variable sets for all commands."""
_SHARED: Final = frozenset(
    {"map_file", "constants", "filters", "kind", "seed", "jobs", "quiet", "json_to"}
)


# --- types ---------------------------------------------------------------------------------------


class Number(click.ParamType[float]):
    """A finite number between two open limits; where both are given, a percentage will do.

    Parameters
    ----------
    above, below
        The limits, which do not belong to the range.
    """

    name = "number"

    def __init__(self, *, above: float = -math.inf, below: float = math.inf) -> None:
        self._above = above
        self._below = below

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that a text stands for."""
        text = str(value).strip()
        is_share = math.isfinite(self._below) and text.endswith("%")
        try:
            number = float(text.removesuffix("%")) / 100 if is_share else float(text)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        if not self._above < number < self._below:
            said = (
                f"above {self._above:g}"
                if math.isinf(self._below)
                else f"between {self._above:g} and {self._below:g}"
            )
            self.fail(f"{value!r} is not {said}.", param, ctx)
        return number


class Whole(click.ParamType[int]):
    """A whole number, not under a least one."""

    name = "whole number"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that a text stands for."""
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        if number < self._least:
            self.fail(f"{value!r} is below {self._least}.", param, ctx)
        return number


class _Equation(click.ParamType[tuple[str, str]]):
    """``COL=VALUE``; in an environment variable one a line, since values may hold anything."""

    name = "COL=VALUE"
    envvar_list_splitter = "\n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The two sides."""
        name, equals, wanted = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not written COL=VALUE.", param, ctx)
        return name.strip(), wanted


SHARE: Final = Number(above=0, below=1)
POSITIVE: Final = Number(above=0)


# --- what the shared options say -----------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """What the shared options say.

    Parameters
    ----------
    map_file
        Path of the map, or None.
    constants
        Pairs of column and the value that every row has there.
    filters
        Pairs of column and value.
    kind
        What the source is, where content alone does not decide.
    seed, jobs
        For draws and parallel work.
    quiet
        Whether messages and tables are left out.
    json_to
        Path of the JSON result, ``-`` for standard output, or None.
    busy
        The sign of life that ends when the command prints.
    """

    map_file: Path | None
    constants: tuple[tuple[str, str], ...]
    filters: tuple[tuple[str, str], ...]
    kind: str | None
    seed: int
    jobs: int | None
    quiet: bool
    json_to: str | None
    busy: Busy = field(repr=False, compare=False)

    def evidence_map(self) -> EvidenceMap:
        """The map, or an empty one, with the constants of ``--set``.

        Raises
        ------
        InputError
            For a map that cannot be read, or a column that cannot be the same for every row.
        """
        from safemetry.errors import InputError
        from safemetry.evidence.maps import EvidenceMap, make_map, read_map

        read = read_map(self.map_file) if self.map_file else EvidenceMap()
        if not self.constants:
            return read
        entries = read.model_dump(exclude_unset=True)
        entries["constants"] = {**read.constants, **dict(self.constants)}
        try:
            return make_map(entries)
        except InputError as error:
            said = error.problem.partition("constants")[2].lstrip(".: ")
            raise InputError(f"--set: {said}", fix=error.fix) from error

    def evidence(
        self,
        sources: Sequence[str],
        *,
        judge: str | None = None,
        order: Sequence[str] | None = None,
    ) -> Evidence:
        """The filtered evidence of the sources, of one judge and in one class order if named."""
        from safemetry.evidence.engine import connect
        from safemetry.readers import read_evidence

        self._refuse_to_set_columns_of_a_study(sources)
        found = read_evidence(
            *sources,
            evidence_map=self.evidence_map() if order is None else self._map_in(order),
            kind=self.kind,
            connection=connect(jobs=self.jobs),
        )
        if self.filters:
            found = found.filter(**self.filter_values())
        return found if judge is None else only_judge(found, judge)

    def _map_in(self, order: Sequence[str]) -> EvidenceMap:
        """The map with another class order."""
        from safemetry.evidence.maps import make_map

        entries = self.evidence_map().model_dump(exclude_unset=True)
        return make_map({**entries, "classes": list(order)})

    def texts(self, sources: Sequence[str]) -> Texts:
        """The texts of the responses of the sources, read as they are asked for."""
        from safemetry.readers import read_texts

        return read_texts(*sources, evidence_map=self.evidence_map(), kind=self.kind)

    def _refuse_to_set_columns_of_a_study(self, sources: Sequence[str]) -> None:
        from safemetry.errors import InputError
        from safemetry.evidence.study import Study

        if self.constants:
            for source in sources:
                if self.kind == "study" or Study.is_study(source):
                    raise InputError(
                        "--set fills columns of logs and tables, and a study has them already",
                        file=source,
                        fix="use it with `safemetry import`, or correct the study",
                    )

    def filter_values(self) -> dict[str, tuple[str, ...]]:
        """The wanted values by column; a column that is named twice may have either value."""
        from safemetry.errors import InputError
        from safemetry.evidence.schema import NAMES

        values: dict[str, tuple[str, ...]] = {}
        for name, value in self.filters:
            if name not in NAMES:
                raise InputError(
                    f"--filter: there is no column {name!r}", fix=f"use one of {', '.join(NAMES)}"
                )
            values[name] = (*values.get(name, ()), value)
        return values

    def settings(self) -> dict[str, Any]:
        """The shared options that decide what a result says."""
        return {
            "map": None if self.map_file is None else str(self.map_file),
            "set": dict(self.constants),
            "filter": {
                name: [value for column, value in self.filters if column == name]
                for name in dict.fromkeys(name for name, _ in self.filters)
            },
            "as": self.kind,
            "seed": self.seed,
        }


def only_judge(evidence: Evidence, judge: str) -> Evidence:
    """The judgements of one judge.

    Raises
    ------
    InputError
        Where it judged nothing here, with those who did.
    """
    from safemetry.errors import InputError

    if judge not in evidence.instruments:
        raise InputError(
            f"there is no judge {judge!r}", fix=f"the judges are {listing(evidence.instruments)}"
        )
    return evidence.filter(judge=judge)


def listing(names: Sequence[str] | Any, most: int = 12) -> str:
    """Names for a message, the first of them where there are many."""
    known = sorted(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more


def shared_options(function: Function, *, seed: int = 0) -> Function:
    """Give a command the shared options; it receives them as one `Shared` in `shared`."""
    default_seed = seed

    @click.option(
        "--map",
        "map_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML file that names columns, labels, intents and scales.",
    )
    @click.option(
        "--set",
        "constants",
        multiple=True,
        type=_Equation(),
        metavar="COL=VALUE",
        help="Fill a column that the source lacks, such as target=NAME; repeat it for more.",
    )
    @click.option(
        "--filter",
        "filters",
        multiple=True,
        type=_Equation(),
        metavar="COL=VALUE",
        help="Keep only these rows; repeat it for more columns or values.",
    )
    @click.option(
        "--as", "kind", metavar="KIND", help=f"What the source is, if not by its content: {KINDS}."
    )
    @click.option(
        "--seed",
        type=Whole(0),
        metavar="N",
        default=default_seed,
        show_default=True,
        help="Seed of every draw.",
    )
    @click.option("--jobs", type=Whole(1), metavar="N", help="Threads to use. [default: all]")
    @click.option("--quiet", is_flag=True, help="No tables and no notes; errors stay.")
    @click.option(
        "--json", "json_to", metavar="PATH|-", help="Write the result as JSON; - for stdout."
    )
    @functools.wraps(function)
    def wrapped(
        *arguments: Any,
        map_file: Path | None,
        constants: tuple[tuple[str, str], ...],
        filters: tuple[tuple[str, str], ...],
        kind: str | None,
        seed: int,
        jobs: int | None,
        quiet: bool,
        json_to: str | None,
        **options: Any,
    ) -> Any:
        from safemetry.cli.output import busy

        _refuse_to_overwrite(options, map_file, json_to)
        with busy(f"safemetry {function.__name__.rstrip('_')}:", quiet=quiet) as sign:
            shared = Shared(map_file, constants, filters, kind, seed, jobs, quiet, json_to, sign)
            return function(*arguments, shared=shared, **options)

    return wrapped


_READ: Final = (
    *("sources", "baseline", "candidate", "file", "sampling", "notes", "calibration", "history"),
    *("before", "prior"),
)
_COLUMNS: Final = (
    *("per", "apart", "by", "order", "clusters", "structure", "structures", "groups", "families"),
    *("developers", "cluster"),
)
"""Options that may name a file as FILE:COL."""

_WRITTEN: Final = {
    "output": "-o",
    "sheet": "--sheet",
    "card": "--card",
    "form_file": "--form",
    "session_file": "--session",
}


def _refuse_to_overwrite(
    options: Mapping[str, Any], map_file: Path | None, json_to: str | None
) -> None:
    """Refuse to write a result over a file that is read, or two results into one file.

    Raises
    ------
    click.UsageError
        Naming the file.
    """
    read: list[Any] = [map_file]
    for name in _READ:
        given = options.get(name)
        read += given if isinstance(given, tuple | list) else [given]
    for name in _COLUMNS:
        given = options.get(name)
        for column in given if isinstance(given, tuple | list) else [given]:
            read.append(str(column or "").rpartition(":")[0])
    for quota in options.get("quotas") or ():
        read.append(str(quota[0]).rpartition(":")[0])
    written = [("--json", json_to), *((flag, options.get(name)) for name, flag in _WRITTEN.items())]
    places = [(flag, Path(str(path))) for flag, path in written if path and str(path) != "-"]
    for flag, path in places:
        if any(given and _is_one_file(Path(str(given)), path) for given in read):
            raise click.UsageError(f"{flag} names {str(path)!r}, which is read; name another file.")
    for (first, path), (second, other) in combinations(places, 2):
        if path.resolve() == other.resolve():
            raise click.UsageError(f"{second} and {first} both name {str(path)!r}.")


def _is_one_file(first: Path, second: Path) -> bool:
    try:
        if not second.exists():
            return False
        if first.is_dir() and (first / "calibration.json").exists():
            return second.resolve().is_relative_to(first.resolve())
        return first.is_file() and first.samefile(second)
    except (OSError, ValueError):
        return False


# --- commands ------------------------------------------------------------------------------------


class Command(click.Command):
    """A command whose options are set by the environment too, and whose help shows both kinds."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                parameter.envvar = self._variables(parameter)

    def _variables(self, option: click.Option) -> list[str]:
        word = next(name for name in option.opts if name.startswith("--"))[2:]
        own = "_".join((PREFIX, self.name or "", word)).upper().replace("-", "_")
        return [own, f"{PREFIX}_{word.upper()}"] if option.name in _OF_EVERY_COMMAND else [own]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; an error says so where a value came from the environment."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option = error.param
            if (
                isinstance(option, click.Option)
                and ctx.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
            ):
                variables = " or ".join(self._variables(option))
                said = error.format_message().rstrip(".")
                raise click.UsageError(
                    f"{said}, from the environment ({variables}).", ctx
                ) from error
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then those that every command has."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                (shared if parameter.name in _SHARED else own).append(record)
        for title, records in (("Options", own), ("Options of every command", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def command(name: str, *, examples: Sequence[str], seed: int = 0) -> Callable[[Function], Command]:
    """Make a function a command with the shared options.

    Parameters
    ----------
    name
        As it is typed.
    examples
        Real calls, shown in the help.
    seed
        Of every draw, where the user gives none.
    """

    def made(function: Function) -> Command:
        shared = shared_options(function, seed=seed)
        return click.command(name, cls=Command, epilog=example(*examples))(shared)

    return made


def names_option(flag: str, parameter: str, *, metavar: str, help: str) -> Decorator:
    """An option that takes names separated by commas, and may be repeated."""
    return click.option(
        flag, parameter, multiple=True, callback=_comma_list, metavar=metavar, help=help
    )


def _comma_list(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    del ctx, parameter
    parts = [part.strip() for value in values for part in value.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))


def example(*calls: str) -> str:
    """An epilog with real calls, shown as they are typed."""
    word = "Example" if len(calls) == 1 else "Examples"
    return f"\b\n{word}:\n" + "\n".join(f"  {call}" for call in calls)
