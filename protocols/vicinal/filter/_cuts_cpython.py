"""The numbers at which some filter may change its mind.

A filter that compares a name with numbers says the same of all values between two neighbours among them:

    rate > 30, rate >= 30 AND rate < 50        cuts of rate: 30, 50
    classes of a value: below 30 · 30 · between · 50 · above

So of many events that differ in such values alone, one of each class need be matched. Where a filter looks at a value
in another way (LIKE, within, a name compared with a name, text), there are no classes, and the name says so.
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
        self._numbers: dict[Place, Counter[float]] = {}
        self._uncut: Counter[Place] = Counter()
        self._sorted: dict[Place, np.ndarray[Any, Any]] = {}

    def add(self, condition: Filter) -> None:
        self._change(condition, 1)

    def remove(self, condition: Filter) -> None:
        self._change(condition, -1)

    def __contains__(self, place: Place) -> bool:
        """Whether any filter looks there."""
        return place in self._numbers or place in self._uncut

    def classes(self, place: Place, values: "np.ndarray[Any, Any]") -> "tuple[np.ndarray[Any, Any], int] | None":
        """Of each value its class, and how many there can be; None if there are none. No value may be NaN."""
        if place in self._uncut:
            return None
        cuts = self._sorted.get(place)
        if cuts is None:
            numbers = self._numbers[place]
            if len(numbers) > MAX_CUTS:
                return None
            cuts = self._sorted[place] = np.array(sorted(numbers), np.float64)
        # Twice the cuts below it, and one more if it is one itself.
        return cuts.searchsorted(values, "left") + cuts.searchsorted(values, "right"), 2 * len(cuts) + 1

    def _change(self, condition: Filter, by: int) -> None:
        for place, numbers in _looks(condition.node):
            if numbers is None:
                self._uncut[place] += by
                if not self._uncut[place]:
                    del self._uncut[place]
                continue
            known = self._numbers.setdefault(place, Counter())
            for number in numbers:
                known[number] += by
                if not known[number]:
                    del known[number]
            if not known:
                del self._numbers[place]
            self._sorted.pop(place, None)


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
        return _of(node.name, [0])  # there or not, whatever its value; but it is looked at
    if isinstance(node, Like):
        return _of(node.name, None)
    return []


def _of(name: Name, values: "list[Any] | None") -> "list[tuple[Place, list[float] | None]]":
    numbers = None if values is None else [value for value in values if type(value) in (int, float)]
    if numbers is not None and not all([-_SAFE < number < _SAFE for number in numbers]):
        numbers = None
    return [((name.kind, name.ident), numbers)]
