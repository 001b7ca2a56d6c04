"""What the commands that talk to a broker share: how to reach it, scopes on the command line, how to run and to end."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .complain import BadInput

if TYPE_CHECKING:
    from vicinal_cloud.broker.client import Client

__all__ = [
    "DEFAULT",
    "Failed",
    "Reach",
    "identity_options",
    "parse_scopes",
    "reach_options",
    "run",
    "scope_options",
]

DEFAULT = "tcp://127.0.0.1:7447"
_TOKEN_FILE = "vicinal.token_file"
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Failed(click.ClickException):
    """It could not be done, and not because of what was typed."""

    exit_code = 1


class Reach:
    """Which broker, as whom."""

    def __init__(self, broker: str, name: str | None, ca: str | None, certificate: str | None, key: str | None) -> None:
        self.broker = broker
        self.token_file: str | None = click.get_current_context().meta.get(_TOKEN_FILE)
        self.name = name
        self._files = [None if path is None else Path(path) for path in (certificate, key, ca)]

    async def connect(self, broker: str | None = None, name: str | None = None, reconnect: bool = True) -> "Client":
        from vicinal_cloud.broker.address import Tls
        from vicinal_cloud.broker.client import connect
        from vicinal_cloud.broker.tokens import BadToken, read_token

        token = None
        if self.token_file is not None:
            token = partial(read_token, Path(self.token_file))
            try:
                token()  # its own kind errors; afterwards a file that is not there is waited for
            except (OSError, BadToken) as error:
                raise BadInput(
                    f"--token-file {self.token_file}: {getattr(error, 'strerror', None) or error}"
                ) from error
        tls = Tls(*self._files)
        try:
            return await connect(broker or self.broker, name or self.name, tls, reconnect=reconnect, token=token)
        except BadToken as error:
            raise BadInput(f"--token-file {self.token_file}: {error}") from error


def reach_options(command: F) -> F:
    return click.option(
        "--broker", "-b", envvar="VICINAL_BROKER", default=DEFAULT, show_default=True, metavar="ADDRESS",
        help="tcp://, tls://, ws:// or wss://HOST:PORT; also VICINAL_BROKER.",
    )(identity_options(command))  # fmt: skip


def _keep_token_file(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    ctx.meta[_TOKEN_FILE] = value


def identity_options(command: F) -> F:
    path = click.Path(exists=True, dir_okay=False)
    for option in reversed(
        [
            click.option("--name", help="Whom to be; else a name that nobody has."),
            click.option("--ca", type=path, help="Whom to trust (PEM), with tls:// and wss://."),
            click.option("--cert", "certificate", type=path, help="Our certificate (PEM), where the broker wants one."),
            click.option("--key", type=path, help="Its key (PEM)."),
            click.option(
                "--token-file", type=path, envvar="VICINAL_TOKEN_FILE", expose_value=False, callback=_keep_token_file,
                help="A signed token that says who we are, in a file; also VICINAL_TOKEN_FILE.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def scope_options(command: F) -> F:
    command = click.option(
        "--only", is_flag=True, help="Nothing to do with scopes of dimensions that are not named with --scope."
    )(command)
    return click.option(
        "--scope", "-s", "scopes", multiple=True, metavar="DIMENSION=SCOPE", help="In a scope; one for each dimension."
    )(command)


def parse_scopes(options: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in options:
        dimension, equals, scope = option.partition("=")
        if not equals or not dimension or not scope:
            raise BadInput(f"--scope {option!r}: want DIMENSION=SCOPE, as in geography=london")
        if dimension in found:
            raise BadInput(f"--scope {option!r}: dimension {dimension!r} has {found[dimension]!r} already")
        found[dimension] = scope
    return found


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs it. What a broker, or the lack of one, says becomes a message and an exit code."""
    from vicinal_cloud.broker.client import Closed, Refused
    from vicinal_cloud.broker.dial import CannotConnect

    try:
        return asyncio.run(work)
    except CannotConnect as error:
        advice = "\nStart one with: vicinal broker run CONFIG" if "nothing listens" in str(error) else ""
        raise Failed(f"{error}{advice}") from error
    except Refused as error:
        raise BadInput(f"the broker refused: {error}") from error
    except Closed as error:
        raise Failed(str(error)) from error
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
