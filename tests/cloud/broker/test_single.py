"""The short way through a broker against the long one, on real sockets that are read from slowly, or break."""

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from cloud.broker.brokers import balanced, until
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena.broker import Broker
from vicinal.siena.messages import CLIENT, encode, framed
from vicinal.siena.singles_cpython import _LEARN_EVERY
from vicinal_cloud.broker import limits
from vicinal_cloud.broker import link as link_module
from vicinal_cloud.broker.link import Link
from vicinal_cloud.broker.loop import DONE, FOR_THE_TRANSPORT, Loop
from vicinal_cloud.broker.node import Node, clock
from vicinal_cloud.broker.status import status

SEQ = 1 << 32


class Client:
    """The other end of a link, which says and reads what it is told to."""

    def __init__(self, name: str, here: socket.socket, link: Link) -> None:
        self.name = name
        self.link = link
        self.heard = b""
        self.said = 0
        self.requests = 0
        self._socket = here

    def say(self, *messages: tuple[Any, ...]) -> None:
        data = b"".join([framed(encode(one)) for one in messages])
        self.said += len(data)
        self._socket.sendall(data)

    def ask(self, kind: str, *more: Any) -> None:
        self.requests += 1
        self.say((kind, self.requests, *more))

    def read(self, most: int = 1 << 30) -> bool:
        """Whether something came."""
        with contextlib.suppress(BlockingIOError):
            data = self._socket.recv(min(most, 1 << 20))
            self.heard += data
            return bool(data)
        return False

    def close(self) -> None:
        self._socket.close()


class World:
    """A broker with clients; with lanes or without."""

    def __init__(self, has_lanes: bool) -> None:
        self.node = Node(Broker("b1", 1, ScopeGraph()), {}, lambda: 0)
        self.clients: dict[str, Client] = {}
        self.has_lanes = has_lanes
        self.short = 0

    async def join(self, name: str, buffer: int = 1 << 16) -> Client:
        there, here = socket.socketpair()
        there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        here.setblocking(False)
        link = Link(self.node, self.node.accept())
        await asyncio.get_running_loop().connect_accepted_socket(lambda: link, there)
        one = self.clients[name] = Client(name, here, link)
        one.say(("hello", 1, CLIENT, name))
        await self.quiet()
        lane = link.lane
        if not self.has_lanes:
            link._close_lane()
        elif lane is not None:
            link.lane = self._counting(lane)
        return one

    def _counting(self, lane: Callable[[bytes], int]) -> Callable[[bytes], int]:
        def counted(data: bytes) -> int:
            said = lane(data)
            self.short += said != FOR_THE_TRANSPORT
            assert said == FOR_THE_TRANSPORT or not self.node.dirty
            return said

        return counted

    async def quiet(self) -> None:
        """Until the broker has read all. It must have nothing else to do meanwhile, or nothing goes the short way."""
        while any(one.link.bytes_in < one.said for one in self.clients.values()):
            await asyncio.sleep(0.0001)
        await asyncio.sleep(0)
        assert balanced(status(self.node))

    async def leave(self, name: str) -> None:
        self.clients.pop(name).close()
        while name in self.node.sessions:
            await asyncio.sleep(0.0001)
        await self.quiet()

    async def read_all(self) -> None:
        links = [one.link for one in self.clients.values()]
        while sum(one.read() for one in self.clients.values()) or any(
            link.backlog > link.connection.waiting for link in links
        ):
            await asyncio.sleep(0)
        await self.quiet()


def speed(name: str, seq: int, rate: float, size: int = 8) -> tuple[Any, ...]:
    event = Event("Speed", [("rate", rate), ("pad", bytes(size))], {"Time": 1}, name, SEQ + seq)
    return ("publish", None, 1, event)


def filter_of(source: random.Random) -> str:
    low = source.randrange(10)
    return source.choice(["TRUE", f"rate > {low}", f"rate >= {low} AND rate < {low + 2}", "subject = 'Other'"])


async def live(world: World, seed: int) -> dict[str, Any]:
    """Things that happen to a broker; they depend on the seed alone."""
    source = random.Random(seed)
    cars = [await world.join(f"car-{n}") for n in range(2)]
    for car in cars:
        car.ask("advertise", "subject = 'Speed'", Tags())
        if source.random() < 0.3:
            car.ask("subscribe", "rate > 5", Tags(), None, None)
            car.say(("credit", 1 << 20))
    readers = 0
    seqs = [0, 0]
    gone: dict[str, bytes] = {}
    for _ in range(40):
        chance = source.random()
        some = [one for one in world.clients.values() if one not in cars]
        one = source.choice(some) if some else None
        if chance < 0.08 or one is None:
            readers += 1
            one = await world.join(f"s{readers}", source.choice([1, 1 << 16]))
            one.ask("subscribe", filter_of(source), Tags(), None, None)
            one.say(("credit", source.choice([1, 5, 1 << 20])))
        elif chance < 0.12:
            one.ask("subscribe", filter_of(source), Tags(), None, None)
        elif chance < 0.15:
            one.ask("unsubscribe", source.randrange(1, 3))
        elif chance < 0.2:
            one.say(("credit", source.choice([1, 3, 100])))
        elif chance < 0.22:
            gone[one.name] = b""  # how much it got before depends on when it was written
            await world.leave(one.name)
        elif chance < 0.3:
            await world.quiet()
            one.read(source.choice([1, 100, 1 << 16]))
        else:
            size = source.choice([8, 8, 8, 180])
            for _ in range(source.choice([1, 5])):
                number = source.randrange(2)
                count = source.choice([1, 1, 1, 1, 3, 12])
                seqs[number] += source.choice([0, 1, 1, 1])
                said = [
                    speed(cars[number].name, seqs[number] + n, source.randrange(12) + 0.3, size) for n in range(count)
                ]
                seqs[number] += count
                cars[number].say(*said)
                if source.random() < 0.9:  # else several have something to say in one turn
                    await world.quiet()
        await world.quiet()
    await world.read_all()
    found = status(world.node)
    assert found["deliveries"]["waiting"] == sum(one.link.connection.waiting_count for one in world.clients.values()), (
        "all that had credit was read"
    )
    return {
        "publishes": found["publishes"],
        "deliveries": {name: found["deliveries"][name] for name in ("handed", "stored")},
        "engine": found["overlay"]["engine"],
        "heard": {one.name: one.heard for one in world.clients.values()},
        "credit": {one.name: one.link.connection.credit for one in world.clients.values()},
        "clients": [{**one, "where": ""} for one in found["clients"]],
        "bytes": [(one.link.bytes_in, one.link.bytes_out) for one in world.clients.values()],
    }


def stingy(source: random.Random) -> Callable[[int, bytes], int]:
    """A socket takes all, or a part, or nothing: TCP has its reasons."""
    write = os.write

    def some(descriptor: int, data: bytes) -> int:
        chance = source.random()
        if chance < 0.1:
            raise BlockingIOError
        return write(descriptor, data[: source.randrange(1, len(data))] if chance < 0.2 else data)

    return some


@settings(max_examples=40)
@given(st.integers(0, (1 << 64) - 1))
def test_clients_hear_the_same_and_the_counts_are_the_same(seed: int) -> None:
    found = []
    for has_lanes, loop in ((False, None), (True, None), (True, Loop)):

        async def work(has_lanes: bool = has_lanes) -> dict[str, Any]:
            return await live(World(has_lanes), seed)

        with asyncio.Runner(loop_factory=loop) as runner, mock.patch("os.write", stingy(random.Random(seed))):
            found.append(runner.run(work()))
    assert found[0] == found[1]
    assert found[0] == found[2]


def in_the_loop(work: Callable[[World], Any]) -> None:
    async def begin() -> None:
        world = World(True)
        await work(world)
        for name in list(world.clients):
            await world.leave(name)
        assert balanced(status(world.node))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        assert not loop.readable, "all links are gone"

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(begin())


async def talking(
    world: World, readers: int = 3, buffer: int = 1 << 16, credit: int = 1 << 20
) -> tuple[Client, list[Client]]:
    """A car whose events are known already, and who gets them; the first with such a buffer and credit."""
    car = await world.join("car")
    car.ask("advertise", "TRUE", Tags())
    found = [await world.join(f"s{n}", 1 << 16 if n else buffer) for n in range(readers)]
    for n, one in enumerate(found):
        one.ask("subscribe", "TRUE", Tags(), None, None)
        one.say(("credit", 1 << 20 if n else credit))
    for n in range(_LEARN_EVERY):
        car.say(speed("car", n, 47.3))
        await world.quiet()
    assert world.short == 0
    return car, found


def test_what_comes_alone_goes_the_short_way() -> None:
    async def talk(world: World) -> None:
        car, readers = await talking(world)
        n = _LEARN_EVERY
        while world.short < 50:  # nearly every one, but a loop that is late has its timer to see to
            car.say(speed("car", n, 47.3 + n))
            n += 1
            await world.quiet()
        await world.read_all()
        assert [one.link.delivered for one in readers] == [n, n, n]
        found = status(world.node)
        assert found["publishes"] == {"received": n, "accepted": n, "repeated": 0, "refused": {}, "storing": 0}
        assert found["deliveries"]["delivered"] == found["deliveries"]["handed"] == 3 * n
        assert found["clients"][0]["published"] == n

    in_the_loop(talk)


def test_a_socket_that_takes_a_part_gets_the_rest_in_order() -> None:
    async def fill(world: World) -> None:
        car, [slow, quick] = await talking(world, 2, buffer=1)
        n = _LEARN_EVERY
        while slow.link.undelivered < 3 or not world.short:
            car.say(speed("car", n, 47.3))
            n += 1
            await world.quiet()
            quick.read()
        assert quick.link.undelivered == 0
        await world.read_all()
        assert slow.heard == quick.heard
        assert slow.link.delivered == quick.link.delivered == n
        # And then it goes past the transport again.
        before = world.short
        assert slow.link.transport is not None
        slow.link.transport.write = None  # type: ignore[method-assign,assignment]
        while world.short < before + 3:
            car.say(speed("car", n, 47.3))
            n += 1
            await world.quiet()
        del slow.link.transport.write
        await world.read_all()
        assert slow.heard == quick.heard

    in_the_loop(fill)


def test_who_does_not_read_is_cut_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (limits, link_module):
        monkeypatch.setattr(module, "MAX_BUFFER", 20_000)

    async def cut(world: World) -> None:
        car, [deaf, quick] = await talking(world, 2, buffer=1)
        n = _LEARN_EVERY
        while "s0" in world.node.sessions:
            car.say(speed("car", n, 47.3))
            n += 1
            await world.quiet()
            quick.read()
        assert status(world.node)["connections"]["ended"] == {"too slow": 1}
        assert deaf.link.delivered < n
        assert quick.link.delivered == n

    in_the_loop(cut)


def test_who_gives_no_credit_gets_nothing() -> None:
    async def wait(world: World) -> None:
        car, [mean, quick] = await talking(world, 2, credit=_LEARN_EVERY + 2)
        n = _LEARN_EVERY
        while world.short < 5:
            car.say(speed("car", n, 47.3))
            n += 1
            await world.quiet()
        assert mean.link.connection.released == _LEARN_EVERY + 2
        assert mean.link.connection.waiting_count == n - _LEARN_EVERY - 2
        mean.say(("credit", n))
        await world.quiet()
        await world.read_all()
        assert mean.heard == quick.heard

    in_the_loop(wait)


def test_a_socket_that_is_broken_is_left_to_the_transport() -> None:
    async def lose(world: World) -> None:
        car, [gone, quick] = await talking(world, 2)
        gone.close()
        car.say(speed("car", _LEARN_EVERY, 47.3))  # perhaps before the end was seen
        await until(lambda: "s0" not in world.node.sessions)
        del world.clients["s0"]
        car.say(speed("car", _LEARN_EVERY + 1, 47.3))
        await world.quiet()
        await world.read_all()
        found = status(world.node)["deliveries"]
        assert quick.link.delivered == _LEARN_EVERY + 2
        assert gone.link.delivered <= _LEARN_EVERY + 1
        assert balanced(status(world.node))
        assert found["delivered"] + sum(found["dropped"].values()) == found["handed"]

    in_the_loop(lose)


def test_an_end_is_for_the_transport_and_nothing_is_nothing() -> None:
    """Or the loop would turn in place until a timer is due."""

    async def end(world: World) -> None:
        car, _ = await talking(world, 1)
        assert car.link.readable() == DONE
        car.read()  # or its end would be an error
        car.close()
        assert car.link.readable() == FOR_THE_TRANSPORT
        await until(lambda: "car" not in world.node.sessions)
        del world.clients["car"]

    in_the_loop(end)


def test_timers_run_while_events_come_the_short_way() -> None:
    """A loop that reads past asyncio must not forget what it was to do, when, and for whom."""

    async def talk(world: World) -> None:
        car, _ = await talking(world, 1)
        loop = asyncio.get_running_loop()
        fired: list[str] = []
        loop.call_later(0.02, fired.append, "timer")
        thread = loop.run_in_executor(None, lambda: fired.append("thread"))
        n = _LEARN_EVERY
        while len(fired) < 2 or not world.short:
            car.say(speed("car", n, 47.3))
            n += 1
            await asyncio.sleep(0.001)
            world.clients["s0"].read()
        await thread
        assert sorted(fired) == ["thread", "timer"]

    in_the_loop(talk)


def test_a_timer_is_not_held_up_by_who_sends_without_a_pause() -> None:
    async def wait(loop: Loop) -> int:
        there, here = socket.socketpair()
        reads = 0

        def readable() -> int:
            nonlocal reads
            reads += 1
            return DONE  # and there is more

        with there, here:
            here.send(b"x")
            loop.add_reader(there, print)
            loop.readable[there.fileno()] = readable
            await asyncio.sleep(0.02)
            loop.remove_reader(there)
        return reads

    with asyncio.Runner(loop_factory=Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Loop)
        assert runner.run(wait(loop)) > 1


def test_what_fails_in_the_short_way_ends_one_connection_only() -> None:
    async def fail(world: World) -> None:
        car, [office] = await talking(world, 1)
        said: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))

        def broken(data: bytes) -> int:
            raise ValueError("broken")

        car.link.lane = broken
        car.say(speed("car", _LEARN_EVERY, 47.3))
        await until(lambda: "car" not in world.node.sessions)
        del world.clients["car"]
        assert said
        office.say(("ping", 7))
        await world.quiet()
        await world.read_all()
        assert office.heard.endswith(framed(encode(("pong", 7))))

    in_the_loop(fail)


def test_a_broker_with_a_log_has_no_short_way(tmp_path: Any) -> None:
    from cloud.broker.inside import Peer, server

    async def begin() -> None:
        async with server(tmp_path, log=True) as one:
            await Peer.open(one, "car")
            assert one.node.sessions["car"].link.lane is None
            assert one.node.now() >= clock()() - 60_000

    asyncio.run(begin())
