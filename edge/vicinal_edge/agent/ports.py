"""What an agent hears events from, as its configuration says it: pure data, which a shell opens.

    [[can]]                              a CAN bus
    channel = "can0"                     on a Pi, of python-can; on a board: controller = "mcp2515" or "machine"
    interface = "socketcan"
    bitrate = 500000
    node = 7                             our TxNode on the bus
    pins = { cs = 5, int = 4 }           of a board's controller
    message = [...]                      frames as events, as a mapping has them (protocols/spec/can_mapping.md)
      [[can.event]]                      a COSMIC channel whose events are published
      etag = 300
      class = "srt"                      or "nrt"

    [[ble]]                              a STEAM group whose events are published
    subject = "Siren"                    none: a radio that only speaks
    filter = "rate > 0"
    names = ["kind", "rate"]
    adapter = "hci0"                     on a Pi; or virtual = "town"

    [[sensor]]                           a value, read again and again
    type = "adc"                         gpio, adc or i2c of a board; file on a Pi, where Linux has the sensor; own
    subject = "Battery"
    name = "volts"
    every_ms = 1000
    pin = 34                             gpio, adc
    address = 72                         i2c, with register, bytes, signed, little, bus, pins = { scl = 22, sda = 21 }
    path = "/sys/class/thermal/thermal_zone0/temp"        file
    scale = 0.0008
    offset = 0

A parameter is scale x raw + offset where either is given; a pin alone is true or false. "own" is for a program that
runs the agent's loop with drivers of its own: what such a driver reads are the parameters, or None (parts.py).
"""

from vicinal._table import Table
from vicinal.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PORTS", "BlePort", "CanPort", "SensorPort", "channel_of", "name_of"]

_CONTROLLERS = ("python-can", "mcp2515", "machine")
_MAX_CHANNELS = 16
# An advertisement's event has parameters for a line of text.
_MAX_NAMES = 16


def _choice(table: Table, key: str, choices: "tuple[str, ...]", default: "str | None" = None) -> str:
    value: str = table.take(key, str, default, required=default is None)
    if value not in choices:
        raise table.error(key, f"is {value!r}, want {' or '.join(choices)}")
    return value


def name_of(port: "Any", number: int) -> str:
    """What a part is called: `number` is its place among all ports. All BLE groups share a radio."""
    return "ble" if port.kind == "ble" else f"{port.kind} {number + 1}"


class CanPort:
    kind = "can"

    def __init__(self, table: Table) -> None:
        self.channel: str = table.take("channel", str, "can0")
        self.interface: str = table.take("interface", str, "socketcan")
        self.controller = _choice(table, "controller", _CONTROLLERS, "python-can")
        self.bitrate: int = table.integer("bitrate", 10000, 1000000, 500000)
        self.node: int = table.integer("node", 0, 127, 0)
        self.pins: dict[str, Any] = table.take("pins", dict, {})
        for name in self.pins:
            if type(self.pins[name]) is not int:
                raise table.error("pins", f"has {name} = {self.pins[name]!r}, want the numbers of pins")
        self.mapping: Any = None
        messages = table.take("message", list)
        if messages is not None:
            from vicinal.cosmic.mapping import Mapping

            self.mapping = Mapping.from_tables({"message": messages}, table.where)
        self.channels: list[tuple[int, str, int, int]] = []
        listed = table.take("event", list, [])
        if len(listed) > _MAX_CHANNELS:
            raise table.error("event", f"has {len(listed)} channels, the limit is {_MAX_CHANNELS}")
        for number, value in enumerate(listed):
            inner = Table(f"{table.where}, event {number + 1}", value)
            etag = inner.integer("etag", 0, 16383, required=True)
            self.channels.append((etag,) + channel_of(inner))
            inner.done()
        table.done()
        self.idle = (
            "" if self.mapping or self.channels else "has no `event` and no `message`: nothing on the bus is an event"
        )


def channel_of(table: Table) -> "tuple[str, int, int]":
    """class, deadline, validity"""
    kind = _choice(table, "class", ("srt", "nrt"), "srt")
    deadline = table.integer("deadline_us", 1, 10000000, 20000)
    return kind, deadline, table.integer("validity_us", 1, 100000000, 100000)


class BlePort:
    kind = "ble"

    def __init__(self, table: Table) -> None:
        named = "subject" in table.values
        self.subject: str | None = table.name("subject", 255) if named else table.take("subject", str)
        self.idle = "" if self.subject is not None else "has no `subject`: nothing is heard"
        self.filter: str | None = table.take("filter", str)
        if self.filter is not None:
            from vicinal.filter import Filter

            try:
                Filter(self.filter)
            except LocalProtocolError as error:
                raise table.error("filter", f"is {self.filter!r}: {error}")
        names = table.take("names", list)
        if names is not None and (len(names) > _MAX_NAMES or [each for each in names if type(each) is not str]):
            raise table.error("names", f"is {names!r}, want {_MAX_NAMES} strings at most")
        self.names: list[str] | None = names
        self.adapter: str = table.take("adapter", str, "hci0")
        self.virtual: str | None = table.take("virtual", str)
        table.done()


class SensorPort:
    kind = "sensor"
    idle = ""

    def __init__(self, table: Table) -> None:
        self.subject: str = table.name("subject", 255)
        self.type = _choice(table, "type", ("gpio", "adc", "i2c", "file", "own"))
        self.name: str = table.take("name", str, "value")
        self.every: int = table.integer("every_ms", 1, 86400000, 1000)
        self.pin: int | None = table.integer("pin", 0, 64, required=self.type in ("gpio", "adc"))
        self.path: str | None = table.take("path", str, required=self.type == "file")
        self.pull: str | None = table.take("pull", str)
        if self.pull not in (None, "up", "down"):
            raise table.error("pull", f'is {self.pull!r}, want "up" or "down"')
        self.bus: int = table.integer("bus", 0, 7, 0)
        self.pins: dict[str, Any] = table.take("pins", dict, {})
        self.address: int | None = table.integer("address", 3, 119, required=self.type == "i2c")
        self.register: int = table.integer("register", 0, 255, 0)
        self.bytes: int = table.integer("bytes", 1, 4, 2)
        self.signed: bool = table.take("signed", bool, False)
        self.little: bool = table.take("little", bool, False)
        self.scale: float | int | None = table.number("scale", None)
        self.offset: float | int = table.number("offset", 0)
        table.done()

    def value(self, raw: int) -> "bool | int | float":
        if self.type == "gpio" and self.scale is None and not self.offset:
            return bool(raw)
        return (raw if self.scale is None else raw * self.scale) + self.offset


PORTS = {"can": CanPort, "ble": BlePort, "sensor": SensorPort}
