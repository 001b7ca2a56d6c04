"""The store between two worlds that misbehave, in every order: a disk that is slow, full, failing or cut off by a
crash, and a service that acknowledges late, breaks off, or has got what it never acknowledged.

Nothing is left to chance: the thread of the store is replaced by one that works when it is told, so that a crash comes
before, within or after a transaction, and between any two steps of the event loop."""

import asyncio
import itertools
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from edge.store.mutants import MUTANTS, apply
from edge.store.sink import Identity, Sink, judge

from vicinal.event import Event
from vicinal_edge import store as store_module
from vicinal_edge._store_database import Database, Result, Transaction
from vicinal_edge.store import Dropped, QueueOptions, Store, StoredQueue, StoreOptions

SEEDS = 20_000 if os.environ.get("VICINAL_SOAK") else 240
STEPS = 60
WINDOW = 5
OPTIONS = StoreOptions(block=20, delete_after=0.0, retry=0.0, ballast=0, cache_bytes=600)


class Worker:
    """Does what it was asked when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def submit(self, work: Callable[[], Any], answer: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((work, answer))

    async def call(self, work: Callable[[], Any]) -> Any:
        return work()

    def stop(self) -> None:
        pass

    def step(self) -> None:
        work, answer = self.jobs.pop(0)
        try:
            result, error = work(), None
        except (sqlite3.Error, OSError) as raised:
            result, error = None, raised
        answer(result, error)


class Loose(Database):
    """Without syncs, as nothing here cuts the power."""

    def _connect(self, check: bool = False) -> None:
        super()._connect(check)
        assert self._connection is not None
        self._connection.execute("PRAGMA synchronous = OFF")

    refuse: str = ""

    def apply(self, work: Transaction) -> Result:
        refuse, self.refuse = self.refuse, ""
        if refuse == "inserts":  # no room for them, but for the rest
            rest = Transaction()
            rest.handed, rest.deletes, rest.unhanded, rest.reads = work.handed, work.deletes, work.unhanded, work.reads
            return Result(super().apply(rest).read, "no space on the disk") if work.inserts else super().apply(work)
        if refuse == "all":
            raise OSError(5, "the disk failed")
        if refuse == "told wrong":  # a sync fails, and the data is there for all that
            super().apply(work)
            raise OSError(5, "the disk failed")
        return super().apply(work)


class World:
    """One seed is one history, the same whenever it is played."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").exists() else None))
        self.loop = asyncio.new_event_loop()
        waits = {name: self.chance.choice([0.0, 0.0, 3600.0]) for name in ("linger", "gather")}
        self.options = StoreOptions(**{**vars(OPTIONS), **waits})
        self.sink = Sink()
        self.seqs = {name: itertools.count() for name in "abc"}
        self.attempted: set[Identity] = set()
        self.accepted: set[Identity] = set()
        self.futures: list[tuple[Identity, asyncio.Future[int]]] = []
        self.ids: list[int] = []
        self.now = 1_000_000
        self.store: Store
        self.start()

    def play(self, steps: int) -> None:
        works = [
            (self.accept, 5), (self.take, 5), (self.arrive, 4), (self.acknowledge, 4), (self.disk_works, 5),
            (self.wait, 2), (self.ring, 2), (self.break_off, 1), (self.disk_fails, 0.5), (self.crash, 1),
            (self.restart, 0.2),
        ]  # fmt: skip
        weights = [weight for _, weight in works]
        for _ in range(steps):
            self.chance.choices(works, weights)[0][0]()
            self.check()
        self.drain()
        self.check()
        verdict = judge(self.sink, self.accepted, self.attempted)
        assert not verdict, verdict
        assert self.queue.counters()["stored"] == 0
        for table in ("event", "handed"):
            assert self.store._database._run(f"SELECT count(*) FROM {table}").fetchone() == (0,)

    def below(self, most: int) -> int:
        return self.chance.randrange(most)

    def end(self) -> None:
        self.stop_taking()
        self.kill()
        self.loop.close()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """A life: nothing of the last one is left but the file."""
        self.wire: list[tuple[int, Identity]] = []  # handed over, not yet with the sink
        self.unanswered: list[int] = []  # with the sink, which has not yet said so
        self.taker: asyncio.Task[Any] | None = None
        self.store = self.loop.run_until_complete(
            Store.open(self.folder / "store.sqlite", self.options, lambda: self.now)
        )
        self.queue: StoredQueue = self.loop.run_until_complete(
            self.store.stored_queue("wide", QueueOptions(durable=True, window=WINDOW))
        )
        if self.below(2):
            self.queue.at_once = self.push

    @property
    def worker(self) -> Worker:
        worker: Any = self.store._worker
        assert isinstance(worker, Worker)
        return worker

    def turn(self, times: int = 6) -> None:
        async def some() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.loop.run_until_complete(some())
        for identity, future in list(self.futures):
            if future.done():
                self.futures.remove((identity, future))
                if future.exception() is None:
                    self.accepted.add(identity)
                    self.ids.append(future.result())
                else:
                    assert isinstance(future.exception(), Dropped)
                    self.sink.excused.add(identity)

    def accept(self) -> None:
        for _ in range(1 + self.below(4)):
            producer = self.chance.choice("aabc")
            seq = next(self.seqs[producer])
            self.attempted.add((producer, seq))
            attrs = {"Priority": self.chance.choice([0, 0, 0, 5, 2000, -3])}
            event = Event("E", [("n", seq)], attrs, producer=producer, seq=seq)
            self.futures.append(((producer, seq), self.queue.accept(event)))
        self.turn(self.below(7))

    def take(self) -> None:
        if self.taker is None:
            self.taker = self.loop.create_task(self.queue.take(1 + self.below(8)))
            self.turn(self.below(7))
            self.collect()

    def collect(self) -> None:
        if self.taker is not None and self.taker.done():
            for number, event in self.taker.result():
                assert event.attrs["StoreSeq"] == number
                self.wire.append((number, (event.producer, event.seq)))
            self.taker = None

    def push(self, flights: list[tuple[int, Event]]) -> bool:
        """A service that takes at once what comes, mostly."""
        if not self.below(4):
            return False
        for number, event in flights:
            assert event.attrs["StoreSeq"] == number
            assert event.producer is not None
            assert event.seq is not None
            self.wire.append((number, (event.producer, event.seq)))
        return True

    def ring(self) -> None:
        """Long enough for what gathers has passed."""
        gathers = self.store._turning
        if isinstance(gathers, asyncio.TimerHandle):
            gathers.cancel()
            self.store._turn()
            self.turn(self.below(4))
            self.collect()

    def wait(self) -> None:
        self.turn(1 + self.below(6))
        self.collect()

    def arrive(self, count: int | None = None) -> None:
        count = 1 + self.below(6) if count is None else count
        for number, identity in self.wire[:count]:
            self.sink.hear(number, identity)
            self.unanswered.append(number)
        del self.wire[:count]

    def acknowledge(self) -> None:
        count = 1 + self.below(8)
        self.queue.done(self.unanswered[:count])
        del self.unanswered[:count]
        self.turn(self.below(4))

    def break_off(self) -> None:
        """Some may have arrived, and nobody knows."""
        self.arrive(self.below(5))
        self.wire, self.unanswered = [], []
        self.stop_taking()
        self.queue.failed()
        self.turn(self.below(4))

    def stop_taking(self) -> None:
        if self.taker is not None:
            self.taker.cancel()
            self.turn(1)
            assert self.taker.done()
            self.taker = None  # what it got is under way, and fails with the rest

    def disk_works(self) -> None:
        if self.worker.jobs:
            self.worker.step()
            self.turn(self.below(7))

    def disk_fails(self) -> None:
        if self.worker.jobs:
            database: Any = self.store._database
            database.refuse = self.chance.choice(["inserts", "inserts", "all", "told wrong"])
            self.worker.step()
            self.turn(self.below(7))

    def crash(self) -> None:
        """With or without the transaction that is under way; what is on the wire may still arrive."""
        if self.worker.jobs and self.below(2):
            self.worker.jobs.pop(0)[0]()
        self.arrive(self.below(5))
        self.stop_taking()
        self.kill()
        # Nobody was told of these: they may come or not.
        self.futures.clear()
        self.start()

    def kill(self) -> None:
        for timer in (self.store._timer, self.store._sweeper, self.store._turning):
            if timer is not None:
                timer.cancel()
        self.store._commit_if_due = lambda woken: None  # type: ignore[method-assign]
        self.store._turn = lambda: None  # type: ignore[method-assign]
        self.store._commit = lambda: None  # type: ignore[method-assign]
        self.store._database.close()

    def restart(self) -> None:
        """In order: all that was accepted is on disk, or delivered."""
        self.stop_taking()
        closing = self.loop.create_task(self.store.close())
        for _ in range(50):
            self.turn()
            if self.worker.jobs:
                self.worker.step()
        assert closing.done()
        closing.result()
        self.turn()
        assert not self.futures
        counters = self.queue.counters()
        self.start()
        again = self.queue.counters()
        for name in ("accepted", "delivered", "stored", "dropped"):
            assert again[name] == counters[name], (name, counters, again)

    def check(self) -> None:
        counters = self.queue.counters()
        assert counters["accepted"] == counters["delivered"] + counters["stored"] + sum(counters["dropped"].values())
        assert not self.sink.wrong, self.sink.wrong
        assert self.queue.outbox.under_way <= WINDOW
        assert len(self.ids) == len(set(self.ids))
        assert self.store.new_bytes >= 0
        assert self.store.cached_bytes >= 0

    def drain(self) -> None:
        """The disk works, and the service answers."""
        self.break_off()
        quiet = 0
        for _ in range(3000):
            self.take()
            self.arrive(9)
            self.acknowledge()
            if self.worker.jobs:
                self.worker.step()
            elif self.store._timer is not None:
                self.store._due()  # whoever lingers has lingered
            self.ring()
            self.turn()
            self.collect()
            quiet = quiet + 1 if not (self.worker.jobs or self.queue.outbox.count or self.wire) else 0
            if quiet > 3:
                break
        assert quiet > 3, self.queue.counters()
        self.stop_taking()


def play(seed: int) -> None:
    with patch.object(store_module, "Worker", Worker), patch.object(store_module, "Database", Loose):
        world = World(seed)
        try:
            world.play(STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            world.end()


# In parts, so that the workers of a test run share them.
@pytest.mark.parametrize("part", range(4))
def test_every_accepted_event_comes_once_and_in_order(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        play(seed)


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in ("no_fsync", "damage_not_noticed")])
def test_mutants_are_caught(name: str) -> None:
    def until_caught() -> None:
        for seed in range(SEEDS):
            play(seed)

    with apply(name), pytest.raises(AssertionError, match="seed"):
        until_caught()
