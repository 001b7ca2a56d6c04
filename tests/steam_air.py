"""A small radio for tests of vicinal.steam: everybody hears everybody, less what is lost, and sometimes twice.

The virtual radio with range, channels and collisions is a product of its own; this one has no physics, so that a law
over it is a law of the protocol.
"""

import random
from collections.abc import Callable

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node

HERE = (533438000, -62546000)  # Dublin
NAMES = ("license_no", "rate")


def speed(rate: float = 57.2, **more: object) -> Event:
    return Event("Speed", [("license_no", "00D12345"), ("rate", rate)], **more)  # type: ignore[arg-type]


def around(radius: int = 300, relative: bool = False) -> Proximity:
    return Proximity.circle(0, 0, radius, True) if relative else Proximity.circle(*HERE, radius)


def north(metres: int) -> tuple[int, int]:
    """So far north of HERE, within a metre in 300."""
    return HERE[0] + metres * 10_000_000 // 111_290, HERE[1]


class Air:
    def __init__(self, loss: float = 0.0, twice: float = 0.0, seed: int = 1, interval: int = 100) -> None:
        self.chance = random.Random(seed)
        self.loss = loss
        self.twice = twice
        self.interval = interval
        self.now = 0
        self.nodes: list[Node] = []
        self.got: dict[str, list[tuple[int, Event]]] = {}
        self.members: list[tuple[str, str, int, int]] = []  # node, what, group, when
        self.sent: list[tuple[str, int, bytes]] = []
        self.reaches: Callable[[Node, Node], bool] = lambda a, b: True

    def node(self, name: str, at: tuple[int, int] | None = HERE, **options: int) -> Node:
        node = Node(name, len(self.nodes) + 1, interval=self.interval, **options)
        self.nodes.append(node)
        self.got[name] = []
        node.on_member = lambda what, group, now: self.members.append((name, what, group.id, now))
        if at is not None:
            node.set_position(*at, self.now)
        return node

    def listen(self, node: Node, subject: str = "Speed", condition: object = None, names: object = NAMES) -> None:
        node.subscribe(subject, condition, self.taker(node), names)  # type: ignore[arg-type]

    def taker(self, node: Node) -> Callable[[Event, int], None]:
        return lambda event, now: self.got[node.name].append((now, event))

    def run(self, until: int, each: Callable[[int], None] | None = None) -> None:
        """One advertising event of every node per interval, at places of their own in it."""
        while self.now < until:
            for place, node in enumerate(self.nodes):
                now = self.now + place * self.interval // len(self.nodes)
                for other in self.nodes:
                    due = other.next_timeout()
                    if due is not None and due <= now:
                        other.handle_timeout(now)
                data = node.advertisement(now)
                if data is not None:
                    self.sent.append((node.name, now, data))
                    for other in self.nodes:
                        if other is not node and self.reaches(node, other):
                            self._carry(data, other, now)
                assert balanced(node)
            self.now += self.interval
            if each is not None:
                each(self.now)

    def _carry(self, data: bytes, other: Node, now: int) -> None:
        if self.chance.random() >= self.loss:
            other.receive(data, -60, now)
            if self.chance.random() < self.twice:
                other.receive(data, -70, now)


def balanced(node: Node) -> bool:
    """The three equations of a node."""
    count = node.counters

    def all_of(start: str) -> int:
        return sum(value for name, value in count.items() if name.startswith(start))

    return (
        count.get("in frames", 0)
        == count.get("in beacons", 0) + count.get("in pieces", 0) + node.pending + all_of("in dropped: ")
        and count.get("in assembled", 0) == count.get("in delivered", 0) + all_of("event dropped: ")
        and count.get("out accepted", 0) == count.get("out sent", 0) + node.stored + all_of("out dropped: ")
    )
