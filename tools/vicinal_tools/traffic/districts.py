"""A town of roads alone: which areas have which limit, and where monitors stand, by rule.

Areas are the cells of a grid that have roads. Whoever keeps to what the road allows must not be fined, so the limit of
a cell is the highest speed of its roads. Monitors stand beside roads:

    m1    nearest to the middle of all roads, each weighed by its length
    m2    about 150 m from it: the two hear the same vehicles
    m3... as far from all others as there are roads
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from vicinal_cloud.traffic.network import Area, Monitor, Network, NetworkError, Position, Road
from vicinal_hw.ble.positions import Plane

__all__ = ["make_network", "nearest_road"]

CELL_M, CELLS_MAX = 400.0, 6
"""metres of a cell at least; cells in each direction at most"""
BESIDE_M = 150.0
MARGIN_M = 60.0
"""around the outermost roads: half a junction, lanes, and what a receiver is off"""
MONITORS = 3
ASIDE_M = 8.0
"""from the middle of its road"""


class _Line(NamedTuple):
    road: Road
    points: tuple[tuple[float, float], ...]
    length: float
    middle: tuple[float, float]


def make_network(name: str, roads: Iterable[Road], monitors: int = MONITORS, timezone: str = "UTC") -> Network:
    found = tuple(roads)
    bare = Network(name, found, ())
    lines = [_line(bare.plane, road) for road in found]
    areas = _areas(bare, lines)
    lines = [line for line in lines if line.length > 0]
    if not lines:
        raise NetworkError(f"network {name!r}: its roads have no length")
    places = _places(lines, monitors)
    made = Network(name, found, areas, (), (), timezone)
    posts = []
    for number, (x, y) in enumerate(places, 1):
        place = bare.plane.degrees(x, y)
        area = made.area_of(place)
        assert area is not None, "cells cover all roads, and what is beside them"
        posts.append(Monitor(f"m{number}", place, area.name))
    return Network(name, found, areas, posts, (), timezone)


def nearest_road(network: Network, place: Position) -> Road:
    x, y = network.plane.metres(*place)
    return min(
        network.roads,
        key=lambda road: (
            min(_distance(x, y, a, b) for a, b in pairwise(_line(network.plane, road).points)),
            road.ident,
        ),
    )


def _line(plane: Plane, road: Road) -> _Line:
    points = tuple(plane.metres(*point) for point in road.points)
    length = sum(math.dist(a, b) for a, b in pairwise(points))
    left = length / 2
    for a, b in pairwise(points):
        part = math.dist(a, b)
        if part and left <= part:
            x, y = a[0] + (b[0] - a[0]) * left / part, a[1] + (b[1] - a[1]) * left / part
            aside = (-(b[1] - a[1]) / part * ASIDE_M, (b[0] - a[0]) / part * ASIDE_M)
            return _Line(road, points, length, (x + aside[0], y + aside[1]))
        left -= part
    return _Line(road, points, length, points[0])


def _distance(x: float, y: float, a: tuple[float, float], b: tuple[float, float]) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    square = dx * dx + dy * dy
    along = 0.0 if not square else min(1.0, max(0.0, ((x - a[0]) * dx + (y - a[1]) * dy) / square))
    return math.hypot(x - a[0] - along * dx, y - a[1] - along * dy)


def _areas(network: Network, lines: list[_Line]) -> list[Area]:
    plane = network.plane
    (west, south), (east, north) = plane.metres(network.south, network.west), plane.metres(network.north, network.east)
    west, south, east, north = west - MARGIN_M, south - MARGIN_M, east + MARGIN_M, north + MARGIN_M
    columns = max(1, min(CELLS_MAX, int((east - west) // CELL_M)))
    rows = max(1, min(CELLS_MAX, int((north - south) // CELL_M)))
    wide, high = (east - west) / columns, (north - south) / rows
    speeds: dict[tuple[int, int], int] = {}
    for line in lines:
        for a, b in pairwise(line.points):
            parts = max(1, int(math.dist(a, b) // 20))
            for step in range(parts + 1):
                x, y = a[0] + (b[0] - a[0]) * step / parts, a[1] + (b[1] - a[1]) * step / parts
                # What is beside a road belongs to it: lanes and monitors may lie across a border.
                for dx, dy in ((0, 0), (-20, 0), (20, 0), (0, -20), (0, 20)):
                    column = min(columns - 1, max(0, int((x + dx - west) // wide)))
                    row = min(rows - 1, max(0, int((y + dy - south) // high)))
                    speeds[column, row] = max(speeds.get((column, row), 0), line.road.speed)
    found = []
    for (column, row), speed in sorted(speeds.items()):
        x, y = west + column * wide, south + row * high
        corners = ((x, y), (x + wide, y), (x + wide, y + high), (x, y + high))
        letter = chr(ord("a") + column)
        ring = tuple(plane.degrees(*corner) for corner in corners)
        found.append(Area(f"district-{letter}{row + 1}", f"District {letter.upper()}{row + 1}", ring, speed, 0))
    return found


def _places(lines: list[_Line], count: int) -> list[tuple[float, float]]:
    whole = sum(line.length for line in lines)
    centre = (
        sum(line.middle[0] * line.length for line in lines) / whole,
        sum(line.middle[1] * line.length for line in lines) / whole,
    )
    middles = sorted({line.middle for line in lines})
    found = [min(middles, key=lambda one: math.dist(one, centre))]
    if count > 1 and len(middles) > 1:
        rest = [one for one in middles if one != found[0]]
        found.append(min(rest, key=lambda one: abs(math.dist(one, found[0]) - BESIDE_M)))
    while len(found) < min(count, len(middles)):
        rest = [one for one in middles if one not in found]
        found.append(max(rest, key=lambda one: min(math.dist(one, other) for other in found)))
    return found[:count]
