"""What a stored queue has in memory of an event: until it is on disk, and from when it has a number until the service
has it (store.py says why it is so)."""

import asyncio

from vicinal.event import Event
from vicinal.federation.outbox import Flight

from ._store_queue import Dropped

__all__ = ["Held", "New"]


class New:
    """Its insert is not yet on disk."""

    __slots__ = ("begun", "data", "done", "event", "expires", "id", "number", "priority", "producer", "source")

    def __init__(
        self,
        id: int,
        producer: str,
        priority: int,
        expires: int,
        event: Event,
        data: bytes,
        done: "asyncio.Future[int] | None",
        source: str = "",
    ) -> None:
        self.id = id
        self.producer = producer
        self.priority = priority
        self.expires = expires
        self.event = event
        self.data = data
        self.done = done
        self.source = source
        """says it again if it is not on disk when we die: must not be sent before"""
        self.number = 0
        self.begun = False
        """an insert of it has failed, and may be on disk for all that"""

    def settle(self) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(self.id)

    def fail(self, reason: str) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(Dropped(reason))
            self.done.exception()  # it is counted: who does not wait for it misses nothing


class Held:
    """It has a number, which no other event ever gets."""

    __slots__ = ("event", "flight", "handed", "ready", "sent")

    def __init__(self, flight: Flight, event: Event | None, ready: bool) -> None:
        self.flight = flight
        self.event = event
        self.ready = ready
        """may be sent: its number is on disk, or will be there with the event itself"""
        self.handed = False
        """its number is in the table `handed`"""
        self.sent = False
        """the service may have it, whatever became of the answer"""
