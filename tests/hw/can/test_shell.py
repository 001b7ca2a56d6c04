"""A COSMIC node over python-can buses: one frame at a time, nothing lost, back from bus-off."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import can
import can.interfaces.virtual
import pytest

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import ACTIVE, BUS_OFF
from vicinal.cosmic.node import Node
from vicinal_hw.can.shell import Shell, open_bus

BITRATE = 500_000
PATIENCE = 20.0
SPEED, TEXT = 200, 201


def config(interface: str, channel: str) -> dict[str, Any]:
    if interface == "udp_multicast":
        from hw.can.test_contract import _free_port, multicast_works

        if why := multicast_works():
            pytest.skip(f"udp_multicast: {why}")
        return {"interface": interface, "channel": "239.74.163.2", "port": _free_port()}
    return {"interface": interface, "channel": channel}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


class Heard(list[bytes]):
    def __call__(self, event: bytes, tx_node: int, now: int) -> None:
        self.append(event)


Body = Callable[[Shell, Shell], Awaitable[None]]


def two_nodes(settings: dict[str, Any], body: Body) -> None:
    async def run() -> None:
        (first, confirms), (second, _) = open_bus(**settings), open_bus(**settings)
        try:
            async with (
                Shell(first, Node(1, BITRATE), confirms) as one,
                Shell(second, Node(2, BITRATE), confirms) as two,
            ):
                await body(one, two)
        finally:
            first.shutdown()
            second.shutdown()

    asyncio.run(run())


@pytest.mark.parametrize("interface", ["virtual", "vicinal", "udp_multicast"])
def test_events_go_from_node_to_node(interface: str, channel: str) -> None:
    async def body(one: Shell, two: Shell) -> None:
        heard = Heard()
        SrtChannel(two.node, SPEED, deadline=1_000_000, codec=Raw, fragmented=False).subscribe(heard, two.now())
        NrtChannel(two.node, TEXT, codec=Raw, fragmented=True).subscribe(heard, two.now())
        speed = SrtChannel(one.node, SPEED, deadline=1_000_000, codec=Raw, fragmented=False)
        text = NrtChannel(one.node, TEXT, codec=Raw, fragmented=True)
        speed.announce(one.now())
        text.announce(one.now())
        assert text.publish(b"long" * 10, one.now())
        for number in range(50):
            assert speed.publish(bytes([number]), one.now())
        one.update()
        await until(lambda: len(heard) == 51)
        assert [each for each in heard if len(each) == 1] == [bytes([number]) for number in range(50)]
        assert b"long" * 10 in heard
        await until(lambda: one.node.stored == 0)
        assert one.node.counters["out accepted"] == one.node.counters["out sent"] == 51
        if one._confirms:
            assert one.counters["confirmed"] == one.counters["handed over"]

    two_nodes(config(interface, channel), body)


def test_at_most_one_frame_is_in_the_kernels_hands(channel: str) -> None:
    """Urgent frames that come later overtake what the node still has, and wait for one frame at most."""

    async def body(one: Shell, two: Shell) -> None:
        ids: list[int] = []
        slow = NrtChannel(one.node, TEXT, codec=Raw, fragmented=False)
        fast = SrtChannel(one.node, SPEED, deadline=1_000_000, codec=Raw, fragmented=False)
        slow.announce(one.now())
        fast.announce(one.now())
        two.node.listen(TEXT, lambda frame, now: ids.append(TEXT))
        two.node.listen(SPEED, lambda frame, now: ids.append(SPEED))
        for _ in range(20):
            slow.publish(b"slow", one.now())
        one.update()
        for _ in range(3):
            fast.publish(b"fast", one.now())
        one.update()
        bus = one.bus
        while len(ids) < 23:
            assert bus.queued() <= 1  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        assert ids[:4] == [TEXT, SPEED, SPEED, SPEED]

    two_nodes(config("vicinal", channel), body)


def test_bus_off_loses_nothing(channel: str) -> None:
    async def body(one: Shell, two: Shell) -> None:
        heard = Heard()
        states: list[str] = []
        one.recovery.on_change = lambda state, now: states.append(state)
        SrtChannel(two.node, SPEED, deadline=10_000_000, codec=Raw, fragmented=False).subscribe(heard, two.now())
        speed = SrtChannel(one.node, SPEED, deadline=10_000_000, codec=Raw, fragmented=False)
        speed.announce(one.now())
        one.bus.disturb(1.0)  # type: ignore[attr-defined]
        for number in range(30):
            speed.publish(bytes([number]), one.now())
        one.update()
        await until(lambda: BUS_OFF in states)
        one.bus.disturb(0)  # type: ignore[attr-defined]
        await until(lambda: len(heard) == 30)
        assert heard == [bytes([number]) for number in range(30)]
        assert ACTIVE in states[states.index(BUS_OFF) :]
        assert one.node.counters["out sent"] == 30
        assert one.counters["unconfirmed"] == 0

    two_nodes(config("vicinal", channel), body)


def test_a_refused_frame_is_offered_again(channel: str) -> None:
    """ENOBUFS is a state of the kernel's queue, not the end of the frame."""

    class Full(can.interfaces.virtual.VirtualBus):
        refuse = 3

        def send(self, msg: can.Message, timeout: float | None = None) -> None:
            if self.refuse:
                self.refuse -= 1
                raise can.CanOperationError("Failed to transmit: No buffer space available", 105)
            super().send(msg, timeout)

    async def run() -> None:
        bus = Full(channel=channel, receive_own_messages=True)
        with can.Bus(interface="virtual", channel=channel) as other:
            async with Shell(bus, Node(1, BITRATE)) as shell:
                text = NrtChannel(shell.node, TEXT, codec=Raw, fragmented=False)
                text.announce(shell.now())
                text.publish(b"again", shell.now())
                shell.update()
                await until(lambda: shell.counters["confirmed"] == 1)
                assert shell.counters["refused"] == 3
            received = other.recv(0)
            assert received is not None
            assert received.data == b"again"
        bus.shutdown()

    asyncio.run(run())


def test_a_bus_that_is_lost_ends_the_shell_with_a_reason(channel: str) -> None:
    async def body(one: Shell, two: Shell) -> None:
        os.kill(one.bus.server_pid, signal.SIGKILL)  # type: ignore[attr-defined]
        for shell in (one, two):
            with pytest.raises(can.CanOperationError, match="is gone"):
                async with asyncio.timeout(PATIENCE):
                    await shell.failed

    two_nodes(config("vicinal", channel), body)
    open_bus(interface="vicinal", channel=channel)[0].shutdown()  # a new one starts, and cleans up
