"""Roads as lanes that lead to lanes: what a vehicle drives on.

A road of a network is one or two edges, one for each direction, between two junctions: places where roads end. Metres
along an edge become a place and a heading by its points; lanes lie to the left of the middle, as in Ireland.

    junction ──edge, lane 0 (outer)──▶ junction        at its end: a light, or who comes first goes first
             ◀──edge, lane 0──────────
"""

import math
from bisect import bisect_right
from itertools import pairwise

from vicinal_cloud.traffic.network import Light, Network, Road

__all__ = ["LANE", "Edge", "Junction", "Lanes"]

LANE = 3.2
"""metres wide"""
ALL_RED = 3.0
"""seconds at the end of each phase in which nobody has green"""
TURN_SPEEDS = ((20.0, 30.0), (60.0, 9.0), (120.0, 6.0), (181.0, 3.0))
"""up to so many degrees, metres a second"""


class Junction:
    def __init__(self, number: int, x: float, y: float) -> None:
        self.number = number
        self.x, self.y = x, y
        self.leaving: list[Edge] = []
        self.light: Light | None = None
        self.holder: object | None = None
        """the vehicle that crosses, where there is no light"""


class Edge:
    def __init__(self, road: Road, points: list[tuple[float, float]], begin: Junction, end: Junction) -> None:
        self.road = road
        self.points = points
        self.begin, self.end = begin, end
        self.holder: object | None = None
        """the vehicle that comes onto it past a light"""
        self.speed = road.speed / 3.6
        self.lanes = road.lanes
        self.at = [0.0]
        for a, b in pairwise(points):
            self.at.append(self.at[-1] + math.dist(a, b))
        self.length = self.at[-1]
        self.first = _heading(points[0], points[1])
        self.last = _heading(points[-2], points[-1])

    def place(self, metres: float, lane: int) -> tuple[float, float, float]:
        """x, y and heading in degrees."""
        part = min(max(bisect_right(self.at, metres) - 1, 0), len(self.points) - 2)
        (ax, ay), (bx, by) = self.points[part], self.points[part + 1]
        length = self.at[part + 1] - self.at[part]
        done = (metres - self.at[part]) / length
        ex, ey = (bx - ax) / length, (by - ay) / length
        aside = LANE * (self.lanes - lane - 0.5)
        x, y = ax + (bx - ax) * done - ey * aside, ay + (by - ay) * done + ex * aside
        return x, y, math.degrees(math.atan2(ex, ey)) % 360

    def turn_speed(self, other: "Edge") -> float:
        """With which one goes over from this to the other."""
        turn = abs((other.first - self.last + 180) % 360 - 180)
        return next(speed for most, speed in TURN_SPEEDS if turn <= most)

    def is_green(self, seconds: float) -> bool:
        """At its end. Without a light always."""
        light = self.end.light
        if light is None:
            return True
        half = light.cycle / 2
        into = (seconds + light.phase) % light.cycle
        north_south = not 45 <= self.last % 180 < 135
        return (into < half) == north_south and into % half < half - ALL_RED


def _heading(a: tuple[float, float], b: tuple[float, float]) -> float:
    return math.degrees(math.atan2(b[0] - a[0], b[1] - a[1])) % 360


class Lanes:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.edges: list[Edge] = []
        self.junctions: list[Junction] = []
        known: dict[tuple[int, int], Junction] = {}
        for road in network.roads:
            ends = []
            for position in (road.points[0], road.points[-1]):
                if position not in known:
                    known[position] = Junction(len(self.junctions), *network.plane.metres(*position))
                    self.junctions.append(known[position])
                ends.append(known[position])
            points = [network.plane.metres(*position) for position in road.points]
            self._add(Edge(road, points, ends[0], ends[1]))
            if not road.oneway:
                self._add(Edge(road, points[::-1], ends[1], ends[0]))
        for light in network.lights:
            x, y = network.plane.metres(*light.place)
            nearest = min(self.junctions, key=lambda one: math.hypot(one.x - x, one.y - y))
            nearest.light = light

    def _add(self, edge: Edge) -> None:
        self.edges.append(edge)
        edge.begin.leaving.append(edge)

    def ways(self, edge: Edge) -> list[Edge]:
        """Where one can go at its end; back only where there is nothing else."""
        found = [one for one in edge.end.leaving if one.end is not edge.begin or one.road is not edge.road]
        return found or edge.end.leaving
