"""Names and time on a COSMIC bus, as a gateway takes part in them (spec/cosmic_binding.md).

    Names    its own number, where none was given by hand; etags of its subjects; and, where it is asked to, the broker
             that gives both to everybody. What the broker gives is on disk first.
    Time     the bus's clock: followed, or kept.

A controller does not hear itself: what a node asks of the broker beside it, it gives it directly, and to the bus too.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from vicinal.cosmic.binding import Binding
from vicinal.cosmic.binding_broker import BindingBroker
from vicinal.cosmic.binding_frames import WHO
from vicinal.cosmic.binding_table import ENTRY_BYTES
from vicinal.cosmic.clock import BusClock
from vicinal.cosmic.clock_master import ClockMaster
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import NRT_FIRST, pack

from ._cosmic_node import GatewayNode

__all__ = ["Names", "Time"]

WORTHLESS = 1_000_000
"""microseconds after which a frame of these protocols is not sent any more: it would have been repeated"""


class Names:
    """on_event(kind, subject, number) is told what `Binding.next_event` has; on_stored() when a name is on disk, so
    that the shell can be told to look."""

    def __init__(
        self,
        node: GatewayNode,
        binding: Binding,
        broker: BindingBroker | None,
        file: Path,
        on_event: Callable[[str, str, int], None],
        on_stored: Callable[[], int],
    ) -> None:
        self.node = node
        self.binding = binding
        self.broker = broker
        self._file = file
        self._on_event = on_event
        self._on_stored = on_stored
        self._storing: asyncio.Future[None] | None = None
        for etag in range(WHO + 1):
            node.listen(etag, self.receive)
        node.parties.append(self)

    def want(self, subject: str, now: int) -> None:
        self.binding.want(subject)
        self.pump(now)

    def receive(self, frame: Frame, now: int) -> None:
        self.binding.receive(frame, now)
        if self.broker is not None:
            self.broker.receive(frame, now)
        self.pump(now)

    def next_timeout(self) -> int | None:
        times = [self.binding.next_timeout(), self.broker.next_timeout() if self.broker is not None else None]
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: int) -> None:
        self.binding.handle_timeout(now)
        if self.broker is not None:
            self.broker.handle_timeout(now)
        self.pump(now)

    def pump(self, now: int) -> None:
        """All that follows from what has happened."""
        busy = True
        while busy:
            asked = self.binding.frames_to_send(now)
            for frame in asked:
                self._send(frame, now)
                if self.broker is not None:
                    self.broker.receive(frame, now)
            told = [] if self.broker is None else self.broker.frames_to_send(now)
            for frame in told:
                self._send(frame, now)
                self.binding.receive(frame, now)
            busy = bool(asked or told)
        self._store()
        while (event := self.binding.next_event()) is not None:
            self._on_event(*event)

    def _send(self, frame: Frame, now: int) -> None:
        self.node.send_frame(frame, now, now + WORTHLESS)

    def _store(self) -> None:
        found = None if self.broker is None or self._storing is not None else self.broker.to_store()
        if found is not None:
            loop = asyncio.get_running_loop()
            self._storing = loop.run_in_executor(None, _write, self._file, *found)
            self._storing.add_done_callback(lambda done: self._stored(done, found[0] + len(found[1]) // ENTRY_BYTES))

    def _stored(self, done: "asyncio.Future[None]", length: int) -> None:
        self._storing = None
        if done.cancelled() or done.exception() is not None or self.broker is None:
            return  # not given out then: a node asks again
        self.broker.stored(length)
        self.pump(self._on_stored())

    async def close(self) -> None:
        if self._storing is not None:
            await asyncio.wait([self._storing])
        self.broker = None


def _write(file: Path, entries: int, data: bytes) -> None:
    """Cut to so many entries, and these behind them."""
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(number, entries * ENTRY_BYTES)
        os.pwrite(number, data, entries * ENTRY_BYTES)
        os.fsync(number)
    finally:
        os.close(number)


class Time:
    def __init__(self, node: GatewayNode, clock: BusClock, etag: int, rank: int | None, now: int) -> None:
        """With a `rank` this node gives the time when nobody better does."""
        self.node = node
        self.clock = clock
        self.etag = etag
        self.master = None if rank is None else ClockMaster(clock, rank, now)
        node.listen(etag, self.receive, self._sent)
        node.parties.append(self)

    def receive(self, frame: Frame, now: int) -> None:
        (self.clock if self.master is None else self.master).receive(frame.data, now)

    def _sent(self, frame: Frame, now: int) -> None:
        if self.master is not None:
            self.master.sent(now)

    def next_timeout(self) -> int | None:
        return None if self.master is None else self.master.next_timeout()

    def handle_timeout(self, now: int) -> None:
        data = None if self.master is None else self.master.data_to_send(now)
        if data is not None:
            frame = Frame(pack(NRT_FIRST, self.node.tx_node, self.etag), data)
            self.node.send_frame(frame, now, now + self.clock.period)
