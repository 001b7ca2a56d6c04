"""A COSMIC node that has plain frames to send beside its channels, and says what became of each thing it was given.

    channels ──▶ Node's queue: by deadline, then non real time ──┐
                                                                 ├──▶ the lower identifier ──▶ the one mailbox
    plain frames (of the car, of a tunnel) ──▶ by identifier ────┘

What goes next is what the bus itself would let through first. A hard real-time frame waits for nothing: its slot does
not last. Nothing here waits in the kernel, so that a flood from above is a queue that is full, and never a bus.
"""

from bisect import insort
from collections.abc import Callable
from typing import Any, Protocol

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import HRT, MAX_ETAG
from vicinal.cosmic.node import Node
from vicinal.cosmic.scheduler import Message

__all__ = ["Done", "GatewayNode", "Party", "rank_of"]

Done = Callable[[str], None]
"""is called once: "" when it was sent, else why not"""
GRACE = 1_000_000
"""microseconds that a frame in the controller has beyond its time: it may be on the wire"""


class Party(Protocol):
    """A protocol of the bus that has timers of its own."""

    def next_timeout(self) -> int | None: ...

    def handle_timeout(self, now: int) -> None: ...


def rank_of(frame: Frame) -> int:
    """As the bits are on the wire: a standard frame goes before an extended one that begins with the same 11 bits."""
    if frame.extended:
        return frame.id >> 18 << 19 | 1 << 18 | frame.id & 0x3FFFF
    return frame.id << 19


class Plain:
    __slots__ = ("done", "expires", "frame", "offered", "rank")

    def __init__(self, frame: Frame, expires: int, done: Done) -> None:
        self.frame = frame
        self.rank = rank_of(frame)
        self.expires = expires
        self.done = done
        self.offered = False


class GatewayNode(Node):
    def __init__(self, tx_node: int, bitrate: int, clock: Any = None, limit: int = 32) -> None:
        super().__init__(tx_node, bitrate, clock)
        self.limit = limit
        self.plain: list[Plain] = []
        self.parties: list[Party] = []
        self.on_plain: Callable[[Frame], bool] | None = None
        """sees each frame before the channels do; True: it is none of theirs"""
        self._watched: list[tuple[Message, Done]] = []
        self._done: Done | None = None

    @property
    def full(self) -> bool:
        return len(self.plain) + len(self._watched) >= self.limit

    @property
    def stored(self) -> int:
        return super().stored + len(self.plain)

    # What the adapter calls

    def send_plain(self, frame: Frame, now: int, expires: int, done: Done) -> None:
        self.count("out accepted")
        insort(self.plain, Plain(frame, expires, done), key=lambda one: one.rank)

    def publish(self, send: Callable[[], bool], done: Done) -> bool:
        """`send` publishes on a channel of this node. Whether there was room."""
        self._done = done
        try:
            return send()
        finally:
            self._done = None

    def on_failed(self, reason: str, event: Any, now: int) -> None:
        """The exception handler of channels. What is late is sent nevertheless."""
        if reason != "late":
            for pair in self._watched:
                if pair[0].event is event:
                    self._watched.remove(pair)
                    return pair[1](reason)
        return None

    def abandon(self, reason: str) -> None:
        """Everybody who waits is told."""
        waiting: list[Done] = [one.done for one in self.plain] + [done for _, done in self._watched]
        self.plain, self._watched = [], []
        for done in waiting:
            done(reason)

    # As Node

    def put(self, message: Message, now: int) -> bool:
        done, self._done = self._done, None
        if done is not None:
            self._watched.append((message, done))
        taken = super().put(message, now)
        if not taken and done is not None:
            self._watched = [pair for pair in self._watched if pair[0] is not message]
        return taken

    def receive_frame(self, frame: Frame, now: int) -> None:
        if self.on_plain is None or not self.on_plain(frame):
            super().receive_frame(frame, now)

    def frame_to_send(self, now: int) -> Frame | None:
        frame = super().frame_to_send(now)
        if not self.plain or self.silent:
            return frame
        head = self.plain[0]
        if frame is not None and (frame.id >> 21 == HRT or rank_of(frame) < head.rank):
            return frame
        head.offered = True
        return head.frame

    def frame_sent(self, frame: Frame, now: int) -> None:
        for at, one in enumerate(self.plain):
            if one.frame == frame:
                del self.plain[at]
                self.count("out sent")
                return one.done("")
        etag = frame.id & MAX_ETAG
        near = [pair for pair in self._watched if pair[0].etag == etag and pair[0].payload == frame.data]
        super().frame_sent(frame, now)
        for pair in near:
            if not pair[0].left:
                self._watched.remove(pair)
                return pair[1]("")
        return None

    def transmit_error(self, now: int, frame: Frame | None = None) -> None:
        for one in self.plain:
            if one.frame == frame:
                one.offered = False
        super().transmit_error(now, frame)

    def next_timeout(self) -> int | None:
        times = [] if (due := super().next_timeout()) is None else [due]
        times += [one.expires + GRACE if one.offered else one.expires for one in self.plain]
        times += [due for party in self.parties if (due := party.next_timeout()) is not None]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        over = [one for one in self.plain if now >= (one.expires + GRACE if one.offered else one.expires)]
        for one in over:
            self.plain.remove(one)
            self.count("out dropped: expired")
        for party in self.parties:
            due = party.next_timeout()
            if due is not None and now >= due:
                party.handle_timeout(now)
        super().handle_timeout(now)
        for one in over:
            one.done("expired")
