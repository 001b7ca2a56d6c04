"""Bus-off through the real shell: python-can, another process that holds the bus, and time that only we advance.

The shell hears of it by an error frame, asks for recovery at once, and its node's queue waits. Times are the bus's own,
so that they are the same on every machine."""

import asyncio
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import can
import pytest

from vicinal.cosmic.channels import Raw, SrtChannel
from vicinal.cosmic.faults import ACTIVE, BUS_OFF
from vicinal.cosmic.node import Node
from vicinal_hw.can.shell import Shell, open_bus

BITRATE = 500_000
STEP = 500_000
"""nanoseconds"""
MILLISECOND = 1_000_000
EVENTS = [bytes([number]) for number in range(40)]


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with TemporaryDirectory(prefix="can") as folder:
        monkeypatch.setenv("VICINAL_CAN_DIR", folder)
        yield "car"


def test_seen_within_10_ms_and_over_within_50(channel: str) -> None:
    states: list[tuple[str, int]] = []
    heard: list[bytes] = []
    destroyed: list[int] = []
    now = 0

    async def run() -> Node:
        nonlocal now
        settings = {"interface": "vicinal", "channel": channel, "bitrate": BITRATE, "time": "stepped"}
        sender, confirms = open_bus(**settings)
        driver = can.Bus(**settings, bus_errors=True)
        try:
            async with Shell(sender, Node(1, BITRATE), confirms) as shell:
                shell.recovery.on_change = lambda state, _: states.append((state, now))
                speed = SrtChannel(shell.node, 200, deadline=60_000_000, codec=Raw)
                speed.announce(shell.now())
                sender.disturb(1.0)
                for event in EVENTS:
                    speed.publish(event, shell.now())
                shell.update()
                while len(heard) < len(EVENTS) and now < 500 * MILLISECOND:
                    now = driver.advance(STEP)
                    # What happened is in the shell's socket before advance() returns: a turn of the loop reads it, and
                    # the next hands over what the node wants sent.
                    for _ in range(4):
                        await asyncio.sleep(0)
                    while (message := driver.recv(0)) is not None:
                        if message.is_error_frame:
                            destroyed.append(now)
                        else:
                            heard.append(bytes(message.data))
                    if BUS_OFF in [state for state, _ in states]:
                        sender.disturb(0)
                return shell.node
        finally:
            sender.shutdown()
            driver.shutdown()

    node = asyncio.run(run())
    assert heard == EVENTS
    off = destroyed[31]  # 32 times 8 is 256
    seen = next(at for state, at in states if state == BUS_OFF)
    back = next(at for state, at in states if state == ACTIVE and at > seen)
    assert seen - off <= 10 * MILLISECOND
    assert back - off <= 50 * MILLISECOND
    assert node.counters["out sent"] == len(EVENTS)
    assert node.counters["bus-off"] == 1
