"""vicinal fleet: serve, list, check, push."""

import json
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Reach, reach_options, run

__all__ = ["command"]

_folder = click.option(
    "--directory", "-d", envvar="VICINAL_FLEET", default="fleet", show_default=True,
    type=click.Path(file_okay=False), help="The fleet's folder; also VICINAL_FLEET.",
)  # fmt: skip


@click.group("fleet")
def command() -> None:
    """Names and configurations for gateways."""


@command.command("serve")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
@reach_options
def serve(
    directory: str, quiet: bool, broker: str, name: str | None, ca: str | None, certificate: str | None, key: str | None
) -> None:
    """Give gateways their names and configurations from DIRECTORY, until SIGTERM or Ctrl-C.

    A broker does the same by itself, with [fleet] directory = "..." in its configuration.

    \b
        DIRECTORY/default.toml          for gateways without a file of their own; {name} and {uid} are filled in
        DIRECTORY/gateways/NAME.toml    for one
        DIRECTORY/fleet.toml            names = "gw-{n}"
    """
    import asyncio

    from vicinal_cloud.fleet.directory import Fleet
    from vicinal_cloud.fleet.service import FleetService

    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(message)s")

    async def work() -> None:
        fleet = Fleet(Path(directory))
        try:
            async with await Reach(broker, name or "fleet", ca, certificate, key).connect() as client:
                service = FleetService(fleet, client)
                stop = asyncio.Event()
                for number in (signal.SIGTERM, signal.SIGINT):
                    asyncio.get_running_loop().add_signal_handler(number, stop.set)
                await service.start()
                if not quiet:
                    click.echo(f"fleet {directory} is served at {client.broker}")
                    sys.stdout.flush()
                ended = asyncio.ensure_future(service.wait())
                stopped = asyncio.ensure_future(stop.wait())
                await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                if ended.done():
                    ended.result()
                await service.stop()
        finally:
            fleet.close()

    run(work())


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def list_(directory: str, as_json: bool) -> None:
    """Show the gateways: names, versions, health, when they were last heard.

    Exit code 1 when one of them is not well: it failed, or its configuration cannot be served.
    """
    from vicinal_cloud.fleet.directory import report

    folder = _existing(directory)
    found = report(folder)
    sick = [one for one in found if one["problem"] or one["health"].startswith("failed")]
    if as_json:
        click.echo(json.dumps(found))
    elif not found:
        click.echo(f"{folder}: no gateway has said hello yet")
    else:
        _show(found)
    if sick:
        sys.exit(1)


def _show(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    now = time.time()
    table = Table("gateway", "runs", "should run", "health", "heard", "failed there", "uid")
    for one in found:
        heard = "never" if one["heard"] is None else f"{_span(now - one['heard'] / 1000)} ago"
        health = one["problem"] or one["health"]
        style = "red" if one["problem"] or one["health"].startswith("failed") else None
        bad = " ".join(str(number) for number in one["bad"])
        table.add_row(one["name"], str(one["version"]), str(one["served"]), health, heard, bad, one["uid"], style=style)
    Console().print(table)


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


@command.command("check")
@click.argument("directory", type=click.Path(file_okay=False))
def check_(directory: str) -> None:
    """Say everything that is wrong with the configurations in DIRECTORY. Exit code 1 if there is something."""
    from vicinal_cloud.fleet.directory import check, files_of, filled

    folder = _existing(directory)
    wrong = check(folder)
    files = files_of(folder)
    for file in files:
        if not any(line.startswith(f"{file}: ") for line in wrong):
            wrong += _as_gateway(file, filled(file, file.read_bytes()))
    for line in wrong:
        click.echo(line)
    if wrong:
        sys.exit(1)
    click.echo(f"{folder}: in order: {len(files)} configurations")


@command.command("push")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("name", required=False)
@click.option(
    "--default", "default", is_flag=True, help="For all gateways without a file of their own, in place of NAME."
)
@click.option("--again", is_flag=True, help="As a new version, even if the same text has failed before.")
@_folder
def push(file: str, name: str | None, default: bool, again: bool, directory: str) -> None:
    """Make FILE the configuration of gateway NAME.

    It is checked first. The gateway is told within seconds, tries it, and goes back to the last good one if it fails:
    see `vicinal fleet list`.
    """
    from vicinal_cloud.fleet.directory import filled, put

    if (name is None) != default:
        raise BadInput("either NAME or --default")
    folder = _existing(directory)
    data = Path(file).read_bytes()
    wrong = _as_gateway(Path(file), filled(Path("default.toml"), data) if default else data)
    if wrong:
        raise BadInput("\n".join(wrong))
    click.echo(f"{put(folder, name, data, again)}: written")


def _existing(directory: str) -> Path:
    folder = Path(directory)
    if not folder.is_dir():
        raise BadInput(f"{folder} is no directory: give that of the fleet (--directory)")
    return folder


def _as_gateway(file: Path, data: bytes) -> list[str]:
    """What a gateway would say of it. An adapter that is not installed here may be there."""
    from vicinal_edge.gateway.config import loads

    try:
        loads(data, file)
    except LocalProtocolError as error:
        return [] if "cannot be loaded" in str(error) else [str(error)]
    return []
