"""The command line. Commands are imported when they run, so that `--help` is quick."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any, Final, Self

import click

from safemetry.errors import SafemetryError

EXIT_FAILED: Final = 1
EXIT_INPUT: Final = 2
EXIT_INTERNAL: Final = 70
EXIT_INTERRUPTED: Final = 130

_COMMANDS: Final = {
    "demo": ("demo:demo", "Simulate a study with known truth and write its report."),
    "import": ("evidence:import_", "Read logs and tables into a study."),
    "check": ("evidence:check", "Verify that a study is whole."),
    "correct": ("evidence:correct", "Correct judgements without editing them."),
    "items": ("evidence:items", "List items that broke, went unjudged or divide judges."),
    "export": ("evidence:export", "Write judgements as CSV, Parquet or Every Eval Ever."),
    "report": ("report:report", "Write a report: one page that says what the evidence supports."),
    "rates": ("rates:rates", "Measure how often targets went along, and how sure that is."),
    "compare": ("compare:compare", "Compare two targets or releases on the same items."),
    "judges": ("judges:judges", "Audit the judges: collapse, agreement, corrected rates."),
    "calibrate": ("calibrate:calibrate", "Fit an item response model to items and targets."),
    "factors": ("factors:factors", "Find what several benchmarks have in common."),
    "construct": ("construct:construct", "Audit whether a score measures one thing."),
    "shorten": ("shorten:shorten", "Choose the items that are worth running."),
    "adapt": ("adapt:adapt", "Test adaptively: the next item depends on the answers."),
    "audit": ("audit:audit", "Audit one target: person fit, ability shift, fingerprint."),
    "plan": ("planning:plan", "Say how many trials a statement needs."),
    "coverage": ("planning:coverage", "Show which attacks and categories were never tried."),
}

_EPILOG: Final = """\b
Examples:
  safemetry demo -o demo/
  safemetry rates logs/ --by category
  safemetry import logs/*.eval --into study/
  safemetry report study/ -o report.html
  safemetry plan --ceiling 0.001

`safemetry COMMAND --help` explains each command. An option can also be set in the environment: \
SAFEMETRY_SEED, SAFEMETRY_JOBS and SAFEMETRY_QUIET for all commands, others as in \
SAFEMETRY_RATES_SUCCESS."""


class _ClosedPipeError(Exception):
    """Whoever read the output has seen enough."""


class _Commands(click.Group):
    """A group whose commands live in modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(f"safemetry.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, of which none is imported for it."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where one is misspelt."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            said = f"No such command {args[0]!r}."
            said += f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(said, ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would leave with exit code 1 where a pipe is closed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ClosedPipeError from error
        except KeyboardInterrupt as error:
            raise click.Abort from error


@click.group(
    cls=_Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
    },
    epilog=_EPILOG,
)
@click.version_option(package_name="safemetry", prog_name="safemetry")
def cli() -> None:
    """Measure what AI-safety evaluations really show.

    Reads the item-level logs that you have (Inspect, HELM, garak, PyRIT, promptfoo, lm-eval,
    plain tables, and more) and says how high the failure rate may still be, with what was missing
    and what the numbers hold for.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with the exit code of the contract.

    0 done, 1 a failed check, 2 usage or input error, 70 internal error, 130 interrupt.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started the program
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            # A name that the terminal's encoding lacks must not end the program.
            stream.reconfigure(errors="backslashreplace")
    with _Interrupts() as interrupts:
        code = _run(arguments, interrupts)
    try:
        sys.stdout.flush()
    except OSError as error:
        _leave_stdout()
        if not isinstance(error, BrokenPipeError):
            code = _unwritable(error)
    sys.exit(code)


class _Interrupts:
    """Remembers Ctrl-C: what runs outside Python reports it as an error of its own kind."""

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None
        self._ours = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._ours = (
            threading.current_thread() is threading.main_thread()
            and self._before is signal.default_int_handler
        )
        if self._ours:
            signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *error: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._before)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)


def _run(arguments: Sequence[str] | None, interrupts: _Interrupts) -> int:
    code: Any
    stdout = sys.stdout
    try:
        code = cli.main(args=arguments, prog_name="safemetry", standalone_mode=False)
    except (_ClosedPipeError, BrokenPipeError):
        _leave_stdout()
        code = 0
    except SystemExit:
        if sys.stdout is stdout:
            raise
        code = (
            0  # click met the closed pipe while it printed help, and put stdout out of harm's way
        )
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort
        if interrupts.seen or isinstance(error, click.Abort | KeyboardInterrupt):
            click.echo("Interrupted.", err=True)
            code = EXIT_INTERRUPTED
        else:
            code = _explained(error)
    return code if isinstance(code, int) else 0


def _explained(error: Exception) -> int:
    """Say in one line what went wrong, and return the exit code for it."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return EXIT_INPUT
    if isinstance(error, click.ClickException | SafemetryError):
        _complain(_usage(error) if isinstance(error, click.ClickException) else str(error))
        return EXIT_INPUT
    if os.environ.get("SAFEMETRY_TRACEBACK"):
        raise error
    if isinstance(error, OSError) and error.strerror:
        return _unwritable(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        _complain(
            "memory ran out; give more with SAFEMETRY_MEMORY=8GB, or narrow the rows with --filter"
        )
        return EXIT_INTERNAL
    if type(error).__module__.partition(".")[0] in {"duckdb", "_duckdb"}:
        # A table is read where it lies, so a damaged page may show only when its column is counted.
        said = " ".join(str(error).partition("\n")[0].split())
        _complain(f"a table cannot be read ({said}); if it is damaged, write it again")
        return EXIT_INPUT
    _complain(
        f"internal, {type(error).__name__}: {error}; nothing is wrong with your input as far as "
        "safemetry can tell, set SAFEMETRY_TRACEBACK=1 to see where it broke"
    )
    return EXIT_INTERNAL


def _unwritable(error: OSError) -> int:
    """The system refused a file, or standard output where it names none."""
    if error.filename is None:
        _leave_stdout()
    _complain(f"{error.filename or 'standard output'}: {error.strerror}")
    return EXIT_INPUT


def _usage(error: click.ClickException) -> str:
    said = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "safemetry"
    return f"{said} (see {where} --help)"


def _complain(message: str) -> None:
    from safemetry.cli.output import complain

    complain(message)


def _leave_stdout() -> None:
    """Let Python close standard output without complaint: nobody reads it any more."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
