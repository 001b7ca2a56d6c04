"""A node on the bus, as a state machine: the shell brings frames and time, the node says what to send.

    receive_frame(frame, now)      a frame was on the bus
    frame_to_send(now)             what the controller's one mailbox should hold now, or None; it may change, and the
                                   shell replaces what is not yet on the wire
    frame_sent(frame, now)         it went out; transmit_error(now): it did not, yet
    next_timeout(), handle_timeout(now)

What frame_to_send answers changes only with one of these calls and at next_timeout(): a bus that simulates many nodes
asks those alone. Handlers are called last in each call, when everything is in order, and may publish; what one raises
comes out of the call, and nothing is lost by it.

Counted, exactly:

    out accepted                 = out sent + stored + out dropped: ...       in events and raw frames
    in received + in reassembled = in delivered + held + in fragments + in system + in dropped: ...
"""

from ..errors import LimitError, LocalProtocolError
from .bits import duration, worst_bits
from .frame import MAX_DATA, Frame
from .identifier import HRT, MAX_ETAG, MAX_TX_NODE, SRT_LAST, pack, unpack
from .scheduler import MAX_BYTES, MAX_MESSAGES, Message, TransmitQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .channels import Channel
    from .fragments import Reassembly

__all__ = ["Clock", "Node"]

# Withdrawn while in the controller, and perhaps sent nevertheless: one mailbox, so that few are in doubt at a time.
_MAX_DOUBTFUL = 8


class Clock:
    """The clock of a node that keeps the bus's time itself. Others are synchronised, see clock.py."""

    def in_sync(self, now: int) -> bool:
        return True

    def to_global(self, now: int) -> int:
        return now

    def to_local(self, time: int) -> int:
        return time


class Node:
    def __init__(
        self,
        tx_node: int,
        bitrate: int,
        clock: "Any" = None,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if not 0 <= tx_node <= MAX_TX_NODE:
            raise LimitError("TxNode", tx_node, "0 .. 127")
        self.tx_node = tx_node
        self.bitrate = bitrate
        self.clock = clock or Clock()
        self.frame_time = duration(worst_bits(MAX_DATA), bitrate)
        self.queue = TransmitQueue(self.frame_time, max_messages, max_bytes)
        self.counters: dict[str, int] = {}
        self.channels: dict[int, Channel] = {}
        self.budgets: Any = None  # see faults.Budgets
        self.silent = False  # bus-off: nothing is sent, nothing is lost
        self._system: dict[int, tuple[Any, Any]] = {}
        self._hrt: Any = None  # the hard real-time channels, see hrt.py
        self._reassembly: Reassembly | None = None
        self._told: list[tuple[Any, Any, Any, int]] = []
        self._doubtful: list[tuple[Message, str]] = []
        self._message: Message | None = None  # to which the frame in the mailbox belongs
        self._frame: Frame | None = None
        self._due: int | None = None
        self._promotion: int | None = None  # when the frame gets another priority, and nothing else happens

    # What the shell calls

    def receive_frame(self, frame: Frame, now: int) -> None:
        self.count("in received")
        if not frame.extended or frame.remote:
            return self.count("in dropped: foreign")
        _, tx_node, etag = unpack(frame.id)
        system, channel = self._system.get(etag), self.channels.get(etag)
        if system is None and channel is None:
            self.count("in dropped: no channel")
        elif self.budgets is not None and not self.budgets.allows(tx_node, etag, now):
            self.count("in dropped: over budget")
        elif system is not None:
            self.count("in system")
            system[0](frame, now)
        elif tx_node == self.tx_node:
            self.count("in dropped: own TxNode")
        elif channel is not None:
            channel.receive(tx_node, frame.data, now)
        self._finish(now)

    def frame_to_send(self, now: int) -> "Frame | None":
        due = self.next_timeout()
        if due is not None and now >= due:
            self.handle_timeout(now)
        return self._frame

    def frame_sent(self, frame: Frame, now: int) -> None:
        priority, _, etag = unpack(frame.id)
        if priority == HRT and self._hrt is not None and self._hrt.frame_sent(etag, frame.data, now):
            return self._finish(now)
        message = self._message
        if message is None or message.etag != etag or message.payload != frame.data:
            message = self.queue.find(etag, frame.data)
        if message is None:
            self._sent_after_all(etag, frame.data)
        elif self.queue.frame_sent(message):
            self.count("out sent")
            if message.owner is None:
                sent = self._system.get(etag)
                if sent is not None and sent[1] is not None:
                    sent[1](frame, now)
            else:
                message.owner.begun = None
                if message.deadline is not None and now > message.deadline and not message.late:
                    self._late(message, now)
        elif message.owner is not None:
            message.owner.begun = message
        self._doubtful = []
        self._finish(now)

    def transmit_error(self, now: int, frame: "Frame | None" = None) -> None:
        """A frame of ours was destroyed on the bus; the controller sends it again if frame_to_send still says so. Only
        where the shell knows which frame it was are omissions of hard real-time ones counted."""
        self.count("out errors")
        if self._hrt is not None:
            self._hrt.transmit_error(frame, now)
        self._finish(now)

    def next_timeout(self) -> "int | None":
        return _earlier(self._due, self._promotion)

    def next_timeouts(self) -> "tuple[int | None, int | None]":
        """When something happens, and when only the priority of the frame to send changes: whoever knows that the bus
        is busy until later need not ask before."""
        return self._due, self._promotion

    def handle_timeout(self, now: int) -> None:
        if self._due is None or now < self._due:
            return self._choose(now)
        expired, late = self.queue.handle_timeout(now)
        for message in expired:
            self._drop(message, "expired", now)
        for message in late:
            self._late(message, now)
        if self._reassembly is not None:
            due = self._reassembly.next_timeout()
            if due is not None and now >= due:
                self._reassembly.handle_timeout(now)
        if self._hrt is not None:
            self._hrt.handle_timeout(now)
        self._finish(now)

    def set_silent(self, silent: bool, now: int) -> None:
        """Bus-off and back: see faults.Recovery. The queue waits; what expires meanwhile is told as ever."""
        self.silent = silent
        self._finish(now)

    # What the protocols of the bus itself call

    def listen(
        self, etag: int, on_frame: "Callable[[Frame, int], None]", on_sent: "Callable[[Frame, int], None] | None" = None
    ) -> None:
        """Frames of an etag as they are; `on_sent` is told when one of our own is out."""
        if not 0 <= etag <= MAX_ETAG:
            raise LimitError("etag", etag, "0 .. 16383")
        self._system[etag] = (on_frame, on_sent)

    def send_frame(self, frame: Frame, now: int, expires: "int | None" = None) -> bool:
        """Queues a frame as it is, identifier and all, below the soft real-time ones. Whether there was room."""
        priority, _, etag = unpack(frame.id)
        if priority <= SRT_LAST:
            raise LocalProtocolError(f"a frame of priority {priority} is a channel's, raw frames have 251 .. 255")
        message = Message(None, frame, etag, priority, iter((frame.data,)), 1, len(frame.data), None, expires)
        message.fixed = frame.id
        return self.put(message, now)

    # What channels call

    def claim(self, channel: "Channel") -> None:
        if self.channels.get(channel.etag, channel) is not channel or channel.etag in self._system:
            raise LocalProtocolError(f"etag {channel.etag} is in use already")

    def add(self, channel: "Channel", now: int) -> None:
        """A channel that is announced or subscribed to; otherwise it is forgotten."""
        used = channel.announced or channel.on_event is not None
        if used:
            self.channels[channel.etag] = channel
        else:
            self.channels.pop(channel.etag, None)
        if channel.slot is not None:
            if self._hrt is None:
                from .hrt import Slots

                self._hrt = Slots(self)
            self._hrt.set_used(channel, used)
        self._finish(now)

    def put(self, message: Message, now: int) -> bool:
        self.count("out accepted")
        out = self.queue.put(message)
        if out is not None:
            self._drop(out, "queue full", now)
        self._finish(now)
        return out is not message

    def withdraw(self, channel: "Channel", now: int) -> None:
        for message in self.queue.srt + self.queue.nrt:
            if message.owner is channel:
                self.queue.remove(message)
                self._drop(message, "unannounced", now)
        if self._hrt is not None:
            self._hrt.withdraw(channel, now)
        self.add(channel, now)

    def reassembly(self) -> "Reassembly":
        if self._reassembly is None:
            from .fragments import Reassembly

            self._reassembly = Reassembly()
        return self._reassembly

    def count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    def tell(self, handler: "Any", what: "Any", detail: "Any", now: int) -> None:
        if handler is not None:
            self._told.append((handler, what, detail, now))

    @property
    def stored(self) -> int:
        """Events accepted, and neither sent nor dropped yet."""
        return len(self.queue) + (0 if self._hrt is None else self._hrt.stored)

    @property
    def held(self) -> int:
        """Events received, and kept until their delivery time."""
        return 0 if self._hrt is None else self._hrt.held

    # Inside

    def _drop(self, message: Message, reason: str, now: int) -> None:
        self.count("out dropped: " + reason)
        if message.offered:
            self._doubtful = self._doubtful[1 - _MAX_DOUBTFUL :] + [(message, reason)]
        if message.owner is not None:
            if message.owner.begun is message:
                message.owner.begun = None
            self.tell(message.owner.on_failed, reason, message.event, now)

    def _late(self, message: Message, now: int) -> None:
        self.count("out late")
        if message.owner is not None:
            self.tell(message.owner.on_failed, "late", message.event, now)

    def _sent_after_all(self, etag: int, payload: bytes) -> None:
        """It was dropped while it was on the wire: it was sent, and the books say so."""
        for message, reason in self._doubtful:
            if message.etag == etag and message.payload == payload:
                if message.left == 1:
                    self.counters["out dropped: " + reason] -= 1
                    self.count("out sent")
                return
        self.count("sent unknown")

    def _finish(self, now: int) -> None:
        """When something happens and what to send; then tell those who are to be told."""
        due = self.queue.next_timeout()
        if self._reassembly is not None:
            due = _earlier(due, self._reassembly.next_timeout())
        if self._hrt is not None:
            due = _earlier(due, self._hrt.next_timeout(now))
        self._due = due
        self._choose(now)
        while self._told:
            handler, what, detail, at = self._told.pop(0)
            handler(what, detail, at)

    def _choose(self, now: int) -> None:
        """What to send, and how long with this priority."""
        message = until = None
        frame = None if self._hrt is None else self._hrt.frame
        if self.silent:
            frame = None
        elif frame is None:
            head = self.queue.head(now)
            if head is not None:
                message, priority, until = head
                message.offered = True
                number = message.fixed
                if number is None:
                    number = pack(priority, self.tx_node, message.etag)
                frame = self._frame
                if frame is None or frame.id != number or frame.data is not message.payload:
                    frame = Frame(number, message.payload)
        self._message, self._frame, self._promotion = message, frame, until


def _earlier(a: "int | None", b: "int | None") -> "int | None":
    if a is None or b is None:
        return b if a is None else a
    return b if b < a else a
