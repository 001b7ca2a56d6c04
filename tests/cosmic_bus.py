"""A CAN bus in a few lines, for tests of COSMIC alone: one frame at a time, the lowest identifier first, destroyed ones
again. The product's bus, with error counters and bits, is vicinal_hw.can; this one is here to disagree with it."""

from collections.abc import Callable
from heapq import heappop, heappush

from vicinal.cosmic.bits import ERROR_BITS, duration, frame_bits
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.node import Node


class TinyBus:
    def __init__(
        self, bitrate: int, nodes: list[Node], omit: "Callable[[Frame, int], bool] | None" = None, timers: bool = True
    ) -> None:
        """`omit(frame, attempts)` says whether this transmission is destroyed, at its very end. Without `timers` nodes
        see the time only when they are asked for a frame: enough for priorities, and faster."""
        self.bitrate = bitrate
        self.nodes = nodes
        self.omit = omit
        self.timers = timers
        self.now = 0
        self.busy = 0
        self.log: list[tuple[int, Frame]] = []  # when each frame was sent
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._attempts = 0
        self._last: Frame | None = None

    def at(self, time: int, action: "Callable[[], None]") -> None:
        self._count += 1
        heappush(self._events, (time, self._count, action))

    def _next(self) -> "int | None":
        due = [self._events[0][0]] if self._events else []
        if self.timers:
            due += [time for node in self.nodes if (time := node.next_timeout()) is not None]
        return min(due, default=None)

    def _happen(self, until: int) -> None:
        """Everything due up to a time, in order."""
        while True:
            time = self._next()
            if time is None or time > until:
                break
            self.now = max(self.now, time)
            for node in self.nodes if self.timers else ():
                timeout = node.next_timeout()
                if timeout is not None and timeout <= self.now:
                    node.handle_timeout(self.now)
            while self._events and self._events[0][0] <= self.now:
                heappop(self._events)[2]()
        self.now = max(self.now, until)

    def run(self, until: int) -> None:
        while self.now < until:
            self._happen(self.now)
            offers = [
                (frame.id, frame, node) for node in self.nodes if (frame := node.frame_to_send(self.now)) is not None
            ]
            if not offers:
                time = self._next()
                self._happen(until if time is None else min(time, until))
                continue
            numbers = [number for number, _, _ in offers]
            assert len(set(numbers)) == len(numbers), "two nodes send the same identifier at once"
            _, frame, sender = min(offers, key=lambda offer: offer[0])
            self._send(frame, sender)

    def _send(self, frame: Frame, sender: Node) -> None:
        self._attempts = self._attempts + 1 if frame is self._last else 0
        self._last = frame
        destroyed = self.omit is not None and self.omit(frame, self._attempts)
        bits = frame_bits(frame) + (ERROR_BITS if destroyed else 0)
        took = duration(bits, self.bitrate)
        self.busy += took
        self._happen(self.now + took)
        if destroyed:
            sender.transmit_error(self.now, frame)
            return
        self.log.append((self.now, frame))
        sender.frame_sent(frame, self.now)
        for node in self.nodes:
            if node is not sender and node.channels:
                node.receive_frame(frame, self.now)
