"""Many publishes at once of a client: one future for all of them, and their bytes put together by hand.

A broker answers each publish by itself, so that each can be refused by itself. Here the answers are counted, and who
published is told once, when the last has come.
"""

import asyncio
from collections.abc import Callable

from vicinal.event import Event
from vicinal.siena.messages import encode, framed
from vicinal.wire import encode as encode_event

__all__ = ["FIRST_REQUEST", "Failed", "Run", "Told", "publication", "settling"]

Told = Callable[[dict[int, BaseException]], None]
Failed = Callable[[BaseException], None]

FIRST_REQUEST = 1 << 16
"""from here on, and for long, the number of a request has four bytes"""
_END = 1 << 32

# What stands before and behind the number of a request, by the advertisement and the event's length.
_around: dict[tuple[int, int], tuple[bytes, bytes]] = {}
_MAX_AROUND = 4096


class Run:
    """Events with the requests `first`, `first` + 1, ... `told` is called with what was refused, by its place among
    them; what was not is accepted."""

    __slots__ = ("count", "failed", "first", "left", "refused", "told")

    def __init__(self, first: int, count: int, told: Told, failed: Failed | None = None) -> None:
        """`failed` is called instead when the client has ended before all were answered; without it all are told to be
        refused so."""
        self.first = first
        self.count = self.left = count
        self.refused: dict[int, BaseException] = {}
        self.told = told
        self.failed = failed

    def answered(self, request: int, error: BaseException | None) -> None:
        if error is not None:
            self.refused[request - self.first] = error
        self.left -= 1
        if not self.left:
            self.told(self.refused)

    def fail(self, error: BaseException) -> None:
        """There will be no more answers. Of those that there were nothing is said."""
        if self.left > 0:
            self.left = 0
            if self.failed is None:
                self.told(dict.fromkeys(range(self.count), error))
            else:
                self.failed(error)


def settling(done: "asyncio.Future[dict[int, BaseException]]") -> tuple[Told, Failed]:
    """`told` and `failed` of a run for which somebody waits."""

    def told(errors: dict[int, BaseException]) -> None:
        if not done.done():
            done.set_result(errors)

    def failed(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)
            done.exception()  # whoever waits gets it; if nobody does, it is not worth a complaint

    return told, failed


def publication(request: int, advertisement: int, event: Event) -> bytes:
    """The whole frame of a publish."""
    if not FIRST_REQUEST <= request < _END:
        return framed(encode(("publish", request, advertisement, event)))
    data = encode_event(event)
    around = _around.get((advertisement, len(data)))
    if around is None:
        whole = framed(encode(("publish", FIRST_REQUEST, advertisement, event)))
        end = len(whole) - len(data)
        at = whole.index(FIRST_REQUEST.to_bytes(4, "big"), 0, end)
        if len(_around) >= _MAX_AROUND:
            _around.clear()
        around = _around[(advertisement, len(data))] = (whole[:at], whole[at + 4 : end])
    return around[0] + request.to_bytes(4, "big") + around[1] + data
