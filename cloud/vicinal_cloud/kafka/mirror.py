"""A log into a topic: every event once, whoever is killed on the way.

    log ──read──▶ plan ──▶ messages + cursor ──one transaction──▶ TOPIC, TOPIC.cursors
     ▲                                                                    │
     └──────────── begin, and after any trouble: the cursor ◀─────────────┘

The cursor in Kafka is the only thing that is remembered, and it moves with the events. So a mirror that has died, or
has lost Kafka in the middle of a batch, reads the cursor and goes on; what is known to be there is not sent again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from .cursor import Cursor
from .errors import KafkaFailed, LogGone, NotTheLog
from .message import DAMAGED, RETENTION, Message, lost_message, message_of
from .sources import Part, Source
from .topics import PARTITIONS
from .writer import KafkaWriter

__all__ = ["Mirror", "plan"]

# Of one transaction: as one batch of the log, and half a second's work.
MOST = 16_384
# Seconds between two looks at a log of which all is mirrored, and after trouble with Kafka.
_PAUSE, _AFTER_TROUBLE = 0.2, 1.0


def plan(part: Part, cursor: Cursor, log: str, now: int) -> tuple[list[Message], Cursor]:
    """What of the log from the cursor up to part.at becomes; the offsets are accounted for exactly:
    mirrored + hidden + lost = the offsets that the cursor has passed."""
    messages: list[Message] = []
    at, lost = cursor.next, 0
    if part.first > at:
        lost = part.first - at
        messages.append(lost_message(log, at, part.first - 1, RETENTION, now))
        at = part.first
    start = at
    for record in part.records:
        # Between records there is also what is hidden: which it is, is known only where nothing is.
        if record.offset > at and not part.hidden:
            messages.append(lost_message(log, at, record.offset - 1, DAMAGED, now))
        messages.append(message_of(record, log, now))
        at = record.offset + 1
    end = max(part.at, at)
    if at < end and not part.hidden:
        messages.append(lost_message(log, at, end - 1, DAMAGED, now))
    lost += end - start - len(part.records) - part.hidden
    last = cursor.last
    if part.records:
        newest = part.records[-1]
        last = newest.offset, newest.producer, newest.seq
    moved = Cursor(end, cursor.mirrored + len(part.records), cursor.hidden + part.hidden, cursor.lost + lost, last)
    return messages, moved


class Mirror:
    def __init__(
        self,
        source: Source,
        servers: str,
        topic: str,
        clock: Callable[[], int],
        config: Mapping[str, str] | None = None,
        partitions: int = PARTITIONS,
        replicas: int = -1,
        skip_lost: bool = False,
        said: Callable[[dict[str, Any]], None] = lambda what: None,
    ) -> None:
        """`said` is told what was done: {"log", "next", "mirrored", "hidden", "lost"} after each batch, {"trouble"}."""
        self.source = source
        self.cursor = Cursor()
        self._open = lambda: KafkaWriter(servers, topic, source.name, config, partitions, replicas)
        self._clock = clock
        self._skip_lost = skip_lost
        self._said = said
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Ends after the batch that is under way."""
        self._stop.set()

    async def run(self, once: bool = False) -> None:
        """Until it is stopped, or with `once` until all that was there when it came to the end is mirrored. Kafka that
        goes away is waited for. Raises KafkaFailed if it was never there, Fenced, NotTheLog, LogGone."""
        reached = False
        while not self._stop.is_set():
            try:
                writer = await asyncio.to_thread(self._open)
                reached = True
                try:
                    await self._follow(writer, once)
                    return
                finally:
                    await asyncio.to_thread(writer.close)
            except KafkaFailed as error:
                if not reached:
                    raise
                self._said({"trouble": str(error)})
                await self._wait(_AFTER_TROUBLE)

    async def _follow(self, writer: KafkaWriter, once: bool) -> None:
        self.cursor = writer.cursor
        await self._check()
        until: int | None = None
        while not self._stop.is_set():
            part = await self.source.read(self.cursor.next, MOST)
            if until is None:
                until = part.next
            if part.first > self.cursor.next and not self._skip_lost:
                raise LogGone(self.source.name, self.cursor.next, part.first - 1)
            if max(part.at, part.first) > self.cursor.next:
                messages, moved = plan(part, self.cursor, self.source.name, self._clock())
                await asyncio.to_thread(writer.append, messages, moved)
                self.cursor = moved
                self._said({"log": self.source.name, **moved._asdict()})
            elif once and self.cursor.next >= until:
                return
            else:
                await self._wait(_PAUSE)

    async def _check(self) -> None:
        """That the log is the one that the cursor is of."""
        first, following = await self.source.ends()
        name = self.source.name
        advice = "another log has this name now. Give it another (--log), or another topic"
        if following < self.cursor.next:
            raise NotTheLog(f"{self.cursor.next} of {name} are mirrored, and it has {following}: {advice}")
        last = self.cursor.last
        if last is None or last[0] < first:
            return
        found = (await self.source.read(last[0], 1)).records
        if found and found[0].offset == last[0] and (found[0].producer, found[0].seq) != last[1:]:
            raise NotTheLog(
                f"offset {last[0]} of {name} is event {found[0].seq} of {found[0].producer!r}, and {last[2]} of "
                f"{last[1]!r} was mirrored: {advice}"
            )

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
