"""asyncio's loop, with a selector that knows a short way to some sockets.

    asyncio      select ──▶ keys ──▶ handles ──▶ a context ──▶ the transport ──▶ get_buffer, recv, buffer_updated
    here         select ──▶ the socket's own function, if it alone has something to read and the loop nothing to do

An event that comes alone finds nothing in the processor's caches, and what it goes through is what it costs. Whatever
else happens goes asyncio's way: several sockets at once, something to write, an end, an error.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

__all__ = ["DONE", "FOR_THE_LOOP", "FOR_THE_TRANSPORT", "Loop"]

# What a socket's function says: all is done, and it asked nothing of the loop; or perhaps it did; or nothing has
# happened, and it is for the transport.
DONE, FOR_THE_LOOP, FOR_THE_TRANSPORT = range(3)


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.readable: dict[int, Callable[[], int]] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wait = super().select
        if timeout == 0:  # the loop has something to do
            return wait(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        found = wait(timeout)
        while len(found) == 1 and found[0][1] == selectors.EVENT_READ:
            readable = self.readable.get(found[0][0].fd)
            said = FOR_THE_TRANSPORT if readable is None else readable()
            if said == FOR_THE_LOOP:
                return []
            if said == FOR_THE_TRANSPORT:
                return found
            if end is not None:
                timeout = end - time.monotonic()
                if timeout <= 0:  # a timer is due, and who sends without a pause does not hold it up
                    return []
            found = wait(timeout)
        return found


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self.readable = selector.readable
        """by descriptor: called when the socket has something to read, instead of its transport"""
