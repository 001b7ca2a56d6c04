"""What publishing policies hold back in an overlay, and let go (seed 004, 3.5).

A scope with such policies has an **agent**: a client of one broker, in the scope, that hears what the policies speak of
(routing.py sends it there, and no further up). What it lets go it publishes: an event of its own, that leaves the scope
upwards, with the identity of the first as the attributes OriginProducer and OriginSeq. Each policy lets go in the order
in which things came, so that what it lets go is numbered by where it lay: who lets go twice, after a death, says the
same twice, and the second is known by its number.

    noted(event, ...)               as the agent gets it, with its tags; read again by `Holder.take`
    holder.take(...), due(now), next_timeout(now)

The broker whose agent it is: the scope's `holder`, or of the brokers in the scope the first by name.
"""

from .._cbor import dumps
from .._cbor_read import loads
from ..errors import LocalProtocolError
from ..scope.graph import Tags
from ..scope.publishing import FULL, NOW, Outlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph

    # The producer that it is let go under, tags, event.
    Released: TypeAlias = "tuple[str, Tags, Event]"

__all__ = ["AGENT", "Holder", "agent_of", "noted", "producer_of", "said_by", "scope_of_agent"]

# A client whose name begins so is a scope's agent; behind the scope's name are "#", and what it is or does.
AGENT = "@"
_HELD = "Held"


def agent_of(scope: str) -> str:
    return f"{AGENT}{scope}#"


def producer_of(scope: str, policy: str) -> str:
    """Of what a policy lets go."""
    return f"{AGENT}{scope}#{policy}"


def scope_of_agent(name: str) -> str:
    return name[1:].rsplit("#", 1)[0]


def said_by(event: "Event") -> str:
    """Who published it first: it does not hear of it again."""
    producer: Any = event.producer
    first: Any = event.attrs.get("OriginProducer", producer) if producer.startswith(AGENT) else producer
    return str(first)


def noted(event: "Event", rest: bool, chosen: "tuple[str, ...]") -> "Event":
    """As an agent gets it: with whether it is on its way up, and not only heard of, and its tags in the other
    dimensions (see the goal in topology.py)."""
    item: list[Any] = [bool(chosen[1]), rest]
    return event.replace(attrs=list(event.attrs.items()) + [(_HELD, dumps(item + list(chosen[2:])))])


class Holder:
    """The agents of one broker. `highest(producer)` is the highest number that was let go under a name, or -1."""

    def __init__(self, graph: "ScopeGraph", highest: "Callable[[str], int]") -> None:
        self.counts: dict[str, int] = {}
        """held = released + waiting + dropped: ..."""
        self._highest = highest
        self._outlets: dict[str, Outlet] = {}
        self._ready: list[Released] = []
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
                self._put(name, item, since)

    def take(self, agent: str, event: "Event", number: int, since: int) -> None:
        """What an agent got, at a time: `number` grows for each agent, over restarts too."""
        scope = scope_of_agent(agent)
        flat: Any = loads(event.attrs[_HELD])
        form = event.replace(attrs=[(name, value) for name, value in event.attrs.items() if name != _HELD])
        outlet = self._outlets.get(scope)
        if outlet is not None:
            outlet.saw(form)
        if flat[0]:
            pairs = list(zip(flat[2::2], flat[3::2]))
            if self.graph.advanced is not None:
                pairs.append((self.graph.advanced, scope))
            self._put(scope, (Tags(pairs, flat[1]), form, number), since)

    def _put(self, scope: str, item: "tuple[Tags, Event, int]", since: int) -> None:
        outlet = self._outlets.get(scope)
        policy = None if outlet is None else outlet.policy_of(item[1])
        producer = producer_of(scope, "" if policy is None else policy.key())
        if item[2] <= self._highest(producer):
            self.count("released before")
            return
        verdict = NOW if outlet is None else outlet.offer(item[1], item, since)
        if verdict == NOW:
            self._ready.append(_released(producer, item))
        self.count("dropped: too much is held" if verdict == FULL else "held")

    def due(self, now: int) -> "list[Released]":
        """What is to be published now, in this order."""
        for scope in sorted(self._outlets):
            outlet = self._outlets[scope]
            for item in outlet.due(now):
                policy = outlet.policy_of(item[1])
                self._ready.append(_released(producer_of(scope, "" if policy is None else policy.key()), item))
        found = []
        ready, self._ready = self._ready, []
        for one in ready:
            expires = one[2].attrs.get("Expires")
            if expires is not None and expires <= now:
                self.count("dropped: expired while held")
            else:
                self.count("released")
                found.append(one)
        return found

    def next_timeout(self, now: int) -> "int | None":
        if self._ready:
            return now
        times = [outlet.next_timeout(now) for outlet in self._outlets.values()]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def waiting(self, scope: str) -> int:
        return len(self._outlets[scope].waiting()) if scope in self._outlets else 0

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def _released(producer: str, item: "tuple[Tags, Event, int]") -> "Released":
    tags, form, number = item
    attrs = list(form.attrs.items())
    if "OriginProducer" not in form.attrs:
        if form.producer is None or form.seq is None:
            raise LocalProtocolError(f"event {form.subject!r} has no identity, and is held")
        attrs += [("OriginProducer", form.producer), ("OriginSeq", form.seq)]
    return producer, tags, form.replace(attrs=attrs, producer=producer, seq=number)
