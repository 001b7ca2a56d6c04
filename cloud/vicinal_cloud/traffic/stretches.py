"""When a driver was over the limit: stretches of time, one offence each, whoever heard them and in whatever order.

    reports over the limit     x  x  x      x  x                    x
                               └─ gap at most ─┘    longer than gap  └─
    stretches                  [            ...]                    [x]

Reports of one driver that are at most `gap` apart are one stretch. One that closes the gap between two makes them one,
which keeps the number of the earlier; one that turns out to be none may open a gap, and then there are two. So the
stretches of a set of reports do not depend on the order in which they came; and as nothing is taken that is older
than `late`, one is final `gap + late` after its end.

A stretch that was declared void stays apart: it takes what is nearest to it (as near to another one: for the driver),
and never becomes one with others. So what was void is never fined, and what was not never vanishes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .network import Position

__all__ = ["Evidence", "Stretch", "Stretches", "that_counts"]


class Evidence(NamedTuple):
    """One measurement over the limit, with all that a court may ask for."""

    speed: float
    """km/h, as measured"""
    tolerance: int
    """taken off"""
    limit: int
    limit_source: str
    area: str
    over: int
    """km/h over the limit after the tolerance"""
    place: Position
    place_source: str
    """"vehicle", or "monitor" where the vehicle had not said where it was"""
    heading: float | None
    braking: bool | None
    time: int
    received: int
    monitor: str
    vehicle: str
    seq: int


class Stretch:
    def __init__(self, number: int, plate: str) -> None:
        self.number = number
        self.plate = plate
        self.rows: dict[int, dict[str, Evidence]] = {}
        """by time and monitor: what each makes of it"""
        self.evidence: dict[int, Evidence] = {}
        """by time: that which counts"""
        self.void = False

    @property
    def first(self) -> int:
        return min(self.evidence)

    @property
    def last(self) -> int:
        return max(self.evidence)

    @property
    def duration(self) -> int:
        """ms over the limit that are proved; 0 for one report alone"""
        return self.last - self.first

    @property
    def worst(self) -> Evidence:
        """That which counts: the most over the limit, and of those the earliest."""
        return max(self.evidence.values(), key=lambda one: (one.over, one.speed, -one.time))

    @property
    def monitors(self) -> list[str]:
        """All that heard it."""
        return sorted({monitor for several in self.rows.values() for monitor in several})

    def away(self, time: int) -> int:
        """ms; 0 within it"""
        return max(self.first - time, time - self.last, 0)

    def add(self, one: Evidence) -> None:
        self.put(one.time, [*self.rows.get(one.time, {}).values(), one])

    def put(self, time: int, rows: Iterable[Evidence]) -> None:
        """All that there is of this time."""
        self.rows[time] = {one.monitor: one for one in rows}
        self.evidence[time] = that_counts(self.rows[time].values())

    def remove(self, time: int) -> dict[str, Evidence]:
        del self.evidence[time]
        return self.rows.pop(time)

    def all(self) -> list[Evidence]:
        return [one for time in sorted(self.rows) for one in self.rows[time].values()]


def that_counts(rows: Iterable[Evidence]) -> Evidence:
    """Of what several monitors make of one measurement, that which is best for the driver; one that knows where the
    vehicle was comes before one that does not."""
    known = list(rows)
    placed = [one for one in known if one.place_source == "vehicle"]
    return min(placed or known, key=lambda one: (one.over, one.speed, one.monitor))


class Stretches:
    """Of all drivers, as long as something may still be added."""

    def __init__(self, gap: int, late: int, first_number: int = 1) -> None:
        """`late` is how long after it happened something may still be said that counts."""
        self.gap = gap
        self.late = late
        self.next_number = first_number
        self._open: dict[str, list[Stretch]] = {}

    def of(self, plate: str, time: int) -> Stretch | None:
        return next((one for one in self._open.get(plate, ()) if time in one.evidence), None)

    def put(self, plate: str, time: int, rows: Iterable[Evidence]) -> tuple[Stretch, list[Stretch]]:
        """The stretch that it belongs to, and those that have become part of it."""
        near = [one for one in self._open.setdefault(plate, []) if one.away(time) <= self.gap]
        made = self.of(plate, time)
        if made is None and near:
            made = min(near, key=lambda one: (one.away(time), not one.void, one.number))
        if made is None:
            made = self._new(plate)
        merged = []
        if not made.void:
            together = {one.number: one for one in [made, *near] if not one.void}
            made = together.pop(min(together))
            merged = list(together.values())
        for one in merged:
            for at, several in one.rows.items():
                made.put(at, several.values())
            self._open[plate].remove(one)
        made.put(time, rows)
        return made, merged

    def remove(self, stretch: Stretch, time: int) -> Stretch | None:
        """It was not over the limit then. What is behind a gap that comes of it is another stretch; one with nothing
        left is gone."""
        stretch.remove(time)
        if not stretch.evidence:
            self._open[stretch.plate].remove(stretch)
            return None
        behind = [at for at in stretch.evidence if at > time]
        before = [at for at in stretch.evidence if at < time]
        if not behind or not before or min(behind) - max(before) <= self.gap:
            return None
        made = self._new(stretch.plate)
        for at in behind:
            made.put(at, stretch.remove(at).values())
        return made

    def _new(self, plate: str) -> Stretch:
        made = Stretch(self.next_number, plate)
        self.next_number += 1
        self._open.setdefault(plate, []).append(made)
        return made

    def finished(self, now: int) -> list[Stretch]:
        """Those that nothing can change any more; they are forgotten here."""
        found = []
        for plate, stretches in list(self._open.items()):
            over = [one for one in stretches if now > one.last + self.gap + self.late]
            found += over
            left = [one for one in stretches if one not in over]
            if left:
                self._open[plate] = left
            else:
                del self._open[plate]
        return sorted(found, key=lambda one: one.number)

    def next_timeout(self) -> int | None:
        ends = [one.last + self.gap + self.late + 1 for stretches in self._open.values() for one in stretches]
        return min(ends, default=None)

    def recall(self, stretch: Stretch) -> None:
        """From before a restart."""
        self._open.setdefault(stretch.plate, []).append(stretch)
        self.next_number = max(self.next_number, stretch.number + 1)

    def numbered(self, number: int) -> Stretch:
        return next(one for one in self.open() if one.number == number)

    def open(self) -> list[Stretch]:
        return sorted((one for many in self._open.values() for one in many), key=lambda one: one.number)
