"""Boards that an agent runs on, one file each: chip, pins, buses, radios, and where the firmware goes.

    name = "esp32"                   what `vicinal board show` and configurations call it; the file's name
    kind = "micropython"             or "linux"
    chip, title, flash_mb, firmware_offset, radios = ["wifi", "ble"]
    [can]   controller, and its pins; on a Pi the overlay that makes it can0
    [i2c]   bus, scl, sda
    [pins]  adc, gpio: free to use; reserved: the flash's, the console's

    board("esp32").check_pin("gpio", 6)          None, or why not

A pin is listed once as a bus's own or as reserved, so that two things are not wired to it.
"""

import tomllib
from importlib.resources import files
from typing import Any

from vicinal._table import Table
from vicinal.errors import LocalProtocolError

__all__ = ["Board", "board", "names"]

_MAX_PIN = 64


class Board:
    def __init__(self, tables: dict[str, Any], file: str) -> None:
        table = Table(file, tables)
        self.name: str = table.take("name", str, required=True)
        self.title: str = table.take("title", str, required=True)
        self.kind: str = table.take("kind", str, required=True)
        if self.kind not in ("micropython", "linux"):
            raise table.error("kind", f'is {self.kind!r}, want "micropython" or "linux"')
        self.chip: str = table.take("chip", str, required=True)
        on_board = self.kind == "micropython"
        self.flash_mb: int | None = table.integer("flash_mb", 1, 64, required=on_board)
        self.firmware_offset: int | None = table.integer("firmware_offset", 0, 0x10000, required=on_board)
        self.radios: list[str] = table.take("radios", list, [])
        if [each for each in self.radios if each not in ("wifi", "ble")]:
            raise table.error("radios", f'is {self.radios!r}, want "wifi" and "ble", either or none')
        can = Table(f"{file}: [can]", table.take("can", dict, {}))
        self.can: dict[str, Any] = {
            key: can.take(key, str) for key in ("controller", "overlay", "channel") if key in can.values
        }
        self.can |= {key: _pin(can, key) for key in ("spi", "sck", "mosi", "miso", "cs", "int") if key in can.values}
        can.done()
        i2c = Table(f"{file}: [i2c]", table.take("i2c", dict, {}))
        self.i2c: dict[str, int] = {key: _pin(i2c, key) for key in ("bus", "scl", "sda")}
        i2c.done()
        pins = Table(f"{file}: [pins]", table.take("pins", dict, required=True))
        self.pins: dict[str, list[int]] = {key: _pins(pins, key) for key in ("adc", "gpio", "reserved")}
        pins.done()
        table.done()
        for use in ("adc", "gpio"):
            for number in self.pins[use]:
                if number in self.pins["reserved"]:
                    raise pins.error(use, f"has {number}, which is reserved")

    def check_pin(self, use: str, number: int) -> str | None:
        """Why a pin cannot be used as `adc` or `gpio`; None: it can."""
        if number in self.pins["reserved"]:
            return f"pin {number} of {self.title} is reserved"
        if number not in self.pins[use]:
            there = ", ".join(map(str, self.pins[use])) or "none"
            return f"pin {number} of {self.title} is no {use} pin: there are {there}"
        return None

    def table(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "chip": self.chip,
            "radios": self.radios,
        }
        if self.flash_mb is not None:
            found |= {"flash_mb": self.flash_mb, "firmware_offset": self.firmware_offset}
        return found | {"can": self.can, "i2c": self.i2c, "pins": self.pins}


def _pin(table: Table, key: str) -> int:
    number: int = table.integer(key, 0, _MAX_PIN, required=True)
    return number


def _pins(table: Table, key: str) -> list[int]:
    found: list[int] = table.take(key, list, required=True)
    wrong = [each for each in found if type(each) is not int or not 0 <= each <= _MAX_PIN]
    if wrong or len(set(found)) != len(found):
        raise table.error(key, f"is {found!r}, want different numbers, 0 .. {_MAX_PIN}")
    return found


def names() -> list[str]:
    return sorted(each.name.removesuffix(".toml") for each in files(__name__).iterdir() if each.name.endswith(".toml"))


def board(name: str) -> Board:
    known = names()
    if name not in known:
        raise LocalProtocolError(f"board {name!r} is not known: there are {', '.join(known)}")
    file = files(__name__) / f"{name}.toml"
    return Board(tomllib.loads(file.read_text(encoding="utf-8")), f"{name}.toml")
