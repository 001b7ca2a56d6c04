"""Reading the log again for brokers that have missed some of it (vicinal.siena.catchup).

The engine says which broker and from where; here the log is read in small parts, off the loop, and given back to it,
as fast as the streams take it. The last look at where the log ends, and the word that a broker has caught up, are in
one turn of the loop: nothing is published in between. What cannot be read or published is counted, the rest goes on.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from vicinal.siena.broker import Broker

from ..log import GroupCommit, OffsetAhead, OffsetGone
from ..log.scoped import unpack

__all__ = ["Replays"]

_log = logging.getLogger("vicinal.broker")

# Records read at once: some milliseconds of work.
_AT_ONCE = 128
# Seconds until a broker that takes no more, or is out of reach, is looked at again.
_LATER = 0.05
_AFTER_TROUBLE = 1.0


class Replays:
    def __init__(
        self, engine: Broker, published: GroupCommit, now: Callable[[], int], pump: Callable[[], None]
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._engine = engine
        self._published = published
        self._now = now
        self._pump = pump
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, reader: str, offset: int) -> None:
        """In place of what is under way for the broker; below 0 that ends, and nothing is begun."""
        before = self._tasks.pop(reader, None)
        if before is not None:
            before.cancel()
        if offset >= 0:
            self._tasks[reader] = asyncio.get_running_loop().create_task(self._run(reader, offset))

    async def _run(self, reader: str, offset: int) -> None:
        engine, log = self._engine, self._published.log
        loop = asyncio.get_running_loop()
        while True:
            while not engine.has_room(reader):
                await asyncio.sleep(_LATER)
            if offset >= engine.position:
                engine.caught_up(reader, self._now())
                self._pump()
                return
            try:
                records, offset = await loop.run_in_executor(None, log.read, offset, _AT_ONCE)
            except OffsetGone as error:  # retention was faster
                self.counts["gone by retention"] += error.first - offset
                offset = error.first
                continue
            except OffsetAhead:  # another log than the one it knows
                offset = log.next
                continue
            except OSError as error:
                self._trouble("the disk failed", reader, offset, error)
                await asyncio.sleep(_AFTER_TROUBLE)
                continue
            for record in records:
                if record.offset >= engine.position:
                    offset = record.offset
                    break
                try:
                    event, tags = unpack(record.event)
                    engine.publish_again(reader, event, tags, self._now(), record.time)
                    self.counts["published again"] += 1
                except Exception as error:  # whatever it is, it must not keep the rest from those who wait for it
                    self._trouble("not readable", reader, record.offset, error)
            self._pump()

    def _trouble(self, what: str, reader: str, offset: int, error: Exception) -> None:
        self.counts[what] += 1
        if self.counts[what] == 1:
            _log.error("offset %d of the log, read again for broker %r: %s: %r", offset, reader, what, error)

    @property
    def readers(self) -> list[str]:
        """Those that catch up."""
        return sorted([reader for reader, task in self._tasks.items() if not task.done()])

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
