"""One direction of one expressway: position reports in, toll notifications, accident alerts and charges out.

                          another place       lane 4
    enters ── lane 0..3 ──▶ travelling ──────────────▶ has left ──▶ enters anew on lane 0, after more than 60 s
                           ▲          │                    │
                           └──────────┘ same place:        └ any other report is ignored
                                        the fourth is a stop

In a segment that a vehicle was not in at its last report it is told the toll, and of an accident ahead; the toll it
was told for the segment before is charged. Not so on lane 4: who leaves there is told nothing, and pays for the
segment before only if it is another one. Directions know nothing of one another: each can be driven anywhere, by
anything that keeps the order of its reports. Reports come in the order of their times.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from .accidents import STOPPED_AFTER, Accidents
from .segments import Segments
from .tolls import NONE, Tariff, tariff

__all__ = ["EXIT", "Direction", "Found", "Report"]

ENTRY, EXIT = 0, 4
ANEW_AFTER = 60
"""seconds without a report, after which a vehicle on the entry lane is a new one"""

Report: TypeAlias = tuple[int, int, int, int, int, int]
"""time, vid, speed, lane, segment, position"""
_Vehicle: TypeAlias = tuple[int, int, int, int, int, int]
"""of its last report the time, lane, segment and position; how many reports came from there; the toll it was told"""


class Found(NamedTuple):
    """What came of reports, each in their order."""

    notifications: list[tuple[int, int, int, int]]
    """vid, time, LAV, toll"""
    alerts: list[tuple[int, int, int]]
    """time, segment of the accident, vid"""
    charges: list[tuple[int, int, int]]
    """time, vid, toll"""


class Direction:
    def __init__(self, west: int) -> None:
        self._downstream = -1 if west else 1
        self._segments = Segments()
        self._accidents = Accidents()
        self._tariff: Tariff = []
        self._vehicles: dict[int, _Vehicle] = {}
        # Of a vehicle that left more than ANEW_AFTER ago nothing matters but that: most have, at the end of a day.
        self._left: set[int] = set()

    @property
    def minute(self) -> int:
        """The one under way."""
        return self._segments.minute

    def drive(self, reports: Iterable[Report]) -> Found:
        found = Found([], [], [])
        notify, alert, charge = found.notifications.append, found.alerts.append, found.charges.append
        segments, accidents, vehicles, left = self._segments, self._accidents, self._vehicles, self._left
        speeds, readings, present, watched = segments.speeds, segments.readings, segments.vehicles, accidents.watched
        ends = segments.minute * 60
        for time, vid, speed, lane, seg, pos in reports:
            if time >= ends:
                self._begin(time // 60 + 1)
                speeds, readings, present = segments.speeds, segments.readings, segments.vehicles
                ends = segments.minute * 60
            last = vehicles.get(vid)
            still, told = 1, 0
            crossing = True
            if last is not None:
                if lane == ENTRY and time > last[0] + ANEW_AFTER:
                    pass
                elif last[1] == EXIT and lane != ENTRY:
                    continue
                else:
                    _, was_lane, was_seg, was_pos, still, told = last
                    crossing = seg != was_seg
                    if pos == was_pos and lane == was_lane and not crossing:
                        still += 1
                        if still == STOPPED_AFTER:
                            accidents.stop(vid, (lane, seg, pos), time)
                    else:
                        still = 1
                        if vid in watched:
                            accidents.moved(vid, (was_lane, was_seg, was_pos), time)
            elif vid in left:
                if lane != ENTRY:
                    continue
                left.discard(vid)
            if crossing:
                if told:
                    charge((time, vid, told))
                told = 0
                if lane != EXIT:
                    lav, told, ahead = self._tariff[seg]
                    if ahead != NONE:
                        alert((time, ahead, vid))
                    notify((vid, time, lav, told))
            vehicles[vid] = (time, lane, seg, pos, still, told)
            speeds[seg] += speed
            readings[seg] += 1
            present[seg].add(vid)
        return found

    def _begin(self, minute: int) -> None:
        self._segments.begin(minute)
        self._set_tariff()
        ago = (minute - 1) * 60 - ANEW_AFTER
        gone = [vid for vid, last in self._vehicles.items() if last[1] == EXIT and last[0] < ago]
        self._left.update(gone)
        for vid in gone:
            del self._vehicles[vid]

    def _set_tariff(self) -> None:
        segments = self._segments
        self._tariff = tariff(
            segments.cars(), segments.lav(), self._accidents.counting(segments.minute), self._downstream
        )

    def state(self) -> tuple[object, ...]:
        """All there is to know, as plain tuples, lists, dicts and sets of integers; not a copy."""
        return self._downstream, self._segments.state(), self._accidents.state(), self._vehicles, self._left

    @classmethod
    def of(cls, state: tuple[object, ...]) -> "Direction":
        """One that goes on from there, and takes it for its own."""
        found = cls(0)
        found._downstream, segments, accidents, found._vehicles, found._left = state  # type: ignore[assignment]
        found._segments = Segments.of(segments)  # type: ignore[arg-type]
        found._accidents = Accidents.of(accidents)  # type: ignore[arg-type]
        if found.minute:
            found._set_tariff()
        return found
