"""Store and forward: what was accepted from a bus is kept until the service it is for has it (DESIGN 5).

    store = await Store.open(folder / "store.sqlite", StoreOptions(), clock)
    queue = await store.queue("wide", QueueOptions(durable=True))
    id = await queue.accept(event)                  on disk, or delivered already
    for number, event in await queue.take(100):     in the order to send them; event.attrs["StoreSeq"] == number
        ...
    queue.done([number])                            the service has it · failed · refused

Group commit. One thread writes. What comes while it is busy goes into the next transaction, and the cost of a sync is
shared. An event may be handed out at once, while its insert still waits; if the service has it before the insert was
begun, it is never written. What was delivered is deleted with the next inserts, or after a second.

An event that comes alone goes to the service and to the thread in the same turn of the loop. Of events that come one
after the other most of the cost is that of a turn, not theirs: so after one turn the next is `gather` later, and takes
all that has come. Who comes after a pause, or is urgent, does not wait.

Exactly once, in order. The service is sent an event at least once, and knows by StoreSeq what it has:

1.  Numbers rise in the order of handing out. They are given when an event is handed out, not when it is accepted, as
    priority changes the order; and what is to be sent again goes before all that has no number yet (outbox.py).
2.  No number is given twice. Numbers are reserved on disk in blocks, before the first of a block is given; after a
    crash counting goes on behind the last block. The rest of it is a gap, which services allow.
3.  An event that may be sent again is sent under the same number. It is sent again after a crash only if its row is on
    disk. When it was handed out, its row was

    not yet begun      the insert has the number in it. Without the row nothing is sent again: the event was not
                       accepted, and nobody was told that it was.
    begun or on disk   the number is recorded in a commit of its own (table `handed`), and the event is not sent before
                       that commit. So a row without a number was never sent, and may get any.

4.  What is handed out behind an event that waits for such a commit waits, too; and a transaction takes all inserts and
    all records that there are. So if a row is on disk with its number, so is every one before it, or it is delivered:
    the rows with numbers, in their order, and then the rest is the right order after a crash.

From 2 and 3 a number means one event for ever; from 1 and 4 the service sees new numbers only above all it has. So it
may drop every number that it has seen, or that is not above its highest, and has every accepted event once, in the
order of its producer. Services that know no StoreSeq get every event at least once.

A source that says again what was not acknowledged to it (MQTT, JMS, a durable subscription) is acknowledged when the
event is on disk. What of it is under way when we die comes again, and must not count as another event: so it is not
sent before it is on disk, and with it is written how far its producer has come (`heard`). While the disk takes nothing
it is sent all the same: better twice, if we die just then, than not at all.

The books. accepted = delivered + stored + dropped(reason) at every instant, for each queue. After a crash they are
those of the last commit, and exact with the rows that are there; what was delivered after it without having been
written is in neither accepted nor delivered, and what was delivered after it and had been written counts when it is
delivered again.

A disk that is full, or fails: what waits for it and is not under way is dropped, counted, and its future fails. What
is under way is kept, as the service may take it. The disk is tried again every half second. While nothing can be
inserted, numbers recorded and rows deleted use the room of the ballast file. Of a sync that failed nobody knows what is
on disk: what was dropped because of it is deleted with the next commit, and after a crash before that it may be sent,
though it was refused. Nothing that was accepted suffers from it.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vicinal.event import Event

from ._store_database import (
    MAX_HEARD,
    NO_SPACE,
    WRITE_FAILED,
    Database,
    Heard,
    Result,
    Saved,
    StoreInUse,
    Transaction,
    reason_of,
)
from ._store_queue import Dropped, Position, Queue, QueueOptions
from ._store_stored import DAMAGED, TOO_SLOW, StoredQueue
from ._store_thread import Worker

__all__ = [
    "DAMAGED",
    "NO_SPACE",
    "TOO_SLOW",
    "WRITE_FAILED",
    "Dropped",
    "Queue",
    "QueueOptions",
    "Store",
    "StoreInUse",
    "StoreOptions",
    "StoredQueue",
]

# Rows of an earlier life that are read at once.
_CHUNK = 5000
# Deletes that are not put off any longer.
_MAX_DELETES = 5000
_IDS = ""


@dataclass(frozen=True)
class StoreOptions:
    max_bytes: int = 256 << 20
    """of events, with 64 for each beside its own; all queues together"""
    waiting_bytes: int = 8 << 20
    """of events that wait for the disk; more are dropped"""
    cache_bytes: int = 2 << 20
    """of events that are on disk and need not be read again"""
    gather: float = 0.002
    """seconds from one turn to the next while events keep coming: what comes alone goes at once, and of what comes
    faster several share the cost of a turn, which is most of what a single event costs"""
    linger: float = 0.0
    """seconds for which an insert may wait for an acknowledgement that makes it needless: spares an SD card"""
    delete_after: float = 1.0
    """seconds after which what was delivered is deleted if there is nothing else to write"""
    retry: float = 0.5
    """seconds until a disk that failed is tried again"""
    block: int = 1_000_000
    """numbers that are reserved at once: half of them are for a disk that stalls"""
    ballast: int = 4 << 20
    """bytes of a file that is given up when the disk is full (see above); at least 2 MB are of use"""


class Store:
    def __init__(
        self, path: Path, options: StoreOptions, clock: Callable[[], int], position: Callable[[], Position]
    ) -> None:
        """Use `open`."""
        self.path = path
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.commits = 0
        self.failures: dict[str, int] = {}
        self.damaged = ""
        """what was wrong with the file when it was opened"""
        self.broken = ""
        """why the last commit failed; "" if it did not"""
        self.heard: dict[tuple[str, str], Heard] = {}
        """by source and producer, how far it has come: of sources that say again what was not acknowledged to them"""
        self.new_bytes = 0
        self.cached_bytes = 0
        self._clock = clock
        self._position = position
        self._database = Database(path, options.ballast)
        self._worker = Worker(self.loop, "store")
        self._saved: dict[str, Saved] = {}
        self._queues: dict[str, Queue] = {}
        self._stored: list[StoredQueue] = []
        self._unclaimed = (0, 0)
        self._id = self._ids_high = self._asked_high = 0
        self._touched: set[StoredQueue] = set()
        self._turning: asyncio.Handle | None = None
        self._fresh = False  # something has come since the last turn
        self._gathered = 0.0  # until when the next that comes may wait
        self._busy: list[StoredQueue] | None = None
        self._dirty: set[StoredQueue] = set()
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None
        self._closing = False
        self._aside = 0

    @classmethod
    async def open(
        cls,
        path: Path,
        options: StoreOptions | None = None,
        clock: Callable[[], int] | None = None,
        position: Callable[[], Position] | None = None,
    ) -> "Store":
        """`clock` gives Unix milliseconds, `position` where the gateway is. A file that is damaged is set aside, and
        what can be read of it is kept: see `damaged`. Raises StoreInUse, OSError or sqlite3.Error."""
        store = cls(path, options or StoreOptions(), clock or _wall_clock, position or _nowhere)
        try:
            await store._open()
        except BaseException:
            store._worker.submit(store._database.close, _ignore)
            store._worker.stop()
            raise
        return store

    async def _open(self) -> None:
        found = await self._worker.call(self._database.open)
        self.damaged = found.damaged
        self._aside = self._database.set_aside
        self._saved = {saved.name: saved for saved in found.services}
        self.heard = {one[:2]: one for one in found.heard}
        # Above all that a lost file may have given: nobody accepts a million events a second.
        floor = self._clock() * 1000
        ids = self._saved.pop(_IDS, None)
        self._id = floor if ids is None else max(ids.high, floor) if self.damaged else ids.high
        self._ids_high = self._id + self.options.block
        work = Transaction()
        work.services.append(Saved(_IDS, 0, self._ids_high))
        await self._worker.call(partial(self._database.apply, work))
        self._unclaimed = await self._worker.call(partial(self._database.unclaimed, []))
        self._sweeper = self.loop.call_later(1.0, self._sweep)

    async def queue(self, service: str, options: QueueOptions | None = None) -> Queue:
        """The queue of a service, with what an earlier life has left in it. Made once."""
        options = options or QueueOptions()
        if service in self._queues or not service:
            raise ValueError(f"service {service!r} is empty, or has a queue")
        if not options.durable:
            self._queues[service] = Queue(service, options, self._clock, self._position)
            return self._queues[service]
        saved = self._saved.get(service)
        floor = self._clock() * 1000
        key = 1 + max([one.key for one in self._saved.values()], default=0) if saved is None else saved.key
        high = floor if saved is None else max(saved.high, floor) if self.damaged else saved.high
        totals: dict[str, Any] = {} if saved is None else json.loads(saved.totals)
        self._saved[service] = Saved(service, key, high)
        queue = StoredQueue(self, key, service, options, self._clock, self._position)
        self._queues[service] = queue
        queue.begin_restore(high, totals)
        after = 0
        while True:
            rows = await self._worker.call(partial(self._database.rows, key, after, _CHUNK))
            if not rows:
                break
            after = rows[-1].id
            read = {}
            if options.located:
                read = await self._worker.call(partial(self._database.read, [row.id for row in rows]))
            queue.restore(rows, read)
        self._stored.append(queue)
        queue.end_restore(totals)
        keys = [one.key for one in self._stored]
        self._unclaimed = await self._worker.call(partial(self._database.unclaimed, keys))
        return queue

    async def stored_queue(self, service: str, options: QueueOptions | None = None) -> StoredQueue:
        """`queue`, of a durable one."""
        queue = await self.queue(service, options or QueueOptions(durable=True))
        assert isinstance(queue, StoredQueue)
        return queue

    def accept(self, service: str, event: Event, source: str = "") -> "asyncio.Future[int]":
        """Of a durable queue."""
        queue = self._queues[service]
        assert isinstance(queue, StoredQueue)
        return queue.accept(event, source)

    # For the queues

    def next_id(self) -> int:
        self._id += 1
        return self._id

    def why_not(self, size: int) -> str:
        """Why nothing more can be taken; "" if it can."""
        if self._closing:
            return "the store is closed"
        if self.new_bytes + size > self.options.waiting_bytes or self._id >= self._ids_high:
            return self.broken or TOO_SLOW
        return ""

    def bytes_but(self, queue: StoredQueue) -> int:
        """What all others have."""
        found = self._unclaimed[1]
        if len(self._stored) > 1:
            for other in self._stored:
                if other is not queue:
                    found += other.outbox.bytes
        return found

    def touch(self, queue: StoredQueue) -> None:
        """Something is new with it: it is looked at when all that happens now has happened."""
        self._touched.add(queue)
        if self._turning is None or isinstance(self._turning, asyncio.TimerHandle):
            if self._turning is not None:
                self._turning.cancel()
            self._turning = self.loop.call_soon(self._turn)

    def gather(self, queue: StoredQueue) -> None:
        """As touch, where that may wait for more of the same."""
        self._touched.add(queue)
        self._fresh = True
        if self._turning is None:
            if self._gathered > self.loop.time() and not self.broken:
                self._turning = self.loop.call_at(self._gathered, self._turn)
            else:
                self._turning = self.loop.call_soon(self._turn)

    def touch_later(self, queue: StoredQueue) -> None:
        """As touch, where there is nothing but rows to delete: most often that is due later anyhow."""
        if queue.deletes > _MAX_DELETES or (self._busy is None and self._timer is None):
            self.touch(queue)
        else:
            self._dirty.add(queue)

    # Committing

    def _turn(self) -> None:
        self._turning = None
        if self._fresh:
            self._fresh = False
            self._gathered = self.loop.time() + self.options.gather
        touched, self._touched = self._touched, set()
        woken = False
        for queue in touched:
            queue.stage()
            if queue.offer_staged():
                woken = True
        self._dirty |= touched
        if self._busy is None:
            self._commit_if_due(woken)

    def _commit_if_due(self, woken: bool) -> None:
        waits = self._may_wait()
        if waits is None:
            return
        now = self.loop.time()
        due = max(now + waits, self._not_before)
        if due <= now and not woken:
            if not self._soon:
                self._commit()
        elif due <= now:
            # Who was given events just now goes first: some need not be written then.
            if not self._soon:
                self._soon = True
                self.loop.call_soon(self._rang)
        elif self._timer is None or self._timer.when() > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at(due, self._due)

    def _due(self) -> None:
        self._timer = None
        self._rang()

    def _may_wait(self) -> float | None:
        """Seconds for which there need not be a commit; None if there is nothing to write."""
        dirty = self._dirty
        if self._wants_ids or any(queue.urgent for queue in dirty):
            return 0.0
        if any(queue.is_new for queue in dirty):
            return self.options.linger
        deletes = sum(queue.deletes for queue in dirty)
        if deletes:
            return 0.0 if deletes > _MAX_DELETES else self.options.delete_after
        return None

    @property
    def _wants_ids(self) -> bool:
        return self._id + self.options.block // 2 > self._ids_high

    def _rang(self) -> None:
        self._soon = False
        if self._busy is None:
            for queue in self._dirty:
                queue.stage()
                queue.offer_staged()
            if self._may_wait() is not None:
                self._commit()

    def _commit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        work = Transaction()
        self._busy, self._dirty = list(self._dirty), set()
        for queue in self._busy:
            queue.begin(work)
        self._asked_high = self._ids_high
        if self._wants_ids:
            self._asked_high = max(self._id, self._ids_high) + self.options.block
        work.services.append(Saved(_IDS, 0, self._asked_high))
        self._worker.submit(partial(self._database.apply, work), partial(self._answered, work.heard))

    def _answered(
        self, heard: dict[tuple[str, str], Heard], result: Result | None, error: BaseException | None
    ) -> None:
        queues, self._busy = self._busy or [], None
        reason = "" if error is None else reason_of(error)
        if result is not None:
            reason = result.refused
        self.broken = reason
        if reason:
            for queue in list(self._touched):  # what has come and could go all the same is not dropped
                queue.stage()
                queue.offer_staged()
            self.failures[reason] = self.failures.get(reason, 0) + 1
            self._not_before = self.loop.time() + self.options.retry
        else:
            self.commits += 1
            self._ids_high = self._asked_high
            self._not_before = 0.0
            self._note(heard)
        for queue in queues:
            if result is None:
                queue.not_committed(reason)
            else:
                queue.committed(result.read, reason)
        self._touched.update(queues)
        if self._database.set_aside != self._aside:
            self._aside = self._database.set_aside
            self._touched.update(self._stored)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        elif self._turning is None:
            self._turn()  # what has come while this was written is next

    def _note(self, heard: dict[tuple[str, str], Heard]) -> None:
        self.heard.update(heard)
        if len(self.heard) > 2 * MAX_HEARD:
            latest = sorted(self.heard.values(), key=lambda one: one.id)[-MAX_HEARD:]
            self.heard = {one[:2]: one for one in latest}

    def _sweep(self) -> None:
        self._sweeper = self.loop.call_later(1.0, self._sweep)
        for queue in self._queues.values():
            queue.sweep()

    async def close(self) -> None:
        """Writes what waits; if the disk does not take it, it is dropped. Queues are of no use after it."""
        if self._closing:
            return
        self._closing = True
        for queue in self._stored:
            self.touch(queue)
        for _ in range(3):  # what is under way, what waits, what became of that
            self._idle = self.loop.create_future()
            await asyncio.sleep(0)
            if self._busy is None:
                self._dirty |= set(self._stored)
                self._commit()
            await self._idle
            if self.broken:
                break
        for queue in self._stored:
            queue.abandon(self.broken or "the store is closed")
        for one in self._queues.values():
            one.close()
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()
        await self._worker.call(self._database.close)
        self._worker.stop()

    def counters(self) -> dict[str, Any]:
        return {
            "commits": self.commits,
            "failures": dict(self.failures),
            "broken": self.broken,
            "set_aside": self._database.set_aside,
            "unclaimed": self._unclaimed[0],
            "queues": {name: queue.counters() for name, queue in self._queues.items()},
        }


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


def _nowhere() -> Position:
    return None


def _ignore(result: Any, error: BaseException | None) -> None:
    pass
