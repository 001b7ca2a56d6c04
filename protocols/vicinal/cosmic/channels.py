"""Event channels: what an application holds of COSMIC (seed 001, 2.3.3; spec/cosmic.md, channels).

    speed = SrtChannel(node, etag, deadline=20000, validity=100000)
    speed.announce(now, on_exception)               publishing: only the exception handler exists
    speed.publish(event, now)
    speed.subscribe(on_event, now, on_exception)    on_event(event, tx_node, now), on_exception(reason, event, now)

A channel turns events into bytes with its codec, an object with encode(event) and decode(data): `vicinal.wire` unless
another is given (a mapping, or `Raw` for those who speak bytes). What does not fit into a frame goes in fragments, on
channels that are said to be fragmented.
"""

from ..errors import LimitError, LocalProtocolError, VicinalError
from .frame import MAX_DATA
from .identifier import MAX_ETAG, NRT_FIRST, NRT_LAST
from .scheduler import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from .node import Node

    OnEvent: TypeAlias = "Callable[[Any, int, int], None]"
    OnException: TypeAlias = "Callable[[str, Any, int], None]"

__all__ = ["MAX_SRT_BYTES", "Channel", "NrtChannel", "Raw", "SrtChannel"]

# Soft real time has "events of restricted length" (seed 001, 2.3.3): 32 fragments.
MAX_SRT_BYTES = 224


class Raw:
    """The codec of those who publish and receive bytes."""

    @staticmethod
    def encode(event: bytes) -> bytes:
        return event

    @staticmethod
    def decode(data: bytes) -> bytes:
        return data


class Channel:
    """What the three classes share. A channel belongs to one node; its etag was bound before."""

    max_length = 65536  # limits.MAX_EVENT_BYTES, not loaded for this
    slot: "Any" = None  # of a hard real-time channel, see hrt.py

    def __init__(self, node: "Node", etag: int, codec: "Any" = None, fragmented: "bool | None" = None) -> None:
        if not 0 <= etag <= MAX_ETAG:
            raise LimitError("etag", etag, "0 .. 16383")
        self.node = node
        self.etag = etag
        self.fragmented = codec is None if fragmented is None else fragmented
        if codec is None:
            from .. import wire as codec
        self.codec = codec
        self.announced = False
        self.on_event: OnEvent | None = None
        self.on_lost: OnException | None = None  # the subscriber's
        self.on_failed: OnException | None = None  # the publisher's
        self.begun: Message | None = None  # an event some of whose fragments are sent

    def announce(self, now: int, on_exception: "OnException | None" = None) -> None:
        self.node.claim(self)
        self.announced = True
        self.on_failed = on_exception
        self.node.add(self, now)

    def unannounce(self, now: int) -> None:
        """What is still queued is dropped, and said to be."""
        self.announced = False
        self.node.withdraw(self, now)
        self.on_failed = None

    def subscribe(self, on_event: "OnEvent", now: int, on_exception: "OnException | None" = None) -> None:
        self.node.claim(self)
        self.on_event = on_event
        self.on_lost = on_exception
        self.node.add(self, now)

    def unsubscribe(self, now: int) -> None:
        self.on_event = self.on_lost = None
        self.node.add(self, now)

    def _encode(self, event: "Any") -> bytes:
        if not self.announced:
            raise LocalProtocolError(f"channel {self.etag} is not announced")
        data: bytes = self.codec.encode(event)
        most = self.max_length if self.fragmented else min(self.max_length, MAX_DATA)
        if len(data) > most:
            raise LimitError(f"bytes of an event on channel {self.etag}", len(data), most)
        return data

    def _put(
        self, event: "Any", priority: int, now: int, deadline: "int | None" = None, expires: "int | None" = None
    ) -> bool:
        data = self._encode(event)
        if self.fragmented:
            from .fragments import fragment_count, fragments

            rest, left = fragments(data), fragment_count(len(data))
        else:
            rest, left = iter((data,)), 1
        return self.node.put(Message(self, event, self.etag, priority, rest, left, len(data), deadline, expires), now)

    def receive(self, tx_node: int, payload: bytes, now: int) -> None:
        """A frame of this channel, from the node."""
        node = self.node
        if self.on_event is None:
            return node.count("in dropped: not subscribed")
        data: bytes | None = payload
        if self.fragmented:
            node.count("in fragments")
            data = node.reassembly().receive(tx_node, self.etag, payload, now)
            if data is not None:
                node.count("in reassembled")
        if data is not None:
            self._deliver(tx_node, data, now)

    def _deliver(self, tx_node: int, data: bytes, now: int) -> None:
        try:
            event = self.codec.decode(data)
        except VicinalError as error:
            self.node.count("in dropped: undecodable")
            return self.node.tell(self.on_lost, f"undecodable: {error}", data, now)
        self.node.count("in delivered")
        self.node.tell(self.on_event, event, tx_node, now)


class SrtChannel(Channel):
    """Soft real time. `deadline` and `validity` are microseconds after publishing: when an event should have been
    sent, and after which it is worthless."""

    max_length = MAX_SRT_BYTES

    def __init__(
        self,
        node: "Node",
        etag: int,
        deadline: int,
        validity: "int | None" = None,
        codec: "Any" = None,
        fragmented: "bool | None" = None,
    ) -> None:
        super().__init__(node, etag, codec, fragmented)
        self.deadline = deadline
        self.validity = validity

    def publish(self, event: "Any", now: int, deadline: "int | None" = None, expires: "int | None" = None) -> bool:
        """Whether there was room for it; if not, the exception handler is told. `deadline` and `expires` of this event
        are instants, where the channel's do not suit."""
        if deadline is None:
            deadline = now + self.deadline
        if expires is None and self.validity is not None:
            expires = now + self.validity
        return self._put(event, 0, now, deadline, expires)


class NrtChannel(Channel):
    """Non real time: one of the five lowest priorities, as long an event as any."""

    def __init__(
        self,
        node: "Node",
        etag: int,
        priority: int = NRT_FIRST,
        codec: "Any" = None,
        fragmented: "bool | None" = None,
        validity: "int | None" = None,
    ) -> None:
        super().__init__(node, etag, codec, fragmented)
        if not NRT_FIRST <= priority <= NRT_LAST:
            raise LimitError("priority of a non real-time channel", priority, "251 .. 255")
        self.priority = priority
        self.validity = validity

    def publish(self, event: "Any", now: int) -> bool:
        """As of SrtChannel."""
        return self._put(event, self.priority, now, None, None if self.validity is None else now + self.validity)
