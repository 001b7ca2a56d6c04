"""What was said of a driver's speed at one time, by all monitors that heard it, for as long as more may change what
becomes of it: a Location that comes later may say that it was somewhere else, or that it was there after all.

Here are also those who kept to the limit, in memory alone and until no such Location is taken any more. Nothing of
them is ever written.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from .reports import Report

__all__ = ["Measured", "Measurements"]

Identity = tuple[str, str, int]
"""monitor, vehicle, seq"""


class Measured:
    """Of one driver and time."""

    def __init__(self) -> None:
        self.reports: dict[str, Report] = {}
        """by monitor: of several of one monitor that which is best for the driver"""
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

    def add(self, report: Report) -> Measured:
        assert report.time is not None
        found = self._known.setdefault(report.plate, {}).setdefault(report.time, Measured())
        found.add(report)
        times, key = self._times.setdefault(report.vehicle, []), (report.time, report.plate)
        place = bisect_left(times, key)
        if times[place : place + 1] != [key]:
            insort(times, key)
        return found

    def of(self, plate: str, time: int) -> Measured:
        return self._known[plate][time]

    def near(self, vehicle: str, time: int, apart: int) -> list[tuple[str, int]]:
        """Plates and times that what this vehicle says of a time may change."""
        times = self._times.get(vehicle, [])
        first, last = bisect_left(times, (time - apart, "")), bisect_right(times, (time + apart + 1, ""))
        return [(plate, at) for at, plate in times[first:last] if at in self._known.get(plate, ())]

    def forget(self, before: int) -> None:
        for plate, times in list(self._known.items()):
            self._keep(plate, [at for at in times if at >= before])
        self._tidy()

    def erase(self, vehicles: Iterable[str], held: Iterable[tuple[str, int]]) -> None:
        """All of these vehicles but what cases hold: plates and times."""
        names, kept = set(vehicles), set(held)
        for plate, times in list(self._known.items()):
            gone = [
                at for at, one in times.items()
                if (plate, at) not in kept and not names.isdisjoint([report.vehicle for report in one.reports.values()])
            ]  # fmt: skip
            self._keep(plate, [at for at in times if at not in gone])
        self._tidy()

    def _keep(self, plate: str, times: list[int]) -> None:
        known = self._known[plate]
        if not times:
            del self._known[plate]
        elif len(times) < len(known):
            self._known[plate] = {at: known[at] for at in times}

    def _tidy(self) -> None:
        for vehicle, times in list(self._times.items()):
            left = [key for key in times if key[0] in self._known.get(key[1], ())]
            if not left:
                del self._times[vehicle]
            elif len(left) < len(times):
                self._times[vehicle] = left

    def __len__(self) -> int:
        return sum(len(times) for times in self._known.values())
