"""What a link says has left, and what has not: on a real socket, and with a transport that a test can break."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import balanced, until
from cloud.broker.inside import Peer, server

from vicinal.event import Event
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena.broker import Broker
from vicinal.siena.messages import CLIENT, encode, framed
from vicinal_cloud.broker.link import Link
from vicinal_cloud.broker.node import Node, clock
from vicinal_cloud.broker.status import status


def test_what_was_in_the_buffer_of_a_lost_connection_was_not_delivered(tmp_path: Path) -> None:
    async def lose() -> None:
        async with server(tmp_path) as one:
            office = await Peer.open(one, "office")
            office.say(("credit", 1 << 20))
            await office.ask("subscribe", 1, "TRUE", Tags(), None, None)
            office.writer.transport.pause_reading()
            car = await Peer.open(one, "car")
            await car.ask("advertise", 1, "TRUE", Tags())
            picture = bytes(60000)
            seq = 0
            # Until both ends' sockets are full.
            while one.status()["deliveries"]["waiting"] < 20:
                seq += 1
                await car.ask("publish", seq, 1, Event("Picture", [("data", picture)], {}, "car", seq))
            before = one.status()["deliveries"]
            assert before["handed"] == seq
            office.writer.transport.abort()
            await until(lambda: "office" not in one.node.sessions)
            found = one.status()
            assert found["deliveries"]["dropped"] == {"client gone: lost": before["waiting"]}
            assert found["deliveries"]["delivered"] == before["delivered"]
            assert balanced(found)

    asyncio.run(lose())


class Breakable(asyncio.Transport):
    """Not a socket: takes so many bytes, and breaks when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.takes = 1 << 30
        self.breaks = False
        self.held = 0
        self.closed = False

    def can_write_eof(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        if self.breaks:
            self.lose()
        else:
            taken = min(len(data), self.takes)
            self.takes -= taken
            self.held += len(data) - taken

    def lose(self) -> None:
        """As asyncio does it: what is in the buffer is thrown away, the protocol is told later."""
        self.closed, self.held = True, 0

    def get_write_buffer_size(self) -> int:
        return self.held

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def joined(node: Node, name: str, *messages: tuple[Any, ...]) -> tuple[Link, Breakable]:
    link, transport = Link(node, node.accept()), Breakable()
    link.connection_made(transport)
    feed(link, ("hello", 1, CLIENT, name), ("credit", 1 << 20), *messages)
    return link, transport


def feed(link: Link, *messages: tuple[Any, ...]) -> None:
    data = b"".join([framed(encode(one)) for one in messages])
    link.get_buffer(0)[: len(data)] = data
    link.buffer_updated(len(data))


@pytest.mark.parametrize("how", ["partly taken", "while it is written", "before it is written"])
def test_deliveries_on_a_connection_that_breaks(how: str) -> None:
    async def lose() -> None:
        node = Node(Broker("b1", 1, ScopeGraph()), {}, clock())
        office, transport = joined(node, "office", ("subscribe", 1, "TRUE", Tags(), None, None))
        car, _ = joined(node, "car", ("advertise", 1, "TRUE", Tags()))
        await asyncio.sleep(0)

        def publish(seqs: range) -> None:
            feed(car, *[("publish", None, 1, Event("Speed", [], {}, "car", seq)) for seq in seqs])

        publish(range(10))
        await asyncio.sleep(0)
        assert status(node)["deliveries"]["delivered"] == 10
        transport.takes = 5
        transport.breaks = how == "while it is written"
        if how == "before it is written":
            transport.lose()
        publish(range(10, 20))
        assert balanced(status(node))
        await asyncio.sleep(0)
        assert status(node)["deliveries"]["delivered"] == 10
        assert balanced(status(node))
        transport.lose()
        office.connection_lost(None)
        found = status(node)
        assert found["deliveries"]["delivered"] == 10
        assert found["deliveries"]["dropped"] == {"client gone: lost": 10}
        assert balanced(found)

    asyncio.run(lose())


def test_what_the_transport_may_keep_is_no_view() -> None:
    class Keeps(Breakable):
        def write(self, data: Any) -> None:
            kept.append(data)

    kept: list[Any] = []

    async def work() -> None:
        node = Node(Broker("b1", 1, ScopeGraph()), {}, clock())
        link = Link(node, node.accept())
        link.connection_made(Keeps())
        link.put_rest(memoryview(b"of a large table"), 3, 1)

    asyncio.run(work())
    assert [(type(data), data) for data in kept] == [(bytes, b"a large table")]


def test_what_was_said_before_a_bye_in_one_read_is_written() -> None:
    """A producer that publishes fast and leaves: its last run is delivered although nothing else happens."""

    async def leave() -> None:
        node = Node(Broker("b1", 1, ScopeGraph()), {}, clock())
        office, transport = joined(node, "office", ("subscribe", 1, "TRUE", Tags(), None, None))
        car, _ = joined(node, "car", ("advertise", 1, "TRUE", Tags()))
        events = [Event("Speed", [("rate", 47.3)], {}, "car", (1 << 32) + seq) for seq in range(60)]
        feed(car, *[("publish", None, 1, event) for event in events[:20]])
        await asyncio.sleep(0)
        before = transport.takes
        feed(car, *[("publish", None, 1, event) for event in events[20:]], ("bye", 0, "done"))
        await asyncio.sleep(0)
        assert office.delivered == len(events)
        assert transport.takes < before

    asyncio.run(leave())
