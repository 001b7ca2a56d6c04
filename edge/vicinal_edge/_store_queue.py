"""What waits for one event service, in memory: the queue of a service where nothing need survive a restart.

    reason = queue.offer(event)              "" or why it was dropped
    for number, event in await queue.take(50): ...
    queue.done([number]) · queue.failed([number]) · queue.refused(number, reason)

Who takes may say `at_once` beside that: while it waits in `take`, what is ready is given to that first, without a turn
of the loop between them.

The decisions are those of vicinal.federation.outbox. One at a time calls `take`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from vicinal import limits, wire
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.federation.drop_policy import DEFAULT_CLASSES, Class
from vicinal.federation.flow import TokenBucket
from vicinal.federation.outbox import NEVER, Outbox
from vicinal.size_cpython import at_most

__all__ = ["Dropped", "Queue", "QueueOptions"]

Position = tuple[int, int] | None
# Beside its bytes an event takes about so many, in memory and on disk.
OVERHEAD = 64
TOO_LARGE = "too large"


class Dropped(VicinalError):
    """An event was not kept; the message says why. It is counted."""


@dataclass(frozen=True)
class QueueOptions:
    durable: bool = False
    """kept on disk (see store.py)"""
    max_bytes: int | None = None
    """None: 16 MB, or of a durable one what the store has"""
    max_count: int | None = None
    """None: 10,000, or of a durable one 2,000,000"""
    classes: tuple[Class, ...] = DEFAULT_CLASSES
    located: bool = False
    """the service is where the gateway is: what is valid elsewhere only is dropped"""
    window: int = 500
    """under way at most"""
    rate: int = 0
    """events a second, if not 0; `burst` at once"""
    burst: int = 0
    free_from: int = limits.MAX_PRIORITY + 1
    """from this priority on events do not wait for the rate; 1000 lets the urgent ones of a long backlog through"""


class Queue:
    durable = False

    def __init__(
        self, service: str, options: QueueOptions, clock: Callable[[], int], position: Callable[[], Position]
    ) -> None:
        self.service = service
        self.options = options
        self.outbox = Outbox(
            options.max_bytes or 16 << 20,
            options.max_count or 10_000,
            options.classes,
            options.located,
            free_from=options.free_from,
        )
        self._clock = clock
        self._position = position
        self._bucket = TokenBucket(options.rate, options.burst) if options.rate else None
        self._events: dict[int, Event] = {}
        self._last = 0
        self.at_once: Callable[[list[tuple[int, Event]]], bool] | None = None
        """what would come of `take`; False: not now, and `take` gives it"""
        self._taker: asyncio.Future[None] | None = None
        self._most = 0  # that the taker takes
        self._given: list[tuple[int, Event]] = []  # to it, as it could not be at once
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, event: Event) -> str:
        """ "" or why it was dropped."""
        id = self._last = self._last + 1
        outbox = self.outbox
        data = event._wire
        size = (at_most(event) if data is None else len(data)) + OVERHEAD
        if size > limits.MAX_ITEMS and data is None:  # perhaps too much for the wire: then no service could take it
            try:
                size = len(wire.encode(event)) + OVERHEAD
            except LocalProtocolError:
                return outbox.turn_away(TOO_LARGE)
        producer, attrs = event.producer or "", event.attrs
        priority, expires, area = 0, NEVER, None
        if attrs:
            priority, expires, area = attrs.get("Priority", 0), attrs.get("Expires", NEVER), attrs.get("Proximity")
        reason = ""
        if expires != NEVER or area is not None or not outbox.accept_alike(id, producer, priority, size):
            reason = outbox.accept(id, producer, priority, expires, size, self._clock(), area)
        if not reason:
            self._events[id] = event
            if self._taker is not None:
                self._wake()
        if outbox.gone:
            self._forget()
        return reason

    async def take(self, most: int) -> list[tuple[int, Event]]:
        """At least one, at most `most`, in the order to send them; waits until there is one."""
        while True:
            found, self._given = self._given or self._take(most), []
            if found:
                return found
            self._most = most
            await self._wait()

    def _take(self, most: int) -> list[tuple[int, Event]]:
        outbox = self.outbox
        room = min(most, self.options.window - outbox.under_way)
        if room <= 0 or not outbox.waiting:
            return []
        flights = outbox.take(room, self._clock(), self._position(), self._bucket)
        if outbox.gone:
            self._forget()
        events = self._events
        return [(flight.number, events[flight.id]) for flight in flights]

    async def _wait(self) -> None:
        self._taker = asyncio.get_running_loop().create_future()
        self._wake_when_allowed()
        try:
            await self._taker
        finally:
            self._taker = None

    def _wake_when_allowed(self) -> None:
        """By the bucket, if something waits for that."""
        if self._bucket is not None and self._timer is None and self.outbox.waiting:
            now = self._clock()
            due = self._bucket.next_time(now)
            if due > now:
                self._timer = asyncio.get_running_loop().call_later((due - now) / 1000, self._rang)

    def _rang(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    def done(self, numbers: Iterable[int]) -> None:
        """The service has them."""
        for id in self.outbox.done(numbers):
            del self._events[id]
        self._wake()

    def failed(self, numbers: Iterable[int] | None = None) -> None:
        """They go again, before all others; None: all that are under way."""
        if numbers is None:
            numbers = self.outbox.numbers_under_way()
        self.outbox.failed([*numbers, *[number for number, _ in self._given]])
        self._given = []
        self._wake()

    def refused(self, number: int, reason: str) -> None:
        """The service will not have it; `reason` is one of few."""
        self.outbox.refused(number, reason)
        self._forget()
        self._wake()

    def sweep(self) -> None:
        """Drops some of what has expired."""
        self.outbox.sweep(self._clock(), 5000)
        self._forget()

    def _forget(self) -> None:
        for id, _ in self.outbox.gone:
            self._events.pop(id, None)
        self.outbox.gone.clear()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def counters(self) -> dict[str, Any]:
        """accepted = delivered + stored + all of dropped, at every instant."""
        outbox = self.outbox
        return {
            "accepted": outbox.accepted,
            "delivered": outbox.delivered,
            "stored": outbox.count,
            "dropped": dict(outbox.dropped),
            "bytes": outbox.bytes,
            "under_way": outbox.under_way,
        }
