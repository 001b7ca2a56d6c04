"""Brokers that die, and peers that misbehave: an error or a cut, counted, and others unaffected."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE, Brokers, Process, balanced, free_port, until
from cloud.broker.issuing import IDENTITY, Issuing
from cloud.broker.test_pubsub import known, line, speed, take

from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.siena import connection as c
from vicinal.siena.connection import Connection
from vicinal.siena.messages import BROKER, CLIENT, encode, framed
from vicinal.siena.records import Record
from vicinal_cloud.broker.client import Closed, connect

spec = pytest.mark.spec


def test_the_middle_broker_is_killed_under_load(brokers: Brokers) -> None:
    """Three times. Subscriptions heal, nothing is lost, doubled or out of order: the ends have kept their memory."""

    async def kill() -> None:
        where = f"tcp://127.0.0.1:{free_port()}"
        ends: dict[str, str | None] = {"b1": None, "b3": None}
        b2 = brokers.start("b2", ends, listen=where)
        b1 = brokers.start("b1", {"b2": where})
        b3 = brokers.start("b3", {"b2": where})
        await until(lambda: len(b1.status()["overlay"]["brokers"]) == 3)
        async with await connect(b1.address, "car") as car, await connect(b3.address, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            await known(b1, 1)
            published = 0
            go_on = True

            async def load() -> None:
                nonlocal published
                while go_on:
                    await car.publish(speed(published), speeds)
                    published += 1
                    await asyncio.sleep(0.002)

            task = asyncio.create_task(load())
            found: list[Any] = []
            for _ in range(3):
                found += await take(fast, 50)
                b2.kill()
                await until(lambda: not b1.status()["neighbours"][0]["up"])
                b2 = brokers.start("b2", ends, listen=where)
            found += await take(fast, 50)
            go_on = False
            await task
            found += await take(fast, published - len(found))
            assert [one.event["rate"] for one in found] == list(range(published))
            assert office.duplicates == 0
            # A subscription that is made now is known at the other end, through the new b2.
            more = await office.subscribe("rate < 0")
            brakes = await car.advertise("rate < 0")
            await car.publish(speed(-1), brakes)
            assert (await take(more, 1))[0].event["rate"] == -1

    asyncio.run(kill())


def test_the_broker_of_the_clients_is_killed(brokers: Brokers) -> None:
    """It forgets everything; the clients come back and tell it again, and publish what was not answered."""

    async def kill() -> None:
        where = f"tcp://127.0.0.1:{free_port()}"
        b1 = brokers.start("b1", listen=where)
        async with await connect(where, "car") as car, await connect(where, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            await car.publish(speed(0), speeds)
            assert [one.event["rate"] for one in await take(fast, 1)] == [0]
            b1.kill()
            answer = asyncio.create_task(car.publish(speed(1), speeds))
            b1 = brokers.start("b1", listen=where)
            async with asyncio.timeout(PATIENCE):
                await answer
            await until(lambda: office.connections == 2 and b1.status()["overlay"]["subscriptions"] == 1)
            await car.publish(speed(2), speeds)
            rates = [one.event["rate"] for one in await take(fast, 1)]
            rates += [] if rates == [2] else [one.event["rate"] for one in await take(fast, 1)]
            assert rates in ([2], [1, 2])  # the first may have come before the subscriber was back

    asyncio.run(kill())


class Liar:
    """A peer that says whatever it likes."""

    def __init__(self, process: Process) -> None:
        host, _, port = process.address.removeprefix("tcp://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.connection = Connection(0, ("hello", 1, CLIENT, "liar"))
        self.connection.data_to_send()

    def say(self, data: bytes) -> "Liar":
        self.socket.sendall(data)
        return self

    def hello(self, role: int = CLIENT, name: str = "liar") -> "Liar":
        self.connection = Connection(0, ("hello", 1, role, name))
        return self.say(self.connection.data_to_send())

    def end(self) -> Any:
        """What the broker says last, read to the end of the stream."""
        while data := self.socket.recv(65536):
            self.connection.receive_data(data, 0)
        found = None
        while events := self.connection.next_events():
            found = events[-1]
        return found


@asynccontextmanager
async def unaffected(brokers: Brokers) -> AsyncIterator[Process]:
    """A broker, at which others publish and hear as ever before, during and after."""
    b1 = brokers.start("b1", {"flood": None})
    async with await connect(b1.address, "car") as car, await connect(b1.address, "office") as office:
        fast = await office.subscribe("TRUE")
        speeds = await car.advertise("TRUE")
        beat = 0
        go_on = True

        async def heart() -> None:
            nonlocal beat
            while go_on:
                await car.publish(speed(beat), speeds)
                assert (await take(fast, 1))[0].event["rate"] == beat
                beat += 1
                await asyncio.sleep(0.01)

        task = asyncio.create_task(heart())
        await until(lambda: beat > 2)
        yield b1
        before = beat
        await until(lambda: beat > before + 2 or task.done())
        go_on = False
        await task
        assert (car.connections, office.connections) == (1, 1)
        await until(lambda: balanced(b1.status()))


LIES = {
    "not a frame": (b"\x16\x03\x01", "protocol error", "a frame starts with 0x16"),
    "a long frame before hello": (b"\x5a\x7f\xff\xff\xff", "protocol error", "the limit is 5120"),
    "a message before hello": (framed(encode(("ping", 1))), "protocol error", "want hello"),
    "another version": (framed(b"\x84\x00\x07\x00\x61x"), "wrong version", "version 7 is not spoken here"),
    "no message": (framed(b"\xff"), "protocol error", "break outside"),
    "a name of nothing": (framed(b"\x84\x00\x01\x00\x60"), "protocol error", "name of 1 to 64"),
    "a stranger as a broker": (framed(encode(("hello", 1, BROKER, "b9"))), "not admitted", "has no neighbour 'b9'"),
    "a broker's name": (framed(encode(("hello", 1, CLIENT, "b1"))), "not admitted", "cannot be a client's name"),
}
AFTER_HELLO = {
    "a long frame": (b"\x5a\x00\x02\x00\x01", "a frame of 131073 bytes, the limit is 131072"),
    "a broker's message": (framed(encode(("leave", "s"))), "leave is not for here"),
    "a bad event": (framed(b"\x84\x0a\x01\x01\x41\x80"), "publish: an event is an array"),
}


@spec("OVER-9", "OVER-10", "OVER-12", "OVER-13")
def test_lies_before_and_after_hello(brokers: Brokers) -> None:
    async def lie() -> None:
        async with unaffected(brokers) as b1:
            for name, (data, counted, reason) in LIES.items():
                before = b1.status()["connections"]["ended"].get(counted, 0)
                kind, _, said = await asyncio.to_thread(lambda data=data: Liar(b1).say(data).end())
                assert (kind, reason in said) == ("closed", True), (name, said)
                assert b1.status()["connections"]["ended"][counted] == before + 1, name
            for name, (data, reason) in AFTER_HELLO.items():
                kind, _, said = await asyncio.to_thread(lambda data=data: Liar(b1).hello().say(data).end())
                assert (kind, reason in said) == ("closed", True), (name, said)

    asyncio.run(lie())


@spec("OVER-9")
def test_who_says_nothing_is_cut(brokers: Brokers) -> None:
    async def silence() -> None:
        async with unaffected(brokers) as b1:
            silent = [Liar(b1), Liar(b1).say(b"\x45")]
            for one in silent:
                kind, code, reason = await asyncio.to_thread(one.end)
                assert (kind, code) == ("closed", c.SILENT)
                assert "no hello" in reason
            assert b1.status()["connections"]["ended"] == {"silent": 2}

    asyncio.run(silence())


def test_who_never_reads_is_cut(brokers: Brokers) -> None:
    """With credit it does not use, and a buffer that fills: others get everything, in order."""

    async def stall() -> None:
        b1 = brokers.start("b1")
        stuck = Liar(b1)
        stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.hello()
        stuck.say(framed(encode(("credit", 1 << 29))))
        stuck.say(framed(encode(("subscribe", 1, "TRUE", Tags(), None, None))))
        # Another gives no credit at all.
        broke = Liar(b1).hello(name="broke")
        broke.say(framed(encode(("subscribe", 1, "TRUE", Tags(), None, None))))
        await until(lambda: b1.status()["overlay"]["subscriptions"] == 2)
        async with await connect(b1.address, "car") as car, await connect(b1.address, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            count = 400
            # 24 MB: more than the 8 MiB that may wait and what the kernel takes.
            events = [Event("Picture", {"rate": number, "data": bytes(60000)}) for number in range(count)]

            async def load() -> None:
                for event in events:
                    await car.publish(event, speeds)

            task = asyncio.create_task(load())
            assert [one.event["rate"] for one in await take(fast, count)] == list(range(count))
            await task
            await until(lambda: b1.status()["connections"]["ended"].get("too slow") == 2)
            status = b1.status()
            assert status["deliveries"]["dropped"]["client gone: too slow"] > 0
            assert [client["name"] for client in status["clients"]] == ["car", "office"]
            assert balanced(status)
            kind, code, _ = await asyncio.to_thread(broke.end)
            assert (kind, code) == ("closed", c.TOO_SLOW)

    asyncio.run(stall())


def test_a_neighbour_that_floods(brokers: Brokers) -> None:
    """With packets for nobody, with acknowledgements of nothing, and with brokers that do not exist."""

    async def flood() -> None:
        async with unaffected(brokers) as b1:
            liar = Liar(b1).hello(BROKER, "flood")
            picture = Event("Picture", {"data": bytes(1000)}, (), "x", 1)
            nobody = ("packets", 1, "flood", 1, (), ("event", picture, Tags()), [("nobody", 1, 1, 1, ())], ())
            part = framed(encode(nobody)) * 5000 + framed(encode(("ack", 1, "x", 1, "b1", (1, 1), 7))) * 5000

            def pour() -> Any:
                liar.socket.settimeout(PATIENCE)
                liar.say(part)
                for start in range(0, 21000, 1000):
                    records = [Record(f"f{start + at}", 1, 1, (), frozenset(), ()) for at in range(1000)]
                    try:
                        liar.say(b"".join(framed(encode(("record", record))) for record in records))
                    except OSError:
                        break
                return liar.end()

            kind, code, reason = await asyncio.to_thread(pour)
            assert (kind, code) == ("closed", c.TOO_MUCH), reason
            status = b1.status()
            assert status["overlay"]["engine"]["dropped: source without a record"] >= 5000
            assert len(status["overlay"]["brokers"]) <= 20000
            assert status["connections"]["ended"] == {"too much": 1}

    asyncio.run(flood())


def test_a_publisher_that_is_too_fast_is_slowed_and_not_refused(brokers: Brokers) -> None:
    """The next broker stands still: 4,096 packets may wait for it, then no more is read from the publisher."""

    async def stop() -> None:
        b2 = brokers.start("b2", {"b1": None})
        b1 = brokers.start("b1", {"b2": b2.address})
        async with await connect(b1.address, "car") as car, await connect(b2.address, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            await known(b1, 1)
            b2.process.send_signal(signal.SIGSTOP)
            count = 6000

            async def load() -> None:
                await asyncio.gather(*[await car.submit(speed(number), speeds) for number in range(count)])

            task = asyncio.create_task(load())
            await until(lambda: b1.status()["overlay"]["waiting"] >= 4096)
            await until(lambda: b1.status()["publishes"]["storing"] > 0)
            assert balanced(b1.status())
            async with await connect(b1.address, "other") as other:  # is served all the while
                assert await other.ping() >= 0
            b2.process.send_signal(signal.SIGCONT)
            assert [one.event["rate"] for one in await take(fast, count)] == list(range(count))
            await task
            assert b1.status()["publishes"]["refused"] == {}

    asyncio.run(stop())


def test_a_name_is_taken_over_by_the_newer(brokers: Brokers) -> None:
    async def twice() -> None:
        b1 = brokers.start("b1")
        first = await connect(b1.address, "car")
        async with await connect(b1.address, "car") as second:
            speeds = await second.advertise("TRUE")
            await second.publish(speed(1), speeds)
            with pytest.raises(Closed, match="another connection says that it is 'car'"):
                await first.advertise("TRUE")
            assert len(b1.status()["clients"]) == 1
        await first.close()

    asyncio.run(twice())


def test_a_client_that_answers_a_ping_stays_connected(brokers: Brokers) -> None:
    """As one does that is silent for a while, and whom the broker asks whether it is still there."""

    async def answer() -> None:
        b1 = brokers.start("b1")
        async with await connect(b1.address, "car", reconnect=False) as car:
            car._say(("pong", 1))
            assert await car.ping() >= 0
            assert (await car.advertise("TRUE")).number is not None
        code, said = b1.terminate()
        assert (code, "Traceback" in said) == (0, False), said

    asyncio.run(answer())


@pytest.mark.spec("OVER-36")
def test_who_proves_nothing_does_not_take_over_from_who_does(brokers: Brokers) -> None:
    """Else anybody who knows a name puts its owner out."""
    one = Issuing(brokers.folder)

    async def twice() -> None:
        b1 = brokers.start("b1", more=IDENTITY)
        unproven = await connect(b1.address, "car")
        first = await connect(b1.address, "car", token=one.token("car"))
        assert "another connection says that it is 'car'" in str(await unproven.gone())
        with pytest.raises(Closed, match="not admitted: 'car' is connected, and has proven that it is"):
            await connect(b1.address, "car")
        assert (await first.advertise("TRUE")).number is not None
        second = await connect(b1.address, "car", token=one.token("car"))
        assert "another connection says that it is 'car'" in str(await first.gone())
        assert (await second.advertise("TRUE")).number is not None
        await asyncio.gather(*[client.close() for client in (unproven, first, second)])

    asyncio.run(twice())


def test_two_brokers_that_dial_each_other_have_one_link(brokers: Brokers) -> None:
    async def both() -> None:
        places = {name: f"tcp://127.0.0.1:{free_port()}" for name in ("b1", "b2")}
        b1 = brokers.start("b1", {"b2": places["b2"]}, listen=places["b1"])
        b2 = brokers.start("b2", {"b1": places["b1"]}, listen=places["b2"])
        await until(lambda: b1.status()["neighbours"][0]["up"] and b2.status()["neighbours"][0]["up"])
        async with await connect(b1.address, "car") as car, await connect(b2.address, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            await known(b1, 1)
            for number in range(100):
                await car.publish(speed(number), speeds)
            assert [one.event["rate"] for one in await take(fast, 100)] == list(range(100))
        for one in (b1, b2):
            # Once settled, nobody dials any more: the links that ended are the few of the start.
            before = await until(lambda one=one: (found := one.status())["connections"]["open"] == 1 and found)
            await asyncio.sleep(1)
            assert one.status()["connections"]["made"] == before["connections"]["made"] <= 5

    asyncio.run(both())


def test_drain(brokers: Brokers) -> None:
    """SIGTERM: what was accepted is handed on, all are told, and the end is in order."""

    async def drain() -> None:
        b1, b2, b3 = await line(brokers)
        car = await connect(b1.address, "car", reconnect=False)
        async with car, await connect(b3.address, "office") as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            await known(b1, 1)
            await asyncio.gather(*[await car.submit(speed(number), speeds) for number in range(200)])
            code, _ = await asyncio.to_thread(b1.terminate)
            assert code == 0
            assert [one.event["rate"] for one in await take(fast, 200)] == list(range(200))
            with pytest.raises(Closed):
                await car.publish(speed(1), speeds)
            await until(
                lambda: {one["name"]: one["up"] for one in b2.status()["neighbours"]} == {"b1": False, "b3": True}
            )
            assert b2.status()["connections"]["ended"] == {"draining": 1}

    asyncio.run(drain())
