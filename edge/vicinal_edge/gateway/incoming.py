"""What comes in from one event service: at most so many events a second, and each acknowledged to the service when it
is kept."""

import asyncio
from collections import deque
from collections.abc import Callable

from vicinal.event import Event
from vicinal.federation.flow import TokenBucket

from .config import ServiceConfig

__all__ = ["Incoming"]


class Incoming:
    """The part of a Port that receives."""

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self.counters: dict[str, int] = {"received": 0, "faults": 0, "malformed": 0}
        self.dropped: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._in_bucket = TokenBucket(config.flow.in_rate, config.flow.in_burst) if config.flow.in_rate else None
        self._in: deque[tuple[Event, Callable[[], None] | None]] = deque()
        self._taking: deque[tuple[list[asyncio.Future[int]], Callable[[], None]]] = deque()
        self._in_timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()

    def received(self, event: Event, taken: Callable[[], None] | None = None) -> bool:
        self.counters["received"] += 1
        bucket = self._in_bucket
        if bucket is None or (not self._in and bucket.allow(1, self.now())):
            self._receive(event, taken)
            return True
        if len(self._in) >= self.config.flow.in_count:
            self.drop("faster than in_rate")
            if taken is not None:
                self._when_kept([], taken)
            return False
        self._in.append((event, taken))
        if len(self._in) * 2 >= self.config.flow.in_count:
            self._room.clear()
        self._later()
        return True

    def _receive(self, event: Event, taken: Callable[[], None] | None) -> None:
        """It may go on to the gateway now."""
        raise NotImplementedError

    def now(self) -> int:
        raise NotImplementedError

    def lost(self, reason: str) -> None:
        raise NotImplementedError

    def _when_kept(self, waits: list[asyncio.Future[int]], taken: Callable[[], None]) -> None:
        """One after the other, as they came."""
        self._taking.append((waits, taken))
        for one in waits:
            if not one.done():
                one.add_done_callback(self._kept)
        self._kept()

    def _kept(self, _: object = None) -> None:
        while self._taking and all(one.done() for one in self._taking[0][0]):
            _, taken = self._taking.popleft()
            try:
                taken()
            except Exception as error:  # the adapter's: nobody knows what its service has heard of it
                self.lost(f"its adapter failed when an event was taken: {type(error).__name__}: {error}")

    def _later(self) -> None:
        if self._in_timer is None and self._in_bucket is not None:
            wait = self._in_bucket.next_time(self.now()) - self.now()
            self._in_timer = self._loop.call_later(max(wait, 1) / 1000, self._let_in)

    def _let_in(self) -> None:
        self._in_timer = None
        assert self._in_bucket is not None
        while self._in and self._in_bucket.allow(1, self.now()):
            self._receive(*self._in.popleft())
        if len(self._in) * 2 < self.config.flow.in_count:
            self._room.set()
        if self._in:
            self._later()

    async def room(self) -> None:
        await self._room.wait()

    def drop(self, reason: str) -> None:
        """Of what came in."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
