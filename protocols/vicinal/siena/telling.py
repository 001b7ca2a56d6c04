"""Telling other brokers of subscriptions: each of what could match what is advertised there, and once.

A subscription that another covers is told to nobody (interest.py). Durable ones are told to every broker: what they
want may lie in its log, of a producer that is gone. All that is told goes into the stream to a broker; when the stream
starts anew, because one end has forgotten, all is told anew.
"""

from ..filter._covering import overlaps
from .catchup import CatchUp
from .forwarding import EVENTS
from .interest import Subscriptions
from .records import Record
from .topology import goal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..filter import Filter
    from ..scope.graph import ScopeGraph, Tags
    from .kinds import Kind

__all__ = ["PRUNING", "Telling"]

# Subscriptions are told to nobody when another of the broker's covers them, and only to brokers whose producers
# advertise what they could match.
PRUNING = ("covering", "advertisements")


class Telling(CatchUp):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace)
        self.pruning = pruning
        self.subscriptions = Subscriptions(self._told, "covering" in pruning)
        self._tellings: dict[str, set[int]] = {}

    def _told(self, key: int, one: "Kind | None") -> None:
        if one is None:
            for broker, keys in self._tellings.items():
                if key in keys:
                    keys.discard(key)
                    self._stream(broker).put(("remove", key))
            return
        for record in self.records.all():
            if self._concerns(record, key, one):
                self._tell(record.broker, key, one)

    def _tell_all(self, record: Record, anew: bool) -> None:
        """What it has not been told yet; `anew` when that is all. Before it and after it the broker is asked for what
        durable subscriptions have missed: what is in its log comes before what it publishes next."""
        news = [(key, one) for key, one in self.subscriptions.kinds.roots.items() if self._concerns(record, key, one)]
        reads = self._durable and (anew or news)
        if reads:
            self._stream(record.broker).put(("hold",))
        for key, one in news:
            self._tell(record.broker, key, one)
        if reads:
            self._ask(record.broker)

    def _concerns(self, record: Record, key: int, one: "Kind") -> bool:
        """Whether a broker is to be told, and has not been."""
        if record.broker == self.name or key in self._tellings.get(record.broker, ()):
            return False
        if one.durable or "advertisements" not in self.pruning:
            return True
        return any([self._may_see(tags, one.tags) and self._may_match(a, tags, one) for a, tags in record.adverts])

    def _tell(self, broker: str, key: int, one: "Kind") -> None:
        self._tellings.setdefault(broker, set()).add(key)
        self._stream(broker).put(("add", key, one.filter, one.tags))

    def _may_see(self, advertised: "Tags", subscribed: "Tags") -> bool:
        """Whether some event could be visible, whatever the interfaces ask of it."""
        wanted = goal_of(advertised, subscribed)
        if wanted is None:
            return False
        pairs = zip(advertised.scopes, wanted)
        return all([scope is None or self.graph.connected(start[1], scope) for start, scope in pairs])

    def _may_match(self, advertised: "Filter", tags: "Tags", one: "Kind") -> bool:
        """Whether something advertised could match a filter, after what the scopes on its way make of it."""
        advanced = self.graph.advanced
        goal = None if advanced is None else one.tags.get(advanced)
        if advanced is None or goal is None or goal not in self.graph:
            return overlaps(advertised.node, one.filter.node)
        # Here: a broker on a device loads this at the end of a chain as long as MicroPython can bear.
        from ..scope import mapping

        start = tags.get(advanced) or goal
        ways = mapping.paths(self.graph, start, goal)
        if len(ways) >= mapping.MAX_PATHS:
            return True
        return any([overlaps(advertised.node, mapping.along(self.graph, way, one.filter)[0].node) for way in ways])

    def _restart(self, record: Record) -> None:
        """The other end forgot: what it had been told of subscriptions is told anew, events go on."""
        broker = record.broker
        self._tellings.pop(broker, None)
        stream = self._out.get(broker)
        if stream is not None:
            packets = [packet for _, packet in stream.packets if packet[0] in ("event", "live")]
            if broker in self._marks:
                # Its durable subscriptions have them, or it asks for them when it has told what it wants.
                packets = [("live",) + packet[1:] for packet in packets]
            stream.restart(record.incarnation, packets)
        self._reader_began(broker)

    def _give_up(self, broker: str) -> None:
        """It has been out of reach for too long: what waits for it goes, and is counted. When it is back, it is told of
        all subscriptions anew."""
        stream = self._out[broker]
        events = len([1 for _, packet in stream.packets if packet[0] in EVENTS])
        first = self._leave_to_the_log(broker)
        self._count("dropped: out of reach" if first is None else "left to the log", events)
        stream.restart(stream.incarnation, first or [])
        self._tellings.pop(broker, None)
        record = self.records.get(broker)
        if record is not None:
            self._tell_all(record, True)
