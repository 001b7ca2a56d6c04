"""Which radio, and where it is; what to say when it cannot be had."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..complain import BadInput
from ..overlay import Failed

if TYPE_CHECKING:
    from vicinal_hw.ble.shell import Radio

__all__ = ["make_radio", "parse_place", "radio_options", "run"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def radio_options(command: F) -> F:
    for option in reversed(
        [
            click.option("--adapter", "-i", metavar="NAME", help="Of BlueZ, as hci0; else its default one."),
            click.option("--virtual", "-V", metavar="NAME", help="The virtual radio of this name."),
            click.option("--at", "place", metavar="LAT,LON", help="Where this is, in degrees."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def parse_place(text: str | None) -> tuple[int, int] | None:
    """1e-7 degrees."""
    if text is None:
        return None
    from vicinal._areas import parse_degrees
    from vicinal.errors import VicinalError

    parts = text.replace(",", " ").split()
    if len(parts) != 2:
        raise BadInput(f"--at {text!r}: want LAT,LON in degrees, as 53.3438,-6.2546")
    try:
        lat, lon = (parse_degrees(part) for part in parts)
    except (VicinalError, ValueError) as error:
        raise BadInput(f"--at {text!r}: {error}") from error
    if abs(lat) > 900_000_000 or abs(lon) > 1_800_000_000:
        raise BadInput(f"--at {text!r}: latitude is -90 .. 90, longitude -180 .. 180")
    return lat, lon


def make_radio(
    adapter: str | None, virtual: str | None, place: tuple[int, int] | None, extended: bool = False
) -> "Radio":
    if virtual is not None:
        if adapter is not None:
            raise BadInput("--adapter or --virtual, not both")
        from vicinal_hw.ble.virtual import VirtualRadio

        lat, lon = place or (0, 0)
        return VirtualRadio(virtual, lat, lon)
    if sys.platform != "linux":
        raise BadInput("BlueZ is on Linux only: --virtual NAME uses a virtual radio")
    from vicinal_hw.ble.bluez import BluezRadio

    return BluezRadio(adapter, extended=extended)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs it. What a radio, or the lack of one, says becomes a message and an exit code."""
    from vicinal_hw.ble.shell import RadioError

    try:
        return asyncio.run(work)
    except RadioError as error:
        raise Failed(f"{error}\nWithout one: --virtual NAME, a virtual radio for all processes of this user") from error
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
