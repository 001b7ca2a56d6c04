"""What brokers say of themselves, flooded to all: link state, scope memberships, advertisements.

A record replaces every older one of its broker: (incarnation, version) grows, the incarnation with every start that
lost its memory. This is the scope look-up table of seed 003, 4.2: it says where a scope is, and so where
subscriptions need to travel: to brokers whose producers advertise something they could see, and nowhere else.

A record is one message, so what is advertised has a limit; and all brokers read all of it, so what is advertised is
said in no hurry. Links and scopes are said at once: events follow them.
"""

from .._cbor import dumps
from ..scope.graph import ScopeGraph
from .topology import Topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..filter import Filter
    from ..scope.graph import Tags

__all__ = ["Advertised", "Pace", "Record", "Records"]

# Of the 65,536 items and 1 MiB that a record may have; the rest is for neighbours and scopes. An advertisement without
# scopes has 4 items: there may be 15,000 that differ.
MAX_ADVERT_ITEMS = 60_000
MAX_ADVERT_BYTES = 768 << 10
# Milliseconds between two records that differ in advertisements only, and how many of these prolong it by one: a broker
# reads some 15 in a millisecond, so that a quarter of its time is the worst another can ask of it.
SAY_EVERY = 200
ADVERTS_A_MS = 4


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


class Advertised:
    """How much a record has of advertisements. All that differ count, those that others cover too: when the one above
    them goes, they travel."""

    def __init__(self) -> None:
        self.items = 0
        self.bytes = 0

    def refusal(self, condition: "Filter", tags: "Tags") -> "str | None":
        """Why there is no room for one more."""
        items, size = _size(condition, tags)
        if self.items + items > MAX_ADVERT_ITEMS:
            return f"{items} items more than the {self.items} advertised here, the limit is {MAX_ADVERT_ITEMS}"
        if self.bytes + size > MAX_ADVERT_BYTES:
            return f"{size} bytes more than the {self.bytes} advertised here, the limit is {MAX_ADVERT_BYTES}"
        return None

    def add(self, condition: "Filter", tags: "Tags", sign: int = 1) -> None:
        items, size = _size(condition, tags)
        self.items += items * sign
        self.bytes += size * sign

    def remove(self, condition: "Filter", tags: "Tags") -> None:
        self.add(condition, tags, -1)


def _size(condition: "Filter", tags: "Tags") -> "tuple[int, int]":
    """Items and bytes, as in a record."""
    item = tags.item()
    return 3 + len(item), len(dumps([str(condition), item]))


class Pace:
    """When what is advertised is said: the first change at once, those after it together. `clock` is the latest time
    that anybody told; if it lags, a timeout that is long due sets it right."""

    def __init__(self) -> None:
        self.is_due = False
        self.clock = 0
        self._next = 0

    @property
    def due(self) -> "int | None":
        return self._next if self.is_due else None

    @property
    def is_time(self) -> bool:
        return self.is_due and self.clock >= self._next

    def said(self, adverts: int) -> None:
        if self.is_due:
            self.is_due = False
            self._next = self.clock + SAY_EVERY + adverts // ADVERTS_A_MS


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
