"""Events through a gateway: to all services that asked for them (seed 001, 5.3).

An event from service S goes to the services that have asked for it at S: published where the service is direct, else as
a Publication towards it. What a gateway publishes in a service is an event of that service, for those who asked there.
Identities, and the names of the services that an event was given to, are the second line of defence against loops; the
first is the tree (topology.py).
"""

from .. import limits
from ..control import Publication
from ..event import Event, check_identity
from .notes import MAX_NOTES, TUNNEL
from .plans import MAX_HOPS, Plans
from .seen import Seen
from .serving import Serving
from .topology import Topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Spreading"]


class Spreading(Serving):
    def __init__(self, name: str, first_seq: int) -> None:
        super().__init__(name, first_seq)
        self.topology = Topology(name)
        self._last_ways: dict[str, str] = {}
        self._been: dict[str, Seen] = {}  # the events that were at each direct service
        self._plans = Plans(self.services, self._way)
        self._planned_for = -1
        self._stamps: dict[str, str] = {}

    def pass_event(self, event: Event, service: str) -> "list[tuple[str, Event]]":
        """receive, of what is no control event: what becomes of that is the same at all times."""
        counters = self.counters
        counters["received"] = counters.get("received", 0) + 1
        if event.producer is None:
            self.seq += 1
            event = event.remade(event.attrs, self._stamp_of(service), self.seq)
        elif not self._is_new_at(service, event):
            self._count("dropped: duplicate")
            return []
        found = self._spread(event, service)
        if not found:
            self._count("dropped: nobody asked")
        return found

    def _spread(self, event: Event, service: str) -> "list[tuple[str, Event]]":
        """To all who asked for it at a service, where somebody has published it: a client, or a gateway."""
        if self._planned_for != self.topology.changes:
            self._forget_plans()
        one = self.services[service]
        keys = one.met(event)
        if not keys:
            return []
        attrs = event.attrs
        origin, via = attrs.get("Source", service), attrs.get("Via", "")
        if type(via) is not str:
            via = ""
        found: list[tuple[str, Event]] = []
        for target, way, source, trail in self._plans.of(one, keys, origin, via):
            if way is None:
                self._count(target)
                continue
            changed = dict(attrs)
            changed["Source"] = source
            if trail:
                changed["Via"] = trail
            if len(changed) > limits.MAX_ATTRS:
                self._count("dropped: too many attributes")
                continue
            made = event.remade(changed, event.producer, event.seq)
            if way == target:
                self._put(made, target, found)
            else:
                self._count("accepted")
                message = Publication(target, service, made)
                found.append((way, self._stamped(message.to_event(), MAX_HOPS)))
        return found

    def _forget_plans(self) -> None:
        self._planned_for = self.topology.changes
        self._plans.forget()

    def _stamp_of(self, service: str) -> str:
        """Whose events they are that a service gives without an identity."""
        found = self._stamps.get(service)
        if found is None:
            found = self._stamps[service] = f"{self.name}/{service}"[:64]
            check_identity(found, 0)
        return found

    def _put(self, event: Event, target: str, found: "list[tuple[str, Event]]") -> None:
        """Into a direct service, once; and on to those who asked for it there."""
        if not self._is_new_at(target, event):
            self._count("dropped: duplicate")
            return
        self._count("accepted")
        self._fabricate(event, target)
        found.append((target, event))
        if self.services[target].notes:
            found.extend(self._spread(event, target))

    def _is_new_at(self, service: str, event: Event) -> bool:
        """Neither heard at a service before, nor put into it."""
        been = self._been.get(service)
        if been is None:
            been = self._been[service] = Seen()
        producer: Any = event.producer
        seq: Any = event.seq
        return been.is_new(producer, seq)

    def _way(self, target: str) -> "str | None":
        """As it is, or as it was last: what is for a service that is away waits where it would go."""
        way = self.topology.way(target)
        if way is not None:
            return way
        if target in self.services:
            return target
        way = self._last_ways.get(target)
        return way if way in self.services else None

    def _fabricate(self, event: Event, target: str) -> None:
        """Seed 001, 5.9.3: an event type that was not announced is, before its first event."""
        one = self.services[target]
        if event.subject not in one.announced and event.subject != TUNNEL and len(one.announced) < MAX_NOTES:
            one.announce("", event)
            self._collect(one)

    def recall_heard(self, service: str, producer: str, seq: int) -> None:
        """Before a restart a service has given all of a producer's events up to this one. What comes again is known."""
        if service not in self._been:
            self._been[service] = Seen()
        self._been[service].know(producer, seq)

    def _stamped(self, event: Event, hops: int) -> Event:
        self.seq += 1
        return event.replace(producer=self.name, seq=self.seq, attrs={"Hops": hops})
