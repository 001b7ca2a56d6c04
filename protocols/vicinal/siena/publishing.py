"""What a broker does with an event that is published: to whom of its own clients at once, into which streams.

Where it goes is for routing.py. Events in scopes that visibility alone decides on are mostly like some before: which
subscriptions match, and which interfaces are passed, say all, and are remembered.
"""

from ..errors import LocalProtocolError
from ..scope.visibility import visible_in
from . import kinds  # noqa: F401 - first: at the end of the chain below MicroPython cannot bear it
from .governed import Governed
from .loads import Loads
from .routing import Routes
from .streams import MAX_QUEUE
from .topology import blocked_for, chosen_of, first_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph, Tags
    from .delivering import Taker
    from .routing import Route
    from .topology import Goal

    # A form, the states it is mapped through, who takes it; its tags and its goal.
    Here: TypeAlias = "tuple[Event, Any, list[Taker], Tags, Goal]"

__all__ = ["Busy", "Publishing", "Refused"]

# Of events in scopes where they go is remembered for so many that differ, some 2 KB each.
_MAX_PLANS = 10000


class Refused(LocalProtocolError):
    """A client asked for what cannot be granted; the message says why."""


class Busy(Refused):
    """Too much is under way to a broker: the same may be accepted later."""

    def __init__(self, broker: str) -> None:
        super().__init__(f"{MAX_QUEUE} packets wait for broker {broker!r}: try again later")
        self.broker = broker


class Publishing(Governed):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace, pruning)
        self.loads = Loads()
        self._plans: dict[Any, Any] = {}
        self._plans_of: Any = None
        self._routes = Routes(graph, self._matched, self._has_no_way, self._scopes_of)
        self._routes.counts = self.counts

    def publish(self, client: str, tags: "Tags", event: "Event", now: int) -> "int | None":
        """With the tags that check_publish gave, perhaps some time ago: what the client does since changes nothing. To
        how many brokers it goes; None if it was published before: then it goes nowhere."""
        seq: Any = event.seq
        known = self._producers.recent.get(client) or self._producers.recall(client)
        if seq <= known.published:
            self._count("published again")
            return None
        if tags.scopes and not self._holds(tags):
            known.published = seq
            self._count("dropped: left the scope")
            return 0
        self.rights.now = now
        if tags.scopes and self._silenced(event, tags, now):
            known.published = seq
            return 0
        idle = self._is_for_here()
        here: list[Here]
        if idle and not tags.scopes and self.graph.advanced is None:
            mine = self._local.match(event)
            away = self._routes.visible(event, [tags], self.interest.match(event)) if len(self.interest) else []
            here = [(event, ((),), self._audience(mine, tags, (), event), tags, ())] if mine else []
        elif idle and self.graph.advanced is None and not self.trace:
            away, here = self._planned(event, tags, now)
        else:
            away, here = self._divided(self._routes.of(event, tags, now), idle)
        for route in away:
            if not self.make_room(route[0], now):
                raise Busy(route[0])
        known.published = seq
        self._count("published")
        if self._marks:
            self._mark_due([route[0] for route in away] + ([self.name] if here else []), now)
        count = 0
        traced = self.trace or "Trace" in event.attrs
        for form, states, takers, mapped, wanted in here:
            trail = tuple([(self.name, state, now) for state in states]) if traced else ()
            some = self._live(takers) if self.name in self._behind else takers
            count += self._hand(form, trail, some, mapped, wanted)
            self._weigh(self.name, mapped, wanted, now)
        for broker, form, mapped, wanted in away:
            self._stream(broker).put(("live" if broker in self._behind else "event", form, mapped, wanted))
        brokers = sorted({route[0] for route in away})
        self._flush(brokers, now)
        return len(brokers) + bool(count)

    def _planned(self, event: "Event", tags: "Tags", now: int) -> "tuple[list[Route], list[Here]]":
        """As `_divided`, of an event in scopes that visibility alone decides on: which subscriptions match it and which
        interfaces it passes say all, and most events are like some before."""
        if self.rights.due is not None and now >= self.rights.due:
            self._rights_changed(self.rights.ending(now))
        self.rights.saw(event, tags)
        topology = self.records.topology
        if topology is not self._plans_of or len(self._plans) >= _MAX_PLANS:
            self._plans_of, self._plans = topology, {}
        remote = frozenset(self.interest.match(event)) if len(self.interest) else None
        by = event.producer if self.rights.guarded else None
        key = (tuple(self._local.match(event)), remote, tags, self.graph.passing(event), "Trace" in event.attrs, by)
        plan = self._plans.get(key)
        if plan is None:
            lost = self.counts.get("dropped: no way within its scopes", 0)
            away, here = self._divided(self._routes.of(event, tags, now), True)
            plan = ([(route[0], route[2], route[3]) for route in away], _together(here) if not key[4] else here)
            if self.counts.get("dropped: no way within its scopes", 0) == lost:
                self._plans[key] = plan
        return (
            [(broker, event, mapped, wanted) for broker, mapped, wanted in plan[0]],
            [(event, states, takers, mapped, wanted) for _, states, takers, mapped, wanted in plan[1]],
        )

    def _divided(self, routes: "list[Route]", idle: bool) -> "tuple[list[Route], list[Here]]":
        """What goes to other brokers, or to this one over others; and what this one's own clients can have at once."""
        away, here = [], []
        for route in routes:
            broker, form, tags, wanted = route
            states = self._states_here(route) if idle and broker == self.name else None
            if states is None:
                away.append(route)
            else:
                here.append((form, states, self._audience(self._local.match(form), tags, wanted, form), tags, wanted))
        return away, here

    def _states_here(self, route: "Route") -> "Any":
        """Through which an event comes to this broker's own clients; None if that takes a way over others."""
        broker, form, tags, wanted = route
        if not tags.scopes:
            return ((),)
        if not self._holds(tags):
            return None
        if not self.trace and "Trace" not in form.attrs:
            return ((),) if self._passes_here(form, tags, wanted) else None
        blocked = blocked_for(self.graph, form, tags, wanted)
        step = self.records.topology.step(self.name, first_state(tags), broker, wanted, blocked)
        return step.states if step is not None and step.hop is None else None

    def _passes_here(self, form: "Event", tags: "Tags", wanted: "Goal") -> bool:
        """Whether scopes that this broker is in lead an event to its goal."""
        for (_, start), want in zip(tags.scopes, wanted):
            if type(want) is tuple:
                if not all([scope in self.scopes for scope in want]):
                    return False
            elif want is not None and not visible_in(self.graph, form, start, str(want), self.scopes):
                return False
        return True

    def _has_no_way(self, event: "Event", tags: "Tags", broker: str, wanted: "Goal") -> bool:
        if broker == self.name and self._passes_here(event, tags, wanted):
            return False
        return super()._has_no_way(event, tags, broker, wanted)

    def publish_again(self, reader: str, event: "Event", tags: "Tags", now: int, time: "int | None" = None) -> None:
        """From the log, in its order, for the durable subscriptions of one broker that catches up. It was published at
        `time`, as far as that is known."""
        self.rights.now = now
        if tags.scopes and self._silenced(event, tags, time):
            return
        routes = [route for route in self._routes.of(event, tags, now, again=True) if route[0] == reader]
        away, here = self._divided(routes, self._is_for_here())
        for form, _, takers, mapped, wanted in here:
            self._hand(form, (), self._lasting(takers), mapped, wanted)
        for _, form, mapped, wanted in away:
            self._stream(reader).put(("again", form, mapped, wanted))
        if away:
            self._flush([reader], now)

    def _matched(self, event: "Event") -> "set[tuple[str, Tags]]":
        """The brokers that care, this one among them, with the tags of the subscriptions for which they do."""
        found = self.interest.match(event) if len(self.interest) else set()
        held = self.subscriptions.by_key
        found.update([(self.name, held[key].tags) for key in self._local.match(event)])
        return found

    def _scopes_of(self, broker: str) -> "frozenset[str]":
        record = self.records.get(broker)
        return frozenset() if record is None else record.scopes

    def _holds(self, tags: "Tags") -> bool:
        """Whether events with these tags may be here."""
        scopes = self.graph.scopes
        return all([name in self.scopes and scopes[name].dimension == dimension for dimension, name in tags.scopes])

    def _forget_audiences(self) -> None:
        super()._forget_audiences()
        self._plans_of = None

    # Loads

    def _weigh(self, source: str, tags: "Tags", wanted: "Goal", now: int) -> None:
        if self.graph.weighs:
            client = chosen_of(wanted, len(tags.scopes))[0]
            if client in self._keys:  # a neighbour may name anybody, and who was chosen may be gone
                self.loads.gave(source, client, now)

    def next_timeout(self) -> "int | None":
        due = super().next_timeout()
        return due if self.loads.due is None else self.loads.due if due is None else min(due, self.loads.due)

    def handle_timeout(self, now: int) -> None:
        super().handle_timeout(now)
        for source, client, done in self.loads.reports(now):
            if source == self.name:
                self._routes.reported(source, client, done)
            else:
                self._stream(source).put(("load", client, done))
                self._flush([source], now)


def _together(here: "list[Here]") -> "list[Here]":
    """What clients of one broker get of one event, in one piece. Each client once: the first counts."""
    if len(here) < 2:
        return here
    takers: dict[str, Taker] = {}
    for _, _, some, _, _ in here:
        for one in some:
            takers.setdefault(one[0], one)
    form, states, _, tags, wanted = here[0]
    return [(form, states, list(takers.values()), tags, wanted)]
