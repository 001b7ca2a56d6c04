"""Which gateway connects which event services, and the one way from each to each (seed 001, 5.3.6 and 8.2.6).

    gateways G1..G4 and event services A..E are the two kinds of nodes of a graph:

        A ── G1 ── B ── G2 ── C          every gateway says in a record to which services it is connected;
                   │                     records spread over all of them, loops or not, each version once
                   G3 ── D ── G4 ── E

A spanning tree of that graph is kept, the same at every gateway that has the same records: breadth first from the
gateway with the least name, neighbours by name. Requests and events go along the tree only, so that loops in the
topology are harmless; when a gateway is gone, so is its record, and another tree leads around it.

A service that carries no control events is a leaf: events go there and come from there, and nothing goes through.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_GATEWAYS", "Topology"]

# Of one federation: more than anybody has asked for, and a second of work for a tree.
MAX_GATEWAYS = 10000


class Known:
    """What a gateway says of itself. `transit` services carry control events, `leaves` do not."""

    __slots__ = ("gateway", "heard", "incarnation", "leaves", "transit", "version")

    def __init__(
        self, gateway: str, incarnation: int, version: int, transit: "tuple[str, ...]", leaves: "tuple[str, ...]"
    ) -> None:
        self.gateway = gateway
        self.incarnation = incarnation
        self.version = version
        self.transit = transit
        self.leaves = leaves
        self.heard = 0

    @property
    def age(self) -> "tuple[int, int]":
        return (self.incarnation, self.version)

    @property
    def services(self) -> "tuple[str, ...]":
        return self.transit + self.leaves


class Topology:
    def __init__(self, own: str) -> None:
        self.own = own
        self.records: dict[str, Known] = {}
        self.changes = 0
        """counts what has changed ways, not what was said again"""
        self._ways: dict[str, str] | None = None  # service -> the direct service that leads there
        self._via: dict[str, str] = {}  # service -> the gateway beside it, on the way from here
        self._edges: set[str] = set()  # our direct services that are on the tree
        self._gone: dict[str, tuple[int, int]] = {}  # the age at which a gateway was forgotten

    def put(self, record: Known, now: int) -> bool:
        """Whether it is news, to be spread."""
        known = self.records.get(record.gateway)
        if known is not None and record.age <= known.age:
            return False
        if known is None and record.age <= self._gone.get(record.gateway, (-1, -1)):
            return False
        if known is None and len(self.records) >= MAX_GATEWAYS:
            return False
        record.heard = now
        self.records[record.gateway] = record
        if known is None or (known.transit, known.leaves) != (record.transit, record.leaves):
            self._changed()
        return True

    def expire(self, before: int) -> "list[str]":
        """Forgets who was not heard since; gives their names."""
        found = [name for name, one in self.records.items() if name != self.own and one.heard < before]
        for name in found:
            self._gone[name] = self.records.pop(name).age
        if found:
            self._changed()
        if len(self._gone) > MAX_GATEWAYS:
            self._gone.clear()
        return sorted(found)

    def first_heard(self) -> "int | None":
        """When the one that has been silent longest was heard."""
        times = [one.heard for name, one in self.records.items() if name != self.own]
        return min(times) if times else None

    def set_back(self, by: int) -> None:
        """The clock was, by so many milliseconds."""
        for one in self.records.values():
            one.heard -= by

    def services(self) -> "list[str]":
        """All that some gateway connects, by name."""
        return sorted({service for record in self.records.values() for service in record.services})

    def incarnation(self, gateway: str) -> int:
        record = self.records.get(gateway)
        return -1 if record is None else record.incarnation

    # Ways

    def way(self, service: str) -> "str | None":
        """The direct service through which it is reached: itself, if it is ours to serve; None: there is no way."""
        if self._ways is None:
            self._find()
        assert self._ways is not None
        return self._ways.get(service)

    def beside(self, service: str) -> "str | None":
        """The gateway that applies what is asked of a service, from here."""
        if self._ways is None:
            self._find()
        return self._via.get(service)

    def on_tree(self, service: str) -> bool:
        """Whether what is heard on a direct service is ours to pass on."""
        if self._ways is None:
            self._find()
        return service in self._edges

    def parent(self, service: str) -> "str | None":
        """The one gateway that speaks for a service, where only one may."""
        return self._tree()[1].get(service)

    def _changed(self) -> None:
        self._ways = None
        self.changes += 1

    def _tree(self) -> "tuple[dict[str, list[str]], dict[str, str]]":
        """The services that each gateway has on the tree, and the parent of each service."""
        at: dict[str, list[str]] = {}  # transit service -> gateways
        for name in sorted(self.records):
            for service in self.records[name].transit:
                at.setdefault(service, []).append(name)
        edges: dict[str, list[str]] = {}  # in the order in which they are found
        parents: dict[str, str] = {}
        order: list[str] = []
        for root in sorted(self.records):
            if root in edges:
                continue
            edges[root] = []
            queue = [root]
            while queue:
                following = []
                for gateway in queue:
                    order.append(gateway)
                    for service in sorted(self.records[gateway].transit):
                        if service in parents:
                            continue
                        parents[service] = gateway
                        edges[gateway].append(service)
                        for other in at[service]:
                            if other not in edges:
                                edges[other] = [service]
                                following.append(other)
                queue = following
        for gateway in order:
            for service in sorted(self.records[gateway].leaves):
                if service not in parents:
                    parents[service] = gateway
                    edges[gateway].append(service)
        return edges, parents

    def _find(self) -> None:
        edges, _ = self._tree()
        members: dict[str, list[str]] = {}
        for gateway, services in edges.items():
            for service in services:
                members.setdefault(service, []).append(gateway)
        ways: dict[str, str] = {}
        via: dict[str, str] = {}
        self._edges = set(edges.get(self.own, ()))
        for first in edges.get(self.own, ()):
            ways[first], via[first] = first, self.own
            queue: list[Any] = [(first, self.own)]
            while queue:
                service, came = queue.pop()
                for gateway in members[service]:
                    if gateway == came:
                        continue
                    for beyond in edges[gateway]:
                        if beyond != service:
                            ways[beyond], via[beyond] = first, gateway
                            queue.append((beyond, gateway))
        self._ways, self._via = ways, via
