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
    # a client, the frames it gets, how many, and the seq of the last
    Share = tuple[str, bytes, int, int]

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


class _Audience:
    """Who gets an event. Clients have numbers, and so have the subscriptions of one that get it together."""

    def __init__(self, takers: "list[Taker]", clients: list[int], sets: list[int]) -> None:
        self.takers = takers
        self.clients = np.array(clients, np.int16)
        self.sets = np.array(sets, np.int16)


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
        # A shape goes with its connection. None: not for here, one by one.
        self._remembered: WeakKeyDictionary[Shape, dict[int, _Audience | None]] = WeakKeyDictionary()
        self._count = 0
        self._takers = 0
        self._audiences: dict[Any, _Audience] = {}
        self._clients = _Numbers()
        self._sets = _Numbers()

    def match(self, run: Run, takers: "Callable[[Event], list[Taker] | None]") -> "list[Share] | None":
        """What each client gets; None if not all rows can be dealt with here: then nothing has happened. `takers` says
        for one event who gets it, or None."""
        by_row: list[Any] = [None] * len(run)
        for group in run.groups:
            audiences = self._of_group(group, takers)
            if audiences is None:
                return None
            if len(audiences) == 1:
                audiences *= len(group.table)
            if group.rows is None:
                by_row = audiences
            else:
                for row, audience in zip(group.rows.tolist(), audiences):
                    by_row[row] = audience
        if len(set(by_row)) == 1:
            return self._for_all(run, by_row[0])
        return self._sorted(run, by_row)

    def _of_group(self, group: Group, takers: "Callable[[Event], list[Taker] | None]") -> "list[_Audience] | None":
        """For each row; just one if they are all the same."""
        keys = self._keys(group)
        if keys is None:
            return None
        if self._count >= _MAX_REMEMBERED or self._takers >= _MAX_TAKERS:
            self.forget()
        known = self._remembered.setdefault(group.shape, {})
        found: list[_Audience] = []
        for place, key in enumerate(keys):
            if key not in known:
                known[key] = self._audience(takers(group.event(place)))
                self._count += 1
            audience = known[key]
            if audience is None:
                return None
            found.append(audience)
        return found

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

    def _audience(self, takers: "list[Taker] | None") -> "_Audience | None":
        """The same one for the same takers."""
        if takers is None:
            return None
        known = self._audiences.get(tuple(takers))
        if known is None:
            clients = [self._clients.of(client) for client, _ in takers]
            sets = [self._sets.of(numbers) for _, numbers in takers]
            if len(self._clients) > _MAX_NAMES or len(self._sets) > _MAX_NAMES:
                return None
            known = self._audiences[tuple(takers)] = _Audience(takers, clients, sets)
            self._takers += len(takers)
        return known

    def _for_all(self, run: Run, audience: _Audience) -> "list[Share]":
        """All rows are for the same: who has the same subscriptions gets the same bytes."""
        made: dict[Any, bytes] = {}
        last = int(run.seqs[-1])
        found = []
        for client, numbers in audience.takers:
            if numbers not in made:
                frames = _Frames(len(run))
                for group in run.groups:
                    frames.put(group.deliveries(numbers), group.rows)
                made[numbers] = frames.all().tobytes()
            found.append((client, made[numbers], len(run), last))
        return found

    def _sorted(self, run: Run, audiences: list[_Audience]) -> "list[Share] | None":
        """Each row for its audience."""
        rows = np.repeat(np.arange(len(run)), [len(audience.takers) for audience in audiences])
        if not len(rows):
            return []
        clients = np.concatenate([audience.clients for audience in audiences])
        sets = np.concatenate([audience.sets for audience in audiences])
        order = np.argsort(clients, kind="stable")  # and so by row for each client
        clients, rows, sets = clients[order], rows[order], sets[order]
        frames = self._filled(run, rows, sets)
        if frames is None:
            return None
        # Where the part of each client begins, and where it ends.
        starts = np.flatnonzero(clients[1:] != clients[:-1]) + 1
        stops = np.append(starts, len(clients))
        names, whole = self._clients.names, frames.all().tobytes()
        found = []
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
        names = [self._sets.names[number] for number in range(len(self._sets))]
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
