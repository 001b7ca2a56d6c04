"""What a client holds of a broker: advertisements and subscriptions, which outlive a connection."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.scope.session_cpython import react_to

__all__ = ["Advertisement", "Delivery", "Handle", "Subscription"]

# Producers of which a subscription remembers the last event.
_MAX_PRODUCERS = 100_000


class Delivery(NamedTuple):
    event: Event
    offset: int | None
    """of a durable subscription: go on from the next"""
    trail: tuple[Any, ...]
    """of a traced event: (broker, ((scope, going up), ...), time) for each place it went through; of a durable
    subscription the broker that has stored it, in no scope"""
    time: int
    """when it came, ms"""

    @property
    def stored(self) -> int | None:
        """When the broker had it for a durable subscription, ms; None: it is none, or the broker did not say."""
        return self.trail[-1][2] if self.offset is not None and self.trail else None


class Handle:
    def __init__(self, text: str, tags: Tags) -> None:
        self.filter = text
        self.tags = tags
        self.number: int | None = None
        """the broker's, of this connection"""
        self.error: VicinalError | None = None
        self._there = asyncio.Event()

    def request(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def goodbye(self) -> str:
        raise NotImplementedError

    def there(self) -> None:
        self._there.set()

    async def established(self) -> None:
        await self._there.wait()
        if self.error is not None:
            raise self.error

    def end(self, error: VicinalError) -> None:
        self.error = error
        self._there.set()


class Advertisement(Handle):
    def request(self) -> tuple[Any, ...]:
        return ("advertise", self.filter, self.tags)

    def goodbye(self) -> str:
        return "unadvertise"


class Subscription(Handle):
    """An async iterator of deliveries. It ends with the error that ended it."""

    def __init__(
        self,
        text: str,
        tags: Tags,
        consumed: Callable[[], None],
        durable: str | None,
        offset: int | None,
        among: "Subscription | None" = None,
    ) -> None:
        super().__init__(text, tags)
        self.durable = durable
        self.offset = offset
        """of the next delivery that is wanted"""
        self.early: dict[int, list[tuple[Any, ...]]] = {}
        self._consumed = consumed
        self._queue: deque[tuple[Delivery, bool]] = deque() if among is None else among._queue
        self._news: asyncio.Event = asyncio.Event() if among is None else among._news
        self._last: dict[str, int] = {}
        self._counts = among is None

    def request(self) -> tuple[Any, ...]:
        return ("subscribe", self.filter, self.tags, self.durable, self.offset)

    def goodbye(self) -> str:
        return "unsubscribe"

    @property
    def unread(self) -> int:
        return sum([owes for _, owes in self._queue]) if self._counts else 0

    def fresh(self, delivery: Delivery) -> bool:
        """Whether it has not come before: of a producer they come in order."""
        event = delivery.event
        producer, seq = event.producer or "", event.seq or 0
        if seq <= self._last.get(producer, -1):
            return False
        if len(self._last) >= _MAX_PRODUCERS and producer not in self._last:
            self._last.clear()
        self._last[producer] = seq
        return True

    def put(self, delivery: Delivery, owes: bool) -> None:
        """`owes`: that it is taken gives credit; of several subscriptions that share a delivery, one does."""
        if delivery.offset is not None:
            self.offset = delivery.offset + 1
        if self._queue and self._queue[-1][0] is delivery:
            return  # for another subscription that is read together with this one
        self._queue.append((delivery, owes))
        self._news.set()

    def end(self, error: VicinalError) -> None:
        super().end(error)
        self._news.set()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Delivery:
        """What its task publishes until it asks for the next is a reaction to this one (vicinal.scope.session)."""
        react_to(None)
        while not self._queue:
            if self.error is not None:
                raise self.error
            self._news.clear()
            await self._news.wait()
        delivery, owes = self._queue.popleft()
        if owes:
            self._consumed()
        if "Session" in delivery.event.attrs:
            react_to(delivery.event)
        return delivery
