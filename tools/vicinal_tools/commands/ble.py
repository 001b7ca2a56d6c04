"""vicinal ble: beacon, explain, scan."""

import sys
from typing import Any

import click

from ..ble.radios import make_radio, parse_place, radio_options, run
from ..complain import BadInput, parse_filter

__all__ = ["command"]


@click.group("ble")
def command() -> None:
    """Look at the air and talk into it: STEAM's announcements and events in Bluetooth advertisements.

    The radio is BlueZ's, or with --virtual NAME the virtual one that all processes of this user share.
    """


@command.command()
@click.argument("hexadecimal", metavar="HEX...", nargs=-1, required=True)
@click.option("--subject", "-s", "subjects", multiple=True, metavar="NAME", help="A subject whose hash to know.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@click.pass_context
def explain(ctx: click.Context, hexadecimal: tuple[str, ...], subjects: tuple[str, ...], as_json: bool) -> None:
    """Say what the bytes of an advertisement mean, ours or a stranger's.

    \b
        vicinal ble explain 02 01 06 05 ff 4c 00 10 05
        vicinal ble explain 17ffffff20... --subject Speed

    Exit code 1 when something in it is not in order.
    """
    import json

    from rich.console import Console

    from vicinal.steam.frames import COMPANY

    from ..ble.structures import HEADER, Part, describe, from_hex
    from ..ble.structures import explain as explain_bytes

    try:
        advertisement = from_hex(" ".join(hexadecimal))
    except ValueError as error:
        raise BadInput(str(error)) from error

    def named(part: Part) -> Part:
        if not part.fields:
            return part
        return part._replace(fields=describe(part.raw[HEADER:], subjects)[0])

    parts = [named(part) for part in explain_bytes(advertisement)]
    wrong = any(part.wrong for part in parts)
    ours = any(part.fields for part in parts)
    if as_json:
        found = [
            {"offset": part.offset, "bytes": part.raw.hex(), "name": part.name, "text": part.text}
            | ({"frame": dict(part.fields)} if part.fields else {})
            | ({"wrong": part.wrong} if part.wrong else {})
            for part in parts
        ]
        click.echo(json.dumps({"bytes": len(advertisement), "ours": ours, "structures": found}, ensure_ascii=False))
        ctx.exit(1 if wrong else 0)
    console = Console(highlight=False, soft_wrap=True)
    length = len(advertisement)
    fits = "fits a legacy advertisement" if length <= 31 else "needs an extended advertisement"
    console.print(f"{length} bytes, {fits if length else 'an empty advertisement'}", markup=False)
    for part in parts:
        console.print(f"{part.offset:4}  {part.raw.hex(' ')}", markup=False, style="dim")
        console.print(f"      {part.name}: {part.text}", markup=False)
        for name, text in part.fields:
            console.print(f"        {name:8} {text}", markup=False)
        if part.wrong:
            console.print(f"      {part.wrong}", markup=False, style="red")
    if not ours:
        what = "No frame of ours that could be read" if wrong else "A stranger's: no frame of ours"
        console.print(f"{what} (manufacturer data of company {COMPANY:#06x}).", markup=False)
    ctx.exit(1 if wrong else 0)


@command.command()
@click.option("--names", "named", multiple=True, metavar="SUBJECT=NAME,NAME", help="Of events that are sent without.")
@click.option("--filter", "condition", metavar="FILTER", help="Only events that a filter matches.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each event.")
@click.option("--beacons", is_flag=True, help="With --json: a line for each beacon, too.")
@click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), help="End after so many seconds.")
@click.option("--interval", type=click.FloatRange(min=0.05), default=0.5, show_default=True, help="Between two looks.")
@radio_options
@click.pass_context
def scan(
    ctx: click.Context,
    named: tuple[str, ...],
    condition: str | None,
    as_json: bool,
    beacons: bool,
    count: int | None,
    seconds: float | None,
    interval: float,
    adapter: str | None,
    virtual: str | None,
    place: str | None,
) -> None:
    """Show what is announced and said nearby, refreshed in place; wherever it is meant for.

    \b
        vicinal ble scan
        vicinal ble scan --virtual town --at 53.3438,-6.2546 --json

    Ctrl-C ends it. Exit code 1 when --for is over before --count has come.
    """
    import asyncio
    import json
    import time

    from rich.console import Console
    from rich.live import Live

    from vicinal import json_form

    from ..ble.board import Board, Found
    from ..ble.structures import area_text, speed_text

    if beacons and not as_json:
        raise BadInput("--beacons goes with --json: the table shows them in any case")
    board = Board(_parse_names(named), None if condition is None else parse_filter(condition, "--filter: "))
    radio = make_radio(adapter, virtual, parse_place(place))

    def now() -> int:
        return time.time_ns() // 1_000_000

    def tell(found: Found) -> None:
        line: dict[str, Any] = {"time": now() / 1000, "rssi": found.rssi, "sender": found.sender}
        if found.event is not None:
            line["event"] = json_form.to_json(found.event)
        elif found.beacon is not None and beacons:
            beacon = found.beacon
            line["beacon"] = {"subject": beacon.subject.hex(), "number": beacon.number, "every": beacon.every}
            line["beacon"]["area"] = area_text(beacon.area, beacon.relative)
            if beacon.relative:
                line["beacon"]["speed"] = speed_text(beacon.velocity, beacon.area.lat)
        else:
            return
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def heard(advertisement: bytes, rssi: int) -> None:
            for found in board.hear(advertisement, rssi, now()):
                if as_json and not ended.done():
                    tell(found)
                if count is not None and board.events >= count and not ended.done():
                    ended.set_result(None)

        def lost(error: Exception) -> None:
            if not ended.done():
                ended.set_exception(error)

        await radio.open(heard, lost)
        console = Console(stderr=as_json)
        live = Live(console=console, auto_refresh=False, screen=console.is_terminal)
        end = None if seconds is None else loop.time() + seconds
        if not as_json:
            live.start()
        try:
            while not ended.done() and (end is None or loop.time() < end):
                if not as_json:
                    live.update(board.table(now(), max(console.height - 3, 1)), refresh=True)
                left = interval if end is None else min(interval, end - loop.time())
                await asyncio.wait([ended], timeout=max(left, 0.0))
            if ended.done():
                ended.result()
        finally:
            if not as_json:
                live.stop()
                if console.is_terminal:
                    Console().print(board.table(now()))
            await radio.close()

    run(watch())
    ctx.exit(1 if count is not None and board.events < count else 0)


def _parse_names(options: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found = {}
    for option in options:
        subject, equals, names = option.partition("=")
        if not equals or not subject or not names:
            raise BadInput(f"--names {option!r}: want SUBJECT=NAME,NAME as in Speed=license_no,rate")
        found[subject] = tuple(names.split(","))
    return found


@command.command()
@click.argument("subject")
@click.argument("params", nargs=-1, metavar="[NAME=VALUE...]")
@click.option("--radius", type=click.IntRange(1, 65535), default=100, show_default=True, help="Metres of the area.")
@click.option("--moving", is_flag=True, help="The area moves with this node.")
@click.option("--typed", is_flag=True, help="Send values only: shorter, and receivers must know the names.")
@click.option("--every", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds between events.")
@click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many events were sent.")
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), help="End after so many seconds.")
@click.option("--extended", is_flag=True, help="Send extended advertisements, of up to 254 bytes.")
@click.option("--name", default="vicinal-ble", show_default=True, help="The producer of the events.")
@click.option("--json", "as_json", is_flag=True, help="What was sent as one JSON object at the end.")
@radio_options
def beacon(
    subject: str,
    params: tuple[str, ...],
    radius: int,
    moving: bool,
    typed: bool,
    every: float,
    count: int | None,
    seconds: float | None,
    extended: bool,
    name: str,
    as_json: bool,
    adapter: str | None,
    virtual: str | None,
    place: str | None,
) -> None:
    """Announce SUBJECT around here and publish a test event again and again.

    \b
        vicinal ble beacon Speed rate=57 --at 53.3438,-6.2546 --radius 200
        vicinal ble beacon Speed rate=57 --virtual town --count 3

    With --virtual and without --at this is at 0, 0. Ctrl-C ends it, and says that the announcement is over.
    """
    import json

    from ..ble.sender import Test, send
    from .pub import _event

    where = parse_place(place) or ((0, 0) if virtual is not None else None)
    if where is None:
        raise BadInput("where is the area? Give --at LAT,LON in degrees")
    test = Test(_event(subject, params), where, radius, moving, typed, int(every * 1000), count, seconds, name)
    radio = make_radio(adapter, virtual, where, extended)
    sent: dict[str, int] = {}
    try:
        run(send(test, radio, extended, sent))
    finally:
        if sent:
            click.echo(
                json.dumps(sent) if as_json else ", ".join(f"{number:,} {what}" for what, number in sent.items())
            )
