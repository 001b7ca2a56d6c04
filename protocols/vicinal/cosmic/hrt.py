"""Hard real-time channels: an event in every slot, at a known time (spec/cosmic.md, hard real time).

    publisher     publish() writes into a temporal firewall, at any time; at the slot's ready time the node takes what
                  is there, if it is no older than a period, and sends it at priority 0; later writing leaves it be.
    subscriber    what comes is held until the end of the slot, so that it is delivered at the same time in every node
                  and every period; where nothing came, the exception handler is told then.

        empty --publish--> written --ready--> sending --sent--> empty
                             |  stale, out of sync, bus-off       |  omissions, window over
                             '---------> exception <--------------'

After the last moment at which a frame could still end within the window it is no longer offered: sent later, it would
be in the way of the next slot. If it is on the wire by then it may end in time: only the end of the window decides.
"""

from ..errors import LocalProtocolError
from .bits import duration, worst_bits
from .channels import Channel
from .frame import Frame
from .identifier import HRT, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .channels import OnEvent, OnException
    from .node import Node
    from .slot import Slot

__all__ = ["HrtChannel"]


class HrtChannel(Channel):
    def __init__(self, node: "Node", etag: int, slot: "Slot", codec: "Any" = None) -> None:
        """Events longer than a frame, up to what the slot was reserved for, go in fragments."""
        super().__init__(node, etag, codec, slot.size > 8)
        self.slot: Slot = slot
        self.max_length = slot.size
        self.written: tuple[Any, bytes, int] | None = None  # event, its bytes, when it is stale
        self.ready = 0  # of the next slot to send in, in the bus's time
        self.came: tuple[int, bytes] | None = None  # from whom, what
        self.delivery = 0  # of the next slot to hear

    def announce(self, now: int, on_exception: "OnException | None" = None) -> None:
        if self.slot.tx_node is not None and self.slot.tx_node != self.node.tx_node:
            raise LocalProtocolError(
                f"the slot of {self.slot.channel!r} is TxNode {self.slot.tx_node}'s, this is {self.node.tx_node}"
            )
        self.ready = self.slot.next_ready(self.node.clock.to_global(now))
        super().announce(now, on_exception)

    def subscribe(self, on_event: "OnEvent", now: int, on_exception: "OnException | None" = None) -> None:
        self.delivery = self.slot.next_ready(self.node.clock.to_global(now)) + self.slot.length
        super().subscribe(on_event, now, on_exception)

    def unsubscribe(self, now: int) -> None:
        if self.came is not None:
            self.came = None
            self.node.count("in dropped: not subscribed")
        super().unsubscribe(now)

    def publish(self, event: "Any", now: int) -> bool:
        """For the next slot; what is there and not yet sent is overwritten. True: there is always room."""
        data = self._encode(event)
        node = self.node
        node.count("out accepted")
        if self.written is not None:
            node.count("out dropped: overwritten")
        self.written = (event, data, now + self.slot.period)
        return True

    def receive(self, tx_node: int, payload: bytes, now: int) -> None:
        slot, node = self.slot, self.node
        if slot.tx_node is not None and tx_node != slot.tx_node:
            return node.count("in dropped: not the slot's sender")
        if node.clock.in_sync(now):
            since = (node.clock.to_global(now) - slot.phase) % slot.period
            if since > slot.length and since < slot.period - slot.precision:
                return node.count("in dropped: outside its slot")
        super().receive(tx_node, payload, now)

    def _deliver(self, tx_node: int, data: bytes, now: int) -> None:
        if not self.node.clock.in_sync(now):
            self.node.count("in not held")  # without the time, better at once than never
            super()._deliver(tx_node, data, now)
        elif self.came is None:
            self.came = (tx_node, data)
        else:
            self.node.count("in dropped: duplicate")  # sent again, though some had received it

    def at_delivery(self, now: int) -> None:
        """The end of the slot."""
        slot, clock = self.slot, self.node.clock
        behind = max(clock.to_global(now) - self.delivery, 0)  # a clock that converts there and back may round
        self.delivery += (behind // slot.period + 1) * slot.period
        came, self.came = self.came, None
        if came is not None:
            super()._deliver(came[0], came[1], now)
        else:
            reason = "missing" if clock.in_sync(now) else "out of sync"
            self.node.count("in " + reason)
            self.node.tell(self.on_lost, reason, None, now)


class Slots:
    """The hard real-time side of a node: which frame is to be sent in which slot. One at a time: slots do not meet."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.channels: list[HrtChannel] = []
        self.frame: Frame | None = None  # to be in the mailbox now
        self._sending: tuple[HrtChannel, Any] | None = None  # and its event
        self._payloads: list[bytes] = []  # of it, not yet sent
        self._omissions = 0
        self._closes = 0  # the last moment to start, in our own time
        self._ends = 0  # of the window
        self._given_up: tuple[int, bytes, str] | None = None
        self._in_sync = False

    def set_used(self, channel: HrtChannel, used: bool) -> None:
        if used and channel not in self.channels:
            self.channels.append(channel)
        elif not used and channel in self.channels:
            self.channels.remove(channel)

    @property
    def stored(self) -> int:
        written = sum([channel.written is not None for channel in self.channels])
        return written + (self._sending is not None)

    @property
    def held(self) -> int:
        return sum([channel.came is not None for channel in self.channels])

    def _align(self, now: int) -> None:
        """In sync for the first time, or again: slots that were reckoned in another time are reckoned anew."""
        time = self.node.clock.to_global(now)
        for channel in self.channels:
            period, ready = channel.slot.period, channel.slot.next_ready(time)
            if abs(channel.ready - time) > period:
                channel.ready = ready
            if abs(channel.delivery - channel.slot.length - time) > period:
                channel.delivery = ready + channel.slot.length

    def next_timeout(self, now: int) -> "int | None":
        in_sync = self.node.clock.in_sync(now)
        if in_sync and not self._in_sync:
            self._align(now)
        self._in_sync = in_sync
        due = None
        if self._sending is not None:
            due = (self._closes if self.frame is not None else self._ends) + 1
        to_local = self.node.clock.to_local
        for channel in self.channels:
            if channel.announced:
                time = to_local(channel.ready)
                if due is None or time < due:
                    due = time
            if channel.on_event is not None:
                time = to_local(channel.delivery)
                if due is None or time < due:
                    due = time
        return due

    def handle_timeout(self, now: int) -> None:
        if self._sending is not None:
            if now > self._ends:
                self._give_up("window over", now)
            elif now > self._closes:
                self.frame = None
        to_local = self.node.clock.to_local
        for channel in self.channels:
            if channel.on_event is not None and now >= to_local(channel.delivery):
                channel.at_delivery(now)
            if channel.announced and now >= to_local(channel.ready):
                self._open(channel, now)

    def _open(self, channel: HrtChannel, now: int) -> None:
        node, slot = self.node, channel.slot
        late = max(node.clock.to_global(now) - channel.ready, 0)  # as above
        missed = late // slot.period
        late -= missed * slot.period
        channel.ready += (missed + 1) * slot.period
        if missed:
            node.counters["out slots slept through"] = node.counters.get("out slots slept through", 0) + missed
        written, channel.written = channel.written, None
        event = None if written is None else written[0]
        payloads: list[bytes] = []
        reason = ""
        if not node.clock.in_sync(now):
            reason = "out of sync"
        elif node.silent:
            reason = "bus-off"
        elif written is None or now > written[2]:
            reason = "stale"
        else:
            payloads = _payloads(channel, written[1])
            if late + self._needed(payloads) > slot.window:
                reason = "window over"
        if reason:
            if written is not None:
                node.count("out dropped: " + reason)
            node.count("out slots unused")
            return node.tell(channel.on_failed, reason, event, now)
        self._give_up("window over", now)  # what is left of a slot before, if clocks are worse than promised
        self._sending = (channel, event)
        self._payloads = payloads
        self._omissions = 0
        self._ends = now + slot.window - late
        self._offer(channel)

    def _needed(self, payloads: "list[bytes]") -> int:
        """To send these, with nothing in the way."""
        return duration(sum([worst_bits(len(payload)) for payload in payloads]), self.node.bitrate)

    def _offer(self, channel: HrtChannel) -> None:
        self._closes = self._ends - self._needed(self._payloads)
        self.frame = Frame(pack(HRT, self.node.tx_node, channel.etag), self._payloads[0])

    def frame_sent(self, etag: int, payload: bytes, now: int) -> bool:
        """Whether it was one of these."""
        if self._sending is None or self._sending[0].etag != etag or self._payloads[0] != payload:
            given_up, self._given_up = self._given_up, None
            if given_up is None or given_up[:2] != (etag, payload):
                return False
            self.node.counters["out dropped: " + given_up[2]] -= 1
            self.node.count("out sent")
            return True
        self._payloads = self._payloads[1:]
        if self._payloads:
            self._offer(self._sending[0])
            if now > self._closes:
                self.frame = None
        else:
            self._sending = self.frame = None
            self.node.count("out sent")
        return True

    def transmit_error(self, frame: "Frame | None", now: int) -> None:
        if frame is None or self._sending is None or frame.id >> 21 != HRT:
            return
        self._omissions += 1
        if self._omissions > self._sending[0].slot.omissions:
            self._give_up("omissions", now)

    def withdraw(self, channel: "Any", now: int) -> None:
        if channel in self.channels and channel.written is not None:
            event = channel.written[0]
            channel.written = None
            self.node.count("out dropped: unannounced")
            self.node.tell(channel.on_failed, "unannounced", event, now)
        if self._sending is not None and self._sending[0] is channel:
            self._give_up("unannounced", now)

    def _give_up(self, reason: str, now: int) -> None:
        if self._sending is None:
            return
        channel, event = self._sending
        if len(self._payloads) == 1:
            self._given_up = (channel.etag, self._payloads[0], reason)
        self._sending = self.frame = None
        self.node.count("out dropped: " + reason)
        self.node.tell(channel.on_failed, reason, event, now)


def _payloads(channel: HrtChannel, data: bytes) -> "list[bytes]":
    if not channel.fragmented:
        return [data]
    from .fragments import fragments

    return list(fragments(data))
