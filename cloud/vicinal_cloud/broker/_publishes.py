"""What a client has published and the broker has not answered: bounded, and published again on a new connection, as a
broker knows by (producer, seq) what it has."""

import asyncio
from collections.abc import Callable
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.event import Event

from ._handles import Advertisement
from ._runs import Run, publication

__all__ = ["Publishes", "Refused"]

WINDOW = 1024


class Refused(LocalProtocolError):
    """The broker did not accept a request; the message says why."""


class Publishes:
    def __init__(self) -> None:
        self.unanswered: dict[int, tuple[Event, Advertisement, asyncio.Future[int] | Run]] = {}
        """by request"""
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self.unanswered) >= WINDOW

    async def room(self) -> None:
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def add_run(self, run: Run, events: list[Event], advertisement: Advertisement) -> None:
        for request, event in enumerate(events, run.first):
            self.unanswered[request] = (event, advertisement, run)

    def frames(self, run: Run, events: list[Event], number: int) -> bytes:
        """Of the whole run, by the number of its advertisement. What is too large is refused, and others go."""
        found = []
        for request, event in enumerate(events, run.first):
            try:
                found.append(publication(request, number, event))
            except LocalProtocolError as error:
                self.answered(request, Refused(str(error)))
        return b"".join(found)

    def again(self, say: Callable[[tuple[Any, ...]], None]) -> None:
        """The connection is new, and each advertisement has its new number."""
        for request, (event, advertisement, _) in list(self.unanswered.items()):
            if advertisement.number is not None:
                say(("publish", request, advertisement.number, event))
            else:
                self.answered(request, Refused("its advertisement was refused after the connection was made again"))

    def answered(self, request: int, error: BaseException | None, brokers: int = 0) -> bool:
        """To how many `brokers` it goes, if there is no error. False: it is no publish of ours."""
        publish = self.unanswered.pop(request, None)
        if publish is None:
            return False
        self._room.set()
        done = publish[2]
        if type(done) is Run:
            done.answered(request, error)
            return True
        assert isinstance(done, asyncio.Future)
        if not done.done():
            if error is None:
                done.set_result(brokers)
            else:
                done.set_exception(error)
        return True

    def give_up(self, error: BaseException) -> None:
        """There will be no more answers."""
        unanswered, self.unanswered = self.unanswered, {}
        for _, _, done in unanswered.values():
            if isinstance(done, Run):
                done.fail(error)
            elif not done.done():
                done.set_exception(error)
                done.exception()  # whoever waits gets it; if nobody does, it is not worth a complaint
        self._room.set()
