"""vicinal device: run."""

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Failed

__all__ = ["command"]


@click.group("device")
def command() -> None:
    """A virtual device: MicroPython behind a serial port, with fakes for its chips. No hardware is needed."""


@command.command("run")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--board", default="esp32", show_default=True, help="What it says that it is; `vicinal board list`.")
@click.option("--link", type=click.Path(), help="A name for its port that stays the same.")
@click.option("--can", "bus", help="The virtual CAN bus that its MCP2515 is on.")
@click.option("--bitrate", type=int, default=500_000, show_default=True, help="Of the bus.")
@click.option("--ble", "air", help="The virtual radio that its `bluetooth` is on.")
@click.option("--at", default="0,0", show_default=True, help="Where it is: LAT,LON in degrees.")
@click.option("--heap", type=click.IntRange(32, 8192), default=128, show_default=True, help="KiB of memory.")
@click.option(
    "--flash", type=click.IntRange(64, 65536), default=2048, show_default=True, help="KiB of its file system."
)
@click.option(
    "--rom", type=click.IntRange(0, 16384), default=0, help="KiB of the ROMFS of its firmware; 0: it has none."
)
@click.option("--console", is_flag=True, help="Show what it says.")
@click.option("--json", "as_json", is_flag=True, help="Say where its port is as one JSON object.")
def run_(
    folder: str,
    board: str,
    link: str | None,
    bus: str | None,
    bitrate: int,
    air: str | None,
    at: str,
    heap: int,
    flash: int,
    rom: int,
    console: bool,
    as_json: bool,
) -> None:
    """Switch on a virtual device whose flash is in FOLDER, until SIGTERM or Ctrl-C.

    Its serial port is a pty, and printed: `vicinal flash --port`, mpremote and terminals open it as a board's. What it
    says is in FOLDER/console.log, too. The next run with the same FOLDER is the same device.
    """
    from vicinal_hw.device import DeviceError, VirtualDevice

    try:
        place = tuple(round(float(each) * 10_000_000) for each in at.split(","))
        lat, lon = place
    except ValueError as error:
        raise BadInput(f"--at is {at!r}, want LAT,LON in degrees, as 53.3438,-6.2546") from error
    try:
        device = VirtualDevice(
            Path(folder),
            board=board,
            heap=heap * 1024,
            flash=flash * 1024,
            rom=rom * 1024,
            link=None if link is None else Path(link),
            can=bus,
            bitrate=bitrate,
            ble=air,
            at=(lat, lon),
        )
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    except DeviceError as error:
        raise Failed(str(error)) from error
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    with device:
        port = link or device.port
        click.echo(json.dumps({"port": port, "board": board}) if as_json else f"virtual {device.board.title} at {port}")
        sys.stdout.flush()
        at_ = 0
        while not ended.wait(0.1):
            if console and len(said := device.console) > at_:
                click.echo(said[at_:], nl=False)
                sys.stdout.flush()
                at_ = len(said)
