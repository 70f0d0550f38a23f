"""The command line. Commands are imported when they run, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from safemetry.errors import SafemetryError

EXIT_FAILED: Final = 1
EXIT_INPUT: Final = 2
EXIT_INTERNAL: Final = 70
EXIT_INTERRUPTED: Final = 130

_COMMANDS: Final = {
    "import": "evidence:import_",
    "check": "evidence:check",
    "correct": "evidence:correct",
    "items": "evidence:items",
    "export": "evidence:export",
    "rates": "rates:rates",
    "compare": "rates:compare",
    "plan": "rates:plan",
    "coverage": "rates:coverage",
    "demo": "demo:demo",
}


class _Commands(click.Group):
    """A group whose commands live in modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"safemetry.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where one is misspelt."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            if near:
                error.message += f" Did you mean {near[0]!r}?"
            raise


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SAFEMETRY"},
    epilog="Start with: safemetry demo -o DIR, or safemetry rates YOUR_LOG.",
)
@click.version_option(package_name="safemetry", prog_name="safemetry")
def cli() -> None:
    """Measure what AI-safety evaluations really show.

    Reads the item-level logs that you have (Inspect, HELM, garak, plain tables) and says how high
    the failure rate may still be, with what was missing and what the numbers hold for.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with the exit code of the contract.

    0 done, 1 a failed check, 2 usage or input error, 70 internal error, 130 interrupt.
    """
    try:
        code = cli.main(args=arguments, prog_name="safemetry", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = EXIT_INPUT
    except SafemetryError as error:
        click.echo(f"Error: {error}", err=True)
        code = EXIT_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; Python must not complain while it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if os.environ.get("SAFEMETRY_TRACEBACK"):
            raise
        click.echo(
            f"Internal error: {type(error).__name__}: {error}. Nothing is wrong with your input "
            "as far as safemetry can tell; set SAFEMETRY_TRACEBACK=1 to see where it broke.",
            err=True,
        )
        code = EXIT_INTERNAL
    sys.exit(code if isinstance(code, int) else 0)
