"""What anybody at the gateway wants: its subscriptions, pushed down to the device (spec/agent.md).

    gateway ──AgentWanted, filter = "subject = 'Speed' AND rate > 30"──▶ agent: only what meets it goes up

A gateway that says nothing of the kind wants everything, and so does one whose condition is not understood here. While
the gateway is away what it wanted last holds.
"""

from vicinal._compat import const
from vicinal.coap import events
from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vicinal.coap.client import Answer, Client, Request
    from vicinal.event import Event

    from .clock import Clock

__all__ = ["WANTED", "Wanted"]

WANTED = "AgentWanted"
# ms of silence after which the gateway is asked again: one that was started anew may want other things.
_REFRESH = const(30000)
_RETRY = const(60000)


class Wanted:
    def __init__(self) -> None:
        self.text = ""
        """what was said last; empty: nothing"""
        self.request: Request | None = None
        self.refused = 0
        self._test: Any = None  # of the condition, without the tree that it was made of
        self._begin: Callable[[], None] | None = None
        self._due = 0

    def by_somebody(self, event: "Event", clock: "Clock", now: int) -> bool:
        if self._test is None:
            return True
        if "$Time" in self.text and "Time" not in event.attrs:
            # It goes with one, and is asked for with it.
            unix = clock.now_unix(now)
            if unix is not None:
                attrs = dict(event.attrs)
                attrs["Time"] = unix
                event = event.replace(attrs=attrs)
        return self._test(event) is True

    def wants(self, now: int) -> bool:
        return self.request is None and now >= self._due

    def next_timeout(self) -> "int | None":
        return self._due if self.request is None else None

    def observe(self, client: "Client", begin: "Callable[[], None]", now: int) -> None:
        """`begin` is called when it has changed: who asks for something anew gets its first value."""
        self._begin = begin
        self.request = events.observe(client, WANTED, None, self._told, now, self._ended, _REFRESH)

    def _ended(self, answer: "Answer", now: int) -> None:
        self.request = None
        self._due = now + _RETRY
        if answer.code:
            self.text, self._test = "", None

    def _told(self, event: "Event", now: int) -> None:
        text: Any = event.get("filter")
        if text == self.text:
            return  # told again, as when it is observed anew
        self._test = None
        try:
            self._test = Filter(text).test if type(text) is str else None
        except LocalProtocolError:
            pass
        self.text = text if type(text) is str else ""
        if self._test is None:
            self.refused += 1
        if self._begin is not None:
            self._begin()
