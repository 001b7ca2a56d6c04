"""vicinal ping: whether a broker answers, and how fast."""

import asyncio
import json

import click

from ..overlay import DEFAULT, Reach, run

__all__ = ["command"]


@click.command("ping", short_help="Say whether a broker answers, and how fast.")
@click.argument("broker", default=DEFAULT, envvar="VICINAL_BROKER")
@click.option("--count", "-n", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--interval", type=click.FloatRange(min=0), default=0.2, show_default=True, help="Seconds.")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="Whom to trust (PEM).")
@click.option("--cert", "certificate", type=click.Path(exists=True, dir_okay=False), help="Our certificate (PEM).")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Its key (PEM).")
@click.option("--name", help="Whom to be; with a certificate, its name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def command(
    broker: str,
    count: int,
    interval: float,
    ca: str | None,
    certificate: str | None,
    key: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Say whether the broker at an address answers, who it is, and how long it takes.

    Exit code 0 when it does, 1 when nothing answers there.
    """

    async def ping() -> None:
        client = await Reach(broker, name, ca, certificate, key).connect(reconnect=False)
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
