"""What brokers say of themselves, flooded to all: link state, scope memberships, advertisements.

A record replaces every older one of its broker: (incarnation, version) grows, the incarnation with every start that
lost its memory. This is the scope look-up table of seed 003, 4.2: it says where a scope is, and so where
subscriptions need to travel: to brokers whose producers advertise something they could see, and nowhere else.
"""

from ..scope.graph import ScopeGraph
from .topology import Topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..filter import Filter
    from ..scope.graph import Tags

__all__ = ["Record", "Records"]


class Record:
    __slots__ = ("adverts", "broker", "incarnation", "neighbours", "scopes", "version")

    def __init__(
        self,
        broker: str,
        incarnation: int,
        version: int,
        neighbours: "tuple[str, ...]",
        scopes: "frozenset[str]",
        adverts: "tuple[tuple[Filter, Tags], ...]",
    ) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self.version = version
        self.neighbours = neighbours
        self.scopes = scopes
        self.adverts = adverts

    def newer_than(self, other: "Record") -> bool:
        return (self.incarnation, self.version) > (other.incarnation, other.version)


class Records:
    def __init__(self, graph: ScopeGraph) -> None:
        self.graph = graph
        self._mine: dict[str, Record] = {}
        self._shared: dict[str, Record] = {}  # never changed: thousands of simulated brokers start from the same
        self.changes = 0  # of the topology
        self._topology: Topology | None = None

    def __len__(self) -> int:
        return len(self._mine) + len([name for name in self._shared if name not in self._mine])

    def get(self, broker: str) -> "Record | None":
        return self._mine.get(broker) or self._shared.get(broker)

    def all(self) -> "list[Record]":
        return [record for name, record in self._shared.items() if name not in self._mine] + list(self._mine.values())

    def put(self, record: Record) -> bool:
        """Whether it said something new."""
        known = self.get(record.broker)
        if known is not None and not record.newer_than(known):
            return False
        self._mine[record.broker] = record
        if known is None or (known.neighbours, known.scopes) != (record.neighbours, record.scopes):
            self.changes += 1
            self._topology = None
        return True

    def share(self, records: "dict[str, Record]", topology: Topology) -> None:
        """Starts from what all know already, and from what has been worked out of it."""
        self._mine = {}
        self._shared = records
        self._topology = topology

    def use_graph(self, graph: ScopeGraph) -> None:
        self.graph = graph
        self._topology = None

    @property
    def topology(self) -> Topology:
        if self._topology is None:
            known = self.all()
            links = {record.broker: record.neighbours for record in known}
            members = {record.broker: record.scopes for record in known}
            self._topology = Topology(links, members, self.graph)
        return self._topology
