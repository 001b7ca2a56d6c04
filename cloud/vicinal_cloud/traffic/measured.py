"""What was said of a driver's speed at one time, by all monitors that heard it, for as long as more may change what
becomes of it: a Location that comes later may say that it was somewhere else, or that it was there after all.

Here are also those who kept to the limit, in memory alone and until no such Location is taken any more. Nothing of
them is ever written.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush

from .reports import Report

__all__ = ["Measured", "Measurements"]

Identity = tuple[str, str, int]
"""monitor, vehicle, seq"""


class Measured:
    """Of one driver and time."""

    def __init__(self) -> None:
        self.reports: dict[str, Report] = {}
        """by monitor: of several of one monitor that which is best for the driver"""
        self.vehicles: set[str] = set()
        """that said it: pseudonyms"""
        self.verdicts: dict[Identity, str] = {}
        """of those that were counted"""

    def add(self, report: Report) -> None:
        known = self.reports.get(report.monitor)
        self.reports[report.monitor] = report if known is None else min(known, report, key=_rank)


def _rank(one: Report) -> tuple[float, str, int]:
    return one.speed, one.vehicle, one.seq


class Measurements:
    def __init__(self) -> None:
        self._known: dict[str, dict[int, Measured]] = {}
        """by plate and time"""
        self._times: dict[str, list[tuple[int, str]]] = {}
        """of a vehicle: times and plates"""
        self._oldest: list[tuple[int, str]] = []
        """a heap of them; what is gone already may still be in it"""

    def add(self, report: Report) -> Measured:
        assert report.time is not None
        times, key = self._known.setdefault(report.plate, {}), (report.time, report.plate)
        if report.time not in times:
            times[report.time] = Measured()
            heappush(self._oldest, key)
        found = times[report.time]
        found.add(report)
        if report.vehicle not in found.vehicles:
            found.vehicles.add(report.vehicle)
            insort(self._times.setdefault(report.vehicle, []), key)
        return found

    def of(self, plate: str, time: int) -> Measured:
        return self._known[plate][time]

    def near(self, vehicle: str, time: int, apart: int) -> list[tuple[str, int]]:
        """Plates and times that what this vehicle says of a time may change."""
        times = self._times.get(vehicle, [])
        first, last = bisect_left(times, (time - apart, "")), bisect_left(times, (time + apart + 1, ""))
        return [(plate, at) for at, plate in times[first:last]]

    def forget(self, before: int) -> None:
        while self._oldest and self._oldest[0][0] < before:
            time, plate = heappop(self._oldest)
            self._drop(plate, time)

    def erase(self, plate: str, vehicles: Iterable[str], held: Iterable[tuple[str, int]]) -> None:
        """All of a driver and its pseudonyms but what cases hold: plates and times."""
        own = {(plate, time) for time in self._known.get(plate, ())}
        own |= {(one, time) for vehicle in vehicles for time, one in self._times.get(vehicle, ())}
        for one, time in own - set(held):
            self._drop(one, time)

    def _drop(self, plate: str, time: int) -> None:
        gone = self._known.get(plate, {}).pop(time, None)
        if gone is None:
            return
        if not self._known[plate]:
            del self._known[plate]
        for vehicle in gone.vehicles:
            times = self._times[vehicle]
            del times[bisect_left(times, (time, plate))]
            if not times:
                del self._times[vehicle]

    def __len__(self) -> int:
        return sum(len(times) for times in self._known.values())
