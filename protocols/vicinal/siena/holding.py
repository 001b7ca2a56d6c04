"""What publishing policies hold back in an overlay, and let go (seed 004, 3.5).

A scope with such policies has an **agent**: a client of one broker, in the scope, that hears what the policies speak of
(routing.py sends it there, and no further up). What it lets go it publishes: an event of its own, that leaves the scope
upwards, with the identity of the first as the attributes OriginProducer and OriginSeq. Each policy lets go in the order
in which things came, so that what it lets go is numbered by where it lay: who lets go twice, after a death, says the
same twice, and the second is known by its number. Each broker counts for itself, and so lets go under names of its own.

A client may have set OriginProducer itself, as a gateway does; these stay. Who published it here is PublishedBy, which
only agents are asked for: by it rights are asked, and it does not hear its own.

    noted(event, ...)               as the agent gets it, in an event with its tags; read again by `Holder.take`
    holder.take(...), due(now), next_timeout(now)

The broker whose agent it is: the scope's `holder`, or of the brokers in the scope the first by name.
"""

from .._cbor import dumps
from .._cbor_read import loads
from ..errors import LimitError, LocalProtocolError
from ..event import Event
from ..scope.graph import Tags
from ..scope.policy import hashed
from ..scope.publishing import FULL, NOW, Outlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..scope.graph import ScopeGraph

    # The producer that it is let go under, tags, event.
    Released: TypeAlias = "tuple[str, Tags, Event]"
    # Tags, event, number, and since when it is held.
    _Item: TypeAlias = "tuple[Tags, Event, int, int]"

__all__ = ["AGENT", "Holder", "agent_of", "noted", "producer_of", "said_by", "scope_of_agent"]

# A client whose name begins so is a scope's agent; behind the scope's name are "#", and what it is or does.
AGENT = "@"
_BY = "PublishedBy"
_TOO_LARGE = "dropped: too large to be let go"


def agent_of(scope: str) -> str:
    return f"{AGENT}{scope}#"


def producer_of(scope: str, policy: str, broker: str) -> str:
    """Of what a policy lets go at a broker: each has numbers of its own."""
    return f"{AGENT}{scope}#{hashed((policy + chr(10) + broker).encode()):016x}"


def scope_of_agent(name: str) -> str:
    return name[1:].rsplit("#", 1)[0]


def said_by(event: "Event") -> str:
    """The client that published it first: it does not hear of it again."""
    producer: Any = event.producer
    first: Any = event.attrs.get(_BY, producer) if producer.startswith(AGENT) else producer
    return str(first)


def noted(event: "Event", rest: bool, chosen: "tuple[str, ...]") -> "Event":
    """As an agent gets it: with whether it is on its way up, and not only heard of, and its tags in the other
    dimensions (see the goal in topology.py). Whatever the event has of its own is within it."""
    from ..wire import encode  # not above: see ScopeGraph

    item: list[Any] = [bool(chosen[1]), rest]
    params = (("event", encode(event)), ("way", dumps(item + list(chosen[2:]))))
    return Event("Held", params, (), event.producer, event.seq)


class Holder:
    """The agents of one broker. `highest(producer)` is the highest number that was let go under a name, or -1;
    `silences(event, tags, since, now)` is whether who published it may no longer."""

    def __init__(
        self,
        name: str,
        graph: "ScopeGraph",
        highest: "Callable[[str], int]",
        silences: "Callable[[Event, Tags, int, int], bool]",
    ) -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        """held = released + waiting + dropped: ..."""
        self._highest = highest
        self._silences = silences
        self.dropped: Callable[[str, int], None] = _nothing
        """is told of what will not be let go: the scope, and its number"""
        self._outlets: dict[str, Outlet] = {}
        self._ready: list[tuple[str, _Item]] = []
        self.use_graph(graph)

    def use_graph(self, graph: "ScopeGraph") -> None:
        """What waits goes on waiting, under the policies that are there now; where there is none it is let go."""
        before, self._outlets = self._outlets, {}
        self.graph = graph
        for name, scope in graph.scopes.items():
            if scope.publishing:
                self._outlets[name] = Outlet(scope.publishing)
                if name in before:
                    self._outlets[name].inherit(before[name])
        for name, old in before.items():
            for since, item in old.waiting():
                self.counts["held"] -= 1  # it is counted again
                self._put(name, item, since)

    def take(self, agent: str, event: "Event", number: int, since: int, done: bool = False) -> bool:
        """What an agent got, at a time: `number` grows for each agent, over restarts too. `done`: of it only the
        conditions that it opened or closed count. Whether it is to be let go."""
        from ..wire import decode

        scope = scope_of_agent(agent)
        packed: Any = event["event"]
        way: Any = event["way"]
        flat: Any = loads(way)
        form = decode(packed)
        outlet = self._outlets.get(scope)
        if outlet is not None:
            outlet.saw(form)
        if flat[0] and not done:
            pairs = list(zip(flat[2::2], flat[3::2]))
            if self.graph.advanced is not None:
                pairs.append((self.graph.advanced, scope))
            item = (Tags(pairs, flat[1]), form, number, since)
            if self._is_released(scope, item):
                self.count("released before")
            else:
                return self._put(scope, item, since)
        return False

    def _producer(self, scope: str, item: "_Item") -> str:
        """The policy's; where that has let go a later one, which came to it from another policy, one that has not."""
        outlet = self._outlets.get(scope)
        policy = None if outlet is None else outlet.policy_of(item[1])
        key = "" if policy is None else policy.key()
        name, again = producer_of(scope, key, self.name), 0
        while item[2] <= self._highest(name):
            again += 1
            name = producer_of(scope, f"{key} {again}", self.name)
        return name

    def _is_released(self, scope: str, item: "_Item") -> bool:
        """Before a start, under the policy that is there now."""
        outlet = self._outlets.get(scope)
        policy = None if outlet is None else outlet.policy_of(item[1])
        return item[2] <= self._highest(producer_of(scope, "" if policy is None else policy.key(), self.name))

    def _put(self, scope: str, item: "_Item", since: int) -> bool:
        outlet = self._outlets.get(scope)
        verdict = NOW if outlet is None else outlet.offer(item[1], item, since)
        if verdict == NOW:
            self._ready.append((self._producer(scope, item), item))
        self.count("dropped: too much is held" if verdict == FULL else "held")
        if verdict == FULL:
            self.dropped(scope, item[2])
        return verdict != FULL

    def due(self, now: int) -> "list[Released]":
        """What is to be published now, in this order."""
        for scope in sorted(self._outlets):
            self._ready += [(self._producer(scope, item), item) for item in self._outlets[scope].due(now)]
        found = []
        ready, self._ready = self._ready, []
        for producer, item in ready:
            tags, form, _, since = item
            expires = form.attrs.get("Expires")
            try:
                event = _released(producer, item)
            except LimitError:  # an event has so many attributes, and a name of a producer so many bytes
                self.count(_TOO_LARGE)
                self.dropped(scope_of_agent(producer), item[2])
                continue
            if expires is not None and expires <= now:
                self.count("dropped: expired while held")
                self.dropped(scope_of_agent(producer), item[2])
            elif self._silences(event, tags, since, now):
                self.count("dropped: no longer a member")
                self.dropped(scope_of_agent(producer), item[2])
            else:
                self.count("released")
                found.append((producer, tags, event))
        return found

    def next_timeout(self, now: int) -> "int | None":
        if self._ready:
            return now
        times = [outlet.next_timeout(now) for outlet in self._outlets.values()]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def waiting(self, scope: str) -> int:
        return len(self._outlets[scope].waiting()) if scope in self._outlets else 0

    def too_large(self) -> None:
        """The last that was let go cannot be published."""
        self.counts["released"] -= 1
        self.count(_TOO_LARGE)

    def count(self, what: str, many: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + many


def _released(producer: str, item: "_Item") -> "Event":
    _, form, number, _ = item
    if form.producer is None or form.seq is None:
        raise LocalProtocolError(f"event {form.subject!r} has no identity, and is held")
    attrs = list(form.attrs.items())
    if not form.producer.startswith(AGENT):
        # Whatever it was set to: rights are asked by it.
        attrs = [pair for pair in attrs if pair[0] != _BY] + [(_BY, form.producer)]
    if "OriginProducer" not in form.attrs:
        attrs = [pair for pair in attrs if pair[0] != "OriginSeq"]
        attrs += [("OriginProducer", form.producer), ("OriginSeq", form.seq)]
    return form.replace(attrs=attrs, producer=producer, seq=number)


def _nothing(scope: str, number: int) -> None:
    pass
