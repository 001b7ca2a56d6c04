"""What `vicinal ble beacon` does: a node that announces a subject and publishes the same event again and again."""

import asyncio
import random
import time
from typing import NamedTuple

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.frames import LEGACY_ROOM
from vicinal.steam.node import Node
from vicinal_hw.ble.physics import EXTENDED_MAX
from vicinal_hw.ble.shell import Radio, Shell

__all__ = ["Test", "send"]

FAREWELL = 1.2
"""seconds for the last beacons, which say that it is over"""


class Test(NamedTuple):
    event: Event
    place: tuple[int, int]
    radius: int
    moving: bool
    typed: bool
    every: int
    """ms between events"""
    times: int | None
    seconds: float | None
    name: str


async def send(test: Test, radio: Radio, extended: bool, sent: dict[str, int]) -> None:
    """Until all is sent, or it is cancelled. `sent` is told how much that was."""
    # Numbers of events must not come again when this is started again: the clock does not.
    node = Node(
        test.name,
        random.SystemRandom().randrange(1, 1 << 24),
        EXTENDED_MAX if extended else LEGACY_ROOM,
        first_seq=time.time_ns() // 1_000_000,
    )
    lat, lon = test.place
    area = Proximity.circle(0, 0, test.radius, True) if test.moving else Proximity.circle(lat, lon, test.radius)
    names = list(test.event.params) if test.typed else None
    async with Shell(node, radio) as shell:
        shell.set_position(lat, lon)
        node.announce(test.event.subject, area, shell.now(), names)
        try:
            await _publish(test, shell)
        finally:
            node.unannounce(test.event.subject, shell.now())
            shell.update()
            await asyncio.sleep(FAREWELL)
            for what in ("out accepted", "out sent", "out beacons", "out pieces"):
                sent[what.replace("out accepted", "events").removeprefix("out ")] = node.counters.get(what, 0)


async def _publish(test: Test, shell: Shell) -> None:
    end = None if test.seconds is None else shell.now() + int(test.seconds * 1000)
    number = 0
    while test.times is None or number < test.times:
        shell.node.publish(test.event, shell.now())
        shell.update()
        number += 1
        # The last one is said out before the announcement is over.
        wait = test.every if test.times is None or number < test.times else max(test.every, 2000)
        if end is not None:
            wait = min(wait, end - shell.now())
        if wait <= 0:
            return
        done, _ = await asyncio.wait([shell.failed], timeout=wait / 1000)
        if done:
            shell.failed.result()
        if end is not None and shell.now() >= end:
            return
