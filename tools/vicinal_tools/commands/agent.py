"""vicinal agent: new, check, run, json."""

import json
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Failed

if TYPE_CHECKING:
    from vicinal_edge.agent.config import Config
    from vicinal_edge.agent.loop import Loop

__all__ = ["command"]


@click.group("agent")
def command() -> None:
    """The agent of a device: configure it, run it on this machine, prepare it for a board."""


@command.command("run")
@click.argument("config", type=click.Path(dir_okay=False))
@click.option("--folder", type=click.Path(file_okay=False), help="Where journal and boot record lie; beside CONFIG.")
@click.option("--json", "as_json", is_flag=True, help="Say that it runs as one JSON object.")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
def run_(config: str, folder: str | None, as_json: bool, quiet: bool) -> None:
    """Run the agent that CONFIG (TOML) describes on this machine, until SIGTERM or Ctrl-C.

    `vicinal agent new` writes a CONFIG to begin with. What the gateway does not take at once waits in the journal.
    """
    from vicinal_edge.agent.run_cpython import run

    path = Path(config)
    found = _load(path)
    if found.update is not None:
        click.echo("Note: [update] is for boards; on this machine the agent is updated with pip or apt", err=True)
    where = path.parent if folder is None else Path(folder)
    where.mkdir(parents=True, exist_ok=True)

    def ready(loop: "Loop") -> None:
        ports = [entry[0] for entry in loop.parts]
        if as_json:
            said: dict[str, Any] = {"agent": found.name, "gateway": _gateway(found)}
            click.echo(json.dumps(said | {"ports": ports, "safe": loop.guard.safe}))
        elif not quiet:
            click.echo(f"agent {found.name} publishes {_to(found)}: {', '.join(ports) or 'health'}")
            if loop.guard.safe:
                click.echo(f"safe mode, as {loop.guard.boots - 1} starts failed: {loop.guard.why}", err=True)
        sys.stdout.flush()

    try:
        run(found, where, ready)
    except OSError as error:
        raise Failed(str(error)) from error


def _gateway(config: "Config") -> str | None:
    return None if config.host is None else f"coap://{config.host}:{config.port}"


def _to(config: "Config") -> str:
    ways = sorted({way.port for way in config.publishes})
    found = [] if config.host is None else [f"to {_gateway(config)}"]
    return " and ".join([*found, *[f"on {name}" for name in ways]])


def _load(path: Path) -> "Config":
    try:
        from vicinal_edge.agent.run_cpython import load
    except ImportError as error:
        raise Failed(f"{error}: pip install 'vicinal[gateway]'") from error
    try:
        return load(path)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error


@command.command()
@click.argument("config", type=click.Path(dir_okay=False))
def check(config: str) -> None:
    """Say whether CONFIG is in order, and what the agent would do. Nothing is opened."""
    found = _load(Path(config))
    click.echo(f"agent {found.name} publishes {_to(found)}")
    for port in found.ports:
        if port.kind == "can":
            known = 0 if port.mapping is None else len(port.mapping.tables()["message"])
            click.echo(f"can {port.interface} {port.channel}: {known} kinds of frames, {len(port.channels)} channels")
        elif port.kind == "ble":
            click.echo("ble" if port.subject is None else f"ble group {port.subject!r}")
        else:
            click.echo(f"sensor {port.type} -> {port.subject!r} every {port.every} ms")
    for rule in found.rules:
        click.echo(f"rule for {rule.subject!r}")
    if found.update is not None:
        asks = f"every {found.update.every // 1000} s" if found.update.every else "when it is told"
        click.echo(f"update: asks its gateway {asks}, for {found.update.board} (on a board: not on a Pi)")
    for way in found.publishes:
        if way.port == "ble":
            how = f"within {way.radius} m"
        else:
            how = "as a frame" if way.etag is None else f"etag {way.etag}"
        click.echo(f"{way.subject!r} goes out on {way.port}, {how}")
    click.echo(f"journal: {found.sectors * found.sector_bytes // 1024} KiB")


@command.command("json")
@click.argument("config", type=click.Path(dir_okay=False))
def json_(config: str) -> None:
    """CONFIG as a device reads it: agent.json, with its mappings in it."""
    from vicinal_edge.agent.run_cpython import tables

    _load(Path(config))
    click.echo(json.dumps(tables(Path(config)), ensure_ascii=False, separators=(",", ":")))


@command.command()
@click.argument("config", type=click.Path(dir_okay=False), default="agent.toml")
def new(config: str) -> None:
    """Write a commented configuration to CONFIG, after a few questions; Enter takes what is in brackets."""
    from vicinal_edge.agent.config import Config

    from ..agent_template import text_of

    path = Path(config)
    if path.exists():
        raise BadInput(f"{path} is there already: give another name, or remove it")
    name = click.prompt("Name of the device", default=socket.gethostname().partition(".")[0])
    gateway = click.prompt("Its gateway", default="coap://127.0.0.1:5683")
    if "://" not in gateway:
        gateway = f"coap://{gateway}"
    try:
        Config({"agent": {"name": name, "gateway": gateway}}, str(path))
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    ssid = click.prompt("Wi-Fi network, for a board (empty: none)", default="", show_default=False)
    can = click.prompt("CAN bus, as socketcan:can0 or vicinal:car (empty: none)", default="", show_default=False)
    ble = click.prompt("Subject of a BLE group to hear (empty: none)", default="", show_default=False)
    sensor = click.prompt("File of a sensor, below /sys (empty: none)", default="", show_default=False)
    subject = click.prompt("Subject of a rule", default="Speed")
    path.write_text(text_of(name, gateway, ssid, can, ble, sensor, subject), encoding="utf-8")
    click.echo(f"{path} is written. Read it, then: vicinal agent check {path}; vicinal agent run {path}")
