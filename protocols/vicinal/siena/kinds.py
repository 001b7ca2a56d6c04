"""What need be told: of filters that many hold each once, and of these the roots, which no other covers.

    held         rate > 30 (x 900)   rate > 40 (x 50)   plate = 'A'
    kinds        rate > 30           rate > 40          plate = 'A'
    roots        rate > 30                              plate = 'A'

Thousands of clients with the same few filters come and go, and nothing changes but a count.
"""

from ..filter import Filter
from ..filter._covering import covers
from ..filter._witness import example

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event
    from ..scope.graph import Tags

__all__ = ["Kind", "Kinds"]


class Kind:
    """`key` is its name between brokers; `example` an event that it matches, if one was found."""

    __slots__ = ("durable", "example", "filter", "holders", "key", "tags")

    example: "Event | None"

    def __init__(self, key: int, filter: Filter, tags: "Tags", durable: bool) -> None:
        self.key = key
        self.filter = filter
        self.tags = tags
        self.durable = durable
        self.holders = 0
        self.example = example(filter)


class Kinds:
    """`told(key, kind or None)` is called when a root appears or goes. Without `covering` whatever is held is a kind
    and a root of its own: for comparison."""

    def __init__(self, told: "Callable[[int, Kind | None], None]", covering: bool = True) -> None:
        self.roots: dict[int, Kind] = {}
        self._kinds: dict[tuple[str, Tags, bool], Kind] = {}
        self._told = told
        self._covering = covering
        self._next = 0

    def add(self, condition: Filter, tags: "Tags", durable: bool = False) -> Kind:
        name = (str(condition), tags, durable)
        one = self._kinds.get(name)
        if one is None or not self._covering:
            self._next += 1
            one = self._kinds[name] = Kind(self._next, condition, tags, durable)
            if not self._covering or not any([_covers(root, one) for root in self.roots.values()]):
                self._raise(one)
        one.holders += 1
        return one

    def remove(self, one: Kind) -> None:
        one.holders -= 1
        if one.holders:
            return
        if self._covering:
            del self._kinds[(str(one.filter), one.tags, one.durable)]
        if one.key not in self.roots:
            return
        # What it covered must be told before it goes, so that nothing is missed in between.
        for other in self._kinds.values() if self._covering else ():
            if other.key not in self.roots and _covers(one, other):
                if not any([root is not one and _covers(root, other) for root in self.roots.values()]):
                    self._raise(other)
        self._lower(one)

    def _raise(self, one: Kind) -> None:
        self.roots[one.key] = one
        self._told(one.key, one)
        for root in list(self.roots.values()) if self._covering else ():
            if root is not one and root.holders and _covers(one, root):
                self._lower(root)

    def _lower(self, one: Kind) -> None:
        del self.roots[one.key]
        self._told(one.key, None)


def _covers(a: Kind, b: Kind) -> bool:
    """Most do not, and an example shows it a hundred times faster than a proof. A durable one is told to more brokers
    than others: only another durable one can stand for it."""
    if a.tags != b.tags or (b.durable and not a.durable) or (b.example is not None and not a.filter.matches(b.example)):
        return False
    return covers(a.filter.node, b.filter.node)
