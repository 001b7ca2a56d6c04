"""Events that go to the overlay together: of one lane and one subject, with rising numbers. One future, or one call,
says what became of all of them."""

import asyncio
from collections.abc import Callable

from vicinal.event import Event

from ..adapter import Result
from ._lane import Lane

__all__ = ["Run", "when_done"]


class Run:
    """Events of one lane and one subject, and what is to be said of each and of those between them."""

    def __init__(self, lane: Lane | None = None, subject: str = "") -> None:
        self.lane = lane
        self.subject = subject
        self.highest = -1 if lane is None else lane.highest
        self.stored = False
        self.given: list[Event] = []
        self.events: list[Event] = []
        self.results: list[object] = []
        """self stands for the future that all of them have"""

    def add(self, given: Event, event: Event, stored: bool) -> None:
        self.given.append(given)
        self.events.append(event)
        self.highest, self.stored = event.seq or 0, stored
        self.results.append(self)

    def wait_for(self, result: Result) -> None:
        """One that is not published: its result stands in its place."""
        self.results.append(result)


async def when_done(
    left: dict[int, BaseException],
    again: "dict[int, asyncio.Future[None]]",
    finish: Callable[[dict[int, BaseException]], None],
) -> None:
    try:
        for place, done in again.items():
            await asyncio.wait([done])
            error = None if done.cancelled() else done.exception()
            if error is None:
                del left[place]
            else:
                left[place] = error
    finally:
        finish(left)
