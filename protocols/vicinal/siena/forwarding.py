"""Packets between brokers: one step at a time, within their scopes, and end to end in order.

A packet has targets: brokers, each with the number the packet has in the stream to it and the scopes wanted there. At
each broker those targets that are reached take it in, the others go on, together where they have the same next hop.
Nothing is remembered on the way; what is lost is sent again by its source (streams.py).

    content   ("add", key, filter, tags)  ("remove", key)  ("event", event, tags)  ("void",)
              ("live", event, tags)  ("again", event, tags)  ("hold",)  ("resume", offset)  ("mark", offset)
"""

from .records import Pace, Records
from .streams import PATIENCE, Incoming, Outgoing
from .topology import blocked_for, first_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph, Tags
    from .topology import Blocked, Goal, State

    # broker, its incarnation, epoch of the stream to it, number in the stream, scopes wanted there
    Target: TypeAlias = "tuple[str, int, int, int, Goal]"

__all__ = ["EVENTS", "Forwarder"]

# Contents that are an event: for all, for live clients only, for durable subscriptions only (catchup.py).
EVENTS = ("event", "live", "again")

# A packet that has made more hops goes round in circles between brokers that do not yet agree.
MAX_HOPS = 255


class Forwarder:
    """The part of a broker that moves packets. What they are about is for `_handle`."""

    def __init__(self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool) -> None:
        self.name = name
        self.incarnation = incarnation
        self.graph = graph
        self.trace = trace
        self.records = Records(graph)
        self.scopes: set[str] = set()  # whose events may be here
        self.counts: dict[str, int] = {}
        self._links: list[str] = []
        self._unheard: set[str] = set()  # linked, and not yet said which scopes they are in now
        self._out: dict[str, Outgoing] = {}
        self._in: dict[str, Incoming] = {}
        self._actions: list[tuple[Any, ...]] = []
        self._pace = Pace()  # of what is advertised

    def _say(self) -> None:
        """A new record of this broker."""
        raise NotImplementedError

    def _handle(self, source: str, content: "tuple[Any, ...]", now: int) -> None:
        """A packet has come, in its turn: its content, then the scopes wanted and the trail."""
        raise NotImplementedError

    def _stream_began(self, source: str) -> None:
        """The stream from a broker starts, or starts anew."""
        raise NotImplementedError

    def actions(self) -> "list[tuple[Any, ...]]":
        if self._pace.is_time:
            self._say()
        found, self._actions = self._actions, []
        return found

    def next_timeout(self) -> "int | None":
        if not self._out and not self._in:
            return self._pace.due
        dues = [stream.due for stream in self._out.values()] + [stream.due for stream in self._in.values()]
        times = [due for due in dues + [self._pace.due] if due is not None]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        self._pace.clock = now
        for broker, stream in list(self._out.items()):
            for number, packet in stream.again(now):
                self._count("sent again")
                self._transmit(broker, number, packet, now)
        for broker, incoming in self._in.items():
            self._acknowledge(broker, incoming, now)

    def _send(self, neighbour: str, message: "tuple[Any, ...]") -> None:
        self._actions.append(("send", neighbour, message))

    def _count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    def _hurry(self, now: int) -> None:
        for stream in self._out.values():
            stream.hurry(now)

    def _stream(self, broker: str) -> Outgoing:
        if broker not in self._out:
            record = self.records.get(broker)
            self._out[broker] = Outgoing(record.incarnation if record is not None else 0)
        return self._out[broker]

    def _flush(self, brokers: "list[str]", now: int) -> None:
        """Sends what may be sent for the first time: what is the same for several brokers as one packet."""
        batches: dict[Any, tuple[Any, list[Target]]] = {}
        for broker in brokers:
            stream = self._out.get(broker)
            if stream is None:
                continue
            for number, packet in stream.ready(now):
                is_event = packet[0] in EVENTS
                key = (packet[0], (id(packet[1]), packet[2]) if is_event else packet[1:2])
                target = (broker, stream.incarnation, stream.epoch, number, packet[3] if is_event else ())
                batches.setdefault(key, (packet, []))[1].append(target)
        for packet, targets in batches.values():
            is_event = packet[0] in EVENTS
            state = first_state(packet[2]) if is_event else ()
            content = packet[:3] if is_event else packet
            self._forward(0, self.name, self.incarnation, state, content, targets, (), now)

    def _transmit(self, broker: str, number: int, packet: "tuple[Any, ...]", now: int) -> None:
        stream = self._out[broker]
        state: State = ()
        wanted: Goal = ()
        if packet[0] in EVENTS:
            state, wanted = first_state(packet[2]), packet[3]
            if self._has_no_way(packet[1], packet[2], broker, wanted):
                # There was one when it was published. If none comes back, it is not to be seen there any more.
                if now - stream.stuck.setdefault(number, now) < PATIENCE:
                    return
                del stream.stuck[number]
                self._count("dropped: no way within its scopes")
                self._forget(broker, number)
                packet, state, wanted = ("void",), (), ()
            packet = packet[:3]
        target: Target = (broker, stream.incarnation, stream.epoch, number, wanted)
        self._forward(0, self.name, self.incarnation, state, packet, [target], (), now)

    def _has_no_way(self, event: "Event", tags: "Tags", broker: str, wanted: "Goal") -> bool:
        """Whether a broker can be reached, but not within the scopes of an event. (Out of reach is another matter.)"""
        topology = self.records.topology
        if topology.towards(self.name, broker) is None:
            return False
        blocked = blocked_for(self.graph, event, tags, wanted)
        return topology.step(self.name, first_state(tags), broker, wanted, blocked) is None

    def _forget(self, broker: str, number: int) -> None:
        stream = self._out[broker]
        stream.packets = [(n, ("void",) if n == number else packet) for n, packet in stream.packets]

    def _forward(
        self,
        hops: int,
        source: str,
        incarnation: int,
        state: "State",
        content: "tuple[Any, ...]",
        targets: "list[Target]",
        trail: "tuple[Any, ...]",
        now: int,
    ) -> None:
        """One step for a packet: those of its targets that are here arrive, the others go on, together where they
        can."""
        known = self.records.get(source)
        if known is None or known.incarnation < incarnation:
            # A record overtakes what its broker sends, on every link. So nobody can be invented for nothing.
            self._count("dropped: source without a record")
            return
        if not all([scope in self.scopes for scope, _ in state]):
            self._count("dropped: not in its scopes")
            return
        blocked: Blocked = frozenset()
        of: Any = None  # the goal that it is for: many targets have the same
        traced = self.trace or (content[0] in EVENTS and "Trace" in content[1].attrs)
        topology = self.records.topology
        groups: dict[Any, list[Any]] = {}
        for target in targets:
            if state and of != target[4]:
                of = target[4]
                blocked = blocked_for(self.graph, content[1], content[2], of)
            step = topology.step(self.name, state, target[0], target[4], blocked)
            if step is None or (step.hop is not None and (hops >= MAX_HOPS or step.hop not in self._links)):
                self._count("lost on the way")
                continue
            if state and step.hop in self._unheard:
                # It may have left a scope while the link was down, and may not get its events. Sent again later.
                self._count("lost on the way")
                continue
            walked = trail + tuple([(self.name, mapped, now) for mapped in step.states]) if traced else ()
            if step.hop is None:
                self._arrive(source, incarnation, target, content + (target[4],), walked, now)
            else:
                groups.setdefault((step.hop, step.states[-1], walked), []).append(target)
        for (hop, after, walked), some in groups.items():
            self._send(hop, ("packets", hops + 1, source, incarnation, after, content, some, walked))

    def _arrive(
        self, source: str, incarnation: int, target: "Any", packet: "tuple[Any, ...]", trail: "Any", now: int
    ) -> None:
        known = self.records.get(source)
        if target[1] != self.incarnation or (known is not None and known.incarnation > incarnation):
            return  # of a stream that was started anew since
        stream = self._in.get(source)
        epoch = (incarnation, target[2])
        if stream is None or stream.epoch < epoch:
            self._stream_began(source)
            stream = self._in[source] = Incoming(epoch)
        if stream.epoch > epoch:
            return
        ahead = stream.too_far_ahead
        for content in stream.take(target[3], packet + (trail,), now):
            self._handle(source, content, now)
        if stream.too_far_ahead > ahead:
            self._count("lost: too far ahead to be held")
        self._acknowledge(source, stream, now)

    def _acknowledge(self, broker: str, stream: Incoming, now: int) -> None:
        number = stream.acknowledge(now)
        if number is not None:
            self._route_ack(("ack", 0, self.name, self.incarnation, broker, stream.epoch, number), now)

    def _receive_ack(self, message: "tuple[Any, ...]", now: int) -> None:
        self._route_ack(("ack", message[1] + 1) + message[2:], now)

    def _route_ack(self, message: "tuple[Any, ...]", now: int) -> None:
        _, hops, by, incarnation, to, epoch, number = message
        if to == self.name:
            stream = self._out.get(by)
            if stream is not None and stream.incarnation == incarnation and epoch == (self.incarnation, stream.epoch):
                stream.acknowledged(number, now)
                self._flush([by], now)
            return
        hop = self.records.topology.towards(self.name, to)
        if hop is None or hops >= MAX_HOPS or hop not in self._links:
            self._count("lost on the way")
            return
        self._send(hop, message)
