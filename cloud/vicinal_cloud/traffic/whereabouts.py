"""Where vehicles were, for a while: a Speed event has no place, the Location events beside it have.

A sighting is what a vehicle said of itself at one time: its place, and perhaps its heading and whether it braked.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from .network import Position
from .reports import Report

__all__ = ["NEAR_MS", "Sighting", "Whereabouts"]

NEAR_MS = 2_000
"""at 50 km/h that is 28 m"""
MOST = 4_096
"""times of one vehicle that are kept: an hour's"""
AT_ONCE = 16
"""places of one vehicle at one time"""


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
        self._sightings: dict[str, dict[int, list[Sighting]]] = {}
        """by time: where it says that it was in several places at once, all of them"""

    def add(self, report: Report) -> Sighting:
        assert report.time is not None
        assert report.place is not None
        made = Sighting(
            report.vehicle, report.time, report.place, report.heading, report.braking, report.monitor
        )  # fmt: skip
        self.recall(made)
        return made

    def recall(self, one: Sighting) -> None:
        """Also from before a restart."""
        own = self._sightings.setdefault(one.vehicle, {})
        if one.time not in own:
            times = self._times.setdefault(one.vehicle, [])
            insort(times, one.time)
            if len(times) > MOST:
                oldest = times.pop(0)
                if oldest == one.time:
                    return
                del own[oldest]
        several = own.setdefault(one.time, [])
        if len(several) < AT_ONCE and _said(one) not in [_said(other) for other in several]:
            several.append(one)

    def near(self, vehicle: str, time: int) -> list[Sighting]:
        """The nearest in time, if they are near: in an order that does not depend on when they came. There are several
        where one is as long before as another is after, or where the vehicle says that it was in two places."""
        times = self._times.get(vehicle, [])
        place = bisect_left(times, time)
        apart = min([abs(one - time) for one in times[max(0, place - 1) : place + 1]], default=NEAR_MS + 1)
        if apart > NEAR_MS:
            return []
        own = self._sightings[vehicle]
        found = [one for at in sorted({time - apart, time + apart}) for one in own.get(at, ())]
        return sorted(found, key=_said)

    def latest(self) -> list[Sighting]:
        return [self._sightings[vehicle][times[-1]][-1] for vehicle, times in sorted(self._times.items())]

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


def _said(one: Sighting) -> tuple[int, Position, float, int]:
    """All but who heard it."""
    heading = -1.0 if one.heading is None else one.heading
    return one.time, one.place, heading, -1 if one.braking is None else int(one.braking)
