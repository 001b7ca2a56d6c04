"""Many appends, one sync: the log as a broker uses it.

    commits = GroupCommit(log, clock)
    stored = await commits.append(data, "car-7", 12)       on disk when it returns
    async for record in commits.follow(0, Filter("rate > 30")): ...

While one batch is written and synced, in a thread of its own, the next one gathers. So the batches grow with the load,
and the cost of a sync is shared by all who wait for it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from vicinal.errors import LimitError
from vicinal.filter import Filter

from ._batch import STORAGE, Duplicate, Refused, Result, Stored, check_batch
from ._record import Entry, Record, entry
from .errors import AppendRefused, LogClosed
from .limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_PENDING_BYTES
from .log import Log

__all__ = ["GroupCommit"]

_FOLLOW_AT_ONCE = 256


class _Waiting(NamedTuple):
    entries: Sequence[Entry]
    bytes: int
    done: "asyncio.Future[list[Result]]"


class GroupCommit:
    def __init__(self, log: Log, clock: Callable[[], int]) -> None:
        """`clock` gives the time of receipt in ms. Made and used in one event loop; owns the log, and closes it."""
        self.log = log
        self.refusals = 0
        """batches that the disk did not take; counted before anybody is told"""
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "log")
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._news: asyncio.Future[None] | None = None

    async def append(self, event: bytes, producer: str, seq: int) -> Stored | Duplicate:
        """Returns when the event is on disk, once; raises AppendRefused with the reason, or LogFailed."""
        (result,) = await self.append_all([entry(event, producer, seq)])
        if isinstance(result, Refused):
            raise AppendRefused(*result)
        return result

    async def append_all(self, entries: Sequence[Entry]) -> list[Result]:
        """The same for what arrived together: one result each. Look at them, some may be Refused."""
        # A lock lets its waiters through in the order they came: a producer's events must not overtake each other.
        async with self._turn:
            while self._bytes >= MAX_PENDING_BYTES and not self._closing:
                self._room.clear()
                await self._room.wait()
            done = self.submit(entries)
        return await done

    def submit(self, entries: Sequence[Entry]) -> "asyncio.Future[list[Result]]":
        """append_all without waiting for room: raises LimitError when there is none."""
        if self._closing:
            raise LogClosed("the log is closed")
        size = check_batch(entries)
        if self._bytes >= MAX_PENDING_BYTES:
            raise LimitError("bytes that wait for a commit", self._bytes, MAX_PENDING_BYTES)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append(_Waiting(entries, size, done))
        self._bytes += size
        if self._task is None:
            self._task = loop.create_task(self._run())
        return done

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group = self._next_group()
                entries = [one for waiting in group for one in waiting.entries]
                try:
                    results = await loop.run_in_executor(self._thread, self.log.append_batch, entries, self._clock())
                except Exception as error:  # whatever it is, nobody may wait for ever
                    self.refusals += 1
                    self._fail([*group, *self._waiting], error)
                    self._waiting.clear()
                    self._bytes = 0
                    return
                self._answer(group, results)
        finally:
            self._task = None
            self._tell()

    def _next_group(self) -> list[_Waiting]:
        count = records = size = 0
        for waiting in self._waiting:
            if count and (size + waiting.bytes > MAX_BATCH_BYTES or records + len(waiting.entries) > MAX_BATCH_RECORDS):
                break
            count += 1
            size += waiting.bytes
            records += len(waiting.entries)
        group = self._waiting[:count]
        del self._waiting[:count]
        self._bytes -= size
        self._room.set()
        return group

    def _answer(self, group: list[_Waiting], results: list[Result]) -> None:
        at = 0
        for waiting in group:
            if not waiting.done.done():
                waiting.done.set_result(results[at : at + len(waiting.entries)])
            at += len(waiting.entries)
        refused = next((one for one in results if isinstance(one, Refused) and one.reason in STORAGE), None)
        if refused is not None:
            self.refusals += 1
            # What waits came after it: stored alone, it would be out of order and the refused one lost for good.
            self._refuse_waiting(refused)
        self._tell()

    def _refuse_waiting(self, refused: Refused) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for one in waiting:
            self.log.counters.accepted += len(one.entries)
            self.log.counters.refuse(refused.reason, len(one.entries))
            if not one.done.done():
                one.done.set_result([refused] * len(one.entries))

    def _fail(self, waiting: Sequence[_Waiting], error: Exception) -> None:
        for one in waiting:
            if not one.done.done():
                one.done.set_exception(error)

    def _tell(self) -> None:
        """Wakes who waits for room, and who follows."""
        self._room.set()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        self._news = None

    async def follow(self, offset: int, filter: Filter | None = None) -> AsyncIterator[Record]:
        """Committed records from `offset` on, then each new one as it is committed; ends when the log is closed.
        Raises OffsetGone where retention was faster."""
        loop = asyncio.get_running_loop()
        while True:
            while offset < self.log.next:
                records, offset = await loop.run_in_executor(None, self.log.read, offset, _FOLLOW_AT_ONCE, filter)
                for record in records:
                    yield record
            if self._closing:
                return
            if self._news is None:
                self._news = loop.create_future()
            await asyncio.shield(self._news)

    async def retain(self) -> int:
        """Log.retain, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.log.retain, self._clock())

    async def close(self) -> None:
        """Commits what waits, then closes the log. Again, it does nothing."""
        self._closing = True
        while self._task is not None:
            await asyncio.wait([self._task])
        self._tell()
        if not self.log.closed:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.log.close)
        self._thread.shutdown(wait=False)
