"""One producer of the overlay: a connection of its own name, on which numbers rise.

A broker knows by (producer, seq) what it has, so the number of an event decides whether it is new. In a lane they rise
in the order in which they are published; where one is not accepted and a later one is, the broker says of the first,
when it comes again, that it is out of order and was never stored.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_cloud.broker.client import Advertisement, Client, Closed
from vicinal_cloud.broker.client import Refused as NotAccepted

from ..adapter import Refused, Unavailable

__all__ = ["Lane", "OutOfOrder", "asked", "quoted", "settle"]

Otherwise = Callable[[BaseException, "asyncio.Future[None]"], bool]

MAX_SUBJECTS = 256
"""advertisements of one lane; beyond it one stands for all subjects. A broker lets a client have 1,024."""
EVERY = "subject LIKE '%'"

# What a broker says of events that it will never take. All else may pass.
_FOR_GOOD = ("outside the advertisement", "no advertisement", "under its own name", "not in scope", "the limit is")
_OUT_OF_ORDER = "was not stored before"


class OutOfOrder(Refused):
    """Something later was stored before it, and this was not."""


def quoted(text: str) -> str:
    """As a literal of a filter."""
    return "'" + text.replace("'", "''") + "'"


class Lane:
    def __init__(self, client: Client, scopes: Mapping[str, str], rest: bool) -> None:
        self.client = client
        self.name = client.name
        self.highest = -1
        """that was published in this connection"""
        self._scopes = scopes
        self._rest = rest
        self._adverts: dict[str, Advertisement] = {}
        self._pending: dict[int, asyncio.Future[None]] = {}

    async def advertise(self, subject: str) -> Advertisement:
        found = self._adverts.get(subject) or self._adverts.get("")
        if found is None:
            wide = len(self._adverts) >= MAX_SUBJECTS
            text = EVERY if wide else f"subject = {quoted(subject)}"
            found = self._adverts["" if wide else subject] = await asked(
                self.client.advertise(text, self._scopes, self._rest)
            )
        return found

    async def unadvertise(self, subject: str) -> None:
        found = self._adverts.pop(subject, None)
        if found is not None:
            await asked(self.client.cancel(found))

    async def publish(self, event: Event, otherwise: "Otherwise | None" = None) -> "asyncio.Future[None]":
        """Of this lane's name, and with a number. What is not accepted is given to `otherwise` with the future, which
        says whether it will see to it."""
        seq = event.seq or 0
        if seq <= self.highest:
            pending = self._pending.get(seq)
            if pending is not None:
                return pending
            raise Refused(f"number {seq} comes after {self.highest}: in a lane they rise")
        advertisement = await self.advertise(event.subject)
        self.highest = seq
        answer = await asked(self.client.submit(event, advertisement))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending[seq] = done

        def answered(answer: "asyncio.Future[int]") -> None:
            self._pending.pop(seq, None)
            error = None if answer.cancelled() else answer.exception()
            if error is not None:
                error = blamed(error)
                if otherwise is not None and otherwise(error, done):
                    return
            settle(done, error)

        answer.add_done_callback(answered)
        return done


def settle(done: "asyncio.Future[None]", error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
        done.exception()  # who does not wait for it is not complained about


def blamed(error: BaseException) -> Exception:
    """In the words of adapters."""
    if isinstance(error, NotAccepted):
        text = str(error)
        if _OUT_OF_ORDER in text:
            return OutOfOrder(text)
        return Refused(text) if any(piece in text for piece in _FOR_GOOD) else Unavailable(text)
    return error if isinstance(error, LocalProtocolError) else Unavailable(str(error))


async def asked(request: Any) -> Any:
    """What a client's method gives."""
    try:
        return await request
    except NotAccepted as error:
        raise Refused(str(error)) from error
    except (Closed, ConnectionError) as error:
        raise Unavailable(str(error)) from error
