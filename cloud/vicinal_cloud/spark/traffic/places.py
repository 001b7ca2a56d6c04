"""Map matching, areas and limits, for columns of positions at once.

Roads are pieces between two points. A grid of cells knows which pieces pass near each cell; a position is compared
with the pieces of its cell and the eight around it, by exact distance, and is on the nearest within MATCH_M metres. A
heading that is known counts: a piece that runs across it is farther by up to ACROSS_M, so that a car on a bridge stays
on it. Of equals the first by name counts, so that the answer does not depend on who asks.
All in metres on the network's plane.
"""

import copy
import math
from datetime import date, datetime, timedelta
from datetime import time as clock
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...traffic.limits import Limits
from ...traffic.network import MARGIN, Network, load
from ...traffic.posted import Shown
from .rules import Known, read_limits

__all__ = ["ACROSS_M", "MATCH_M", "Piece", "Places", "read_places"]

MATCH_M = 30.0
ACROSS_M = 15.0
CELL_M = 100.0
_TURN = 3_600_000_000.0
_QUARTER_MS = 900_000
FORWARD, BACKWARD = "forward", "backward"


class Piece(NamedTuple):
    segment_id: str
    road: str
    length_m: float
    free_flow_kmh: float
    """as the network says that people drive there"""


class Places:
    def __init__(self, network: Network, limits: Limits, shown: "tuple[Shown, ...] | None" = None) -> None:
        """`shown` is what signs said of the limits (rules.py)."""
        self.network = network
        self.limits = limits
        self.shown = shown
        self.pieces: list[Piece] = []
        ends: list[tuple[float, float, float, float]] = []
        for road in sorted(network.roads, key=lambda one: one.ident):
            for at, (a, b) in enumerate(zip(road.points, road.points[1:])):
                (ax, ay), (bx, by) = network.plane.metres(*a), network.plane.metres(*b)
                if (ax, ay) != (bx, by):
                    ends.append((ax, ay, bx, by))
                    self.pieces.append(
                        Piece(f"{road.ident}/{at}", road.ident, math.hypot(bx - ax, by - ay), float(road.speed))
                    )
        self._ends = np.array(ends)
        self._cells = self._grid()
        self._one = _scale(network)

    def under(self, known: Known) -> "Places":
        """The same places with other limits."""
        made = copy.copy(self)
        made.limits, made.shown = known
        return made

    def _grid(self) -> dict[tuple[int, int], Any]:
        cells: dict[tuple[int, int], set[int]] = {}
        for number, (ax, ay, bx, by) in enumerate(self._ends.tolist()):
            steps = max(1, math.ceil(math.hypot(bx - ax, by - ay) / (CELL_M / 2)))
            for step in range(steps + 1):
                x, y = ax + (bx - ax) * step / steps, ay + (by - ay) * step / steps
                cells.setdefault((math.floor(x / CELL_M), math.floor(y / CELL_M)), set()).add(number)
        near: dict[tuple[int, int], set[int]] = {}
        for (cx, cy), numbers in cells.items():
            for dx in (-1, 0, 1):
                for dy in (-1, 0, 1):
                    near.setdefault((cx + dx, cy + dy), set()).update(numbers)
        return {cell: np.array(sorted(numbers)) for cell, numbers in near.items()}

    def days(self, times: Any) -> Any:
        """Of ms, as text: a day is the town's own, so that what ends at midnight ends when little moves."""
        ms = np.asarray(times)
        quarters, which = np.unique(ms // _QUARTER_MS, return_inverse=True)  # no zone changes its clock within one
        zone = self.network.timezone
        names = [datetime.fromtimestamp(int(one) * _QUARTER_MS / 1000, zone).date().isoformat() for one in quarters]
        return np.array(names, dtype=object)[which]

    def end_of(self, day: str) -> int:
        """ms"""
        midnight = datetime.combine(date.fromisoformat(day) + timedelta(days=1), clock(), self.network.timezone)
        return round(midnight.timestamp() * 1000)

    def metres(self, lat: Any, lon: Any) -> tuple[Any, Any]:
        """Arrays of 1e-7 degrees, as on the network's plane."""
        plane = self.network.plane
        turned = (lon - plane.lon + _TURN / 2) % _TURN - _TURN / 2
        return turned * self._one[0], (lat - plane.lat) * self._one[1]

    def match(self, lat: Any, lon: Any, heading: Any) -> tuple[Any, Any, Any]:
        """Arrays: the number of the piece or -1, the distance in metres, and whether along it (1), against it (-1) or
        not known (0). `heading` in degrees, NaN where it is not known."""
        x, y = self.metres(lat.astype(np.float64), lon.astype(np.float64))
        found = np.full(len(x), -1, np.int64)
        far = np.full(len(x), np.nan)
        along = np.zeros(len(x), np.int64)
        cell_x, cell_y = np.floor(x / CELL_M).astype(np.int64), np.floor(y / CELL_M).astype(np.int64)
        key = cell_x * (1 << 32) + cell_y
        order = np.argsort(key, kind="stable")
        edges: Any = np.flatnonzero(np.diff(key[order], prepend=key[order][:1] - 1)) if len(order) else []
        for begin, end in zip(edges, [*edges[1:], len(order)]):
            rows = order[begin:end]
            numbers = self._cells.get((int(cell_x[rows[0]]), int(cell_y[rows[0]])))
            if numbers is not None:
                found[rows], far[rows], along[rows] = self._nearest(numbers, x[rows], y[rows], heading[rows])
        return found, far, along

    def _nearest(self, numbers: Any, x: Any, y: Any, heading: Any) -> tuple[Any, Any, Any]:
        ax, ay, bx, by = self._ends[numbers].T
        dx, dy = bx - ax, by - ay
        part = ((x[:, None] - ax) * dx + (y[:, None] - ay) * dy) / (dx * dx + dy * dy)
        part = np.clip(part, 0.0, 1.0)
        distance = np.hypot(x[:, None] - (ax + part * dx), y[:, None] - (ay + part * dy))
        bearing = np.degrees(np.arctan2(dx, dy))
        turn = np.cos(np.radians(heading[:, None] - bearing))  # 1 along, -1 against, NaN not known
        cost = distance + np.where(np.isnan(turn), 0.0, ACROSS_M * (1.0 - np.abs(np.nan_to_num(turn))))
        cost = np.where(distance <= MATCH_M, cost, np.inf)
        best = np.argmin(cost, axis=1)
        rows = np.arange(len(x))
        hit = np.isfinite(cost[rows, best])
        sign = np.nan_to_num(np.sign(turn[rows, best])).astype(np.int64)
        return (
            np.where(hit, numbers[best], -1),
            np.where(hit, distance[rows, best], np.nan),
            np.where(hit, sign, 0),
        )

    def areas(self, lat: Any, lon: Any) -> Any:
        """The name of the area of each, "" where there is none."""
        found = np.full(len(lat), "", dtype=object)
        open_ = np.ones(len(lat), np.bool_)
        for area in sorted(self.network.areas.values(), key=lambda one: (-one.rank, one.name)):
            hit = open_ & _inside(lat, lon, area.ring)
            found[hit] = area.name
            open_ &= ~hit
        return found

    def contains(self, lat: Any, lon: Any) -> Any:
        x, y = self.metres(lat.astype(np.float64), lon.astype(np.float64))
        east, north = self.network.plane.metres(self.network.north, self.network.east)
        return (np.abs(x) <= abs(east) + MARGIN) & (np.abs(y) <= abs(north) + MARGIN)

    def limits_at(self, areas: Any, times: Any) -> tuple[Any, Any]:
        """km/h in force and who set it, for names of areas and ms; NaN and "" where there is none."""
        values, sources = np.full(len(areas), np.nan), np.full(len(areas), "", dtype=object)
        # A limit changes at whole minutes, or when somebody sets it.
        sets = sorted({moment for rule in self.limits.rules() for moment in (rule.since, rule.until) if moment})
        span = np.stack([times // 60_000, np.searchsorted(sets, times, side="right")])
        for area in {*areas.tolist()} - {""}:
            rows = np.flatnonzero(areas == area)
            _, first, which = np.unique(span[:, rows], axis=1, return_index=True, return_inverse=True)
            found = [self.limits.in_force(area, at) for at in times[rows[first]].tolist()]
            values[rows] = np.array([math.nan if one is None else one.value for one in found])[which]
            sources[rows] = np.array(["" if one is None else one.source for one in found], dtype=object)[which]
        return values, sources


def _scale(network: Network) -> tuple[float, float]:
    """Metres for 1e-7 degree of longitude and latitude, on the network's plane."""
    x, y = network.plane.metres(network.plane.lat + 1_000_000, network.plane.lon + 1_000_000)
    return x / 1e6, y / 1e6


def _inside(lat: Any, lon: Any, ring: Any) -> Any:
    """As vicinal_cloud.traffic.network.inside, for arrays of int64: products stay below 2^63."""
    found = np.zeros(len(lat), np.bool_)
    for (a_lat, a_lon), (b_lat, b_lon) in zip(ring, (*ring[1:], ring[0])):
        between = (a_lat > lat) != (b_lat > lat)
        cross = (lon - a_lon) * (b_lat - a_lat) - (lat - a_lat) * (b_lon - a_lon)
        found ^= between & ((cross < 0) == (b_lat > a_lat))
    return found


def read_places(network: Path, rules: str | Path | None = None) -> Places:
    """`rules` is what was set beside the network's own limits: a file, or the address of an office (rules.py)."""
    found = load(network)
    return Places(found, *read_limits(found, rules))
