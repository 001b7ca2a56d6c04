"""Events that are given to an adapter many at once: what becomes of each is what would have become of it alone."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.within import Ear, balanced, gateway, until

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_edge._store_queue import Queue, QueueOptions
from vicinal_edge.adapter import Adapter, Answered, Refused, Result, Unavailable
from vicinal_edge.adapters.memory import MemoryAdapter
from vicinal_edge.gateway.service import Service
from vicinal_edge.store import Store, StoreOptions

TWO = """
[[service]]
name = "A"
type = "memory"
[[service]]
name = "B"
type = "memory"
store = {store}
[[request]]
type = "subscribe"
source = "B"
to = "A"
filter = "subject = 'Speed'"
"""


class Scripted(Adapter):
    """Does with each event what its parameter says: now, later, or after a while for several together."""

    def __init__(self, service: str, chance: random.Random, many: bool) -> None:
        self.service = service
        self.chance = chance
        self.sent: list[tuple[str, int]] = []
        self.futures: list[asyncio.Future[Any]] = []

    def future(self) -> "asyncio.Future[Any]":
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        fate = event["fate"]
        self.sent.append((str(fate), event.seq or 0))
        if fate == "refused":
            raise Refused("no")
        if fate == "now":
            return None
        done = self.future()
        loop = asyncio.get_running_loop()
        if fate == "later":
            loop.call_later(self.chance.random() / 100, done.set_result, None)
        else:
            loop.call_later(self.chance.random() / 100, done.set_exception, Refused("later no"))
        return done


class Many(Scripted):
    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        return await super().publish(event)

    async def publish_many(self, events: list[Event], results: list[Result]) -> None:
        run: list[Event] = []
        done: asyncio.Future[Any] | None = None
        for event in events:
            if event["fate"] in ("now", "refused"):
                try:
                    results.append(await self.publish(event))
                except LocalProtocolError as error:
                    results.append(error)
                self.end(run, done)
                run, done = [], None
                continue
            self.sent.append((str(event["fate"]), event.seq or 0))
            done = done or self.future()
            run.append(event)
            results.append(done)
        self.end(run, done)

    def end(self, run: list[Event], done: "asyncio.Future[Any] | None") -> None:
        if done is not None:
            errors = {place: Refused("later no") for place, one in enumerate(run) if one["fate"] != "later"}
            asyncio.get_running_loop().call_later(self.chance.random() / 100, done.set_result, errors or None)


class Overridden(MemoryAdapter):
    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        return await super().publish(event)


def pumped(adapter: Adapter, queue: Queue) -> Service:
    """A service that has nothing but what is between its queue and its adapter."""
    made = Service.__new__(Service)
    made.service, made.queue = "B", queue
    made.config = type("Config", (), {"flow": type("Flow", (), {"window": 50}), "mapping": None, "type": "x"})()
    made._loop, made._asked, made._turn = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
    made._asked.set()
    made._lost = asyncio.get_running_loop().create_future()
    made._owed = {}
    made._as_it_is, made._node = True, type("Node", (), {"watch": None})()
    made._set_adapter(adapter)
    made.say_sometimes = lambda kind, text: None  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("seed", range(5))
def test_one_by_one_or_many_the_books_are_the_same(seed: int) -> None:
    async def work(kind: Any) -> tuple[Any, Any]:
        chance = random.Random(seed)
        queue = Queue("B", QueueOptions(window=50), lambda: 1, lambda: None)
        adapter = kind("B", random.Random(seed), False)
        made = pumped(adapter, queue)
        assert made._takes_many == (kind is Many)
        pump = asyncio.create_task(made._pump(queue))
        for n in range(300):
            queue.offer(Event("Speed", {"fate": chance.choice(["now", "later", "refused", "late no"])}, {}, "p", n))
            if not chance.randrange(40):
                await asyncio.sleep(0)
        await until(lambda: not queue.outbox.count)
        pump.cancel()
        return adapter.sent, queue.counters()

    one, many = asyncio.run(work(Scripted)), asyncio.run(work(Many))
    assert one == many
    assert one[1]["delivered"]
    assert one[1]["dropped"]["refused by the service"]


class AtOnce(Many):
    """Also takes at once what it is given, if it likes."""

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        return await super().publish(event)

    async def publish_many(self, events: list[Event], results: list[Result]) -> None:
        await super().publish_many(events, results)

    def publish_at_once(self, events: list[Event], answered: Answered) -> bool:
        if self.chance.random() < 0.3:
            return False
        self.sent += [(str(event["fate"]), event.seq or 0) for event in events]
        errors: dict[int, BaseException] = {
            place: Refused("no") for place, one in enumerate(events) if one["fate"] not in ("now", "later")
        }
        if self.chance.random() < 0.5:
            answered(errors)
        else:
            asyncio.get_running_loop().call_later(self.chance.random() / 100, answered, errors)
        return True


class OtherMany(AtOnce):
    async def publish_many(self, events: list[Event], results: list[Result]) -> None:
        await super().publish_many(events, results)


@pytest.mark.parametrize("seed", range(5))
def test_at_once_or_not_the_books_are_the_same(seed: int, tmp_path: Path) -> None:
    async def work(kind: Any) -> tuple[Any, Any]:
        chance = random.Random(seed)
        store = await Store.open(tmp_path / kind.__name__ / "store.sqlite", StoreOptions(gather=0.0005))
        queue = await store.stored_queue("B", QueueOptions(durable=True, window=50))
        adapter = kind("B", random.Random(seed), False)
        made = pumped(adapter, queue)
        assert made._takes_at_once == (kind is AtOnce)
        pump = asyncio.create_task(made._pump(queue))
        for n in range(300):
            queue.offer(Event("Speed", {"fate": chance.choice(["now", "later", "refused", "late no"])}, {}, "p", n))
            if not chance.randrange(4):
                await asyncio.sleep(chance.choice([0, 0.001]))
        await until(lambda: not queue.outbox.count)
        pump.cancel()
        await store.close()
        found = queue.counters()
        return adapter.sent, [found[name] for name in ("accepted", "delivered", "stored", "dropped")]

    one, at_once = asyncio.run(work(Scripted)), asyncio.run(work(AtOnce))
    assert one == at_once == asyncio.run(work(OtherMany))
    assert one[1][1]


def test_an_adapter_that_raises_at_once_loses_its_life_and_nothing_else(tmp_path: Path) -> None:
    class Raises(AtOnce):
        async def publish(self, event: Event) -> "asyncio.Future[None] | None":
            return await super().publish(event)

        async def publish_many(self, events: list[Event], results: list[Result]) -> None:
            await super().publish_many(events, results)

        def publish_at_once(self, events: list[Event], answered: Answered) -> bool:
            raise ZeroDivisionError("a bug")

    async def work() -> None:
        store = await Store.open(tmp_path / "store.sqlite")
        queue = await store.stored_queue("B", QueueOptions(durable=True))
        made = pumped(Raises("B", random.Random(1), False), queue)
        pump = asyncio.create_task(made._pump(queue))
        await asyncio.sleep(0)
        queue.offer(Event("Speed", {"fate": "now"}, {}, "p", 1))
        assert made._lost is not None
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(made._lost, 30)
        assert queue.counters()["under_way"] == 1
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        queue.failed()
        again = pumped(Many("B", random.Random(1), False), queue)
        pump = asyncio.create_task(again._pump(queue))
        await until(lambda: queue.counters()["delivered"] == 1)
        pump.cancel()
        await store.close()

    asyncio.run(work())


def test_what_was_done_before_it_raised_counts_and_the_rest_goes_again() -> None:
    class Breaks(MemoryAdapter):
        def __init__(self) -> None:
            self.service, self.broken = "B", False
            self.sent: list[int | None] = []

        async def publish_many(self, events: list[Event], results: list[Result]) -> None:
            for event in events:
                if event.seq == 7 and not self.broken:
                    self.broken = True
                    raise Unavailable("gone")
                self.sent.append(event.seq)
                results.append(None)

    async def work() -> None:
        queue = Queue("B", QueueOptions(), lambda: 1, lambda: None)
        adapter = Breaks()
        made = pumped(adapter, queue)
        for n in range(20):
            queue.offer(Event("Speed", {}, {}, "p", n))
        with pytest.raises(Unavailable):
            await made._pump(queue)
        assert queue.counters()["delivered"] == 7
        queue.failed()
        pump = asyncio.create_task(made._pump(queue))
        await until(lambda: not queue.outbox.count)
        pump.cancel()
        assert adapter.sent == list(range(20))

    asyncio.run(work())


def test_too_few_results_are_a_fault() -> None:
    class Lies(MemoryAdapter):
        def __init__(self) -> None:
            self.service = "B"

        async def publish_many(self, events: list[Event], results: list[Result]) -> None:
            results.append(None)

    async def work() -> None:
        queue = Queue("B", QueueOptions(), lambda: 1, lambda: None)
        for n in range(3):
            queue.offer(Event("Speed", {}, {}, "p", n))
        with pytest.raises(RuntimeError, match="1 results for 3 events"):
            await pumped(Lies(), queue)._pump(queue)
        assert queue.counters()["delivered"] == 1

    asyncio.run(work())


def test_who_has_another_publish_is_given_them_one_by_one() -> None:
    async def work() -> None:
        queue = Queue("B", QueueOptions(), lambda: 1, lambda: None)
        for kind, many in ((MemoryAdapter, True), (Overridden, False)):
            adapter = kind.__new__(kind)
            assert pumped(adapter, queue)._takes_many is many

    asyncio.run(work())


@pytest.mark.parametrize("store", ["false", "true"])
def test_what_is_too_large_is_counted_and_harms_nobody(tmp_path: Path, store: str) -> None:

    async def work() -> None:
        async with gateway(tmp_path, TWO.format(store=store)) as node:
            here, there = Ear("A"), Ear("B")
            await until(lambda: all(one.state == "up" for one in node.services.values()))
            await until(lambda: any(note.state == "applied" for note in node.engine.services["A"].notes.values()))
            for n in range(3):
                here.publish(Event("Speed", {"data": bytes(65_515 if n == 1 else 10)}, {}, "p", n))
            await until(lambda: len(there.of("Speed")) == 2)
            assert node.services["B"].queue.counters()["dropped"] == {"too large": 1}
            assert balanced(node)
            assert node.services["A"].counters["faults"] == 0

    asyncio.run(work())
