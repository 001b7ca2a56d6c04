"""Who gets which rows of a run.

Rows whose values lie in the same classes (filter/_cuts_cpython.py) are for the same clients: one of them is matched,
and the answer is remembered until a subscription or an advertisement changes. Then the deliveries of all clients are
made as one table, sorted by client, and cut into pieces.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..event import Event
from ..filter import Filter
from ..filter._cuts_cpython import Cuts
from .runs_cpython import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    Taker = tuple[str, tuple[int, ...]]

__all__ = ["RunMatcher"]

# Answers remembered, in all.
_MAX_REMEMBERED = 65_536
# In a delivery's frame such a number is a byte.
_SMALL = 24

# Clients have numbers of 16 bits, which sort fastest.
_MAX_NAMES = 32_767
# So that they have numbers.
_MAX_KINDS = 1 << 60

_Array = np.ndarray[Any, Any]


class _Audience:
    """Clients by number, and the number of the subscription of each."""

    def __init__(self, takers: "list[Taker]", ids: "list[int]") -> None:
        self.names = [name for name, _ in takers]
        self.clients = np.array(ids, np.int16)
        self.numbers = np.array([numbers[0] for _, numbers in takers], np.uint8)


class RunMatcher:
    def __init__(self) -> None:
        self.cuts = Cuts()
        self._remembered: dict[Any, dict[int, _Audience]] = {}
        self._count = 0
        self._ids: dict[str, int] = {}
        self._names: list[str] = []

    def add(self, condition: Filter) -> None:
        self.cuts.add(condition)
        self.forget()

    def remove(self, condition: Filter) -> None:
        self.cuts.remove(condition)
        self.forget()

    def forget(self) -> None:
        if self._remembered:
            self._remembered = {}
            self._count = 0
            self._ids = {}
            self._names = []

    def match(
        self, run: Run, client: str, takers: "Callable[[Event], list[Taker] | None]"
    ) -> "list[tuple[str, bytes, int, int]] | None":
        """For each client that gets something the frames, how many, and the seq of the last. None if not all rows can
        be dealt with here; nothing has happened then. `takers` says for one event who gets it, or None."""
        keys = self._keys(run)
        if keys is None:
            return None
        known = self._remembered.setdefault((client, run.shape), {})
        for row, key in enumerate(keys):
            if key not in known:
                audience = self._made(takers(run.event(row)))
                if audience is None or self._count >= _MAX_REMEMBERED:
                    self.forget()
                    return None
                known[key] = audience
                self._count += 1
        if len(keys) == 1:
            return self._for_all(run, known[keys[0]])
        return self._sorted(run, [known[key] for key in keys])

    def _keys(self, run: Run) -> "list[int] | None":
        """A number for each row, equal for rows that no filter can tell apart; just one if they are all the same."""
        keys: _Array | None = None
        kinds = 1
        for place in run.shape.columns:
            if place not in self.cuts:
                continue
            column = run.column(place)
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

    def _made(self, takers: "list[Taker] | None") -> "_Audience | None":
        if takers is None or any([len(numbers) != 1 or numbers[0] >= _SMALL for _, numbers in takers]):
            return None
        ids = []
        for name, _ in takers:
            if name not in self._ids:
                if len(self._names) >= _MAX_NAMES:
                    return None
                self._ids[name] = len(self._names)
                self._names.append(name)
            ids.append(self._ids[name])
        return _Audience(takers, ids)

    def _for_all(self, run: Run, audience: _Audience) -> "list[tuple[str, bytes, int, int]]":
        """All rows are for the same: who has the same number gets the same bytes."""
        made: dict[int, bytes] = {}
        last = int(run.seqs[-1])
        found = []
        for name, number in zip(audience.names, audience.numbers.tolist()):
            if number not in made:
                made[number] = run.deliveries(number).tobytes()
            found.append((name, made[number], len(run), last))
        return found

    def _sorted(self, run: Run, audiences: list[_Audience]) -> "list[tuple[str, bytes, int, int]]":
        """Each row for its audience."""
        rows = np.repeat(np.arange(len(run)), [len(audience.names) for audience in audiences])
        clients = np.concatenate([audience.clients for audience in audiences])
        numbers = np.concatenate([audience.numbers for audience in audiences])
        if not len(rows):
            return []
        order = np.argsort(clients, kind="stable")  # and so by row for each client
        clients, rows = clients[order], rows[order]
        frames = run.chosen(rows, numbers[order])
        starts = np.flatnonzero(np.diff(clients, prepend=-1)).tolist()
        lasts = run.seqs[rows]
        found = []
        for start, stop in zip(starts, [*starts[1:], len(clients)]):
            name = self._names[int(clients[start])]
            found.append((name, frames[start:stop].tobytes(), stop - start, int(lasts[stop - 1])))
        return found
