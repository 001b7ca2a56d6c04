"""Between a publish that comes and its way out: what waits for the disk, or behind a broker that takes no more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import balanced, until
from cloud.broker.inside import Peer, disk_held, server

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.siena.messages import BROKER
from vicinal.siena.records import Record
from vicinal_cloud.broker import limits
from vicinal_cloud.broker.server import Server

SECRET = '[[scope]]\nname = "secret"\ndimension = "m"\n'


def event(seq: int, producer: str = "car", subject: str = "Speed") -> Event:
    return Event(subject, [("n", seq)], {}, producer, seq)


async def subscriber(one: Server, name: str, condition: str = "TRUE", tags: Tags | None = None) -> Peer:
    found = await Peer.open(one, name)
    found.say(("credit", 1 << 20))
    await found.ask("subscribe", 1, condition, tags or Tags(), None, None)
    return found


def test_what_waits_for_the_disk_keeps_its_scopes(tmp_path: Path) -> None:
    """Its producer comes back and advertises the same number in no scope: that is for what it publishes then."""

    async def leak() -> None:
        async with server(tmp_path, log=True, scopes=SECRET, join=("secret",)) as one:
            outside = await subscriber(one, "outside", tags=Tags((), False))
            inside = await subscriber(one, "inside", tags=Tags({"m": "secret"}))
            with disk_held(one) as go_on:
                car = await Peer.open(one, "car")
                assert await car.ask("advertise", 1, "TRUE", Tags({"m": "secret"})) == 1
                car.say(("publish", None, 1, event(1)))
                await until(lambda: one.status()["publishes"]["storing"] == 1)
                again = await Peer.open(one, "car")
                assert await again.ask("advertise", 1, "TRUE", Tags()) == 1
                again.say(("publish", 2, 1, event(2)))
                await until(lambda: one.status()["publishes"]["storing"] == 2)
                go_on.set()
                await again.next("answer")
            assert (await outside.next("deliver"))[2].seq == 2
            assert (await inside.next("deliver"))[2].seq == 1
            assert balanced(one.status())

    asyncio.run(leak())


def test_what_is_on_disk_is_published_whatever_its_client_does(tmp_path: Path) -> None:
    async def leave() -> None:
        async with server(tmp_path, log=True) as one:
            office = await subscriber(one, "office")
            with disk_held(one) as go_on:
                car = await Peer.open(one, "car")
                await car.ask("advertise", 1, "TRUE", Tags())
                car.say(("publish", None, 1, event(1)), ("bye", 0, "done"))
                await until(lambda: "car" not in one.node.sessions)
                bus = await Peer.open(one, "bus")
                await bus.ask("advertise", 1, "TRUE", Tags())
                bus.say(("publish", 2, 1, event(1, "bus")), ("unadvertise", 3, 1))
                assert await bus.next("answer") == ("answer", 3, True, 1)
                go_on.set()
                assert await bus.next("answer") == ("answer", 2, True, 1)
            assert [(await office.next("deliver"))[2].producer for _ in range(2)] == ["car", "bus"]
            found = one.status()
            assert found["publishes"]["accepted"] == 2
            assert not found["publishes"]["refused"]
            assert balanced(found)

    asyncio.run(leave())


def test_what_is_on_disk_of_a_scope_that_is_left_goes_nowhere(tmp_path: Path) -> None:
    """And is accepted, as it is in the log; and counted."""

    async def leave() -> None:
        async with server(tmp_path, log=True, scopes=SECRET, join=("secret",)) as one:
            with disk_held(one) as go_on:
                car = await Peer.open(one, "car")
                await car.ask("advertise", 1, "TRUE", Tags({"m": "secret"}))
                car.say(("publish", 2, 1, event(1)))
                await until(lambda: one.status()["publishes"]["storing"] == 1)
                one.node.engine.leave_scope("secret")
                go_on.set()
                assert await car.next("answer") == ("answer", 2, True, 0)
            found = one.status()
            assert found["overlay"]["engine"]["dropped: left the scope"] == 1
            assert found["deliveries"]["handed"] == 0
            assert balanced(found)

    asyncio.run(leave())


async def neighbour(one: Server, name: str, condition: str) -> Peer:
    """A broker that wants something, and acknowledges nothing."""
    found = await Peer.open(one, name, BROKER)
    found.say(("record", Record(name, 7, 1, ("b1",), frozenset(), ())))
    tell(found, one, name, 1, ("add", 1, Filter(condition), Tags()))
    return found


def tell(peer: Peer, one: Server, name: str, number: int, content: tuple[Any, ...]) -> None:
    peer.say(("packets", 1, name, 7, (), content, [("b1", one.node.engine.incarnation, 1, number, ())], ()))


async def producer(one: Server, name: str) -> Peer:
    found = await Peer.open(one, name)
    await found.ask("advertise", 1, "TRUE", Tags())
    return found


@pytest.mark.parametrize("log", [False, True])
def test_a_broker_that_takes_no_more_holds_up_only_who_publishes_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: bool
) -> None:
    """And when it is gone, they go on: what they had published is there, once and in order."""
    monkeypatch.setattr("vicinal.siena.yielding.MAX_QUEUE", 8)

    async def hold() -> None:
        b2: dict[str, str | None] = {"b2": None}
        async with server(tmp_path, neighbours=b2, log=log) as one:
            stuck = await neighbour(one, "b2", "subject = 'A'")
            office = await subscriber(one, "office")
            await until(lambda: one.status()["overlay"]["interest"] == 1)
            car, bus = await producer(one, "car"), await producer(one, "bus")
            car.say(*[("publish", None, 1, event(seq, "car", "A")) for seq in range(20)])
            await until(lambda: one.status()["publishes"]["storing"] == 12)
            bus.say(*[("publish", None, 1, event(seq, "bus", "B")) for seq in range(5)])
            await bus.ask("publish", 2, 1, event(5, "bus", "B"))
            # The same producer again: not before what is held of it, and read from no more.
            again = await producer(one, "car")
            again.say(("publish", None, 1, event(20, "car", "B")))
            await until(lambda: one.status()["publishes"]["storing"] == 13)
            assert one.node.sessions["car"].link.paused
            assert not one.node.sessions["bus"].link.paused
            assert balanced(one.status())
            if log:
                assert one.node.engine.position == 8
            got = [(await office.next("deliver"))[2].identity for _ in range(14)]
            assert got == [("car", seq) for seq in range(8)] + [("bus", seq) for seq in range(6)]
            stuck.say(("ack", 0, "b2", 7, "b1", (one.node.engine.incarnation, 1), 4))
            got = [(await office.next("deliver"))[2].identity for _ in range(4)]
            assert got == [("car", seq) for seq in range(8, 12)]
            assert not log or one.node.engine.position == 12
            stuck.writer.transport.abort()
            got = [(await office.next("deliver"))[2].identity for _ in range(9)]
            assert got == [("car", seq) for seq in range(12, 21)]
            await again.ask("publish", 2, 1, event(21, "car", "A"))
            found = one.status()
            assert found["publishes"]["accepted"] == 28
            assert found["publishes"]["storing"] == 0
            assert balanced(found)
            assert not log or one.node.engine.position == 28

    asyncio.run(hold())


def test_a_broker_that_stays_and_takes_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vicinal.siena.yielding.MAX_QUEUE", 8)
    monkeypatch.setattr("vicinal.siena.yielding.STALLED", 300)

    async def hold() -> None:
        b2: dict[str, str | None] = {"b2": None}
        async with server(tmp_path, neighbours=b2) as one:
            stuck = await neighbour(one, "b2", "TRUE")
            await until(lambda: one.status()["overlay"]["interest"] == 1)
            car = await producer(one, "car")
            car.say(*[("publish", seq, 1, event(seq)) for seq in range(2, 30)])
            assert [(await car.next("answer"))[1:3] for _ in range(28)] == [(seq, True) for seq in range(2, 30)]
            assert one.status()["overlay"]["engine"]["given up: took nothing"] >= 1
            stuck.writer.transport.abort()

    asyncio.run(hold())


def test_a_client_that_comes_again_and_again_cannot_be_owed_more_and_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vicinal.siena.yielding.MAX_QUEUE", 8)
    monkeypatch.setattr(limits, "MAX_OWED", 10)

    async def hold() -> None:
        b2: dict[str, str | None] = {"b2": None}
        async with server(tmp_path, neighbours=b2) as one:
            stuck = await neighbour(one, "b2", "TRUE")
            await until(lambda: one.status()["overlay"]["interest"] == 1)
            for turn in range(4):
                car = await producer(one, "car")
                first = 5 * turn
                car.say(*[("publish", None, 1, event(seq)) for seq in range(first, first + 5)])
                await until(lambda first=first: one.status()["publishes"]["received"] == first + 5)
            found = one.status()["publishes"]
            assert found["storing"] == 10
            assert found["refused"] == {"too much is under way": 2}
            assert balanced(one.status())
            stuck.writer.transport.abort()
            await until(lambda: one.status()["publishes"]["storing"] == 0)

    asyncio.run(hold())


def test_who_reads_the_log_again_misses_nothing_that_overtook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """b3 catches up while something is owed: what was published meanwhile it gets from the log, afterwards."""
    monkeypatch.setattr("vicinal.siena.yielding.MAX_QUEUE", 8)

    async def overtake() -> None:
        others: dict[str, str | None] = {"b2": None, "b3": None}
        async with server(tmp_path, neighbours=others, log=True) as one:
            stuck = await neighbour(one, "b2", "subject = 'A'")
            reader = await neighbour(one, "b3", "subject = 'B'")
            await until(lambda: one.status()["overlay"]["interest"] == 2)
            car, bus = await producer(one, "car"), await producer(one, "bus")
            car.say(*[("publish", None, 1, event(seq, "car", "A")) for seq in range(12)])
            await until(lambda: one.status()["publishes"]["storing"] == 4)
            tell(reader, one, "b3", 2, ("hold",))
            tell(reader, one, "b3", 3, ("resume", 0))
            await bus.ask("publish", 2, 1, event(1, "bus", "B"))
            await until(lambda: one.node._later == {"b3": 8})
            stuck.writer.transport.abort()
            seen = []
            while ("mark", 13) not in seen:
                content = (await reader.next("packets"))[5]
                seen.append(content if content[0] == "mark" else content[0])
            assert "again" in seen

    asyncio.run(overtake())
