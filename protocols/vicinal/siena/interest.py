"""Which brokers care.

`Subscriptions` are a broker's own, of its clients. `Interest` is what other brokers have told a broker with producers:
an index of filters by origin.
"""

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


class Subscription:
    """`number` is its client's name for it; `numbers` what a delivery for it alone says."""

    __slots__ = ("client", "key", "kind", "number", "numbers")

    def __init__(self, client: str, key: int, number: int, kind: "Kind") -> None:
        self.client = client
        self.key = key
        self.number = number
        self.numbers = (number,)
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
        self._held: dict[tuple[str, int], tuple[Filter, Tags]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, broker: str, key: int, condition: Filter, tags: "Tags") -> None:
        self.remove(broker, key)
        self._index.add((broker, key), condition)
        self._held[(broker, key)] = (condition, tags)
        self._changed(condition, True)

    def remove(self, broker: str, key: int) -> None:
        held = self._held.pop((broker, key), None)
        if held is not None:
            self._index.remove((broker, key))
            self._changed(held[0], False)

    def forget(self, broker: str) -> None:
        for name, key in [held for held in self._held if held[0] == broker]:
            self.remove(name, key)

    def match(self, event: "Event") -> "set[tuple[str, Any]]":
        """The brokers that care, each with the tags of the subscriptions for which it does."""
        return {(held[0], self._held[held][1]) for held in self._index.match(event)}
