"""vicinal trace: the way an event takes, hop by hop."""

import asyncio
import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from vicinal.event import Event

from ..complain import BadInput
from ..overlay import Failed, Reach, parse_scopes, reach_options, run, scope_options
from .pub import _event

__all__ = ["command"]


@click.command("trace", short_help="Show the way an event takes, hop by hop.")
@click.argument("subject", required=False)
@click.argument("params", nargs=-1, metavar="[NAME=VALUE...]")
@click.option("--service", metavar="NAME", help="An event service behind gateways: by which of them is it reached?")
@click.option("--to", "to", multiple=True, metavar="ADDRESS", help="A broker where a consumer waits; else --broker.")
@click.option("--to-scope", "to_scopes", multiple=True, metavar="DIMENSION=SCOPE", help="The scopes of the consumer.")
@click.option("--wait", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Seconds to wait for it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@scope_options
@reach_options
def command(
    subject: str | None,
    params: tuple[str, ...],
    service: str | None,
    to: tuple[str, ...],
    to_scopes: tuple[str, ...],
    wait: float,
    as_json: bool,
    scopes: tuple[str, ...],
    only: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Publish an event at one broker, receive it at others, and show its path, scopes and times hop by hop.

    \b
        vicinal trace Speed rate=57.2 --broker tcp://127.0.0.1:7447 --to tcp://127.0.0.1:7449
        vicinal trace --service can-7        the way from the broker to an event service, gateway by gateway

    Exit code 1 when it did not arrive everywhere in time; of a service, the hop after which nothing was heard is named.
    """
    if (subject is None) == (service is None):
        raise BadInput("want SUBJECT, for the way of an event, or --service NAME, for the way to a service")
    if subject is None:
        assert service is not None
        _trace_service(Reach(broker, name, ca, certificate, key), service, wait, as_json)
        return
    event = _event(subject, params).replace(attrs={"Trace": True})
    reach = Reach(broker, None, ca, certificate, key)
    wanted, theirs = parse_scopes(scopes), parse_scopes(to_scopes)
    found = run(_trace(event, reach, name, to or (broker,), wanted, theirs, not only, wait))
    if as_json:
        click.echo(json.dumps({"event": subject, "arrivals": found}))
    else:
        _show(found, Console())
    if any("missing" in one for one in found):
        raise Failed("it did not arrive everywhere: see scopes, links (vicinal top) and interfaces")


async def _trace(
    event: Event,
    reach: Reach,
    name: str | None,
    to: tuple[str, ...],
    scopes: dict[str, str],
    theirs: dict[str, str],
    rest: bool,
    wait: float,
) -> list[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    producer = await reach.connect(name=name)
    async with producer:
        advertisement = await producer.advertise("TRUE", scopes, rest)
        condition = f"$Trace = TRUE AND subject = '{event.subject.replace(chr(39), chr(39) * 2)}'"
        consumers, subscriptions = [], []
        for place in to:
            consumers.append(await reach.connect(place))
            subscriptions.append(await consumers[-1].subscribe(condition, theirs))
        end, start = loop.time() + wait, producer.now()
        found: list[dict[str, Any]] = [{"to": place, "missing": True} for place in to]
        try:
            # That a subscription is there does not mean that it is known everywhere: publish until it arrives.
            while any("missing" in one for one in found) and loop.time() < end:
                start = producer.now()
                await producer.publish(event, advertisement)
                await asyncio.gather(
                    *(
                        _one(subscription, consumer.broker, found, at, start)
                        for at, (consumer, subscription) in enumerate(zip(consumers, subscriptions))
                        if "missing" in found[at]
                    )
                )
        finally:
            for consumer in consumers:
                await consumer.close()
    return found


async def _one(subscription: Any, broker: str, found: list[dict[str, Any]], at: int, start: int) -> None:
    try:
        async with asyncio.timeout(0.5):
            delivery = await anext(subscription)
    except TimeoutError:
        return
    hops = [
        {"broker": name, "scopes": [[scope, "up" if up else "down"] for scope, up in state], "ms": time - start}
        for name, state, time in delivery.trail
    ]
    found[at] = {"to": found[at]["to"], "broker": broker, "hops": hops, "ms": delivery.time - start}


def _show(found: list[dict[str, Any]], console: Console) -> None:
    for one in found:
        if "missing" in one:
            console.print(f"{one['to']}: did not arrive")
            continue
        console.print(f"to {one['broker']} ({one['to']}), {one['ms']} ms", highlight=False)
        table = Table("hop", "broker", "scopes", "ms")
        hop, last = 0, None
        for step in one["hops"]:
            hop += last is not None and step["broker"] != last
            scopes = "  ".join(f"{scope} {'↑' if way == 'up' else '↓'}" for scope, way in step["scopes"])
            table.add_row(str(hop) if step["broker"] != last else "", step["broker"], scopes or "-", str(step["ms"]))
            last = step["broker"]
        console.print(table)


def _trace_service(reach: Reach, service: str, wait: float, as_json: bool) -> None:
    from ..federation import echo, where_it_ended

    if any(char in service for char in "*?,"):
        raise BadInput(f"--service {service!r}: want one name; vicinal ping --service takes several")

    async def ask() -> list[Any]:
        found: list[Any] = []
        async for one in echo(reach, service, True, wait):
            found.append(one)
            end = [last for last in found if not last.passed]
            if end and (end[0].reason or len(found) > end[0].hop):  # answers may pass each other
                break
        return found

    found = run(ask())
    hops = sorted([one for one in found if one.passed], key=lambda one: one.hop)
    end = [one for one in found if not one.passed]
    reason = end[0].reason if end else where_it_ended(hops, service)
    if as_json:
        rows = [{"hop": one.hop, "gateway": one.gateway, "through": one.through, "ms": one.ms} for one in hops]
        click.echo(json.dumps({"service": service, "hops": rows, "reached": not reason, "reason": reason}))
    elif hops:
        table = Table("hop", "gateway", "on to", "ms", title=f"to {service}")
        for one in hops:
            table.add_row(str(one.hop), one.gateway, service if one.through == "-" else one.through, f"{one.ms:.1f}")
        Console(highlight=False).print(table)
    if reason:
        raise Failed(f"{service}: {reason}")
