"""Intervals of one name, found by a value they hold: the two ends of a range as one constraint.

Counted as two half-lines an interval is half satisfied by every value, and the cost would follow the stored filters.
So intervals are sorted by their lower end within classes of like width (a power of four): of a class with intervals
up to w wide, only those that start in [value - w, value] can hold the value, and each is at least a quarter so wide.

Ends are floats below 2^53, made closed by stepping to the next float; so they compare exactly with every value.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._constraints import Constraint

__all__ = ["Intervals", "bisect_left", "bisect_right", "joined"]

_SAFE = 1 << 53
_LOWER, _UPPER = (">", ">="), ("<", "<=")


def joined(constraints: "list[Constraint]") -> "list[Constraint]":
    """With the lower and the upper bound of a number joined into one `between`."""
    found: list[Constraint] = []
    ends: dict[Any, list[Constraint]] = {}
    for constraint in constraints:
        place, op, value = constraint
        if op in _LOWER + _UPPER and type(value) is not str and abs(value) < _SAFE:
            ends.setdefault(place, []).append(constraint)
        else:
            found.append(constraint)
    for place, some in ends.items():
        lows = [_closed(op, value) for _, op, value in some if op in _LOWER]
        highs = [_closed(op, value) for _, op, value in some if op in _UPPER]
        if lows and highs:
            found.append((place, "between", (max(lows), min(highs))))
        else:
            found.extend(some)
    return found


def _closed(op: str, value: float) -> float:
    if op == ">":
        return math.nextafter(value, math.inf)
    return math.nextafter(value, -math.inf) if op == "<" else float(value)


def _width(low: float, high: float) -> int:
    """The class: high - low is below 2^(2 * class + 1)."""
    return math.frexp(max(0.0, high - low))[1] >> 1


class Intervals:
    def __init__(self, postings: Any) -> None:
        self._postings = postings
        # width class -> lower ends in order, upper ends and numbers beside them
        self._classes: dict[int, tuple[array[float], Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, low: float, high: float, number: int) -> None:
        width = _width(low, high)
        if width not in self._classes:
            self._classes[width] = (array("d"), self._postings.Reals(), self._postings.Numbers())
        lows, highs, numbers = self._classes[width]
        at = bisect_right(lows, low)
        lows.insert(at, low)
        highs.insert(at, high)
        numbers.insert(at, number)

    def remove(self, low: float, high: float, number: int) -> None:
        width = _width(low, high)
        lows, highs, numbers = self._classes[width]
        at = numbers.remove(number, bisect_left(lows, low), bisect_right(lows, low))
        lows.pop(at)
        highs.pop(at)
        if not lows:
            del self._classes[width]

    def collect(self, value: float, hits: list[Any]) -> None:
        """Appends the numbers of the intervals that hold the value."""
        if not -_SAFE <= value <= _SAFE:
            return
        for width, (lows, highs, numbers) in self._classes.items():
            # high - low was rounded, and so is this difference: step down twice to be sure.
            start = math.nextafter(math.nextafter(value - math.ldexp(1.0, 2 * width + 1), -math.inf), -math.inf)
            first, last = bisect_left(lows, start), bisect_right(lows, value)
            if first < last:
                hits.append(highs.those_from(value, first, last, numbers))
