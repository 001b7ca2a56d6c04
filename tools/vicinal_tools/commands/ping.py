"""vicinal ping: whether a broker answers, or a service behind its gateways, and how fast."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from vicinal.errors import LocalProtocolError

from ..overlay import DEFAULT, Failed, Reach, identity_options, run

if TYPE_CHECKING:
    from ..federation import Echoed

__all__ = ["command"]


@click.command("ping", short_help="Say whether a broker answers, and how fast.")
@click.argument("broker", default=DEFAULT, envvar="VICINAL_BROKER")
@click.option("--service", "-s", help="Event services behind gateways: names with commas between, * and ? allowed.")
@click.option("--wait", type=click.FloatRange(min=0.1), default=3.0, show_default=True, help="Seconds, with --service.")
@click.option("--count", "-n", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--interval", type=click.FloatRange(min=0), default=0.2, show_default=True, help="Seconds.")
@identity_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def command(
    broker: str,
    service: str | None,
    wait: float,
    count: int,
    interval: float,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Say whether the broker at an address answers, who it is, and how long it takes.

    \b
        vicinal ping tls://broker.example:7447 --ca ca.pem
        vicinal ping --service 'can-*'        which event services do the gateways reach, and what can they do?

    Exit code 0 when it does, 1 when nothing answers there.
    """
    reach = Reach(broker, name, ca, certificate, key)
    if service is not None:
        _services(reach, service, wait, as_json)
        return

    async def ping() -> None:
        client = await reach.connect(reconnect=False)
        async with client:
            times = []
            for number in range(count):
                if number:
                    await asyncio.sleep(interval)
                times.append(await client.ping())
                if not as_json:
                    click.echo(f"{client.broker} at {client.address}: {times[-1]:.2f} ms")
            if as_json:
                click.echo(json.dumps({"broker": client.broker, "address": str(client.address), "ms": times}))

    run(ping())


def _services(reach: Reach, service: str, wait: float, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..complain import BadInput
    from ..federation import echo

    literal = {name.strip() for name in service.split(",")}
    wild = any(char in service for char in "*?")

    async def ask() -> "list[Echoed]":
        found: dict[str, Any] = {}
        async for answer in echo(reach, service, False, wait):
            found.setdefault(answer.service, answer)
            if not wild and literal <= set(found):
                break
        return [found[name] for name in sorted(found)]

    try:
        found = run(ask())
    except LocalProtocolError as error:
        raise BadInput(f"--service {service!r}: {error}") from error
    missing = [] if wild else sorted(literal - {one.service for one in found})
    if as_json:
        rows = [_row(one) for one in found]
        click.echo(json.dumps({"services": rows, "missing": missing}))
    elif found:
        table = Table("service", "type", "gateway", "hops", "ms", "state")
        for one in found:
            kind = str(one.detail.get("type", ""))
            table.add_row(one.service, kind, one.gateway, str(one.hop), f"{one.ms:.1f}", one.reason or "up")
        Console(highlight=False).print(table)
    if not found or missing:
        what = ", ".join(missing) or service
        raise Failed(f"no answer from {what} within {wait:g} s; vicinal trace --service NAME says how far it gets")
    if any(one.reason for one in found):
        raise SystemExit(1)


def _row(one: "Echoed") -> dict[str, Any]:
    found: dict[str, Any] = {"service": one.service, "gateway": one.gateway, "hops": one.hop, "ms": one.ms}
    return found | ({"reason": one.reason} if one.reason else one.detail)
