"""_postings.py with numpy, for many terms: slices are views, and counting is one pass over them."""

from typing import Any

import numpy as np

__all__ = ["Needs", "Numbers", "Reals"]


class Numbers:
    kind: Any = np.int32

    def __init__(self) -> None:
        self._items = np.empty(4, self.kind)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def insert(self, at: int, number: float) -> None:
        if self._size == len(self._items):
            self._items = np.concatenate([self._items, np.empty_like(self._items)])
        self._items[at + 1 : self._size + 1] = self._items[at : self._size]
        self._items[at] = number
        self._size += 1

    def remove(self, number: int, low: int = 0, high: int = -1) -> int:
        end = self._size if high < 0 else high
        at = low + int(np.flatnonzero(self._items[low:end] == number)[0])
        self.pop(at)
        return at

    def pop(self, at: int) -> None:
        self._items[at : self._size - 1] = self._items[at + 1 : self._size]
        self._size -= 1

    def slice(self, low: int, high: int) -> Any:
        return self._items[low:high]


class Reals(Numbers):
    kind = np.float64

    def those_from(self, value: float, low: int, high: int, numbers: Numbers) -> Any:
        return numbers.slice(low, high)[self._items[low:high] >= value]


class Needs:
    def __init__(self) -> None:
        self._items = np.zeros(4, np.int16)
        self._size = 0

    def set(self, number: int, need: int) -> None:
        if number == len(self._items):
            self._items = np.concatenate([self._items, np.zeros_like(self._items)])
        self._items[number] = need
        self._size = max(self._size, number + 1)

    def met_by(self, hits: list[Any]) -> list[int]:
        occurs = np.bincount(np.concatenate(hits), minlength=self._size)
        needs = self._items[: self._size]
        return np.flatnonzero((occurs == needs) & (needs > 0)).tolist()
