"""Exactly once, and in order: what the log knows of each producer.

    seq > highest                          new: store it (a gap is legal, as filters and scopes make gaps)
    in the window, known                   a duplicate, its offset is known
    in the window, not known               out of order: something later was stored before it, so it is refused
    before the window                      a duplicate: a producer that keeps its order can only repeat it

The window is the last `window` to 2 * `window` sequence numbers stored.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from .limits import DEDUP_WINDOW, MAX_PRODUCERS

__all__ = ["BEFORE_WINDOW", "NEVER_STORED", "ProducerIndex"]

BEFORE_WINDOW = -1
NEVER_STORED = -2


class _Producer:
    __slots__ = ("floor", "offsets", "seqs")

    def __init__(self, floor: int = -1, seqs: "array[int] | None" = None, offsets: "array[int] | None" = None) -> None:
        self.floor = floor  # the highest seq that has left the window, or -1
        self.seqs = array("q") if seqs is None else seqs
        self.offsets = array("q") if offsets is None else offsets


class ProducerIndex:
    def __init__(self, window: int = DEDUP_WINDOW, most: int = MAX_PRODUCERS) -> None:
        self.window = window
        self.most = most
        self._producers: dict[str, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer: str) -> bool:
        return producer in self._producers

    def highest(self, producer: str) -> int:
        """-1 if nothing of it is known."""
        state = self._producers.get(producer)
        return -1 if state is None else state.seqs[-1]

    def find(self, producer: str, seq: int) -> int:
        """The offset at which a seq not above the highest was stored, BEFORE_WINDOW or NEVER_STORED."""
        state = self._producers[producer]
        at = bisect_left(state.seqs, seq)
        if at < len(state.seqs) and state.seqs[at] == seq:
            return state.offsets[at]
        return BEFORE_WINDOW if seq <= state.floor else NEVER_STORED

    def note(self, producer: str, seq: int, offset: int) -> None:
        """It is stored."""
        state = self._producers.get(producer)
        if state is None:
            state = self._producers[producer] = _Producer()
        elif seq <= state.seqs[-1]:
            return  # a log of another making may hold it; the highest stays the highest
        state.seqs.append(seq)
        state.offsets.append(offset)
        if len(state.seqs) >= 2 * self.window:
            state.floor = state.seqs[self.window - 1]
            del state.seqs[: self.window]
            del state.offsets[: self.window]

    def forget_before(self, first: int) -> int:
        """Forgets the producers all of whose records retention has removed; gives how many."""
        old = [producer for producer, state in self._producers.items() if state.offsets[-1] < first]
        for producer in old:
            del self._producers[producer]
        return len(old)

    def states(self) -> "Iterator[tuple[str, int, array[int], array[int]]]":
        """producer, floor, seqs, offsets"""
        for producer, state in self._producers.items():
            yield producer, state.floor, state.seqs, state.offsets

    def restore(self, producer: str, floor: int, seqs: "array[int]", offsets: "array[int]") -> None:
        self._producers[producer] = _Producer(floor, seqs, offsets)
