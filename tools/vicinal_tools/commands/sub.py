"""vicinal sub: subscribe, and write what comes."""

import asyncio
import json
import sys
from datetime import datetime

import click

from vicinal import json_form

from ..complain import parse_filter
from ..overlay import Reach, parse_scopes, reach_options, run, scope_options

__all__ = ["command"]


@click.command("sub", short_help="Write the events that a filter matches, as they come.")
@click.argument("filter", required=False, default="TRUE")
@click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), help="End after so many seconds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as without --pretty.")
@click.option("--pretty", is_flag=True, help="For people: time, subject and parameters.")
@click.option("--durable", metavar="NAME", help="The broker keeps what comes while we are away; needs --name.")
@click.option("--offset", type=click.IntRange(min=0), help="Of a durable subscription: go on from here.")
@click.option("--verbose", "-v", is_flag=True, help="Say on stderr when the subscription is there.")
@scope_options
@reach_options
def command(
    filter: str,
    count: int | None,
    seconds: float | None,
    as_json: bool,
    pretty: bool,
    durable: str | None,
    offset: int | None,
    verbose: bool,
    scopes: tuple[str, ...],
    only: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Write the events that FILTER matches, one JSON object a line, as they come.

    \b
        vicinal sub "subject = 'Speed' AND rate > 30"
        vicinal sub --count 1 --pretty

    The form is that of `vicinal pub` and `vicinal event`. Exit code 1 when --for is over before --count has come.
    """
    parse_filter(filter)
    if durable is not None and name is None:
        raise click.UsageError("--durable needs --name: a durable subscription belongs to somebody")
    if as_json and pretty:
        raise click.UsageError("--json or --pretty, not both")
    reach, wanted = Reach(broker, name, ca, certificate, key), parse_scopes(scopes)

    def told(is_there: bool, what: str) -> None:
        if not is_there:
            click.echo(f"Note: the connection to {broker} is lost ({what}), trying again", err=True)
        else:
            gap = "" if durable is not None else "; what came meanwhile is not known: --durable NAME keeps it"
            click.echo(f"Note: connected again to {what}{gap}", err=True)

    async def subscribe() -> int:
        async with await reach.connect() as client:
            subscription = await client.subscribe(filter, wanted, not only, durable, offset)
            if verbose:
                click.echo(f"subscribed at {client.broker} ({client.address})", err=True)
            client.on_connection = told
            left = count
            async for delivery in subscription:
                if pretty:
                    values = "  ".join(f"{key}={value!r}" for key, value in delivery.event.params.items())
                    time = datetime.fromtimestamp(delivery.time / 1000).strftime("%H:%M:%S.%f")[:-3]
                    click.echo(f"{time}  {delivery.event.producer}  {delivery.event.subject}  {values}")
                elif delivery.offset is not None:
                    found = {"offset": delivery.offset, "event": json_form.to_json(delivery.event)}
                    click.echo(json.dumps(found, ensure_ascii=False))
                else:
                    click.echo(json_form.dumps(delivery.event))
                # What a live source said must not wait here for more.
                sys.stdout.flush()
                if left is not None:
                    left -= 1
                    if not left:
                        return 0
        return 0

    async def in_time() -> int:
        try:
            async with asyncio.timeout(seconds):
                return await subscribe()
        except TimeoutError:
            return 0 if count is None else 1

    click.get_current_context().exit(run(in_time()))
