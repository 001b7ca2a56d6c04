"""vicinal broker: run."""

import json
import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..overlay import Failed

if TYPE_CHECKING:
    from vicinal_cloud.broker.server import Server

__all__ = ["command"]


@click.group("broker")
def command() -> None:
    """Run a broker of the overlay."""


@command.command("run")
@click.argument("config", type=click.Path(dir_okay=False))
@click.option("--check", is_flag=True, help="Only say whether the configuration is in order.")
@click.option("--json", "as_json", is_flag=True, help="Say where it listens as one JSON object, for programs.")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
def run_(config: str, check: bool, as_json: bool, quiet: bool) -> None:
    """Run the broker that CONFIG (TOML) describes, until SIGTERM or Ctrl-C.

    SIGHUP reads the scopes anew. The smallest CONFIG:

    \b
        [broker]
        name = "b1"
        [[listen]]
        address = "tcp://127.0.0.1:7447"
    """
    import asyncio

    from vicinal_cloud.broker.config import load
    from vicinal_cloud.broker.loop import Loop
    from vicinal_cloud.broker.server import CannotListen, run
    from vicinal_cloud.log import LogInUse

    path = Path(config)
    found = load(path)
    if check:
        if any(one.address.web for one in found.listen) and find_spec("websockets") is None:
            raise Failed(f"{path}: a [[listen]] is ws:// or wss://, and websockets is not installed: vicinal doctor")
        click.echo(
            f"{path}: in order: broker {found.name!r}, {len(found.listen)} listeners, "
            f"{len(found.neighbours)} neighbours, {len(found.graph.scopes)} scopes, {len(found.join)} joined"
        )
        return

    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(message)s")

    def ready(server: "Server") -> None:
        places = [str(address) for address in server.addresses]
        status = None if server.status_address is None else str(server.status_address)
        if as_json:
            click.echo(json.dumps({"name": found.name, "listen": places, "status": status}))
        elif not quiet:
            click.echo(f"broker {found.name} listens on {', '.join(places) or 'nothing'}")
            if status is not None:
                click.echo(f"status on {status}/status and {status}/metrics")
        sys.stdout.flush()

    try:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(run(path, found, ready))
    except (CannotListen, LogInUse) as error:
        raise Failed(str(error)) from error
