"""When a driver was over the limit: stretches of time, one offence each, whoever heard them and in whatever order.

    reports over the limit     x  x  x      x  x                    x
                               └─ gap at most ─┘    longer than gap  └─
    stretches                  [            ...]                    [x]

Reports of one driver that are at most `gap` apart are one stretch. One that closes the gap between two makes them one,
which keeps the number of the earlier. So the stretches of a set of reports do not depend on the order in which they
came; and as no report is taken that is older than `late` (reports.py), one is final `gap + late` after its end.

A stretch that was declared void stays apart: it takes what is nearest to it (as near to another one: for the driver),
and never becomes one with others. So what was void is never fined, and what was not never vanishes.
"""

from typing import NamedTuple

from .network import Position

__all__ = ["Evidence", "Stretch", "Stretches"]


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
        self.evidence: dict[int, Evidence] = {}
        """by time: of several monitors the one that was first"""
        self.witnesses: dict[int, set[str]] = {}
        """by time: all monitors that heard it"""
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
        return sorted(set().union(*self.witnesses.values()))

    def away(self, time: int) -> int:
        """ms; 0 within it"""
        return max(self.first - time, time - self.last, 0)

    def add(self, evidence: Evidence) -> None:
        self.evidence.setdefault(evidence.time, evidence)
        self.witnesses.setdefault(evidence.time, set()).add(evidence.monitor)

    def take(self, other: "Stretch") -> None:
        for time, evidence in other.evidence.items():
            self.evidence.setdefault(time, evidence)
            self.witnesses.setdefault(time, set()).update(other.witnesses[time])


class Stretches:
    """Of all drivers, as long as something may still be added."""

    def __init__(self, gap: int, late: int, first_number: int = 1) -> None:
        self.gap = gap
        self.late = late
        self.next_number = first_number
        self._open: dict[str, list[Stretch]] = {}

    def add(self, plate: str, evidence: Evidence) -> tuple[Stretch, list[Stretch]]:
        """The stretch that it belongs to, and those that have become part of it."""
        known = self._open.setdefault(plate, [])
        near = [one for one in known if one.away(evidence.time) <= self.gap]
        if not near:
            made = Stretch(self.next_number, plate)
            self.next_number += 1
            known.append(made)
        else:
            made = min(near, key=lambda one: (one.away(evidence.time), not one.void, one.number))
            if not made.void:
                near = [one for one in near if not one.void]
                made = min(near, key=lambda one: one.number)
        made.add(evidence)
        merged = [] if made.void else [one for one in near if one is not made]
        for one in merged:
            made.take(one)
            self._open[plate].remove(one)
        return made, merged

    def known(self, plate: str, time: int, monitor: str) -> bool:
        """Whether this monitor has said so already."""
        return any(monitor in one.witnesses.get(time, ()) for one in self._open.get(plate, ()))

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

    def of(self, number: int) -> Stretch:
        return next(one for one in self.open() if one.number == number)

    def open(self) -> list[Stretch]:
        return sorted((one for many in self._open.values() for one in many), key=lambda one: one.number)
