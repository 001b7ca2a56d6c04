"""vicinal top: brokers and their clients, refreshed in place."""

import json
import time
from typing import Any

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from ..overlay import Failed
from ..statuses import BROKER, NoStatus, ask

__all__ = ["command"]

_SHOWN = 20
# Characters: with fewer the columns that are cut off first are left out, and the others can be read.
_WIDE = 110


@click.command("top", short_help="Show brokers, clients and rates, refreshed in place.")
@click.argument("status", nargs=-1, metavar="[STATUS...]")
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --once: what the brokers say, as one JSON object.")
def command(status: tuple[str, ...], interval: float, once: bool, as_json: bool) -> None:
    """Show brokers, neighbours, clients and rates, of the status addresses given (http://127.0.0.1:9447).

    A broker has one when its configuration has [status]. Ctrl-C ends it.
    """
    if as_json and not once:
        raise click.UsageError("--json goes with --once")
    places = status or ("http://127.0.0.1:9447",)
    found = [_ask(place) for place in places]
    if all("error" in one for one in found):
        raise Failed(
            "\n".join(one["error"] for one in found) + '\nA broker answers there with [status] address = "http://..."'
        )
    if as_json:
        click.echo(json.dumps(dict(zip(places, found))))
        return
    console = Console()
    narrow = console.width < _WIDE
    if once:
        console.print(_table(found, found, 0.0, narrow))
        return
    with Live(_table(found, found, 0.0, narrow), console=console, screen=console.is_terminal) as live:
        before, asked = found, time.monotonic()
        while True:
            time.sleep(interval)
            found, now = [_ask(place) for place in places], time.monotonic()
            live.update(_table(found, before, now - asked, console.width < _WIDE))
            before, asked = found, now


def _ask(place: str) -> dict[str, Any]:
    try:
        return ask(BROKER, place)
    except NoStatus as error:
        return {"name": place, "error": str(error)}


def _table(found: list[dict[str, Any]], before: list[dict[str, Any]], seconds: float, narrow: bool) -> Group:
    style = box.SIMPLE if narrow else box.HEAVY_HEAD
    brokers = Table("broker", "neighbours", "clients", "in/s", "out/s", "waiting", "dropped", box=style)
    clients = Table("client", "at", "published", "delivered", "waiting", "subscribed", box=style)
    if not narrow:
        brokers.add_column("refused")
        brokers.add_column("scopes")
        clients.add_column("from")
    for one, old in zip(found, before):
        if "error" in one:
            brokers.add_row(one["name"], one["error"], style="red")
            continue
        deliveries, publishes = one["deliveries"], one["publishes"]
        rates = ["", ""]
        if seconds and "error" not in old:
            rates = [
                f"{(publishes['received'] - old['publishes']['received']) / seconds:,.0f}",
                f"{(deliveries['delivered'] - old['deliveries']['delivered']) / seconds:,.0f}",
            ]
        neighbours = " ".join(f"{each['name']}{'' if each['up'] else ' (down)'}" for each in one["neighbours"])
        brokers.add_row(
            one["name"] + (" (drains)" if one["draining"] else ""),
            neighbours,
            f"{len(one['clients']):,}",
            *rates,
            f"{deliveries['waiting']:,}",
            f"{sum(deliveries['dropped'].values()):,}",
            *([] if narrow else [f"{sum(publishes['refused'].values()):,}", " ".join(one["scopes"])]),
        )
        busiest = sorted(one["clients"], key=lambda client: -(client["published"] + client["delivered"]))
        for client in busiest[:_SHOWN]:
            numbers = [f"{client[key]:,}" for key in ("published", "delivered", "waiting", "subscriptions")]
            clients.add_row(client["name"], one["name"], *numbers, *([] if narrow else [client["where"]]))
    return Group(brokers, clients)
