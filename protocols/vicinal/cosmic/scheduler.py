"""What a node sends next: soft real time by deadline, non real time by what is left (spec/cosmic.md, scheduling).

A deadline becomes a priority, so that arbitration on the bus is earliest deadline first over all nodes. What counts is
how long a message can still wait, in units of a quarter of a longest frame:

    x = floor((deadline - now - time to send) / unit)       below 64: priority 1 + x; above: 32 for each doubling

Near the deadline the steps are finer than a frame, so that two frames differ; farther away they are a 32nd to a 64th of
the wait, and 250 priorities reach 3,711 units, 0.15 s at 1 Mbit/s. (Equal steps of a frame, the usual rule, end at 250
frames, and what is due within one of them is sent in any order, which costs a tenth more misses where they are few.)
While a message waits its priority rises: `promoted_at` says when.

One queue for each node, one frame of it in the controller: a queue of frames in the controller would hold back an
urgent one behind an idle one.
"""

from .identifier import SRT_LAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["MAX_BYTES", "MAX_MESSAGES", "Message", "TransmitQueue", "priority_of", "promoted_at"]

# Messages of one class that wait in one node. Many more than can be sent within any deadline that makes sense.
MAX_MESSAGES = 256
# Of payload, of both classes: the longest event there is, and room for others beside it.
MAX_BYTES = 131072

# Priorities that are one unit wide, and priorities for each doubling after them.
_EVEN = 64
_STEPS = 32


def priority_of(latest: int, now: int, unit: int) -> int:
    """The priority 1 .. 250 of a message that must start at `latest` to be in time."""
    x = (latest - now) // unit
    if x < 0:
        return 1
    doubled = 0
    while x >= _EVEN:
        x >>= 1
        doubled += _STEPS
        if doubled > SRT_LAST:
            return SRT_LAST
    return min(1 + doubled + x, SRT_LAST)


def promoted_at(latest: int, priority: int, unit: int) -> "int | None":
    """When a message of this priority gets a more urgent one."""
    if priority == 1:
        return None
    x = priority - 1
    doubled = max(x // _STEPS - 1, 0)
    return latest - (x - _STEPS * doubled << doubled) * unit + 1


class Message:
    """An event on its way out. `priority` is 0 for soft real time, whose priority is the deadline's."""

    __slots__ = (
        "deadline", "etag", "event", "expires", "fixed", "late", "latest", "left", "offered", "owner", "payload",
        "priority", "rest", "size", "started",
    )  # fmt: skip

    def __init__(
        self,
        owner: "Any",
        event: "Any",
        etag: int,
        priority: int,
        rest: "Iterator[bytes]",
        left: int,
        size: int,
        deadline: "int | None" = None,
        expires: "int | None" = None,
    ) -> None:
        self.owner = owner  # whose exception handler is told
        self.event = event
        self.etag = etag
        self.priority = priority
        self.rest = rest
        self.payload = next(rest)
        self.left = left  # frames, the one in `payload` among them
        self.size = size
        self.deadline = deadline
        self.expires = expires
        self.late = False
        self.offered = False  # to the controller, which may have it on the wire
        self.started = False  # some of its frames are sent
        self.latest = 0
        self.fixed: int | None = None  # an identifier of its own, without our TxNode


def _rank(message: Message) -> int:
    """Events wait for names and for the time: what the bus's own protocols say does not wait for events."""
    return message.priority << 1 | (message.owner is not None)


class TransmitQueue:
    def __init__(self, frame_time: int, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        """`frame_time` is that of a longest frame."""
        self.frame_time = frame_time
        self.unit = frame_time >> 2
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.size = 0
        self.srt: list[Message] = []  # by the latest start
        self.nrt: list[Message] = []  # by priority, then frames of no channel, then by age
        self._check: int | None = None  # not after the next message is late or expires

    def __len__(self) -> int:
        return len(self.srt) + len(self.nrt)

    def put(self, message: Message) -> "Message | None":
        """Gives back what has no room: the soft real-time message that has most time, else the new one."""
        queue = self.nrt if message.priority else self.srt
        out = None
        if len(queue) >= self.max_messages or self.size + message.size > self.max_bytes:
            out = message
            if not message.priority and queue:
                last = queue[-1]
                room = self.max_bytes - self.size + last.size
                if (last.deadline or 0) > (message.deadline or 0) and not last.started and message.size <= room:
                    self.remove(last)
                    out = last
        if out is not message:
            self.size += message.size
            self._place(message)
            self._watch(message)
        return out

    def _place(self, message: Message) -> None:
        if message.priority:
            queue = self.nrt
            at = len(queue)
            rank = _rank(message)
            while at and _rank(queue[at - 1]) > rank:
                at -= 1
        else:
            queue = self.srt
            latest = (message.deadline or 0) - message.left * self.frame_time
            message.latest = latest
            low, at = 0, len(queue)
            while low < at:
                middle = (low + at) >> 1
                if queue[middle].latest <= latest:
                    low = middle + 1
                else:
                    at = middle
        queue.insert(at, message)

    def _watch(self, message: Message) -> None:
        for time in (message.expires, None if message.late or message.deadline is None else message.deadline + 1):
            if time is not None and (self._check is None or time < self._check):
                self._check = time

    def remove(self, message: Message) -> None:
        (self.nrt if message.priority else self.srt).remove(message)
        self.size -= message.size
        if not self.srt and not self.nrt:
            self._check = None

    def head(self, now: int) -> "tuple[Message, int, int | None] | None":
        """The message to send now, its priority, and when that changes if nothing else happens."""
        if self.srt:
            first = self.srt[0]
            latest = first.latest
            # Fragments of two events of one channel must not mingle: what is begun inherits the urgency.
            begun = first.owner.begun if first.owner is not None else None
            priority = priority_of(latest, now, self.unit)
            return begun or first, priority, promoted_at(latest, priority, self.unit)
        if self.nrt:
            first = self.nrt[0]
            return first, first.priority, None
        return None

    def find(self, etag: int, payload: bytes) -> "Message | None":
        for message in self.srt:
            if message.etag == etag and message.payload == payload:
                return message
        for message in self.nrt:
            if message.etag == etag and message.payload == payload:
                return message
        return None

    def frame_sent(self, message: Message) -> bool:
        """One frame of it is on its way; whether it was the last."""
        message.left -= 1
        if not message.left:
            self.remove(message)
            return True
        message.payload = next(message.rest)
        message.started = True
        if not message.priority:
            self.srt.remove(message)
            self._place(message)
        return False

    def next_timeout(self) -> "int | None":
        return self._check

    def handle_timeout(self, now: int) -> "tuple[list[Message], list[Message]]":
        """What has expired, and is gone; and what is late now, and stays."""
        expired: list[Message] = []
        late: list[Message] = []
        if self._check is None or now < self._check:
            return expired, late
        self._check = None
        for message in self.srt + self.nrt:
            if message.expires is not None and now >= message.expires:
                expired.append(message)
                self.remove(message)
                continue
            if message.deadline is not None and now > message.deadline and not message.late:
                message.late = True
                late.append(message)
            self._watch(message)
        return expired, late
