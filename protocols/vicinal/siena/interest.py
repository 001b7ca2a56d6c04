"""Which brokers care.

`Subscriptions` are a broker's own, of its clients. `Interest` is what other brokers have told a broker with producers:
an index of filters by origin.
"""

from ..errors import LimitError
from ..filter import Filter
from ..filter.index import Index
from .kinds import Kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..event import Event
    from ..scope.graph import Tags
    from .kinds import Kind

__all__ = ["Interest", "Subscription", "Subscriptions"]

# Filters of one broker that others keep, of some 2 KB each: so many different ones its clients may have together.
MAX_INTEREST = 65_536


class Subscription:
    """`number` is its client's name for it; `taker` is its client, and what a delivery for it alone says."""

    __slots__ = ("client", "key", "kind", "number", "taker")

    def __init__(self, client: str, key: int, number: int, kind: "Kind") -> None:
        self.client = client
        self.key = key
        self.number = number
        self.taker = (client, (number,))
        self.kind = kind

    @property
    def tags(self) -> "Tags":
        return self.kind.tags


class Subscriptions:
    """`told(key, kind or None)` is called when a root of their kinds appears or goes."""

    def __init__(self, told: "Callable[[int, Kind | None], None]", covering: bool = True) -> None:
        self.by_key: dict[int, Subscription] = {}
        self.kinds = Kinds(told, covering)
        self._next = 0

    def add(self, client: str, number: int, condition: Filter, tags: "Tags", durable: bool = False) -> Subscription:
        if len(self.kinds) >= MAX_INTEREST and not self.kinds.has(condition, tags, durable):
            raise LimitError("different subscriptions of this broker", len(self.kinds) + 1, MAX_INTEREST)
        self._next += 1
        one = Subscription(client, self._next, number, self.kinds.add(condition, tags, durable))
        self.by_key[one.key] = one
        return one

    def remove(self, key: int) -> None:
        self.kinds.remove(self.by_key.pop(key).kind)


class Interest:
    """Filters of other brokers, under (broker, key). `changed(filter, whether it is new)` is called for each."""

    def __init__(self, changed: "Callable[[Filter, bool], None]") -> None:
        self._index = Index()
        self._changed = changed
        self._held: dict[str, dict[int, tuple[Filter, Tags]]] = {}
        self._named: dict[tuple[str, str], int] = {}  # of a broker and a client that it has told by name: how many

    def __len__(self) -> int:
        return len(self._index)

    def add(self, broker: str, key: int, condition: Filter, tags: "Tags") -> bool:
        """False when the broker has too many."""
        self.remove(broker, key)
        held = self._held.setdefault(broker, {})
        if len(held) >= MAX_INTEREST:
            return False
        self._index.add((broker, key), condition)
        held[key] = (condition, tags)
        if tags.who:
            self._named[(broker, tags.who)] = self._named.get((broker, tags.who), 0) + 1
        self._changed(condition, True)
        return True

    def remove(self, broker: str, key: int) -> str:
        """The client of which nothing is left, if it was told by name."""
        found = self._held.get(broker, {}).pop(key, None)
        if found is None:
            return ""
        self._index.remove((broker, key))
        self._changed(found[0], False)
        name = (broker, found[1].who)
        if name not in self._named:
            return ""
        self._named[name] -= 1
        if self._named[name]:
            return ""
        del self._named[name]
        return name[1]

    def names(self, broker: str, client: str) -> bool:
        return (broker, client) in self._named

    def forget(self, broker: str) -> "list[str]":
        """The clients that were told by name."""
        gone = [self.remove(broker, key) for key in list(self._held.get(broker, ()))]
        self._held.pop(broker, None)
        return [name for name in gone if name]

    def match(self, event: "Event") -> "set[tuple[str, Any]]":
        """The brokers that care, each with the tags of the subscriptions for which it does."""
        return {(broker, self._held[broker][key][1]) for broker, key in self._index.match(event)}
