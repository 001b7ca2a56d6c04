"""vicinal traffic: the traffic control application."""

import json
import logging
import sys
from pathlib import Path

import click

from ..complain import BadInput
from ..overlay import Failed

__all__ = ["command"]


@click.group("traffic")
def command() -> None:
    """Limits, offences and fines: the traffic control application."""


@command.command("run")
@click.argument("config", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Say that it runs as one JSON object, for programs.")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
def run_(config: str, as_json: bool, quiet: bool) -> None:
    """Run the office that CONFIG (TOML) describes, until SIGTERM or Ctrl-C.

    \b
        [office]
        network = "town.geojson"
        broker = "tcp://127.0.0.1:7447"
        [listen]
        address = "http://127.0.0.1:8080"
    """
    import asyncio

    from vicinal.tables_cpython import ConfigError

    try:
        from vicinal_cloud.broker.client import Closed, Refused
        from vicinal_cloud.traffic.config import load
        from vicinal_cloud.traffic.network import NetworkError
        from vicinal_cloud.traffic.office import Office
        from vicinal_cloud.traffic.server import CannotListen, run
        from vicinal_cloud.traffic.store import StoreError
    except ImportError as error:
        raise Failed(f"{error}: pip install 'vicinal[traffic]'") from error
    try:
        found = load(Path(config))
    except (ConfigError, NetworkError) as error:
        raise BadInput(str(error)) from error
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )

    def ready(office: Office, address: str | None) -> None:
        if as_json:
            click.echo(json.dumps({"name": found.name, "address": address}))
        elif not quiet:
            click.echo(f"traffic control of {found.network.name}: {address or 'no pages'}")
        sys.stdout.flush()

    try:
        asyncio.run(run(found, ready))
    except (CannotListen, Closed, Refused, StoreError) as error:
        raise Failed(str(error)) from error
