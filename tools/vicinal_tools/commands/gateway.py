"""vicinal gateway: run, check, status, services."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..complain import BadInput
from ..overlay import Failed
from ..statuses import GATEWAY, NoStatus, ask

if TYPE_CHECKING:
    from vicinal_edge.gateway.config import Config
    from vicinal_edge.gateway.run import Server

__all__ = ["command"]

DEFAULT_STATUS = "http://127.0.0.1:9448"


@click.group("gateway")
def command() -> None:
    """Run a gateway between event services, and look at it."""


@command.command("run")
@click.argument("config", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Say that it runs as one JSON object, and log as JSON lines.")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
def run_(config: str, as_json: bool, quiet: bool) -> None:
    """Run the gateway that CONFIG (TOML) describes, until SIGTERM or Ctrl-C.

    The smallest CONFIG that does something: what a car says on its CAN bus goes to the office.

    \b
        [gateway]
        name = "pi-17"
        [[service]]
        name = "can"
        type = "cosmic"
        channel = "can0"
        mapping = "speed.toml"
        [[service]]
        name = "office"
        type = "siena"
        address = "tcp://127.0.0.1:7447"
        [[request]]
        type = "subscribe"
        source = "office"
        to = "can"
        filter = "subject = 'Speed' AND rate > 30"
    """
    import asyncio

    from vicinal_edge.gateway.run import CannotListen, run
    from vicinal_edge.store import StoreInUse

    found = _load(Path(config))
    _log_to_stderr(as_json, quiet)

    def ready(server: "Server") -> None:
        names = [service.service for service in server.node.services.values()]
        if as_json:
            click.echo(json.dumps({"name": found.name, "services": names, "status": server.status_address}))
        elif not quiet:
            click.echo(f"gateway {found.name} between {', '.join(names)}")
            if server.status_address is not None:
                click.echo(f"see {server.status_address}")
        sys.stdout.flush()

    try:
        asyncio.run(run(found, ready))
    except (CannotListen, StoreInUse, OSError) as error:
        raise Failed(str(error)) from error


def _load(path: Path) -> "Config":
    from vicinal.tables_cpython import ConfigError

    try:
        from vicinal_edge.gateway.config import load
    except ImportError as error:
        raise Failed(f"{error}: pip install 'vicinal[gateway]'") from error
    try:
        return load(path)
    except ConfigError as error:
        raise BadInput(str(error)) from error


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {"time": round(record.created, 3), "level": record.levelname.lower()}
        found |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def _log_to_stderr(as_json: bool, quiet: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, handlers=[handler], force=True)
    for noisy in ("aiocoap", "coap", "coap-server", "bleak", "can", "stomp.py", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


@command.command()
@click.argument("config", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="What was read, as one JSON object.")
def check(config: str, as_json: bool) -> None:
    """Say whether CONFIG is in order, and what the gateway would do. Nothing is connected."""
    from rich.console import Console
    from rich.table import Table

    found = _load(Path(config))
    services = [
        {"name": one.name, "type": one.type, "store": one.store, "capabilities": one.make().capabilities.table()}
        for one in found.services
    ]
    requests = [_sentence(one) for one in found.requests]
    if as_json:
        click.echo(json.dumps({"name": found.name, "services": services, "requests": requests}))
        return
    console = Console(highlight=False)
    table = Table("service", "type", "kept on disk", "largest event", "filters by", "control events")
    for one in services:
        able = one["capabilities"]
        assert isinstance(able, dict)
        table.add_row(
            str(one["name"]),
            str(one["type"]),
            "yes" if one["store"] else "no",
            f"{able['max_bytes']} bytes",
            str(able["filter"]),
            "yes" if able["control"] else "no",
        )
    console.print(table)
    for request in requests:
        console.print(request, markup=False)
    for note in _notes(found):
        click.echo(f"Note: {note}")
    click.echo(f"{config}: in order: gateway {found.name or '(name from the fleet)'!r}")


def _sentence(request: Any) -> str:
    what = request.filter.text if hasattr(request, "filter") else request.event.subject
    return f"{type(request).__name__} {what} for {request.source} at {request.to.text}"


def _notes(config: "Config") -> list[str]:
    """What is allowed, and perhaps not meant."""
    if not config.requests:
        return ["there is no [[request]]: nothing passes but what clients of the services ask for themselves"]
    here = {one.name for one in config.services}
    named = {name.strip() for one in config.requests for name in one.to.text.split(",")}
    return [
        f"{name!r} is no service of this gateway: it must be behind another one"
        for name in sorted(named - here)
        if name and not any(char in name for char in "*?")
    ]


@command.command()
@click.argument("address", default=DEFAULT_STATUS)
@click.option("--json", "as_json", is_flag=True, help="All of it, as one JSON object.")
def status(address: str, as_json: bool) -> None:
    """Show what the gateway whose [status] address is ADDRESS has counted.

    Exit code 1 when a service is not up, or a request is not applied.
    """
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    try:
        found = ask(GATEWAY, address)
    except NoStatus as error:
        raise Failed(f"{error}\nA gateway's [status] address is in its configuration") from error
    good = all(one["state"] == "up" for one in found["services"])
    good = good and all(goal["state"] == "applied" for one in found["requests"] for goal in one["services"].values())
    if as_json:
        click.echo(json.dumps(found))
        sys.exit(0 if good else 1)
    console = Console(highlight=False)
    dropped = sum(found["dropped"].values())
    console.print(
        f"{found['name']}: {found['accepted']} accepted = {found['delivered']} delivered + {found['stored']} stored "
        f"+ {dropped} dropped",
        markup=False,
    )
    table = Table("service", "type", "state", "received", "accepted", "delivered", "stored", "dropped", box=SIMPLE)
    notes = []  # under the table, where there is room for sentences
    for one in found["services"]:
        out = one["out"]
        reasons = {**one["in"]["dropped"], **out["dropped"]}
        counts = (one["in"]["received"], out["accepted"], out["delivered"], out["stored"], sum(reasons.values()))
        table.add_row(one["name"], one["type"], one["state"], *[str(count) for count in counts])
        if one["reason"]:
            notes.append(f"{one['name']} is {one['state']}: {one['reason'].removeprefix(one['name'] + ': ')}")
        notes += [f"{one['name']} dropped {count}: {reason}" for reason, count in sorted(reasons.items())]
    console.print(table)
    for note in notes:
        console.print(note, markup=False)
    for one in found["requests"]:
        for service, goal in one["services"].items():
            said = goal["reason"] or goal["state"]
            console.print(f"{one['request']} {one['what']} for {one['source']} at {service}: {said}", markup=False)
    sys.exit(0 if good else 1)
