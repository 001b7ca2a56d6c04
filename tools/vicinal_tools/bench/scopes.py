"""What scopes cost: one broker, 10,000 clients with a filter each, the same events for the same ten of them; once in no
scope, and once in leaves of three dimensions of four levels, a thousand scopes with interfaces, each event up to the
top of each dimension and down again.
"""

import random
from collections.abc import Iterator

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.siena.broker import Broker

from . import Row, cpu_time

MEMBERS = 10_000
GOAL = 2.0
_ZONES = MEMBERS // 10
_EVENTS = 200
# Scopes of each level of a dimension, 333 in all; three dimensions and one more scope are a thousand.
_LEVELS = (1, 6, 36, 290)
_DIMENSIONS = ("geography", "membership", "network")


def graph() -> ScopeGraph:
    made = [Scope("spare", "spare")]
    for dimension in _DIMENSIONS:
        above: list[str] = []
        for level, count in enumerate(_LEVELS):
            names = [f"{dimension}-{level}-{number}" for number in range(count)]
            for number, name in enumerate(names):
                supers = [above[number % len(above)]] if above else []
                output, inward = Filter(f"rate > {number % 10}"), Filter(f"subject = 'Speed' AND rate > {number % 10}")
                made.append(Scope(name, dimension, supers, output, inward))
            above = names
    return ScopeGraph(made)


def leaves(rng: random.Random) -> Tags:
    last = len(_LEVELS) - 1
    return Tags({dimension: f"{dimension}-{last}-{rng.randrange(_LEVELS[last])}" for dimension in _DIMENSIONS})


class _Fleet:
    def __init__(self, scoped: bool, members: int) -> None:
        rng = random.Random(7)
        self.broker = Broker("b1", 1, graph())
        for scope in self.broker.graph.scopes:
            self.broker.join_scope(scope)
        self.tags = leaves(rng) if scoped else Tags()
        self.broker.advertise("car", Filter("TRUE"), self.tags)
        for number in range(members):
            condition = Filter(f"subject = 'Speed' AND zone = 'z{number % _ZONES}'")
            tags = leaves(rng) if scoped else Tags()
            self.broker.subscribe(f"c{number}", condition, tags, 0)
        self.broker.actions()
        self._seq = 0
        self.delivered = 0

    def publish_unlike(self) -> None:
        """As if no event had ever been like another: the ways are looked for anew."""
        self.publish(True)

    def publish(self, forgetting: bool = False) -> None:
        """The zones come round again after a thousand events: the same subscriptions match, through the same
        interfaces."""
        for _ in range(_EVENTS):
            if forgetting:
                self.broker._forget_audiences()
            self._seq += 1
            zone, rate = self._seq * 7 % _ZONES, 20 + self._seq * 13 % 80
            event = Event("Speed", [("zone", f"z{zone}"), ("rate", rate)], (), "car", self._seq)
            tags = self.broker.check_publish("car", 1, event)
            self.broker.publish("car", tags, event, 0)
            self.delivered += sum(len(takers) for _, _, takers in self.broker.deliveries())
            self.broker.actions()


def rows(members: int = MEMBERS) -> Iterator[Row]:
    plain, scoped = _Fleet(False, members), _Fleet(True, members)
    plain.publish()
    scoped.publish()
    if plain.delivered != scoped.delivered or not plain.delivered:
        raise AssertionError(f"{plain.delivered} deliveries without scopes, {scoped.delivered} with them")
    without, within = cpu_time(plain.publish, scoped.publish, seconds=2.0)
    yield Row(
        f"an event through 3 dimensions of 4 levels, 1,000 scopes, {members:,} members, 10 get it",
        f"{within / _EVENTS * 1e6:.1f} us at the broker",
        f"in no scope {without / _EVENTS * 1e6:.1f} us",
        f"{within / without:.2f} x",
        f"at most {GOAL:.0f} x",
        within / without <= GOAL,
    )
    without, within = cpu_time(plain.publish_unlike, scoped.publish_unlike, seconds=2.0)
    yield Row(
        "the same, of events that are like none before",
        f"{within / _EVENTS * 1e6:.1f} us at the broker",
        f"in no scope {without / _EVENTS * 1e6:.1f} us",
        f"{within / without:.1f} x",
    )
