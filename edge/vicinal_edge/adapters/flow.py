"""How traffic flows: counted at the roadside from what vehicles say, so that who they were never leaves it.

    [[service]]
    type = "flow"
    every_s = 60                      # a count of each road, so often
    near_m = 25                       # metres from the middle of a road that are still on it
    [[service.road]]
    name = "Quay Street"
    lines = [[[53.3400, -6.2600], [53.3410, -6.2590]]]      # latitude and longitude, of one line or several

It is a service that events are published to, Location and Speed of vehicles, and that has events of its own:

    Flow    road, since (Unix ms), seconds, vehicles, reports, mean_kmh        of each road, also when it is empty

A vehicle is on the nearest road of where it said last that it is, if that is not long ago. `vehicles` are different
ones, `mean_kmh` is of all that they said there, 0 where they said nothing. What of an interval is not over when the
gateway ends is not said. Everything published here is counted:

    accepted = Location: used + of no road    + Speed: used + of no road + no place
"""

import asyncio
import contextlib
import math
from itertools import pairwise
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.tables_cpython import Table

from ..adapter import Adapter, Port, Refused, Unavailable

__all__ = ["Counts", "FlowAdapter", "Line"]

FRESH_MS = 3_000
"""that a vehicle is where it said it was"""
VEHICLES_MAX = 100_000
"""whose last place is known: a day's of a big town, forgotten after FRESH_MS anyway"""
UNIT = 10_000_000
METRES = 111_195.0
"""of a degree of latitude"""

Line = tuple[tuple[float, float], ...]
"""latitudes and longitudes"""


class Counts:
    """Of an interval. Pure: times are arguments."""

    def __init__(self, roads: dict[str, list[Line]], near: float) -> None:
        self._near = near
        self._roads = {name: [_metres(line) for line in lines] for name, lines in roads.items()}
        self._where: dict[str, tuple[int, str | None]] = {}
        self._vehicles: dict[str, set[str]] = {name: set() for name in roads}
        self._sums: dict[str, tuple[int, float]] = dict.fromkeys(roads, (0, 0.0))
        self.counters = {"used": 0, "of no road": 0, "no place": 0}

    def add(self, event: Event, now: int) -> None:
        time = event.attrs.get("Time", now)
        vehicle, at = str(event.producer), time if type(time) is int else now
        if event.subject == "Location":
            lat, lon = event.get("lat"), event.get("lon")
            if type(lat) is not int or type(lon) is not int:
                raise Refused(f"Location: lat, lon are {lat!r}, {lon!r}, want integers of 1e-7 degrees")
            road = self._road(lat / UNIT, lon / UNIT)
            self._where.pop(vehicle, None)
            self._where[vehicle] = (at, road)
            if len(self._where) > VEHICLES_MAX:
                del self._where[next(iter(self._where))]
            if road is not None:
                self._vehicles[road].add(vehicle)
            self.counters["of no road" if road is None else "used"] += 1
            return
        rate = event.get("rate")
        if event.subject != "Speed" or type(rate) not in (int, float):
            raise Refused(f"{event.subject} with rate {rate!r}: want Location, or Speed with a number")
        known, road = self._where.get(vehicle, (0, None))
        if abs(at - known) > FRESH_MS:
            self.counters["no place"] += 1
        elif road is None:
            self.counters["of no road"] += 1
        else:
            count, whole = self._sums[road]
            self._sums[road] = (count + 1, whole + float(rate))
            self.counters["used"] += 1

    def take(self, since: int, until: int) -> list[Event]:
        """What was counted, and from now on anew."""
        found = []
        for road, vehicles in self._vehicles.items():
            count, whole = self._sums[road]
            params: dict[str, Any] = {
                "road": road, "since": since, "seconds": round((until - since) / 1000), "vehicles": len(vehicles),
                "reports": count, "mean_kmh": round(whole / count, 1) if count else 0.0,
            }  # fmt: skip
            found.append(Event("Flow", params, {"Time": until}))
            vehicles.clear()
            self._sums[road] = (0, 0.0)
        self._where = {who: seen for who, seen in self._where.items() if until - seen[0] <= FRESH_MS}
        return found

    def _road(self, lat: float, lon: float) -> str | None:
        """The nearest, if it is near."""
        x, y = _point(lat, lon)
        best, found = self._near, None
        for name, lines in self._roads.items():
            for line in lines:
                for a, b in pairwise(line):
                    far = _distance(x, y, a, b, math.cos(math.radians(lat)))
                    if far <= best:
                        best, found = far, name
        return found


def _point(lat: float, lon: float) -> tuple[float, float]:
    return lon * METRES, lat * METRES


def _metres(line: Line) -> list[tuple[float, float]]:
    return [_point(lat, lon) for lat, lon in line]


def _distance(x: float, y: float, a: tuple[float, float], b: tuple[float, float], narrow: float) -> float:
    """Degrees of longitude are narrower than those of latitude."""
    dx, dy, px, py = (b[0] - a[0]) * narrow, b[1] - a[1], (x - a[0]) * narrow, y - a[1]
    square = dx * dx + dy * dy
    along = min(1.0, max(0.0, (px * dx + py * dy) / square)) if square else 0.0
    return math.hypot(px - along * dx, py - along * dy)


class FlowAdapter(Adapter):
    capabilities = Capabilities(filter="none", control=False)

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self._every: int = settings.number("every_s", 60, 1, 86_400) * 1000
        self._near: int = settings.number("near_m", 25, 1, 1_000)
        self._roads = _roads(settings)
        self._counts = Counts(self._roads, self._near)
        self._port: Port | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def connect(self, port: Port) -> None:
        self._port = port
        self._counts = Counts(self._roads, self._near)
        self._ticking = asyncio.get_running_loop().create_task(self._tick(port))

    async def disconnect(self) -> None:
        ticking, self._ticking, self._port = self._ticking, None, None
        if ticking is not None:
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking

    async def _tick(self, port: Port) -> None:
        """At whole intervals of the clock, so that the counts of all monitors are of the same minutes."""
        since = port.now()
        while True:
            until = (since // self._every + 1) * self._every
            while port.now() < until:
                await asyncio.sleep(max(0.001, (until - port.now()) / 1000))
            for event in self._counts.take(since, until):
                port.received(event)
            since = until

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        if self._port is None:
            raise Unavailable(f"{self.service} is not connected")
        self._counts.add(event, self._port.now())
        return None

    async def subscribe(self, condition: Filter) -> None:
        """The gateway filters."""

    def status(self) -> dict[str, int | str]:
        return {"roads": len(self._roads), **self._counts.counters}


def _roads(settings: Table) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for table in settings.tables("road"):
        name: str = table.take("name", str, required=True)
        if name in found:
            table.fail("name", f"is {name!r}, which has its table already")
        lines: list[Any] = table.take("lines", list, required=True)
        try:
            found[name] = [tuple((float(lat), float(lon)) for lat, lon in line) for line in lines]
            if not lines or any(len(line) < 2 for line in lines):
                raise ValueError
            if any(abs(lat) > 90 or abs(lon) > 180 for line in found[name] for lat, lon in line):
                raise ValueError
        except (TypeError, ValueError):
            table.fail("lines", "are not lines of [latitude, longitude], at least two each")
        table.done()
    if not found:
        raise LocalProtocolError(f"{settings.file}: a flow service needs a [[service.road]]")
    return found
