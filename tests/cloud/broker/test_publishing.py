"""Between a publish that comes and its way out: what waits for the disk, or behind a broker that takes no more."""

import asyncio
from pathlib import Path

from cloud.broker.brokers import balanced, until
from cloud.broker.inside import Peer, disk_held, server

from vicinal.event import Event
from vicinal.scope.graph import Tags

SECRET = '[[scope]]\nname = "secret"\ndimension = "m"\n'


def event(seq: int, producer: str = "car", subject: str = "Speed") -> Event:
    return Event(subject, [("n", seq)], {}, producer, seq)


async def subscriber(one, name: str, condition: str = "TRUE", tags: Tags | None = None) -> Peer:
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
