"""Who gets which rows of a run.

Rows of one shape whose values lie in the same classes (filter/_cuts_cpython.py) are for the same clients: one of them
is matched, and the answer is remembered until a subscription or an advertisement changes. Then the deliveries of all
clients are made as one table, sorted by client, and cut into pieces.
"""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ..event import Event
from ..filter import Filter
from ..filter._cuts_cpython import Cuts
from .runs_cpython import Group, Run, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    Taker = tuple[str, tuple[int, ...]]
    # a client, the frames it gets, how many, and the seq of the last. They lie in a table with those of others: who
    # keeps them for longer than this turn makes a copy.
    Share = tuple[str, bytes | memoryview, int, int]

__all__ = ["RunMatcher"]

# Answers remembered, and clients in them, in all.
_MAX_REMEMBERED = 65_536
_MAX_TAKERS = 1_000_000
# Clients, and sets of subscriptions of one, have numbers of 16 bits, which sort fastest.
_MAX_NAMES = 32_767
# In a frame such a number is a byte.
_SMALL = 24
# So many other sets in one run: past that one by one is as fast.
_MAX_SETS = 64
# So that classes have numbers.
_MAX_KINDS = 1 << 60

_Array = np.ndarray[Any, Any]


class _Column:
    """Grows at its end."""

    def __init__(self, kind: Any) -> None:
        self._room: _Array = np.empty(64, kind)
        self._size = 0

    def extend(self, values: list[int]) -> None:
        size = self._size + len(values)
        if size > len(self._room):
            self._room = np.resize(self._room, 2 * size)
        self._room[self._size : size] = values
        self._size = size

    @property
    def values(self) -> _Array:
        return self._room[: self._size]


class _Audiences:
    """Who gets an event, all that are known, in the order in which they were found. Clients have numbers, and so have
    the subscriptions of one that get it together."""

    def __init__(self) -> None:
        self.takers: list[list[Taker]] = []
        self._numbers: dict[Any, int] = {}
        # The takers of all, one audience behind the other: where each begins, and how many it has.
        self.clients, self.sets = _Column(np.int16), _Column(np.int16)
        self.starts, self.counts = _Column(np.int64), _Column(np.int64)
        self.names, self.kinds = _Numbers(), _Numbers()
        self.total = 0

    def of(self, takers: "list[Taker]") -> int:
        """Its number, the same for the same takers; -1 if there is none left."""
        key = tuple(takers)
        found = self._numbers.get(key)
        if found is None:
            clients = [self.names.of(client) for client, _ in takers]
            sets = [self.kinds.of(numbers) for _, numbers in takers]
            if len(self.names) > _MAX_NAMES or len(self.kinds) > _MAX_NAMES:
                return -1
            found = self._numbers[key] = len(self.takers)
            self.takers.append(takers)
            self.clients.extend(clients)
            self.sets.extend(sets)
            self.starts.extend([self.total])
            self.counts.extend([len(takers)])
            self.total += len(takers)
        return found


class RunMatcher:
    def __init__(self) -> None:
        self.cuts = Cuts()
        self.forget()

    def add(self, condition: Filter) -> None:
        self.cuts.add(condition)
        self.forget()

    def remove(self, condition: Filter) -> None:
        self.cuts.remove(condition)
        self.forget()

    def forget(self) -> None:
        # A shape goes with its connection. An audience's number; -1: not for here, one by one.
        self._remembered: WeakKeyDictionary[Shape, dict[int, int]] = WeakKeyDictionary()
        self._count = 0
        self._audiences = _Audiences()

    def match(self, run: Run, takers: "Callable[[Event], list[Taker] | None]") -> "list[Share] | None":
        """What each client gets; None if not all rows can be dealt with here: then nothing has happened. `takers` says
        for one event who gets it, or None."""
        if self._count >= _MAX_REMEMBERED or self._audiences.total >= _MAX_TAKERS:
            self.forget()
        by_row: _Array = np.empty(len(run), np.int64)
        for group in run.groups:
            audiences = self._of_group(group, takers)
            if audiences is None:
                return None
            by_row[slice(None) if group.rows is None else group.rows] = audiences
        if (by_row == by_row[0]).all():
            return self._for_all(run, self._audiences.takers[by_row[0]])
        return self._sorted(run, by_row)

    def _of_group(self, group: Group, takers: "Callable[[Event], list[Taker] | None]") -> "list[int] | None":
        """The audience of each row; just one if they are all the same."""
        keys = self._keys(group)
        if keys is None:
            return None
        known = self._remembered.setdefault(group.shape, {})
        found = [known.get(key) for key in keys]
        if None in found:
            for place, key in enumerate(keys):
                if key not in known:
                    who = takers(group.event(place))
                    known[key] = -1 if who is None else self._audiences.of(who)
                    self._count += 1
        numbers = [known[key] for key in keys] if None in found else found
        return None if -1 in numbers else numbers  # type: ignore[return-value]

    def _keys(self, group: Group) -> "list[int] | None":
        """A number for each row, equal for rows that no filter can tell apart; just one if they are all the same."""
        keys: _Array | None = None
        kinds = 1
        for place in group.shape.columns:
            if place not in self.cuts:
                continue
            column = group.column(place)
            classes = None if column is None else self.cuts.classes(place, column)
            if classes is None:
                return None
            kinds *= classes[1]
            if kinds > _MAX_KINDS:
                return None
            keys = classes[0] if keys is None else keys * classes[1] + classes[0]
        if keys is None or (keys[0] == keys).all():
            return [0 if keys is None else int(keys[0])]
        return keys.tolist()  # type: ignore[no-any-return]

    def _for_all(self, run: Run, takers: "list[Taker]") -> "list[Share]":
        """All rows are for the same: who has the same subscriptions gets the same bytes."""
        made: dict[Any, bytes] = {}
        last = int(run.seqs[-1])
        found: list[Share] = []
        for client, numbers in takers:
            if numbers not in made:
                frames = _Frames(len(run))
                for group in run.groups:
                    frames.put(group.deliveries(numbers), group.rows)
                made[numbers] = frames.all().tobytes()
            found.append((client, made[numbers], len(run), last))
        return found

    def _sorted(self, run: Run, audiences: _Array) -> "list[Share] | None":
        """Each row for its audience."""
        known = self._audiences
        counts = known.counts.values[audiences]
        rows = np.repeat(np.arange(len(run)), counts)
        if not len(rows):
            return []
        # Of each delivery the place of its taker among those of all audiences.
        takers = np.arange(len(rows)) + np.repeat(known.starts.values[audiences] - counts.cumsum() + counts, counts)
        clients = known.clients.values[takers]
        order = np.argsort(clients, kind="stable")  # and so by row for each client
        clients, rows, sets = clients[order], rows[order], known.sets.values[takers[order]]
        frames = self._filled(run, rows, sets)
        if frames is None:
            return None
        # Where the part of each client begins, and where it ends.
        starts = np.flatnonzero(clients[1:] != clients[:-1]) + 1
        stops = np.append(starts, len(clients))
        names, whole = known.names.names, memoryview(frames.all())  # type: ignore[arg-type]
        found: list[Share] = []
        start = end = 0
        for client, stop, after, last in zip(
            clients[stops - 1].tolist(), stops.tolist(), frames.ends(stops), run.seqs[rows[stops - 1]].tolist()
        ):
            found.append((names[client], whole[end:after], stop - start, last))
            start, end = stop, after
        return found

    def _filled(self, run: Run, rows: _Array, sets: _Array) -> "_Frames | None":
        """Each of these rows as a delivery to a set of subscriptions."""
        frames = _Frames(len(rows))
        names = self._audiences.kinds.names
        # Most clients have few subscriptions and one of them: a single number of one byte, or 0.
        single = np.array([name[0] if len(name) == 1 and name[0] < _SMALL else 0 for name in names], np.uint8)[sets]
        others = np.unique(sets[single == 0]).tolist()
        if len(others) > _MAX_SETS:
            return None
        for group in run.groups:
            which = rows if group.rows is None else group.places(len(run))[rows]
            mine = which >= 0
            where = np.flatnonzero(mine & (single > 0))
            if len(where):
                frames.put(group.deliveries(single[where], which[where]), where)
            for number in others:
                where = np.flatnonzero(mine & (sets == number))
                if len(where):
                    frames.put(group.deliveries(names[number], which[where]), where)
        return frames


class _Numbers:
    """Of names, in the order in which they came."""

    def __init__(self) -> None:
        self.names: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def of(self, name: Any) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number


class _Frames:
    """Frames of several lengths, one in each row of a table; then one behind the other."""

    def __init__(self, count: int) -> None:
        self._table: _Array = np.empty((count, 0), np.uint8)
        self._lengths: _Array = np.zeros(count, np.int64)

    def put(self, frames: _Array, where: "_Array | None") -> None:
        """Into some rows, or all."""
        width = frames.shape[1]
        if where is None:
            self._table = frames
            self._lengths[:] = width
            return
        if width > self._table.shape[1]:
            wider = np.empty((len(self._table), width), np.uint8)
            wider[:, : self._table.shape[1]] = self._table
            self._table = wider
        if len(where) == len(self._table) and width == self._table.shape[1]:
            self._table = frames
        else:
            self._table[where, :width] = frames
        self._lengths[where] = width

    def all(self) -> _Array:
        width = self._table.shape[1]
        if self._is_even():
            return self._table.reshape(-1)
        flat: _Array = self._table[np.arange(width) < self._lengths[:, None]]
        return flat

    def ends(self, stops: _Array) -> "list[int]":
        """Where so many rows end in what all() gives."""
        width = self._table.shape[1]
        found = stops * width if self._is_even() else self._lengths.cumsum()[stops - 1]
        return found.tolist()  # type: ignore[no-any-return]

    def _is_even(self) -> bool:
        return bool((self._lengths == self._table.shape[1]).all())
