"""Which brokers care.

`Subscriptions` are a broker's own, of its clients: those that another with the same tags covers need not be told to
anybody. `Interest` is what other brokers have told a broker with producers: an index of filters by origin.
"""

from ..filter import Filter
from ..filter._covering import covers
from ..filter._witness import example
from ..filter.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..event import Event
    from ..scope.graph import Tags

__all__ = ["Interest", "Subscription", "Subscriptions"]


class Subscription:
    """`key` is its name between brokers, `number` its client's; `numbers` what a delivery for it alone says. `example`
    is an event that it matches, if one was found."""

    __slots__ = ("client", "durable", "example", "filter", "key", "number", "numbers", "tags")

    def __init__(self, client: str, key: int, number: int, filter: Filter, tags: "Tags", durable: bool) -> None:
        self.client = client
        self.key = key
        self.number = number
        self.numbers = (number,)
        self.filter = filter
        self.tags = tags
        self.durable = durable
        self.example = example(filter)


class Subscriptions:
    """`told(key, subscription or None)` is called when a root appears or goes."""

    def __init__(self, told: "Callable[[int, Subscription | None], None]", covering: bool = True) -> None:
        self.by_key: dict[int, Subscription] = {}
        self.roots: dict[int, Subscription] = {}
        self._told = told
        self._covering = covering
        self._next = 0

    def add(self, client: str, number: int, condition: Filter, tags: "Tags", durable: bool = False) -> Subscription:
        self._next += 1
        one = Subscription(client, self._next, number, condition, tags, durable)
        self.by_key[one.key] = one
        if not self._covering:
            self._raise(one)
        elif not any([_covers(root, one) for root in self.roots.values()]):
            self._raise(one)
            for root in list(self.roots.values()):
                if root is not one and _covers(one, root):
                    self._lower(root)
        return one

    def remove(self, key: int) -> None:
        one = self.by_key.pop(key)
        if key not in self.roots:
            return
        # What it covered must be told before it goes, so that nothing is missed in between. (Without covering, all are
        # roots and nothing is below it.)
        for other in self.by_key.values():
            if other.key not in self.roots and _covers(one, other):
                if not any([root is not one and _covers(root, other) for root in self.roots.values()]):
                    self._raise(other)
        self._lower(one)

    def _raise(self, one: Subscription) -> None:
        self.roots[one.key] = one
        self._told(one.key, one)

    def _lower(self, one: Subscription) -> None:
        del self.roots[one.key]
        self._told(one.key, None)


def _covers(a: Subscription, b: Subscription) -> bool:
    """Most do not, and an example shows it a hundred times faster than a proof. A durable one is told to more brokers
    than others: only another durable one can stand for it."""
    if a.tags != b.tags or (b.durable and not a.durable) or (b.example is not None and not a.filter.matches(b.example)):
        return False
    return covers(a.filter.node, b.filter.node)


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
