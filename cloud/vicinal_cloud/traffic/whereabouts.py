"""Where vehicles were, for a while: a Speed event has no place, the Location events beside it have.

A sighting is what a vehicle said of itself at one time: its place, and perhaps its heading and whether it braked.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from .network import Position
from .reports import Report

__all__ = ["Sighting", "Whereabouts"]

NEAR_MS = 2_000
"""at 50 km/h that is 28 m"""
MOST = 4_096
"""sightings of one vehicle that are kept: an hour's"""


class Sighting(NamedTuple):
    vehicle: str
    time: int
    place: Position
    heading: float | None
    braking: bool | None
    monitor: str


class Whereabouts:
    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {}
        self._sightings: dict[str, dict[int, Sighting]] = {}

    def add(self, report: Report) -> Sighting:
        """Of one time the last counts."""
        assert report.time is not None
        assert report.place is not None
        vehicle, time = report.vehicle, report.time
        made = Sighting(vehicle, time, report.place, report.heading, report.braking, report.monitor)
        own = self._sightings.setdefault(vehicle, {})
        if time not in own:
            times = self._times.setdefault(vehicle, [])
            insort(times, time)
            if len(times) > MOST:
                del own[times.pop(0)]
        own[time] = made
        return made

    def at(self, vehicle: str, time: int) -> Sighting | None:
        """The nearest in time, if it is near."""
        times = self._times.get(vehicle, [])
        place = bisect_left(times, time)
        near = [one for one in times[max(0, place - 1) : place + 1] if abs(one - time) <= NEAR_MS]
        return self._sightings[vehicle][min(near, key=lambda one: (abs(one - time), one))] if near else None

    def latest(self) -> list[Sighting]:
        return [self._sightings[vehicle][times[-1]] for vehicle, times in sorted(self._times.items())]

    def forget(self, before: int) -> None:
        for vehicle, times in list(self._times.items()):
            kept = times[bisect_left(times, before) :]
            for time in times[: len(times) - len(kept)]:
                del self._sightings[vehicle][time]
            if kept:
                self._times[vehicle] = kept
            else:
                del self._times[vehicle], self._sightings[vehicle]

    def erase(self, vehicles: Iterable[str]) -> None:
        for vehicle in vehicles:
            self._times.pop(vehicle, None)
            self._sightings.pop(vehicle, None)
