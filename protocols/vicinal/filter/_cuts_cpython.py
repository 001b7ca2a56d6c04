"""The numbers at which some filter may change its mind.

A filter that compares a name with numbers says the same of all values between two neighbours among them:

    rate > 30, rate >= 30 AND rate < 50        cuts of rate: 30, 50
    classes of a value: below 30 · 30 · between · 50 · above

So of many events that differ in such numbers alone, one of each class need be matched. Where a filter looks at a number
in another way (within, a name compared with a name), there are no classes. Of text, bools and bytes there are none: who
asks has only to know that they are looked at.
"""

from collections import Counter
from typing import Any

import numpy as np

from . import Filter
from ._ast import PARAM, And, Compare, In, IsNull, Like, Name, Node, Not, Or, Within

__all__ = ["MAX_CUTS", "Cuts"]

Place = tuple[int, str]

# Of one name: past that sorting them anew at every change costs more than it saves.
MAX_CUTS = 20_000
# Numbers past it are not compared exactly as floats.
_SAFE = 1 << 53


class Cuts:
    """Of filters that come and go."""

    def __init__(self) -> None:
        # By place: (kind, name), of a parameter or an attribute.
        self._looks: Counter[Place] = Counter()
        self._numbers: dict[Place, Counter[float]] = {}
        self._uncut: Counter[Place] = Counter()
        self._sorted: dict[Place, list[float]] = {}
        self._arrays: dict[Place, np.ndarray[Any, Any]] = {}

    def add(self, condition: Filter) -> None:
        self._change(condition, 1)

    def remove(self, condition: Filter) -> None:
        self._change(condition, -1)

    def __contains__(self, place: Place) -> bool:
        """Whether any filter looks there."""
        return place in self._looks

    def classes(self, place: Place, values: "np.ndarray[Any, Any]") -> "tuple[np.ndarray[Any, Any], int] | None":
        """Of each number its class, and how many there can be; None if there are none. None may be NaN."""
        found = self.sorted(place)
        if found is None:
            return None
        cuts = self._arrays.get(place)
        if cuts is None:
            cuts = self._arrays[place] = np.array(found, np.float64)
        # Twice the cuts below it, and one more if it is one itself.
        return cuts.searchsorted(values, "left") + cuts.searchsorted(values, "right"), 2 * len(cuts) + 1

    def sorted(self, place: Place) -> "list[float] | None":
        """The cuts of a place; None if there are no classes. Not to be changed."""
        if place in self._uncut:
            return None
        cuts = self._sorted.get(place)
        if cuts is None:
            numbers = self._numbers.get(place, ())
            if len(numbers) > MAX_CUTS:
                return None
            cuts = self._sorted[place] = sorted(numbers)
        return cuts

    def _change(self, condition: Filter, by: int) -> None:
        for place, numbers in _looks(condition.node):
            _count(self._looks, place, by)
            if numbers is None:
                _count(self._uncut, place, by)
                continue
            known = self._numbers.setdefault(place, Counter())
            for number in numbers:
                _count(known, number, by)
            if not known:
                del self._numbers[place]
            self._sorted.pop(place, None)
            self._arrays.pop(place, None)


def _count(counter: "Counter[Any]", key: Any, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]


def _looks(node: Node) -> "list[tuple[Place, list[float] | None]]":
    """The places that a filter looks at, each with the numbers it compares with, or None if in another way. A
    comparison with another type is unknown for every number, and needs no cut."""
    if isinstance(node, And | Or):
        return [look for term in node.terms for look in _looks(term)]
    if isinstance(node, Not):
        return _looks(node.term)
    if isinstance(node, Within):
        return [((PARAM, "lat"), None), ((PARAM, "lon"), None)]
    if isinstance(node, Compare):
        if isinstance(node.value, Name):
            return [look for name in (node.name, node.value) for look in _of(name, None)]
        return _of(node.name, [node.value])
    if isinstance(node, In):
        return _of(node.name, list(node.values))
    if isinstance(node, IsNull):
        return _of(node.name, [])  # there or not, whatever its value
    if isinstance(node, Like):
        return _of(node.name, None)
    return []


def _of(name: Name, values: "list[Any] | None") -> "list[tuple[Place, list[float] | None]]":
    numbers = None if values is None else [value for value in values if type(value) in (int, float)]
    if numbers is not None and not all([-_SAFE < number < _SAFE for number in numbers]):
        numbers = None
    return [((name.kind, name.ident), numbers)]
