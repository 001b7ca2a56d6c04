"""What waits, by producer: the index of an outbox, without the events. 16 bytes for each, 24 where it may expire.

    Lane    the events of one producer in the order they came; its `top` is the highest priority among them
    Lanes   the lanes, sorted by (top of the lane, arrival of its first event): the last one is next

A lane goes by the highest priority in it, so that an urgent event brings forward those before it. That is the priority
inheritance of an outbox, and it costs a comparison of the lane's top when something comes or goes.
"""

from .._compat import MICROPYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NEVER", "Lane", "Lanes"]

if MICROPYTHON:

    def column() -> "Any":
        return []
else:
    from ._column_cpython import column

NEVER = -1
_PRIORITIES = 32768
# An id is below it: a microsecond of Unix time until the year 4253.
_ID_BITS = 56
# Dead places are cleared away when there are more than this, and more than what lives.
_SLACK = 256


def index_of(ids: "Any", number: int, low: int, high: int) -> int:
    """The first place from `low` on that is not below `number`."""
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


class Lane:
    __slots__ = ("_counts", "_dead", "_ids", "_meta", "_tops", "first", "key", "live", "producer", "top", "until")

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.live = 0
        self.first = 0
        self.key = 0
        self.top = 0
        self.until: Any = None  # Expires of each, from the first that has one
        self._ids: Any = column()
        self._meta: Any = column()  # size << 16 | priority + 32768; 0 is dead
        self._dead = 0  # behind the first
        self._counts: dict[int, int] = {}
        self._tops: list[int] = []  # the priorities there are, ascending

    def add(self, number: int, priority: int, expires: int, size: int) -> None:
        if expires != NEVER and self.until is None:
            self.until = column()
            for _ in self._ids:
                self.until.append(NEVER)
        if self.until is not None:
            self.until.append(expires)
        self._ids.append(number)
        self._meta.append(size << 16 | (priority + _PRIORITIES))
        self.live += 1
        count = self._counts.get(priority, 0)
        self._counts[priority] = count + 1
        if not count:
            tops = self._tops
            tops.insert(index_of(tops, priority, 0, len(tops)), priority)
            self.top = tops[-1]

    def next_key(self) -> int:
        """Where it stands among others: the smallest is next."""
        return (_PRIORITIES - self.top) << _ID_BITS | int(self._ids[self.first])

    def find(self, number: int) -> int:
        """Its place, or -1 when it no longer waits."""
        ids = self._ids
        at = self.first
        if at >= len(ids):
            return -1
        if ids[at] != number:
            at = index_of(ids, number, at, len(ids))
        return at if at < len(ids) and ids[at] == number and self._meta[at] else -1

    def after(self, number: int) -> int:
        """The first place behind it."""
        return index_of(self._ids, number + 1, self.first, len(self._ids))

    def at(self, place: int) -> "tuple[int, int, int, int]":
        """id, priority, expires, size; size 0 is a dead one"""
        meta = self._meta[place]
        until = NEVER if self.until is None else self.until[place]
        return self._ids[place], (meta & 0xFFFF) - _PRIORITIES, until, meta >> 16

    def __len__(self) -> int:
        """The number of places, dead ones too."""
        return len(self._ids)

    def remove(self, place: int) -> None:
        priority = (self._meta[place] & 0xFFFF) - _PRIORITIES
        self._meta[place] = 0
        self.live -= 1
        count = self._counts[priority] - 1
        if count:
            self._counts[priority] = count
        else:
            del self._counts[priority]
            tops = self._tops
            tops.pop(index_of(tops, priority, 0, len(tops)))
            self.top = tops[-1] if tops else 0
        if place == self.first:
            self._advance()
        else:
            self._dead += 1
        if self.first + self._dead > self.live + _SLACK:
            self._clear()

    def _advance(self) -> None:
        first, meta = self.first + 1, self._meta
        if self._dead:
            while first < len(meta) and not meta[first]:
                first += 1
                self._dead -= 1
        self.first = first

    def _clear(self) -> None:
        if self._dead:
            kept = [place for place in range(self.first, len(self._ids)) if self._meta[place]]
            self._ids, self._meta = _chosen(self._ids, kept), _chosen(self._meta, kept)
            if self.until is not None:
                self.until = _chosen(self.until, kept)
        else:
            self._ids, self._meta = self._ids[self.first :], self._meta[self.first :]
            if self.until is not None:
                self.until = self.until[self.first :]
        self.first = self._dead = 0


def _chosen(old: "Any", places: "list[int]") -> "Any":
    new = column()
    for place in places:
        new.append(old[place])
    return new


class Lanes:
    def __init__(self) -> None:
        self.by_producer: dict[str, Lane] = {}
        self._keys: list[int] = []  # descending
        self._by_key: dict[int, Lane] = {}

    def add(self, producer: str, number: int, priority: int, expires: int, size: int) -> Lane:
        lane = self.by_producer.get(producer)
        if lane is None:
            lane = self.by_producer[producer] = Lane(producer)
            lane.add(number, priority, expires, size)
            self.place(lane)
        else:
            top = lane.top
            lane.add(number, priority, expires, size)
            if lane.top != top:
                self._displace(lane)
                self.place(lane)
        return lane

    def remove(self, lane: Lane, place: int) -> None:
        """One that waits, wherever it is."""
        lane.remove(place)
        if not lane.live:
            self._displace(lane)
            del self.by_producer[lane.producer]
        elif lane.next_key() != lane.key:
            self._displace(lane)
            self.place(lane)

    def next(self) -> "Lane | None":
        return self._by_key[self._keys[-1]] if self._keys else None

    def place(self, lane: Lane) -> None:
        key = lane.key = lane.next_key()
        self._by_key[key] = lane
        keys = self._keys
        if not keys or key < keys[-1]:
            keys.append(key)
        else:
            keys.insert(self._index(key), key)

    def take_head(self, lane: Lane) -> None:
        """Of the next lane; it stands in its new place after it."""
        lane.remove(lane.first)
        del self._by_key[lane.key]
        keys = self._keys
        if not lane.live:
            keys.pop()
            del self.by_producer[lane.producer]
            return
        key = lane.next_key()
        if len(keys) == 1 or key < keys[-2]:
            keys[-1] = lane.key = key
            self._by_key[key] = lane
        else:
            keys.pop()
            self.place(lane)

    def _displace(self, lane: Lane) -> None:
        self._keys.pop(self._index(lane.key))
        del self._by_key[lane.key]

    def _index(self, key: int) -> int:
        """The first place that is not above it."""
        keys = self._keys
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] > key:
                low = middle + 1
            else:
                high = middle
        return low
