"""The road network, the areas that have limits, and the roadside monitors: a GeoJSON file (RFC 7946).

    {"type": "FeatureCollection", "name": "Aldermere", "timezone": "Europe/Dublin", "features": [
      {"geometry": {"type": "LineString", ...}, "properties": {"kind": "road", "id": "r1", "name": "Quay Street",
                                    "lanes": 1, "oneway": false, "speed": 50}},
      {"geometry": {"type": "Polygon", ...},    "properties": {"kind": "area", "name": "old-town",
                                    "limit": 30, "rank": 1}},
      {"geometry": {"type": "Point", ...},      "properties": {"kind": "monitor", "name": "m1", "area": "old-town"}},
      {"geometry": {"type": "Point", ...},      "properties": {"kind": "light", "cycle_s": 60, "phase_s": 0}}]}

Where areas overlap, the one with the highest rank counts. Positions are integers of 1e-7 degrees, as in events, and
metres on a plane about the middle of the network.
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vicinal.errors import LocalProtocolError
from vicinal_hw.ble.positions import Plane

__all__ = ["Area", "Light", "Monitor", "Network", "NetworkError", "Position", "Road", "inside", "load"]

Position = tuple[int, int]
"""latitude and longitude"""

UNIT = 10_000_000
MARGIN = 2_000
"""metres around the network within which a position may be one of a vehicle on it"""
SPEEDS = range(5, 131)


class NetworkError(LocalProtocolError):
    """The file, the feature and what is wrong with it."""


class Road(NamedTuple):
    ident: str
    name: str
    points: tuple[Position, ...]
    lanes: int
    """in each direction"""
    oneway: bool
    speed: int
    """km/h that people drive there"""


class Area(NamedTuple):
    name: str
    title: str
    ring: tuple[Position, ...]
    limit: int
    """km/h, until somebody sets another"""
    rank: int


class Monitor(NamedTuple):
    name: str
    place: Position
    area: str
    """whose limit it watches and shows"""


class Light(NamedTuple):
    place: Position
    cycle: int
    """seconds: half of it green for one axis, half for the other"""
    phase: int


class Network:
    def __init__(
        self,
        name: str,
        roads: Iterable[Road],
        areas: Iterable[Area],
        monitors: Iterable[Monitor] = (),
        lights: Iterable[Light] = (),
        timezone: str = "UTC",
    ) -> None:
        self.name = name
        self.roads = tuple(roads)
        self.areas = {one.name: one for one in areas}
        self.monitors = {one.name: one for one in monitors}
        self.lights = tuple(lights)
        try:
            self.timezone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise NetworkError(f"network {name!r}: timezone {timezone!r} is not known") from error
        for monitor in self.monitors.values():
            if monitor.area not in self.areas:
                raise NetworkError(
                    f"network {name!r}: monitor {monitor.name!r} watches area {monitor.area!r}, "
                    f"want one of {', '.join(self.areas)}"
                )
        places = [point for road in self.roads for point in road.points]
        if not places:
            raise NetworkError(f"network {name!r} has no roads")
        self.south, self.north = min(lat for lat, _ in places), max(lat for lat, _ in places)
        self.west, self.east = min(lon for _, lon in places), max(lon for _, lon in places)
        self.plane = Plane((self.south + self.north) // 2, (self.west + self.east) // 2)
        self._ranked = sorted(self.areas.values(), key=lambda area: (-area.rank, area.name))

    def area_of(self, place: Position) -> Area | None:
        return next((area for area in self._ranked if inside(place, area.ring)), None)

    def areas_near(self, place: Position, metres: float) -> list[Area]:
        """Those that may count somewhere within so many metres: a position is never better than its receiver."""
        found = []
        for area in self._ranked:
            border, within = self._border_within(place, area.ring, metres), inside(place, area.ring)
            if border or within:
                found.append(area)
            if within and not border:
                break  # it covers all of that, and comes before the rest
        return found

    def _border_within(self, place: Position, ring: tuple[Position, ...], metres: float) -> bool:
        x, y = self.plane.metres(*place)
        points = [self.plane.metres(*point) for point in ring]
        return any(_apart(x, y, a, b) <= metres for a, b in zip(points, (*points[1:], points[0])))

    def contains(self, place: Position) -> bool:
        """Whether a vehicle of this network may be there."""
        x, y = self.plane.metres(*place)
        east, north = self.plane.metres(self.north, self.east)
        return abs(x) <= abs(east) + MARGIN and abs(y) <= abs(north) + MARGIN

    def distance(self, a: Position, b: Position) -> float:
        (ax, ay), (bx, by) = self.plane.metres(*a), self.plane.metres(*b)
        return math.hypot(ax - bx, ay - by)

    def geojson(self) -> dict[str, Any]:
        return {
            "type": "FeatureCollection",
            "name": self.name,
            "timezone": str(self.timezone),
            "features": [
                *(
                    _feature("LineString", _degrees(one.points), kind="road", id=one.ident, name=one.name,
                             lanes=one.lanes, oneway=one.oneway, speed=one.speed)
                    for one in self.roads
                ),
                *(
                    _feature("Polygon", [_degrees((*one.ring, one.ring[0]))], kind="area", name=one.name,
                             title=one.title, limit=one.limit, rank=one.rank)
                    for one in self.areas.values()
                ),
                *(
                    _feature("Point", _degrees((one.place,))[0], kind="monitor", name=one.name, area=one.area)
                    for one in self.monitors.values()
                ),
                *(
                    _feature("Point", _degrees((one.place,))[0], kind="light", cycle_s=one.cycle, phase_s=one.phase)
                    for one in self.lights
                ),
            ],
        }  # fmt: skip


def inside(place: Position, ring: tuple[Position, ...]) -> bool:
    """Even-odd, in integers: a place on the southern or western edge is inside, one on the others is not."""
    lat, lon = place
    found = False
    for (a_lat, a_lon), (b_lat, b_lon) in zip(ring, (*ring[1:], ring[0])):
        if (a_lat > lat) != (b_lat > lat):
            cross = (lon - a_lon) * (b_lat - a_lat) - (lat - a_lat) * (b_lon - a_lon)
            if (cross < 0) == (b_lat > a_lat):
                found = not found
    return found


def _apart(x: float, y: float, a: tuple[float, float], b: tuple[float, float]) -> float:
    """Of a point from a line between two."""
    (ax, ay), (bx, by) = a, b
    length = (bx - ax) ** 2 + (by - ay) ** 2
    part = 0.0 if length == 0 else max(0.0, min(1.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length))
    return math.hypot(x - ax - part * (bx - ax), y - ay - part * (by - ay))


def _degrees(points: Iterable[Position]) -> list[list[float]]:
    return [[lon / UNIT, lat / UNIT] for lat, lon in points]


def _feature(shape: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": shape, "coordinates": coordinates},
        "properties": properties,
    }


def load(path: Path) -> Network:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NetworkError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise NetworkError(f"{path}: not JSON: {error}") from error
    return _Reader(str(path)).network(found)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def network(self, found: Any) -> Network:
        if not isinstance(found, dict) or not isinstance(found.get("features"), list):
            raise NetworkError(f"{self.where}: want a FeatureCollection with features")
        roads: list[Road] = []
        areas: list[Area] = []
        monitors: list[Monitor] = []
        lights: list[Light] = []
        for number, feature in enumerate(found["features"]):
            self._place = f"{self.where}: feature {number}"
            if not isinstance(feature, dict) or not isinstance(feature.get("properties"), dict):
                raise NetworkError(f"{self._place} has no properties")
            one = feature["properties"]
            kind = one.get("kind")
            if kind == "road":
                points = self._points(feature, "LineString", 2)
                roads.append(
                    Road(
                        self._text(one, "id"), self._text(one, "name", ""), points,
                        self._number(one, "lanes", range(1, 9), 1), bool(one.get("oneway", False)),
                        self._number(one, "speed", SPEEDS, 50),
                    )
                )  # fmt: skip
            elif kind == "area":
                ring = self._points(feature, "Polygon", 4)
                name = self._text(one, "name")
                if name in [area.name for area in areas]:
                    raise NetworkError(f"{self._place}: area {name!r} is there already")
                areas.append(
                    Area(
                        name, self._text(one, "title", name), ring[:-1], self._number(one, "limit", SPEEDS),
                        self._number(one, "rank", range(-100, 101), 0),
                    )
                )  # fmt: skip
            elif kind == "monitor":
                place = self._points(feature, "Point", 1)[0]
                monitors.append(Monitor(self._text(one, "name"), place, self._text(one, "area")))
            elif kind == "light":
                cycle = self._number(one, "cycle_s", range(10, 301), 60)
                phase = self._number(one, "phase_s", range(301), 0)
                lights.append(Light(self._points(feature, "Point", 1)[0], cycle, phase))
            else:
                raise NetworkError(f"{self._place}: kind is {kind!r}, want road, area, monitor or light")
        return Network(
            str(found.get("name", "")), roads, areas, monitors, lights, str(found.get("timezone", "UTC"))
        )  # fmt: skip

    def _points(self, feature: dict[str, Any], shape: str, least: int) -> tuple[Position, ...]:
        geometry = feature.get("geometry")
        if not isinstance(geometry, dict) or geometry.get("type") != shape:
            raise NetworkError(f"{self._place}: want a {shape}")
        rows = geometry.get("coordinates")
        if shape == "Point":
            rows = [rows]
        elif shape == "Polygon":
            rows = rows[0] if isinstance(rows, list) and rows else None
        if not isinstance(rows, list) or len(rows) < least:
            raise NetworkError(f"{self._place}: a {shape} has at least {least} position(s)")
        made = []
        for row in rows:
            if not isinstance(row, list) or len(row) < 2 or not all(type(one) in (int, float) for one in row[:2]):
                raise NetworkError(f"{self._place}: position {row!r}, want [longitude, latitude]")
            lon, lat = row[:2]
            if not (-90 <= lat <= 90 and -180 <= lon <= 180):
                raise NetworkError(f"{self._place}: position {row!r}, want longitude -180..180, latitude -90..90")
            made.append((round(lat * UNIT), round(lon * UNIT)))
        return tuple(made)

    def _text(self, one: dict[str, Any], key: str, default: str | None = None) -> str:
        value = one.get(key, default)
        if not isinstance(value, str) or (not value and default is None):
            raise NetworkError(f"{self._place}: {key} is {value!r}, want a string")
        return value

    def _number(self, one: dict[str, Any], key: str, allowed: range, default: int | None = None) -> int:
        value = one.get(key, default)
        if type(value) is not int or value not in allowed:
            raise NetworkError(f"{self._place}: {key} is {value!r}, want {allowed[0]} .. {allowed[-1]}")
        return value
