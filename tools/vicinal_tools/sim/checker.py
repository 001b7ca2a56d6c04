"""What must hold of every run (seed 003, 3.6 and 4.1), by a second opinion that shares nothing with the engine but
the graph.

a  a client receives only what it is subscribed to now      d  at most once
b  only what was published                                  f  in order for each producer
c  only from others, and only what is visible to it         n  no broker outside an event's scopes ever gets it
e  in the end, everything that is visible to it and has a way
"""

from collections import defaultdict
from typing import Any, NamedTuple

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.visibility import visible, visible_in

from .network import Network

__all__ = ["Checker", "Violation"]


class Violation(AssertionError):
    """A property does not hold; the message names it."""


class Published(NamedTuple):
    event: Event
    tags: Tags
    broker: str
    expected: frozenset[str]


class Held(NamedTuple):
    broker: str
    filter: Filter
    tags: Tags
    since: int


class Checker:
    """Is told what clients do, and watches the network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.subscriptions: dict[str, dict[int, Held]] = defaultdict(dict)
        self.published: dict[tuple[str, int], Published] = {}
        self.delivered: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.deliveries = 0
        network.on_receive = self._received
        network.on_deliver = self._delivered

    def subscribed(self, client: str, key: int, broker: str, condition: Filter, tags: Tags) -> None:
        self.subscriptions[client][key] = Held(broker, condition, tags, self.network.now)

    def unsubscribed(self, client: str, key: int) -> None:
        del self.subscriptions[client][key]

    def gone(self, client: str) -> None:
        """Its broker forgot it. What it gets later it gets as another."""
        self.subscriptions.pop(client, None)
        self.delivered.pop(client, None)
        for identity, one in self.published.items():
            if client in one.expected:
                self.published[identity] = one._replace(expected=one.expected - {client})

    def publishes(self, event: Event, tags: Tags, broker: str, must_arrive: bool) -> None:
        """Called before the engine is. `must_arrive` when nothing changes from now on but links and stops."""
        expected = frozenset(self.audience(event, tags, broker)) if must_arrive else frozenset()
        identity: Any = event.identity
        self.published[identity] = Published(event, tags, broker, expected)

    def audience(self, event: Event, tags: Tags, broker: str) -> list[str]:
        """The clients to which it is visible, at brokers to which there is a way within its scopes."""
        reached = _reached(self.network, event, tags, broker)
        found = []
        for client, held in self.subscriptions.items():
            if client != event.producer and any(
                one.filter.matches(event) and _sees(one, tags, reached) for one in held.values()
            ):
                found.append(client)
        return found

    def finish(self) -> None:
        """After the network was healed and came to rest."""
        for identity, one in self.published.items():
            missing = sorted(client for client in one.expected if identity not in self.delivered[client])
            if missing:
                raise Violation(f"e: {missing} never received {identity} published at {one.broker}")

    def _received(self, broker: str, message: Any) -> None:
        if message[0] == "packets" and message[5][0] == "event":
            outside = [scope for scope, _ in message[4] if scope not in self.network.brokers[broker].scopes]
            if outside:
                raise Violation(f"n: broker {broker} got {message[5][1]} of {outside}, to which it does not belong")
            _, event, tags = message[5]
            for (_, start), (scope, _) in zip(tags.scopes, message[4], strict=True):
                if not visible_in(self.network.graph, event, start, scope):
                    raise Violation(f"n: broker {broker} got {event} in {scope}, where it is not visible")

    def _delivered(self, broker: str, client: str, event: Event, _trail: Any) -> None:
        self.deliveries += 1
        identity: Any = event.identity
        if identity not in self.published or self.published[identity].event != event:
            raise Violation(f"b: {client} received {event}, which nobody published")
        if event.producer == client:
            raise Violation(f"c: {client} received its own {identity}")
        matching = [one for one in self.subscriptions[client].values() if one.filter.matches(event)]
        if not matching:
            raise Violation(f"a: {client} received {identity}, to which it is not subscribed")
        tags = self.published[identity].tags
        if not any(one.broker == broker and visible(self.network.graph, event, tags, one.tags) for one in matching):
            raise Violation(f"c: {client} received {identity}, which is not visible to it")
        if identity in self.delivered[client]:
            raise Violation(f"d: {client} received {identity} twice")
        earlier = [seq for producer, seq in self.delivered[client] if producer == event.producer]
        if earlier and earlier[-1] > identity[1]:
            raise Violation(f"f: {client} received {identity} after {earlier[-1]}")
        self.delivered[client].append(identity)


def _sees(one: Held, tags: Tags, reached: set[tuple[str, tuple[str, ...]]]) -> bool:
    if not tags.rest and any(tags.get(dimension) is None for dimension, _ in one.tags.scopes):
        return False
    wanted = []
    for dimension, _ in tags.scopes:
        scope = one.tags.get(dimension)
        if scope is None and not one.tags.rest:
            return False
        wanted.append(scope)
    return any(
        broker == one.broker and all(want in (None, scope) for want, scope in zip(wanted, scopes, strict=True))
        for broker, scopes in reached
    )


def _reached(network: Network, event: Event, tags: Tags, broker: str) -> set[tuple[str, tuple[str, ...]]]:
    """Every (broker, scopes) that the event may come to: the closure of forwarding and mapping, by brute force."""
    graph: ScopeGraph = network.graph
    scopes = tuple(scope for _, scope in tags.scopes)
    found = {(broker, scopes, (True,) * len(scopes))}
    grown = True
    while grown:
        grown = False
        for here, now, ups in list(found):
            nexts = []
            for pair in network.links:
                if here in pair:
                    (other,) = pair - {here}
                    nexts.append((other, now, ups))
            for i, scope in enumerate(now):
                for name in graph.scopes:
                    one, above = graph.scopes[scope], graph.scopes[name]
                    up = ups[i] and name in one.supers and one.output is not None and one.output.matches(event)
                    down = scope in above.supers and above.input is not None and above.input.matches(event)
                    for passes, direction in ((up, True), (down, False)):
                        if passes:
                            nexts.append((here, (*now[:i], name, *now[i + 1 :]), (*ups[:i], direction, *ups[i + 1 :])))
            for state in nexts:
                members = network.brokers[state[0]].scopes
                if state not in found and all(scope in members for scope in state[1]):
                    found.add(state)
                    grown = True
    return {(here, now) for here, now, _ in found}
