"""A fake of MicroPython's `machine`, as an ESP32 has it: pins, converters and buses end in wires.py on the host.

reset() and the watchdog are real: the host kills the interpreter, and starts it again with nothing but its flash.
"""

import fake_host as _host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PWRON_RESET, HARD_RESET, WDT_RESET, DEEPSLEEP_RESET, SOFT_RESET = 1, 2, 3, 4, 5
cause = PWRON_RESET


def reset() -> "NoReturn":
    _host.tell(b"R")
    while True:
        _host.serve(1000)


def reset_cause() -> int:
    return cause


def unique_id() -> bytes:
    return b"vicinal"


def freq() -> int:
    return 240000000


class WDT:
    """Cannot be stopped; another one with another time takes its place, as on an ESP32."""

    def __init__(self, id: int = 0, timeout: int = 5000) -> None:
        if not 0 < timeout < 1 << 31:
            raise ValueError("WDT timeout too short")
        _host.tell(b"W", timeout.to_bytes(4, "big"))

    def feed(self) -> None:
        _host.tell(b"F")


class Pin:
    IN, OUT, OPEN_DRAIN = 1, 3, 7
    PULL_UP, PULL_DOWN = 2, 1

    def __init__(self, id: int, mode: int = IN, pull: "int | None" = None, value: "int | None" = None) -> None:
        self.id = id
        self._out = value
        if value is not None:
            self.value(value)

    def value(self, level: "int | None" = None) -> int:
        if level is None:
            return int(_host.ask(b"P", bytes([self.id]))[0])
        _host.tell(b"O", bytes([self.id, 1 if level else 0]))
        return 0

    __call__ = value


class ADC:
    ATTN_11DB = 3

    def __init__(self, pin: "Any", atten: int = ATTN_11DB) -> None:
        self._pin = getattr(pin, "id", pin)

    def read_u16(self) -> int:
        return int.from_bytes(_host.ask(b"A", bytes([self._pin])), "big")


class SPI:
    """There is one chip on it, an MCP2515; its chip select is whatever pin the driver moves."""

    def __init__(self, id: int, baudrate: int = 1000000, **pins: "Any") -> None:
        pass

    def write_readinto(self, out: "bytes | bytearray", into: bytearray) -> None:
        into[:] = _host.ask(b"S", out)


class I2C:
    def __init__(self, id: int, scl: "Any" = None, sda: "Any" = None, freq: int = 400000) -> None:
        pass

    def readfrom_mem(self, address: int, register: int, size: int) -> bytes:
        found: bytes = _host.ask(b"I", bytes([address, register, size]))
        if len(found) != size:
            raise OSError(19)  # nobody acknowledged the address
        return found
