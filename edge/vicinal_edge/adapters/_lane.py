"""One producer of the overlay: a connection of its own name, on which numbers rise.

A broker knows by (producer, seq) what it has, so the number of an event decides whether it is new. In a lane they rise
in the order in which they are published; where one is not accepted and a later one is, the broker says of the first,
when it comes again, that it is out of order and was never stored.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_cloud.broker.client import Advertisement, Client, Closed
from vicinal_cloud.broker.client import Refused as NotAccepted

from ..adapter import Answered, Refused, Unavailable

__all__ = ["Lane", "OutOfOrder", "asked", "quoted", "settle"]

Otherwise = Callable[[BaseException, "asyncio.Future[None]"], bool]
Errors = dict[int, BaseException] | None
SeenTo = Callable[[dict[int, Exception], Callable[[dict[int, BaseException]], None]], None]

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
        self._runs: dict[asyncio.Future[Errors], list[Event]] = {}
        self._at_once: dict[int, tuple[list[Event], list[Answered]]] = {}  # by the first number

    def advertised(self, subject: str) -> Advertisement | None:
        for key in (subject, ""):
            found = self._adverts.get(key)
            if found is not None and found.error is None:
                return found
        return None

    async def advertise(self, subject: str) -> Advertisement:
        found = self.advertised(subject)
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
            pending = self._pending.get(seq) or self._in_a_run(seq)
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

    async def publish_many(self, events: list[Event], seen_to: "SeenTo") -> "asyncio.Future[Errors]":
        """As `publish`, of events of one subject, whose numbers rise from above `highest` on. What is not accepted is
        given to `seen_to` by its place, with what is to be called with all that is left of it."""
        advertisement = await self.advertise(events[0].subject)
        self.highest = events[-1].seq or 0
        answer = await asked(self.client.submit_many(events, advertisement))
        done: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        self._runs[done] = events

        def answered(answer: "asyncio.Future[dict[int, BaseException]]") -> None:
            if answer.cancelled():
                finish({})
                return
            failure = answer.exception()
            found = answer.result() if failure is None else dict.fromkeys(range(len(events)), failure)
            if found:
                seen_to({place: blamed(found[place]) for place in sorted(found)}, finish)
            else:
                finish({})

        def finish(errors: dict[int, BaseException]) -> None:
            self._runs.pop(done, None)
            if not done.done():
                done.set_result(errors or None)

        answer.add_done_callback(answered)
        return done

    def publish_at_once(self, events: list[Event], seen_to: "SeenTo", answered: Answered) -> bool:
        """publish_many, where nothing need be waited for. False: nothing was done."""
        advertisement = self.advertised(events[0].subject)
        if advertisement is None:
            return False
        first = events[0].seq or 0
        waiting = [answered]
        self._at_once[first] = (events, waiting)

        def told(errors: dict[int, BaseException]) -> None:
            if errors:
                seen_to({place: blamed(errors[place]) for place in sorted(errors)}, finish)
            else:
                finish(errors)

        def finish(errors: dict[int, BaseException]) -> None:
            self._at_once.pop(first, None)
            for one in waiting:
                one(errors)

        if not self.client.submit_at_once(events, advertisement, told):
            del self._at_once[first]
            return False
        self.highest = events[-1].seq or 0
        return True

    def _in_a_run(self, seq: int) -> "asyncio.Future[None] | None":
        """What becomes of one that is under way with others."""
        for several, waiting in self._at_once.values():
            for place, event in enumerate(several):
                if event.seq == seq:
                    found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    waiting.append(partial(_settle_of, found, place))
                    return found
        for run, events in self._runs.items():
            for place, event in enumerate(events):
                if event.seq == seq:
                    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    run.add_done_callback(partial(_settle_one, done, place))
                    return done
        return None


def _settle_one(done: "asyncio.Future[None]", place: int, run: "asyncio.Future[Errors]") -> None:
    settle(done, None if run.cancelled() else (run.result() or {}).get(place))


def _settle_of(done: "asyncio.Future[None]", place: int, errors: dict[int, BaseException]) -> None:
    settle(done, errors.get(place))


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
