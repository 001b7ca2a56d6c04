"""Lists of term numbers, and counting over them: plain Python. _postings_cpython.py does the same for many, with numpy.

Numbers  a list of term numbers that gives slices of itself
Needs    how often each must occur; which do, in a list of slices
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Needs", "Numbers", "Reals"]


class Numbers:
    """A list of numbers that gives slices of itself."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def __len__(self) -> int:
        return len(self.items)

    def insert(self, at: int, number: int) -> None:
        self.items.insert(at, number)

    def remove(self, number: int, low: int = 0, high: int = -1) -> int:
        """From between two places; where it was."""
        at = low + self.items[low : len(self.items) if high < 0 else high].index(number)
        self.items.pop(at)
        return at

    def slice(self, low: int, high: int) -> "Any":
        return self.items[low:high]


class Reals(Numbers):
    """The upper ends of intervals, beside their numbers."""

    def pop(self, at: int) -> None:
        self.items.pop(at)

    def those_from(self, value: float, low: int, high: int, numbers: Numbers) -> "Any":
        """Of the numbers between two places those whose end is at least the value."""
        return [number for end, number in zip(self.items[low:high], numbers.items[low:high]) if end >= value]


class Needs:
    """How often each number must occur; 0 for a free number, which never matches."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def set(self, number: int, need: int) -> None:
        if number == len(self.items):
            self.items.append(need)
        else:
            self.items[number] = need

    def met_by(self, hits: "list[Any]") -> "list[int]":
        needs = self.items
        counts: dict[int, int] = {}
        for numbers in hits:
            for number in numbers:
                counts[number] = counts.get(number, 0) + 1
        return [number for number, count in counts.items() if count == needs[number]]
