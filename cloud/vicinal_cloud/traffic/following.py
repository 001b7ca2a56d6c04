"""Where the office is in the log of its durable subscription, and whether that is still the same log.

    saved        offset 42: the next       mark: which event was at 41, and when the broker had stored it
    asked for    from 41 on                the first that comes is that one: the same log, and it is not taken again

A broker that was set up anew, or from a copy, has another log under the same name; its offsets mean other events. Then,
and where retention has taken what comes next, the office begins with the first that is there, and says so. What was
stored up to the time that it had heard of is counted (`again`), not judged: it may have been heard, and nobody is fined
twice. Whether the log is another one nothing says but its events, so the last one is the log's identity.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from vicinal.event import Event

from ..broker.client import Delivery, Refused, Subscription

__all__ = ["Following", "Mark"]

_log = logging.getLogger("vicinal.traffic")

PROOF_S = 10.0
"""in which the event that was heard last is there again: a broker gives what it has at once"""


Subscribe = Callable[[int | None], Awaitable[Subscription]]
"""from an offset, or from the first that there is; raises Refused"""


class Mark(NamedTuple):
    """Of the event that was heard last."""

    event: int
    """63 bits of who said it and its number"""
    stored: int
    """when the broker had it, ms"""
    again: int = 0
    """what was stored up to then may have been heard in another log; 0: nothing was"""


def identity(event: Event) -> int:
    digest = hashlib.sha256(f"{event.producer}\0{event.seq}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class Following:
    def __init__(self, offset: int | None, mark: Mark | None) -> None:
        self.offset = offset
        """of the next"""
        self.mark = mark
        self.again = 0
        """how many may have been heard before, in another log, and are not judged"""

    async def begin(self, subscribe: Subscribe, reconnect: Callable[[], Awaitable[None]]) -> Subscription:
        """Where it was. What is subscribed can be subscribed from another offset after `reconnect` only."""
        if not self.offset:
            return await subscribe(None)
        start = self.offset if self.mark is None else self.offset - 1
        try:
            events = await subscribe(start)
        except Refused as error:
            return await self.anew(subscribe, str(error))
        if self.mark is None or await self._is_there(events, start, self.mark):
            return events
        await reconnect()
        return await self.anew(subscribe, f"what is at offset {start} is not the event that was there")

    async def _is_there(self, events: Subscription, start: int, mark: Mark) -> bool:
        try:
            async with asyncio.timeout(PROOF_S):
                first = await anext(events)
        except TimeoutError:
            return False
        return first.offset == start and identity(first.event) == mark.event

    async def anew(self, subscribe: Subscribe, why: str) -> Subscription:
        """With the first that there is. Raises Refused where it was not the offset that was refused."""
        events = await subscribe(None)
        _log.warning(
            "%s: the broker's log is another one, or has removed what was not heard; the office begins with the first "
            "that is there, and does not judge again what was stored before it last heard something", why
        )  # fmt: skip
        if self.mark is not None:
            self.mark = self.mark._replace(again=max(self.mark.again, self.mark.stored))
        return events

    def heard(self, delivery: Delivery, stored: int) -> bool:
        """Whether it is to be judged."""
        again = 0 if self.mark is None else self.mark.again
        is_new = stored > again
        if again and is_new:
            _log.info("%d events of the broker's log were stored before, and not judged again", self.again)
        self.again += not is_new
        if delivery.offset is not None:
            self.offset = delivery.offset + 1
            self.mark = Mark(identity(delivery.event), stored, 0 if is_new else again)
        return is_new
