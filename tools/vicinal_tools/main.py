"""The `vicinal` command: what it has, and how it ends.

    0  done, yes        1  no, or not in order        2  bad input        130  Ctrl-C        141  the reader went away

Each module of `commands` is one command or group, as `command`; it is imported when it is called or listed, so it
imports what is large inside its functions.
"""

import io
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

import click

from vicinal import __version__
from vicinal.errors import VicinalError

from . import commands

__all__ = ["cli", "main"]


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return cast(click.Command, import_module(f"{commands.__name__}.{cmd_name}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            if close:
                raise click.UsageError(f"{error.message} Is {close[0]!r} meant?", ctx) from error
            raise


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vicinal", message="%(prog)s %(version)s")
def cli() -> None:
    """One event service from the wire in the car to the query in the data centre."""


def main() -> None:
    sys.exit(_run())


def _run() -> int:
    _prepare_streams()
    try:
        code = _invoke()
        # Here, where a closed pipe can still be told from a failure, and not as the interpreter ends.
        sys.stdout.flush()
        return code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        _drop_output()
        click.echo(f"Error: {error}", err=True)
        return 2


def _invoke() -> int:
    try:
        # Not cli.main(): it says something on Ctrl-C, and calls a closed pipe a failure.
        with cli.make_context("vicinal", sys.argv[1:]) as ctx:
            cli.invoke(ctx)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except VicinalError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("vicinal"):
            raise
        click.echo(f"Error: this needs {error.name}, which is not installed; `vicinal doctor` says how.", err=True)
        return 2


def _prepare_streams() -> None:
    # Python has None for a stream its parent closed (vicinal >&-): then nothing comes, and nobody listens.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115 - a stream for as long as we run
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name the terminal's encoding lacks, or bytes of the command line that were no text: show them escaped.
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still buffered goes nowhere: the interpreter flushes once more as it ends, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
