"""What need be told: of filters that many hold each once, and of these the roots, which no other covers.

    held         rate > 30 (x 900)   rate > 40 (x 50)   rate > 50   plate = 'A'
    kinds        rate > 30           rate > 40          rate > 50   plate = 'A'
    roots        rate > 30                                          plate = 'A'
    below them     rate > 40
                     rate > 50

Thousands of clients with the same few filters come and go, and nothing changes but a count. When a root goes, only
what stood directly below it looks for another place. A proof of covering costs a hundred times what an event costs, so
each kind has an example: who covers it must match the example, and an index of the roots finds who does.
"""

from ..filter import Filter
from ..filter._covering import covers
from ..filter._witness import example
from ..filter.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event
    from ..scope.graph import Tags

__all__ = ["Kind", "Kinds"]

# Proofs of covering that fail, for one filter that comes (some 3 ms) and for one that goes (some 0.3 s): after so many
# the rest is taken for not covered. Filters such as NOT a = 1, NOT a = 2, ... match each other's examples. A root too
# many is told in vain, nothing is missed.
MAX_FAILURES = 32
MAX_FAILURES_GOING = 2048


class Kind:
    """`key` is its name between brokers; `example` an event that it matches, if one was found; `above` a kind that
    covers it, `below` those that it is above of."""

    __slots__ = ("above", "below", "durable", "example", "filter", "holders", "key", "tags")

    example: "Event | None"

    def __init__(self, key: int, filter: Filter, tags: "Tags", durable: bool) -> None:
        self.key = key
        self.filter = filter
        self.tags = tags
        self.durable = durable
        self.holders = 0
        self.example = example(filter)
        self.above: Kind | None = None
        self.below: dict[int, Kind] = {}

    def put_below(self, other: "Kind") -> None:
        self.above = other
        other.below[self.key] = self


class Group:
    """The roots of one choice of tags, and an index of them: kinds of different tags never cover each other. `budget`
    is how many proofs may still fail."""

    def __init__(self) -> None:
        self.roots: dict[int, Kind] = {}
        self._index = Index()
        self._examples: dict[int, Event] = {}

    def add(self, one: Kind) -> None:
        self.roots[one.key] = one
        self._index.add(one.key, one.filter)
        if one.example is not None:
            self._examples[one.key] = one.example

    def remove(self, one: Kind) -> None:
        del self.roots[one.key]
        self._index.remove(one.key)
        self._examples.pop(one.key, None)

    def covering(self, one: Kind, budget: "list[int]") -> "Kind | None":
        """A root other than it that covers it."""
        if budget[0] <= 0:
            return None
        keys = list(self.roots) if one.example is None else self._index.match(one.example)
        for key in sorted(keys):
            if key != one.key and budget[0] > 0:
                if _covers(self.roots[key], one):
                    return self.roots[key]
                budget[0] -= 1
        return None

    def covered_by(self, one: Kind, budget: "list[int]") -> "list[Kind]":
        test = one.filter.test
        keys = [key for key, event in self._examples.items() if test(event) is True]
        if len(self._examples) < len(self.roots):
            keys.extend([key for key in self.roots if key not in self._examples])
        found = []
        for key in sorted(keys):
            if budget[0] > 0:
                if _covers(one, self.roots[key]):
                    found.append(self.roots[key])
                else:
                    budget[0] -= 1
        return found


class Kinds:
    """`told(key, kind or None)` is called when a root appears or goes. Without `covering` whatever is held is a kind
    and a root of its own: for comparison."""

    def __init__(self, told: "Callable[[int, Kind | None], None]", covering: bool = True) -> None:
        self.roots: dict[int, Kind] = {}
        self._kinds: dict[tuple[str, Tags, bool], Kind] = {}
        self._groups: dict[Tags, Group] = {}
        self._told = told
        self._covering = covering
        self._next = 0

    def __len__(self) -> int:
        return len(self._kinds)

    def has(self, condition: Filter, tags: "Tags", durable: bool = False) -> bool:
        """Whether one more of it changes nothing but a count."""
        return (str(condition), tags, durable) in self._kinds

    def add(self, condition: Filter, tags: "Tags", durable: bool = False) -> Kind:
        name = (str(condition), tags, durable)
        one = self._kinds.get(name)
        if one is None:
            self._next += 1
            one = Kind(self._next, condition, tags, durable)
            if self._covering:
                self._kinds[name] = one
                self._place(one)
            else:
                self._raise(one)
        one.holders += 1
        return one

    def _place(self, one: Kind) -> None:
        if one.tags not in self._groups:
            self._groups[one.tags] = Group()
        group = self._groups[one.tags]
        above = group.covering(one, [MAX_FAILURES])
        if above is not None:
            one.put_below(above)
            return
        covered = group.covered_by(one, [MAX_FAILURES])
        group.add(one)
        self._raise(one)
        for root in covered:
            group.remove(root)
            root.put_below(one)
            self._lower(root)

    def remove(self, one: Kind) -> None:
        one.holders -= 1
        if one.holders:
            return
        if self._covering:
            del self._kinds[(str(one.filter), one.tags, one.durable)]
            if one.above is not None:
                del one.above.below[one.key]
                for other in one.below.values():
                    other.put_below(one.above)
                return
            # What it covered must be told before it goes, so that nothing is missed in between.
            for other in self._freed(one):
                self._raise(other)
        self._lower(one)

    def _freed(self, one: Kind) -> "list[Kind]":
        """A root goes: those directly below it that are roots now. All take part at first, and whoever is covered by
        one that still does drops out; so two that cover each other do not both drop out."""
        group = self._groups[one.tags]
        group.remove(one)
        freed = list(one.below.values())
        for other in freed:
            other.above = None
            group.add(other)
        budget = [MAX_FAILURES_GOING]
        for other in freed:
            above = group.covering(other, budget)
            if above is not None:
                group.remove(other)
                other.put_below(above)
        if not group.roots:
            del self._groups[one.tags]
        return [other for other in freed if other.above is None]

    def _raise(self, one: Kind) -> None:
        self.roots[one.key] = one
        self._told(one.key, one)

    def _lower(self, one: Kind) -> None:
        del self.roots[one.key]
        self._told(one.key, None)


def _covers(a: Kind, b: Kind) -> bool:
    """Most do not, and an example shows it a hundred times faster than a proof. A durable one is told to more brokers
    than others: only another durable one can stand for it."""
    if a.tags != b.tags or (b.durable and not a.durable) or (b.example is not None and not a.filter.matches(b.example)):
        return False
    return covers(a.filter.node, b.filter.node)
