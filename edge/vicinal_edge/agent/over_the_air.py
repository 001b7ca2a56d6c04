"""The updater of a device that has slots: beside the agent, or alone where both have no room in memory together.

updater_of(agent, settings, slots, folder)      for the loop of an agent
update_alone(file, folder, slots)               what main.py runs instead of the agent, once: no ports, no rules, no
                                                journal; half of the memory is free
"""

import json
import os
import sys as _sys
import time as _time

from vicinal import __version__
from vicinal.coap.client import Client

from .kept import UPDATE, keep, kept
from .link import UdpLink
from .updater import Settings, Updater

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# MicroPython's have more than CPython's, which is what type checkers know.
sys: "Any" = _sys
time: "Any" = _time

__all__ = ["update_alone", "updater_of"]

# ms; what takes longer than all of these waits together is for the watchdog.
_TURN = 10
_WATCHDOG = 30000


def updater_of(agent: "Any", settings: Settings, slots: "Any", folder: str, lean: bool = False) -> Updater:
    def files() -> "Any":
        if getattr(slots, "rom", None) is not None:  # a boot part of before does not know of it
            from .update_rom import RomFiles

            return RomFiles(slots)
        from .update_files import UpdateFiles

        return UpdateFiles(slots)

    path, mpy = folder + UPDATE, getattr(sys.implementation, "_mpy", None)
    mpy = None if mpy is None else mpy & 0xFF
    return Updater(agent, settings, slots, kept(path), lambda record: keep(path, record), files, mpy, 0, lean)


class Alone:
    """As much of an agent as an updater needs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = __version__
        self.client = Client(os.urandom(8), 512, 2048)
        self.counters = {"delivered": 1}  # the gateway was there a moment ago
        self.free = self.extra = None

    def say_health(self, now: int) -> None:
        """The agent does, when it is there again: from the record."""


def update_alone(file: str, folder: str, slots: "Any") -> None:
    """Until there is a reason to start again; the configuration is one that the agent has run with."""
    from vicinal._table import Table

    from .board import Board

    with open(file) as opened:  # noqa: PTH123 - MicroPython has no pathlib
        tables = json.loads(opened.read())
    settings = Settings(Table("[update]", tables["update"]))
    board, wifi = Board(), tables.get("wifi", {})
    board.join(wifi.get("ssid"), wifi.get("password"))
    dog = board.watchdog(_WATCHDOG)
    agent, link = Alone(tables["agent"]["name"]), UdpLink(*_address(tables["agent"]["gateway"]))
    updater = updater_of(agent, settings, slots, folder, True)
    print("hello", json.dumps({"agent": agent.name, "version": __version__, "slot": slots.active, "updates": True}))
    start = time.ticks_ms()
    while not updater.restart:
        now = time.ticks_diff(time.ticks_ms(), start)
        link.service(agent.client, now)
        updater.service(now, True)
        link.service(agent.client, now)
        if dog is not None:
            dog.feed()
        time.sleep_ms(_TURN)
    print("restart:", updater.restart)
    link.close()


def _address(gateway: str) -> "tuple[str, int]":
    """Of what config.py has found in order."""
    rest = gateway[7:]
    if rest.endswith("/"):
        rest = rest[:-1]
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, "5683"
    return (host[1:-1] if host.startswith("[") else host), int(port)
