"""Hard real time where CPython fires the slots: nothing is promised, everything is reported (spec/cosmic.md, end).

Two nodes over python-can on the virtual bus in real time, with slots as short as a calendar would give a real-time
task. How many are missed depends on the machine and on what else it does; that every slot is accounted for does not."""

import asyncio
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from vicinal.cosmic.calendar import Calendar
from vicinal.cosmic.channels import Raw
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.node import Node
from vicinal_hw.can.shell import Shell, open_bus

BITRATE = 500_000
SLOTS = 60


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with TemporaryDirectory(prefix="can") as folder:
        monkeypatch.setenv("VICINAL_CAN_DIR", folder)
        yield "car"


def report(node: Node, other: Node) -> str:
    """What an operator reads: the counters that say anything of slots."""
    told = {**node.counters, **{what: number for what, number in other.counters.items() if what.startswith("in ")}}
    return ", ".join(f"{what} {number}" for what, number in sorted(told.items()))


def test_every_slot_is_sent_or_reported(channel: str, capsys: pytest.CaptureFixture[str]) -> None:
    failures: list[tuple[str, Any]] = []
    heard: list[bytes] = []
    missing: list[str] = []

    async def run() -> tuple[Node, Node, int]:
        settings = {"interface": "vicinal", "channel": channel, "bitrate": BITRATE}
        (first, confirms), (second, _) = open_bus(**settings), open_bus(**settings)
        try:
            async with (
                Shell(first, Node(1, BITRATE), confirms) as one,
                Shell(second, Node(2, BITRATE), confirms) as two,
            ):
                slot = Calendar(BITRATE, precision=500).reserve("Brake", 20_000, tx_node=1)
                brake = HrtChannel(one.node, 200, slot, Raw)
                brake.announce(one.now(), lambda reason, event, now: failures.append((reason, event)))
                HrtChannel(two.node, 200, slot, Raw).subscribe(
                    lambda event, tx_node, now: heard.append(event),
                    two.now(),
                    lambda reason, event, now: missing.append(reason),
                )
                start = brake.ready
                one.update()
                two.update()
                number = 0
                while brake.ready < start + SLOTS * slot.period:
                    if brake.written is None:
                        brake.publish(number.to_bytes(8, "big"), one.now())
                        number += 1
                    await asyncio.sleep(0.005)
                while one.node.stored:  # until its slot has been; slots that are empty go on, and are told
                    await asyncio.sleep(0.002)
                passed = (brake.ready - start) // slot.period
                brake.unannounce(one.now())
                one.update()
                await asyncio.sleep(0.1)
                return one.node, two.node, passed
        finally:
            first.shutdown()
            second.shutdown()

    node, other, passed = asyncio.run(run())
    count = node.counters
    sent, slept = count.get("out sent", 0), count.get("out slots slept through", 0)
    dropped = sum(number for what, number in count.items() if what.startswith("out dropped: "))
    empty = len([event for _, event in failures if event is None])
    assert passed >= SLOTS
    assert sent + dropped + empty + slept == passed
    assert count["out accepted"] == sent + node.stored + dropped
    assert len(heard) == len(set(heard)) <= sent
    reasons = sorted({reason for reason, _ in failures})
    with capsys.disabled():
        print(f"\n{passed} slots of 20 ms fired by CPython: {report(node, other)}; told {reasons}")
