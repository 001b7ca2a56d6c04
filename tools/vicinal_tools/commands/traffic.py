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


@command.command("driver")
@click.argument("plate")
@click.option("--office", required=True, help="Its address, http://HOST:PORT.")
@click.option("--key", type=click.Path(dir_okay=False), help="The master key of pseudonyms, of who may have it.")
@click.option("--days", default=2, show_default=True, type=click.IntRange(1, 3660), help="For how long data are kept.")
@click.option("--vehicle", default="{plate}/can", show_default=True, help="How vehicles call themselves.")
@click.option("--erase", is_flag=True, help="Erase what no case needs; what must be held is named.")
def driver(plate: str, office: str, key: str | None, days: int, vehicle: str, erase: bool) -> None:
    """What is kept of the driver with this PLATE, as JSON; or erase it.

    Who kept to the limits is known to the office under pseudonyms alone, and which those are says only the key that the
    monitors have. It does not go to the office: the pseudonyms of the plate are computed here, for each area and day.

    What is erased is what the office has, in its database and in memory. Logs of brokers, topics of Kafka and tables of
    Spark keep what they have for as long as they are told to.
    """
    import time
    import urllib.error
    import urllib.parse
    import urllib.request
    from typing import Any

    from vicinal.errors import LimitError
    from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym

    def ask(path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{office.rstrip('/')}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"{office}: {error.read().decode(errors='replace')[:500]}") from error
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise Failed(f"{office}: {error}") from error

    if "{plate}" not in vehicle:
        raise BadInput(f"--vehicle {vehicle!r}: want {{plate}} in it")
    names: list[str] = []
    if key is not None:
        try:
            master = bytes.fromhex(Path(key).read_text().strip())
            today = day_of(time.time_ns() // 1_000_000)
            areas = [
                one["properties"]["name"]
                for one in ask("/api/network")["features"]
                if one["properties"]["kind"] == "area"
            ]
            names = [
                pseudonym(day_key(master, area, day), vehicle.format(plate=plate))
                for area in areas
                for day in range(today - days, today + 1)
            ]
        except OSError as error:
            raise BadInput(f"{key}: {error.strerror}") from error
        except (ValueError, LimitError) as error:
            raise BadInput(f"{key}: {error}") from error
    path = f"/api/drivers/{urllib.parse.quote(plate, safe='')}"
    click.echo(json.dumps(ask(path, {"vehicles": names}, "DELETE" if erase else "POST"), indent=2))
