"""vicinal agents: who they are and how they are; update."""

import asyncio
import json
import sys
import time

import click

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.release import version_of

from ..agents import HEALTH, Agents, NoLog, Seen, past, table_of
from ..complain import BadInput
from ..overlay import Failed, Reach, reach_options, run

__all__ = ["command"]

# Seconds: agents say how they are every minute, if nobody has told them otherwise.
_LISTEN = 65.0


@click.group("agents", invoke_without_command=True, short_help="Show agents: versions, health, updates; update them.")
@click.option("--follow", "-f", is_flag=True, help="Then what they say, as they say it, until Ctrl-C.")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0), help=f"Listen for so long; {_LISTEN:.0f} where there is no log."
)
@click.option(
    "--back", type=click.IntRange(min=0), default=1_000_000, show_default=True, help="Records of the broker's log."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON: an array, with --follow an object a line.")
@reach_options
@click.pass_context
def command(
    ctx: click.Context,
    follow: bool,
    seconds: float | None,
    back: int,
    as_json: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Show the agents whose gateways publish to a broker: version, health, and how their last update ended.

    \b
        vicinal agents
        vicinal agents --follow
        vicinal agents update car-7 --version 0.2.0 --wait 120

    What they said before is read from the broker's log. A broker without one is listened to for a while. Gateways pass
    it on with a request for it: filter = "subject = 'AgentHealth'". Exit code 1 when one of them is not well: in safe
    mode, or its last update did not come to its end.
    """
    if ctx.invoked_subcommand is not None:
        return
    reach = Reach(broker, name, ca, certificate, key)
    try:
        ctx.exit(run(_list(reach, follow, seconds, back, as_json)))
    except (EOFError, BrokenPipeError):
        raise KeyboardInterrupt from None


async def _list(reach: Reach, follow: bool, seconds: float | None, back: int, as_json: bool) -> int:
    agents = Agents()
    async with await reach.connect() as client:
        subscription = await client.subscribe(HEALTH)
        try:
            async for event, at in past(client, back):
                agents.take(event, at)
            wait = seconds or 0.0
        except NoLog as error:
            wait = _LISTEN if seconds is None and not follow else seconds or 0.0
            if wait:
                click.echo(f"{error}: listening for {wait:.0f} s (--for)", err=True)

        async def listen(say: bool) -> None:
            async for delivery in subscription:
                news = agents.take(delivery.event, delivery.time)
                if news is not None and say:
                    _say(news, as_json)

        if wait and not follow:
            try:
                async with asyncio.timeout(wait):
                    await listen(False)
            except TimeoutError:
                pass
        found = agents.all()
        if follow and as_json:
            for one in found:
                _say(one, True)
        elif as_json:
            click.echo(json.dumps([one.table() for one in found]))
        elif found:
            from rich.console import Console

            Console().print(table_of(found))
        elif not follow:
            click.echo(f"no agent was heard of at {client.broker}")
            click.echo(
                "Is there a gateway with a [[request]] of AgentHealth from its CoAP service to this broker?", err=True
            )
        sys.stdout.flush()
        if follow:
            try:
                async with asyncio.timeout(seconds):
                    await listen(True)
            except TimeoutError:
                pass
    return 0 if all(one.is_well for one in agents.all()) else 1


def _say(one: Seen, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(one.table()))
    else:
        counted = one.counted
        update = f"  {one.update} {one.update_result}" if one.update else ""
        why = f": {one.update_why}" if one.update_why else ""
        click.echo(
            f"{one.agent}  {one.version}  {one.mode}  up {one.uptime_s} s  delivered {counted['delivered']:,}  "
            f"stored {counted['stored']:,}  dropped {counted['dropped']:,}{update}{why}"
        )
    sys.stdout.flush()


@command.command()
@click.argument("agents", nargs=-1, required=True, metavar="NAME...")
@click.option("--version", help="Which release; else the newest that its gateway offers.")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, help="Seconds for it to end; exit code 1 if it fails."
)
@click.option("--json", "as_json", is_flag=True, help="With --wait: how it ended, an object a line.")
@reach_options
def update(
    agents: tuple[str, ...],
    version: str | None,
    wait: float,
    as_json: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Tell agents to fetch a release from their gateways, now. One that went back is tried again.

    Gateways pass it on with a request for it: filter = "subject = 'AgentUpdate'". What they offer is in the folder
    `releases` of their CoAP services; `vicinal release build` makes it.
    """
    try:
        if version is not None:
            version_of(version)
    except LocalProtocolError as error:
        raise BadInput(f"--version: {error}") from error
    reach = Reach(broker, name, ca, certificate, key)
    ended = run(_update(reach, agents, version, wait, as_json))
    if not wait:
        click.echo(f"told {', '.join(agents)}: `vicinal agents` shows how it ends")
        return
    missing = [one for one in agents if one not in ended]
    if missing:
        raise Failed(
            f"no word of how it ended from {', '.join(missing)} within {wait:g} s. Does it run, has it [update] with a "
            "key, and does its gateway bring AgentUpdate to it?"
        )
    if any(one.update_result != "confirmed" for one in ended.values()):
        click.get_current_context().exit(1)


async def _update(
    reach: Reach, agents: tuple[str, ...], version: str | None, wait: float, as_json: bool
) -> dict[str, Seen]:
    ended: dict[str, Seen] = {}
    async with await reach.connect() as client:
        subscription = await client.subscribe(HEALTH) if wait else None
        advertisement = await client.advertise("subject = 'AgentUpdate'")
        await asyncio.sleep(0.2)  # brokers further away learn of us, and tell who wants it
        orders: dict[str, str] = {}
        number = time.time_ns() // 1_000_000  # rises from one call to the next, whoever we are
        for one in agents:
            number += 1
            params = [("agent", one)] + ([] if version is None else [("version", version)])
            await client.publish(Event("AgentUpdate", params, (), client.name, number), advertisement)
            orders[one] = f"{client.name} {number}"
        if subscription is None:
            return ended
        known = Agents()
        try:
            async with asyncio.timeout(wait):
                async for delivery in subscription:
                    news = known.take(delivery.event, delivery.time)
                    if news is None or orders.get(news.agent) != news.update_order:
                        continue
                    if not as_json:
                        _say(news, False)
                    if news.update_result in ("confirmed", "went back", "refused"):
                        ended[news.agent] = news
                        if as_json:
                            _say(news, True)
                    if len(ended) == len(set(agents)):
                        break
        except TimeoutError:
            pass
    return ended
