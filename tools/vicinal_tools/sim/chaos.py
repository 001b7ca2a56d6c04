"""A random overlay under random faults, checked. One seed is one run; a failing one replays.

A run builds brokers, links, scopes and clients, lets things change at random while the properties are watched, heals
everything, lets it come to rest, publishes from everybody and checks that all arrived.
"""

import random
from typing import NamedTuple

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.siena.broker import Refused

from .bursts import Burst
from .checker import Checker
from .network import Network

__all__ = ["Outcome", "run"]

_FILTERS = [
    "subject = 'Speed'",
    "subject = 'Speed' AND rate > 30",
    "subject = 'Speed' AND rate BETWEEN 40 AND 60",
    "subject IN ('Speed', 'Brake')",
    "rate < 50",
    "subject LIKE 'B%' OR rate > 70",
    "TRUE",
]

# Events in a burst: enough for runs.
_BURST = 40


class Outcome(NamedTuple):
    brokers: int
    clients: int
    published: int
    delivered: int
    messages: int
    in_runs: int
    """published many at once"""


def run(seed: int) -> Outcome:
    """Raises a Violation, with the seed to replay."""
    try:
        return _Run(seed).run()
    except AssertionError as error:
        raise type(error)(f"seed {seed}: {error}") from error


class _Run:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graph = self._graph()
        self.network = Network(self.graph, seed)
        self.checker = Checker(self.network)
        self.wanted: set[frozenset[str]] = set()
        self.home: dict[str, str] = {}
        self.adverts: dict[str, list[tuple[int, Tags, Filter]]] = {}
        self.seqs: dict[str, int] = {}
        self.in_runs = 0

    def run(self) -> Outcome:
        self._build()
        for _ in range(self.random.randint(1, 3)):
            self._change(self.random.randint(3, 12))
            self._heal()
            self.network.settle()
            # From here on only links fail: everything published must arrive, before, during and after.
            self._publish_all(must_arrive=True)
            for _ in range(self.random.randint(0, 6)):
                self._fault()
                self.network.run(self.network.now + self.random.randint(0, 500))
            self._heal()
            self.network.settle()
            self.checker.finish()
        lost = {name: broker.counts for name, broker in self.network.brokers.items()}
        if any("dropped: not in its scopes" in counts for counts in lost.values()):
            raise AssertionError(f"n: a broker got what it may not hold: {lost}")
        return Outcome(
            len(self.network.brokers),
            len(self.home),
            len(self.checker.published),
            self.checker.deliveries,
            self.network.messages,
            self.in_runs,
        )

    def _graph(self) -> ScopeGraph:
        scopes: list[Scope] = []
        for dimension in range(self.random.randint(0, 2)):
            names: list[str] = []
            for number in range(self.random.randint(1, 5)):
                supers = [name for name in names if self.random.random() < 0.5][:2]
                interfaces = [Filter(text) for text in ("TRUE", "TRUE", "rate > 20", "subject = 'Speed'", "rate < 80")]
                output, inward = (self.random.choice([None, *interfaces]) for _ in range(2))
                scopes.append(Scope(f"d{dimension}s{number}", f"d{dimension}", supers, output, inward))
                names.append(scopes[-1].name)
        return ScopeGraph(scopes)

    def _build(self) -> None:
        names = [f"B{number}" for number in range(self.random.randint(2, 7))]
        for name in names:
            self.network.start(name)
            self._join_some(name)
        for number, name in enumerate(names[1:], 1):
            self._want(name, names[self.random.randrange(number)])
        for _ in range(self.random.randint(0, len(names))):
            a, b = self.random.sample(names, 2)
            self._want(a, b)
        for number in range(self.random.randint(2, 8)):
            client = f"c{number}"
            self.home[client] = self.random.choice(names)
            self.seqs[client] = 1 << 16  # all of one length
            self._attach(client)

    def _want(self, a: str, b: str) -> None:
        self.wanted.add(frozenset((a, b)))
        self.network.connect(a, b)

    def _join_some(self, name: str) -> None:
        for scope in self.graph.scopes:
            if self.random.random() < 0.6:
                self.network.brokers[name].join_scope(scope)
        self.network.pump(name)

    def _tags(self, broker: str) -> Tags:
        members = sorted(self.network.brokers[broker].scopes)
        found: dict[str, str] = {}
        for scope in members:
            if self.random.random() < 0.5:
                found[self.graph.scopes[scope].dimension] = scope
        return Tags(found, rest=self.random.random() < 0.7)

    def _attach(self, client: str) -> None:
        self.adverts[client] = []
        for _ in range(self.random.randint(0, 2)):
            self._advertise(client)
        for _ in range(self.random.randint(0, 3)):
            self._subscribe(client)

    def _advertise(self, client: str) -> None:
        broker = self.network.brokers[self.home[client]]
        tags = self._tags(broker.name)
        condition = Filter(self.random.choice(_FILTERS))
        number = broker.advertise(client, condition, tags)
        self.adverts[client].append((number, tags, condition))
        self.network.pump(broker.name)

    def _subscribe(self, client: str) -> None:
        broker = self.network.brokers[self.home[client]]
        condition, tags = Filter(self.random.choice(_FILTERS)), self._tags(broker.name)
        key = broker.subscribe(client, condition, tags, self.network.now)
        self.checker.subscribed(client, key, broker.name, condition, tags)
        self.network.pump(broker.name)

    def _publish(self, client: str, must_arrive: bool) -> None:
        name = self.home[client]
        if name in self.network.stopped or not self.adverts[client]:
            return
        number, tags, _ = self.random.choice(self.adverts[client])
        seq = self.seqs[client] = self.seqs[client] + self.random.randint(1, 3)
        params = [("rate", self.random.randint(0, 100))]
        event = Event(self.random.choice(["Speed", "Brake"]), params, (), client, seq)
        broker = self.network.brokers[name]
        self.checker.publishes(event, tags, name, must_arrive)
        try:
            broker.publish(client, broker.check_publish(client, number, event), event, self.network.now)
        except Refused:
            del self.checker.published[(client, seq)]
        self.network.pump(name)

    def _publish_burst(self, client: str, must_arrive: bool) -> None:
        """Enough that a connection makes runs of them, and alike: some are for no other broker, and go as one."""
        name = self.home[client]
        if name in self.network.stopped or not self.adverts[client]:
            return
        number, tags, condition = self.random.choice(self.adverts[client])
        if any(scope not in self.network.brokers[name].scopes for _, scope in tags.scopes):
            return  # the broker has left it
        subject, low = self.random.choice(["Speed", "Brake", "Crash"]), self.random.randint(24, 90)
        events = []
        for _ in range(_BURST):
            seq = self.seqs[client] = self.seqs[client] + self.random.randint(1, 3)
            params = [("plate", "B-XY 123"), ("rate", self.random.randint(low, low + 10))]
            event = Event(subject, params, (), client, seq)
            if condition.matches(event):
                self.checker.publishes(event, tags, name, must_arrive)
                events.append(event)
        burst = Burst(self.network, name, client)
        burst.publish(number, events)
        self.in_runs += burst.runs

    def _publish_all(self, must_arrive: bool) -> None:
        for client in self.home:
            if self.random.random() < 0.2:
                self._publish_burst(client, must_arrive)
            for _ in range(self.random.randint(0, 4)):
                self._publish(client, must_arrive)

    def _fault(self) -> None:
        pairs = sorted(map(sorted, self.wanted))
        a, b = self.random.choice(pairs)
        if self.random.random() < 0.6:
            self.network.disconnect(a, b)
        elif a not in self.network.stopped:
            self.network.stop(a)

    def _change(self, count: int) -> None:
        for _ in range(count):
            self.network.run(self.network.now + self.random.randint(0, 300))
            name = self.random.choice(sorted(self.network.brokers))
            client = self.random.choice(sorted(self.home))
            choice = self.random.randrange(9)
            if choice == 0:
                self._fault()
            elif choice == 1:
                self._heal()
            elif choice == 2:
                self._forget(name)
            elif choice in (3, 4) and self.graph.scopes and name not in self.network.stopped:
                # While events are under way: what arrives late must still be allowed to.
                self._publish_all(must_arrive=False)
                self.network.run(self.network.now + self.random.randint(0, 60))
                scope = self.random.choice(sorted(self.graph.scopes))
                broker = self.network.brokers[name]
                (broker.leave_scope if scope in broker.scopes else broker.join_scope)(scope)
                self.network.pump(name)
            elif self.home[client] in self.network.stopped:
                continue
            elif choice == 5:
                self._subscribe(client)
            elif choice == 6 and self.checker.subscriptions[client]:
                key = self.random.choice(sorted(self.checker.subscriptions[client]))
                self.checker.unsubscribed(client, key)
                self.network.brokers[self.home[client]].unsubscribe(client, key, self.network.now)
                self.network.pump(self.home[client])
            elif choice == 7:
                self._advertise(client)
            else:
                self._publish(client, must_arrive=False)

    def _forget(self, name: str) -> None:
        """The broker starts anew without memory; its clients come back."""
        self.network.stop(name)
        self.network.run(self.network.now + self.random.randint(0, 200))
        self.network.start(name)
        self._join_some(name)
        for client, home in self.home.items():
            if home == name:
                self.checker.gone(client)
                self._attach(client)

    def _heal(self) -> None:
        for name in sorted(self.network.stopped):
            self.network.resume(name)
        for a, b in sorted(map(sorted, self.wanted)):
            self.network.connect(a, b)
