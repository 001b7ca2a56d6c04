"""A bus through python-can: which one, and what to say when it cannot be had."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..complain import BadInput

if TYPE_CHECKING:
    import can

__all__ = ["bus_options", "open_bus", "send"]

F = TypeVar("F", bound=Callable[..., Any])
# A bus whose queue has been full for so long has no other node that acknowledges, or is not up.
_SEND_TIMEOUT = 5.0


def bus_options(command: F) -> F:
    for option in reversed(
        [
            click.option(
                "--interface", "-i", envvar="CAN_INTERFACE", default="socketcan", show_default=True,
                help="Any of python-can's (socketcan, vicinal, pcan, slcan, udp_multicast, ...); also CAN_INTERFACE.",
            ),
            click.option("--bitrate", type=click.IntRange(min=1), help="Bits per second, where the interface sets it."),
            click.option("--fd", is_flag=True, help="CAN FD."),
            click.option(
                "--option", "-o", "options", multiple=True, metavar="NAME=VALUE", help="Of the interface; may repeat."
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


@contextmanager
def open_bus(
    channel: str | None, interface: str, bitrate: int | None, fd: bool, options: tuple[str, ...]
) -> "Iterator[can.BusABC]":
    import can

    from ..overlay import Failed

    settings: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise BadInput(f"--option {option!r}: want NAME=VALUE")
        settings[name] = _value(value)
    if bitrate is not None:
        settings["bitrate"] = bitrate
    if fd:
        settings["fd"] = True
    if channel is None and interface == "socketcan":
        raise BadInput("which bus? Give its CHANNEL, as can0; `vicinal doctor` lists those of this machine")
    try:
        bus = can.Bus(interface=interface, channel=channel, **settings)
    except can.CanInterfaceNotImplementedError as error:
        known = ", ".join(sorted(can.VALID_INTERFACES))
        raise BadInput(f"interface {interface!r}: {error}\npython-can has here: {known}") from error
    except (can.CanError, OSError, ValueError, TypeError) as error:
        raise Failed(
            f"{interface} {channel or ''}: {error}\n`vicinal doctor` says which CAN buses are here; -i vicinal is a "
            "virtual one, which needs no hardware"
        ) from error
    try:
        yield bus
    finally:
        bus.shutdown()


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


def send(bus: "can.BusABC", message: "can.Message") -> None:
    """Waits while the bus's queue is full."""
    import can

    from ..overlay import Failed

    try:
        bus.send(message, timeout=_SEND_TIMEOUT)
    except can.CanOperationError as error:
        raise Failed(
            f"cannot send {message.arbitration_id:#x}: {error}\nIs the bus up, with another node on it?"
        ) from error
    except ValueError as error:
        raise Failed(f"this bus does not carry {message.arbitration_id:#x} of {message.dlc} bytes: {error}") from error
