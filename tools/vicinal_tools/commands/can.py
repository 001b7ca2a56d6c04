"""vicinal can: decode, messages, monitor, plan, replay, send."""

import sys
import time
from typing import TYPE_CHECKING

import click

from ..can.buses import bus_options, open_bus
from ..can.mappings import load_mapping, mapping_options, message_named, wanted_by
from ..complain import BadInput, parse_filter

if TYPE_CHECKING:
    from ..can.logs import Log

__all__ = ["command"]

_MAX_MASKS = 64


@click.group("can")
def command() -> None:
    """Look at CAN buses and their logs, as frames and as events.

    Which frame is which event says a DBC file, or a mapping of your own (protocols/spec/can_mapping.md).
    """


@command.command()
@click.argument("log", metavar="LOG")
@mapping_options
@click.option("--message", "-m", "messages", multiple=True, metavar="NAME", help="Only this message; may repeat.")
@click.option("--filter", "condition", metavar="FILTER", help="Only events that a filter matches.")
@click.option("--verbose", "-v", is_flag=True, help="Say on stderr how many frames there were.")
@click.pass_context
def decode(
    ctx: click.Context,
    log: str,
    dbc: str | None,
    mapping: str | None,
    names: bool,
    lenient: bool,
    messages: tuple[str, ...],
    condition: str | None,
    verbose: bool,
) -> None:
    """Write the frames of LOG as events, one JSON object a line.

    \b
        vicinal can decode drive.log --dbc car.dbc --message EngineData
        vicinal can decode drive.asc.gz --mapping car.toml --filter "rate > 30"
        candump -L can0 | vicinal can decode - --dbc car.dbc

    LOG is of candump -l, or ASC, BLF or TRC, gzipped or not; - is stdin. Exit code 1 when some of it could not be read:
    broken lines and frames that are too short are counted and named on stderr, and the rest is decoded.
    """
    from ..can.decode import Decoder
    from ..can.logs import open_log
    from ..can.progress import Bar

    matched = None if condition is None else parse_filter(condition, "--filter: ")
    source = open_log(log)
    loaded = load_mapping(dbc, mapping, names, lenient, messages)
    if loaded is None:
        raise BadInput("what do the frames mean? Give --dbc FILE or --mapping FILE")
    for name in messages:
        message_named(loaded, name)
    decoder = Decoder(loaded, messages, matched)
    out = sys.stdout.buffer
    with Bar(source, "decoding", not sys.stdout.isatty()) as advance:
        for rows in source.batches(decoder.wanted):
            out.write("".join(decoder.feed(rows)).encode())
            if source.size is None:
                # What a live source said must not wait here for more.
                out.flush()
            advance(source.position)
    out.flush()
    decoder.skip(source.skipped)
    if verbose:
        click.echo(decoder.summary(), err=True)
    elif not decoder.frames and not source.broken:
        click.echo(f"{source.name}: no frames", err=True)
    if decoder.refused:
        click.echo(f"{source.name}: {decoder.refused:,} frames refused, the first: {decoder.reason}", err=True)
    ctx.exit(1 if _say_what_is_broken(source) or decoder.refused else 0)


def _say_what_is_broken(log: "Log") -> bool:
    for number, line in log.named:
        shown = line if len(line) <= 60 else line[:57] + "..."
        click.echo(f"{log.name}:{number}: not a line of candump -l: {shown!r}", err=True)
    if log.broken:
        more = log.broken - len(log.named)
        click.echo(f"{log.name}: {log.broken:,} broken lines{f', {more:,} not shown' if more else ''}", err=True)
    if log.cut:
        click.echo(f"Error: {log.name}: {log.cut}; what came before was read", err=True)
    return bool(log.broken or log.cut)


@command.command()
@click.argument("log", metavar="LOG")
@click.argument("channel", required=False, envvar="CAN_CHANNEL")
@click.option(
    "--speed", type=click.FloatRange(min=0), default=1.0, show_default=True, help="10: ten times; 0: no pauses."
)
@click.option("--loop", is_flag=True, help="Again and again, until Ctrl-C.")
@click.option("--from", "origin", metavar="NAME", help="Only frames of this channel of the log.")
@click.option("--json", "as_json", is_flag=True, help="What was sent as one JSON object.")
@bus_options
@click.pass_context
def replay(
    ctx: click.Context,
    log: str,
    channel: str | None,
    speed: float,
    loop: bool,
    origin: str | None,
    as_json: bool,
    interface: str,
    bitrate: int | None,
    fd: bool,
    options: tuple[str, ...],
) -> None:
    """Send the frames of LOG onto the bus CHANNEL, when they came in the log.

    \b
        vicinal can replay drive.log vcan0
        vicinal can replay drive.blf.gz vcan0 --speed 10 --loop

    LOG is of candump -l, or ASC, BLF or TRC, gzipped or not. Exit code 1 when some of it could not be read.
    """
    import json

    from ..can.buses import send
    from ..can.logs import open_log
    from ..can.progress import Bar
    from ..can.replay import Pace, Report
    from ..can.replay import replay as run

    if loop and log == "-":
        raise BadInput("--loop: stdin can be read only once")
    source, report = open_log(log), Report()
    broken = False
    with open_bus(channel, interface, bitrate, fd, options) as bus:
        try:
            while True:
                with Bar(source, "replaying", True) as advance:
                    run(source, Pace(speed), report, lambda message: send(bus, message), origin, progress=advance)
                broken = _say_what_is_broken(source)
                if not loop or not report.sent:
                    break
                source.close()
                source = open_log(log)
        finally:
            if as_json:
                found = {"sent": report.sent, "seconds": round(report.seconds, 6), "latest": round(report.latest, 6)}
                click.echo(json.dumps({**found, "rounds": report.rounds, "errors": report.errors}))
            else:
                click.echo(report.text())
    ctx.exit(1 if broken else 0)


@command.command()
@click.argument("channel", required=False, envvar="CAN_CHANNEL")
@mapping_options
@click.option("--filter", "condition", metavar="FILTER", help="Only events that a filter matches.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each frame, as decode writes them.")
@click.option("--count", "-n", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), help="End after so many seconds.")
@click.option("--interval", type=click.FloatRange(min=0.05), default=0.5, show_default=True, help="Between two looks.")
@bus_options
@click.pass_context
def monitor(
    ctx: click.Context,
    channel: str | None,
    dbc: str | None,
    mapping: str | None,
    names: bool,
    lenient: bool,
    condition: str | None,
    as_json: bool,
    count: int | None,
    seconds: float | None,
    interval: float,
    interface: str,
    bitrate: int | None,
    fd: bool,
    options: tuple[str, ...],
) -> None:
    """Watch the bus CHANNEL: a line for each subject, with its rate and last values, refreshed in place.

    \b
        vicinal can monitor can0 --dbc car.dbc
        vicinal can monitor can0 --mapping car.toml --filter "subject = 'Speed' AND rate > 30" --json

    Without --dbc and --mapping it shows identifiers and bytes. A filter becomes acceptance masks of the controller.
    Ctrl-C ends it. Exit code 1 when --for is over before --count has come.
    """
    from rich.console import Console
    from rich.live import Live

    from ..can.board import Board
    from ..can.json_lines import line_of

    matched = None if condition is None else parse_filter(condition, "--filter: ")
    loaded = load_mapping(dbc, mapping, names, lenient)
    if matched is not None and loaded is None:
        raise BadInput("--filter asks for events: give --dbc FILE or --mapping FILE too")
    if matched is not None and loaded is not None and not wanted_by(loaded, matched):
        raise BadInput("--filter matches no message of the mapping: nothing would ever be shown")
    board = Board(loaded, matched)
    console = Console(stderr=as_json)
    with open_bus(channel, interface, bitrate, fd, options) as bus:
        if loaded is not None and matched is not None:
            masks = matched.to_can(loaded.identifiers()).masks
            # More than any controller has go unused: the rest is filtered here in any case.
            bus.set_filters([{**mask} for mask in masks] if len(masks) <= _MAX_MASKS else None)  # type: ignore[typeddict-item]
        end = None if seconds is None else time.monotonic() + seconds
        live = Live(console=console, auto_refresh=False, screen=console.is_terminal and not as_json)
        look = time.monotonic()
        if not as_json:
            live.start()
        try:
            while (count is None or board.shown < count) and (end is None or time.monotonic() < end):
                now = time.monotonic()
                if not as_json and now >= look:
                    live.update(board.table(now, max(console.height - 3, 1)), refresh=True)
                    look = now + interval
                rest = min(look if not as_json else now + 1, now + 1 if end is None else end) - now
                message = bus.recv(max(rest, 0))
                if message is None or message.is_error_frame or message.is_remote_frame:
                    continue
                stamp = message.timestamp or time.time()
                shown = board.add(
                    message.arbitration_id, message.is_extended_id, bytes(message.data), int(stamp * 1000)
                )
                if shown is not None and as_json:
                    sys.stdout.write(line_of(f"{stamp:.6f}", *shown))
                    sys.stdout.flush()
        finally:
            if not as_json:
                live.stop()
                Console().print(board.table(time.monotonic(), overall=True))
    if board.refused and as_json:
        click.echo(f"{board.refused:,} frames refused, the last: {board.reason}", err=True)
    ctx.exit(1 if count is not None and board.shown < count else 0)


@command.command()
@click.argument("channel")
@click.argument("what", nargs=-1, required=True, metavar="FRAME... | NAME=VALUE...")
@click.option("--subject", "-s", help="Send an event of this subject, through --mapping or --dbc.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--every", type=click.FloatRange(min=0), default=0.1, show_default=True, help="Seconds between repeats.")
@mapping_options
@bus_options
def send(
    channel: str,
    what: tuple[str, ...],
    subject: str | None,
    repeat: int,
    every: float,
    dbc: str | None,
    mapping: str | None,
    names: bool,
    lenient: bool,
    interface: str,
    bitrate: int | None,
    fd: bool,
    options: tuple[str, ...],
) -> None:
    """Send frames, or an event as a frame, onto the bus CHANNEL.

    \b
        vicinal can send vcan0 123#DEADBEEF 00003039#3030443132333439
        vicinal can send vcan0 --mapping car.toml --subject Speed license_no=00D1234 rate=57
    """
    from ..can.buses import send as put
    from ..can.frames import event_of, frame_of, message_from_event

    loaded = load_mapping(dbc, mapping, names, lenient, () if subject is None else (subject,))
    if subject is None:
        messages = [frame_of(text) for text in what]
    elif loaded is None:
        raise BadInput("--subject: which frame is it? Give --mapping FILE or --dbc FILE")
    else:
        messages = [message_from_event(loaded, event_of(loaded, subject, what))]
    with open_bus(channel, interface, bitrate, fd, options) as bus:
        for at in range(repeat):
            if at:
                time.sleep(every)
            for message in messages:
                put(bus, message)


@command.command()
@click.argument("file", metavar="CHANNELS.TOML")
@click.option("--until", type=click.IntRange(min=1), help="Draw so many microseconds instead of the whole cycle.")
@click.option("--json", "as_json", is_flag=True, help="The calendar as one JSON object.")
@click.pass_context
def plan(ctx: click.Context, file: str, until: int | None, as_json: bool) -> None:
    """Lay out the calendar of a bus with hard real-time channels: slots, load and worst cases.

    \b
        [bus]
        bitrate = 500_000
        precision = 20          # us that two clocks may be apart
        jitter = 50             # us that a sender may be late
        [[channel]]
        name = "Brake"
        period = 5_000          # us
        size = 4                # bytes
        omissions = 2           # attempts that may fail
        node = 3

    Exit code 1 when a channel does not fit; it is named, with the reason.
    """
    import json

    from rich.console import Console

    from vicinal.errors import LocalProtocolError

    from ..can import plan as planning

    try:
        found = planning.load_plan(file)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    if as_json:
        click.echo(json.dumps(planning.as_json(found)))
    else:
        console = Console()
        console.print(planning.table(found), crop=False, soft_wrap=not console.is_terminal)
        if found.calendar.slots:
            for row in planning.picture(found.calendar, console.width, until):
                console.print(row, markup=False, highlight=False, crop=False, soft_wrap=True)
        for name, reason in found.refused:
            click.echo(f"{file}: channel {name!r} does not fit: {reason}", err=True)
        if found.better is not None:
            click.echo(f"In another order all of them fit: {', '.join(found.better)}", err=True)
    ctx.exit(1 if found.refused else 0)


@command.command()
@mapping_options
@click.option("--message", "-m", "chosen", multiple=True, metavar="NAME", help="Only this message; may repeat.")
@click.option(
    "--json", "as_json", is_flag=True, help="The tables of the mapping: what a device reads, and --mapping too."
)
def messages(
    dbc: str | None, mapping: str | None, names: bool, lenient: bool, chosen: tuple[str, ...], as_json: bool
) -> None:
    """Show which frame is which event: the messages and fields of a DBC file or a mapping.

    \b
        vicinal can messages --mapping car.toml
        vicinal can messages --dbc car.dbc --message EngineData --json > car.json
    """
    import json

    from vicinal.cosmic.mapping import Mapping

    from ..can.listing import listing

    loaded = load_mapping(dbc, mapping, names, lenient, chosen)
    if loaded is None:
        raise BadInput("of which car? Give --dbc FILE or --mapping FILE")
    for name in chosen:
        message_named(loaded, name)
    shown = Mapping([one for one in loaded.messages if not chosen or one.subject in chosen])
    if as_json:
        click.echo(json.dumps(shown.tables(), ensure_ascii=False))
        return
    from rich.console import Console

    console = Console()
    console.print(listing(shown), crop=False, soft_wrap=not console.is_terminal)
