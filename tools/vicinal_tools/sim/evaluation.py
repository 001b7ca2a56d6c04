"""What scopes, covering and advertisements save: the evaluation that the papers announced (seed 003, 6).

An overlay of any size starts converged. In every dimension its brokers are cut into connected regions, a region is a
scope, neighbouring regions make a province, all provinces the world. Subscribers and producers sit at random brokers;
most care for their region, some for the province, a few for the world; only urgent events leave a region. Counted are
the messages between brokers, by what they are for.
"""

import random
from collections import Counter
from typing import Any, NamedTuple

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.siena.broker import PRUNING
from vicinal.siena.records import Record
from vicinal.siena.topology import Topology

from .network import Network
from .topologies import links_of, regions

__all__ = ["VARIANTS", "Measured", "Workload", "measure"]

# What is switched off, and what then remains.
VARIANTS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "all": (True, PRUNING),
    "no covering": (True, ("advertisements",)),
    "no scopes": (False, PRUNING),
    "no advertisements": (True, ("covering",)),
    "nothing": (False, ()),
}


# What a region lets out, and its province after it; everything comes in.
_URGENT, _OPEN = Filter("rate > 90"), Filter("TRUE")


class Workload(NamedTuple):
    brokers: int = 100
    topology: str = "grid"
    dimensions: int = 1
    region: int = 10
    subscriptions: int = 100
    producers: int = 20
    notifications: int = 200
    seed: int = 1


class Measured(NamedTuple):
    subscription_messages: float
    """for each subscription, until it is where it is needed"""
    notification_messages: float
    """for each notification, to all who care, acknowledgements aside"""
    acknowledgements: float
    deliveries: float
    brokers_reached: float
    """of each notification: so many held it"""
    table_mean: float
    table_max: int


def measure(work: Workload, variant: str) -> Measured:
    return _Evaluation(work, *VARIANTS[variant]).run()


class _Evaluation:
    def __init__(self, work: Workload, scoped: bool, pruning: tuple[str, ...]) -> None:
        self.work = work
        self.scoped = scoped
        self.random = random.Random(work.seed)
        links = links_of(work.topology, work.brokers, self.random)
        self.homes: list[list[str]] = [[] for _ in range(work.brokers)]  # the scopes of each broker, innermost first
        self.graph = self._scopes(links) if work.dimensions else ScopeGraph()
        self.network = Network(self.graph, work.seed, pruning=pruning)
        self.sent: Counter[str] = Counter()
        self.held: set[tuple[str, Any]] = set()
        self.delivered = 0
        self._start(links)
        self.network.on_receive = self._received
        self.network.on_deliver = self._delivered

    def _scopes(self, links: dict[int, set[int]]) -> ScopeGraph:
        scopes: list[Scope] = []
        for dimension in range(self.work.dimensions):
            name = f"d{dimension}"
            inner = regions(links, self.work.region, self.random)
            scopes.append(Scope(f"{name}:world", name))
            provinces = {region: region // 5 for region in inner}
            for province in sorted(set(provinces.values())):
                scopes.append(Scope(f"{name}:p{province}", name, [f"{name}:world"], _URGENT, _OPEN))
            for region in sorted(set(inner)):
                scopes.append(Scope(f"{name}:r{region}", name, [f"{name}:p{provinces[region]}"], _URGENT, _OPEN))
            for broker, region in enumerate(inner):
                self.homes[broker] += [f"{name}:r{region}", f"{name}:p{provinces[region]}", f"{name}:world"]
        return ScopeGraph(scopes)

    def _start(self, links: dict[int, set[int]]) -> None:
        """Converged: everybody knows every record and shares what follows from them."""
        names = [f"B{number}" for number in links]
        for number, name in enumerate(names):
            broker = self.network.start(name)
            broker.scopes.update(self.homes[number])
            broker._links = sorted(names[other] for other in links[number])
            for other in links[number]:
                self.network.links[frozenset((name, names[other]))] = 1
        records = {
            name: Record(
                name,
                self.network.brokers[name].incarnation,
                self.network.brokers[name]._version + 1,
                tuple(self.network.brokers[name]._links),
                frozenset(self.network.brokers[name].scopes),
                (),
            )
            for name in names
        }
        topology = Topology(
            {name: record.neighbours for name, record in records.items()},
            {name: record.scopes for name, record in records.items()},
            self.graph,
        )
        for broker in self.network.brokers.values():
            broker._version += 1
            broker.records.share(records, topology)

    def run(self) -> Measured:
        producers = [self._advertise(f"p{number}") for number in range(self.work.producers)]
        self.network.settle()
        self.sent.clear()
        for number in range(self.work.subscriptions):
            self._subscribe(f"s{number}")
        self.network.settle()
        installing = sum(self.sent.values()) - self.sent["ack"]
        tables = [len(broker.interest) for broker in self.network.brokers.values()]
        self.sent.clear()
        for number in range(self.work.notifications):
            name, client, advert = producers[number % len(producers)]
            event = Event("Speed", [("rate", self.random.randint(0, 100))], (), client, number)
            self.held.add((name, event.identity))
            broker = self.network.brokers[name]
            broker.publish(client, broker.check_publish(client, advert, event), event, self.network.now)
            self.network.pump(name)
            self.network.run(self.network.now + 10)
        self.network.settle()
        count = self.work.notifications
        return Measured(
            installing / max(1, self.work.subscriptions),
            self.sent["event"] / count,
            self.sent["ack"] / count,
            self.delivered / count,
            len(self.held) / count,
            sum(tables) / len(tables),
            max(tables),
        )

    def _tags(self, broker: int) -> Tags:
        """Most are for the region, some for the province, a few for the world."""
        if not self.scoped or not self.work.dimensions:
            return Tags()
        found = []
        for dimension in range(self.work.dimensions):
            level = self.random.choices((0, 1, 2), (70, 25, 5))[0]
            found.append(self.homes[broker][dimension * 3 + level])
        return Tags.of(found, self.graph)

    def _advertise(self, client: str) -> tuple[str, str, int]:
        number = self.random.randrange(self.work.brokers)
        broker = self.network.brokers[f"B{number}"]
        advert = broker.advertise(client, Filter("subject = 'Speed'"), self._tags(number))
        self.network.pump(broker.name)
        return broker.name, client, advert

    def _subscribe(self, client: str) -> None:
        number = self.random.randrange(self.work.brokers)
        broker = self.network.brokers[f"B{number}"]
        condition = Filter(f"subject = 'Speed' AND rate > {self.random.choice((0, 25, 50, 75, 90))}")
        broker.subscribe(client, condition, self._tags(number), self.network.now)
        self.network.pump(broker.name)

    def _received(self, broker: str, message: Any) -> None:
        if message[0] != "packets":
            self.sent[message[0]] += 1
            return
        self.sent[message[5][0]] += 1
        if message[5][0] == "event":
            self.held.add((broker, message[5][1].identity))

    def _delivered(self, *_: Any) -> None:
        self.delivered += 1
