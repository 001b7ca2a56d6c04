"""vicinal pub: publish events."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import click

from vicinal import json_form
from vicinal.errors import VicinalError
from vicinal.event import Event

from ..complain import BadInput, parse_filter
from ..lines import read_lines
from ..overlay import Reach, parse_scopes, reach_options, run, scope_options

__all__ = ["command"]


@click.command("pub", short_help="Publish events.")
@click.argument("subject", required=False)
@click.argument("params", nargs=-1, metavar="[NAME=VALUE...]")
@click.option("--file", "-f", "file", metavar="FILE", help="Events as JSON, one a line, from a file; - is stdin.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Events per second; else as fast as it goes.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Publish SUBJECT so many times.")
@click.option("--advertise", "advertised", default="TRUE", show_default=True, help="Which events will be published.")
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="Seconds before the first: brokers further away learn of us, and tell who wants it.",
)
@click.option("--json", "as_json", is_flag=True, help="Say what became of it as one JSON object.")
@scope_options
@reach_options
def command(
    subject: str | None,
    params: tuple[str, ...],
    file: str | None,
    rate: float | None,
    repeat: int,
    advertised: str,
    settle: float,
    as_json: bool,
    scopes: tuple[str, ...],
    only: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Publish events: one from the command line, or those of a file or of stdin.

    \b
        vicinal pub Speed license_no=00D12345 rate=57.2
        vicinal pub --file events.jsonl --rate 100
        tail -f events.jsonl | vicinal pub

    A VALUE is JSON where it is a number, true, false or in quotes, and text else. Each event is published under our
    own name: what producer and seq a file gives is left out.
    """
    if subject is not None and file is not None:
        raise BadInput("either SUBJECT or --file, not both")
    if subject is None and file is None and sys.stdin.isatty():
        raise BadInput("nothing to publish: give SUBJECT NAME=VALUE..., or --file, or events on stdin")
    events: Iterator[Event]
    if subject is not None:
        events = iter([_event(subject, params)] * repeat)
    else:
        events = (line.read(json_form.loads) for line in read_lines(file))
    wanted, reach = parse_scopes(scopes), Reach(broker, name, ca, certificate, key)
    parse_filter(advertised, "--advertise: ")
    count = run(_publish(events, reach, advertised, wanted, not only, rate, settle))
    if as_json:
        click.echo(json.dumps({"published": count}))


async def _publish(
    events: Iterator[Event],
    reach: Reach,
    advertised: str,
    scopes: dict[str, str],
    rest: bool,
    rate: float | None,
    settle: float,
) -> int:
    loop = asyncio.get_running_loop()
    async with await reach.connect() as client:
        advertisement = await client.advertise(advertised, scopes, rest)
        await asyncio.sleep(settle)
        under_way: set[asyncio.Future[int]] = set()
        count, start = 0, loop.time()
        wrong: BadInput | None = None
        try:
            async for event in _in_background(events):
                if rate is not None:
                    await asyncio.sleep(start + count / rate - loop.time())
                done = await client.submit(event.replace(producer=None, seq=None), advertisement)
                under_way.add(done)
                count += 1
                for finished in [one for one in under_way if one.done()]:
                    under_way.discard(finished)
                    finished.result()
        except BadInput as error:
            wrong = error
        for one in under_way:
            await one
        if wrong is not None:
            raise BadInput(f"{wrong.message}\nThe {count:,} events before it were published.") from wrong
        return count


async def _in_background(events: Iterator[Event]) -> AsyncIterator[Event]:
    """A line that has not come yet must neither keep the connection from being served nor the program from ending."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(1000)

    def put(item: Event | BaseException | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()

    def read() -> None:
        try:
            for event in events:
                put(event)
            put(None)
        except (BadInput, OSError) as error:
            put(error)
        except RuntimeError:
            pass  # the loop has ended

    threading.Thread(target=read, daemon=True).start()
    while (item := await queue.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


def _event(subject: str, params: tuple[str, ...]) -> Event:
    found = []
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"{text!r}: want NAME=VALUE")
        found.append((name, _value(value)))
    try:
        return Event(subject, found)
    except VicinalError as error:
        raise BadInput(str(error)) from error


def _value(text: str) -> str | int | float | bool:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text
