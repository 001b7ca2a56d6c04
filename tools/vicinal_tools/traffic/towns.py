r"""A generator of towns with geometry as towns have it: an old centre of crooked blocks, roads that lead out of it, a
ring, and streets between them that bend.

            .--'----o----'--.            ring: two lanes each way, curved
         o      \   |   /      o         radials, from the centre to the ring
        /     o--o--o--o--o     \        inner ring: residential streets, bent
       o------o  ┼┼┼┼┼┼  o-------o       centre: blocks of about 95 m, no two alike
        \     o--o--o--o--o     /
         o      /   |   \      o         lights where the radials meet the inner ring
            '--.----o----.--'

No map is copied: everything comes from a seed. `python -m vicinal_tools.traffic.towns 1 > town.geojson` writes one.
"""

import json
import math
import sys
from random import Random

from vicinal_cloud.traffic.network import Area, Light, Monitor, Network, Position, Road
from vicinal_hw.ble.positions import Plane

__all__ = ["make_town"]

Metres = tuple[float, float]

CENTRE = (532_040_000, -75_110_000)
"""a bog in the middle of Ireland, where there is no town"""
COLUMNS, ROWS, BLOCK = 5, 4, 95.0
RADIALS = 8
INNER, RING = (430.0, 340.0), (860.0, 690.0)
"""half axes, in metres"""
BEND = 14.0
"""metres that a street is bent aside at most, for 100 m of it"""
STEP = 22.0
"""metres between two points of a bent street"""
STREETS = (
    "Mill", "Church", "Bridge", "Castle", "Orchard", "Market", "Tanner", "Weaver", "Cooper", "Abbey", "Well", "Barn",
    "Forge", "Meadow", "Heron", "Alder", "Willow", "Quarry", "Lock", "Ferry", "Chapel", "Garden", "Granary", "Priory",
)  # fmt: skip


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.plane = Plane(*CENTRE)
        self.roads: list[Road] = []

    def position(self, point: Metres) -> Position:
        return self.plane.degrees(*point)

    def road(self, name: str, a: Metres, b: Metres, speed: int, lanes: int = 1, bend: float | None = None) -> None:
        """A bent line: a parabola to one side, wider in the middle."""
        length = math.dist(a, b)
        most = BEND * length / 100
        aside = self.chance.uniform(-most, most) if bend is None else bend
        count = max(1, round(length / STEP))
        nx, ny = -(b[1] - a[1]) / length, (b[0] - a[0]) / length
        points = []
        for number in range(count + 1):
            part = number / count
            out = 4 * aside * part * (1 - part)
            points.append((a[0] + (b[0] - a[0]) * part + nx * out, a[1] + (b[1] - a[1]) * part + ny * out))
        made = tuple(self.position(point) for point in points)
        self.roads.append(Road(f"r{len(self.roads) + 1}", name, made, lanes, False, speed))

    def ellipse(self, axes: Metres, number: int, count: int, wobble: float) -> Metres:
        angle = 2 * math.pi * number / count + self.chance.uniform(-0.06, 0.06)
        out = 1 + self.chance.uniform(-wobble, wobble)
        return axes[0] * out * math.sin(angle), axes[1] * out * math.cos(angle)


def make_town(seed: int, name: str = "Aldermere") -> Network:
    make = _Maker(seed)
    chance = make.chance
    names = [f"{one} {kind}" for one in STREETS for kind in ("Street", "Lane")]
    chance.shuffle(names)
    grid = {
        (column, row): (
            (column - (COLUMNS - 1) / 2) * BLOCK + chance.uniform(-17, 17),
            (row - (ROWS - 1) / 2) * BLOCK + chance.uniform(-17, 17),
        )
        for column in range(COLUMNS)
        for row in range(ROWS)
    }
    for row in range(ROWS):
        street = names.pop()
        for column in range(COLUMNS - 1):
            make.road(street, grid[column, row], grid[column + 1, row], 30, bend=chance.uniform(-4, 4))
    for column in range(COLUMNS):
        street = names.pop()
        for row in range(ROWS - 1):
            make.road(street, grid[column, row], grid[column, row + 1], 30, bend=chance.uniform(-4, 4))
    inner = [make.ellipse(INNER, number, 2 * RADIALS, 0.06) for number in range(2 * RADIALS)]
    ring = [make.ellipse(RING, number, 2 * RADIALS, 0.03) for number in range(2 * RADIALS)]
    edge = [point for (column, row), point in grid.items() if column in (0, COLUMNS - 1) or row in (0, ROWS - 1)]
    free = list(edge)
    for number in range(RADIALS):
        street, gate = f"{names.pop().split()[0]} Road", inner[2 * number]
        at = min(free, key=lambda point: math.dist(point, gate))
        free.remove(at)
        make.road(street, at, gate, 50)
        make.road(street, gate, ring[2 * number], 50)
    for number in range(2 * RADIALS):
        after = (number + 1) % (2 * RADIALS)
        length = math.dist(inner[number], inner[after])
        make.road(names[number // 2], inner[number], inner[after], 40, bend=length * chance.uniform(0.03, 0.12))
        outer = math.dist(ring[number], ring[after])
        make.road("Ring Road", ring[number], ring[after], 70, 2, bend=outer * 0.05)
    lights = [
        Light(make.position(inner[2 * number]), 40, chance.randrange(0, 40)) for number in range(0, RADIALS, 2)
    ]  # fmt: skip
    areas = [
        Area("outskirts", "Outskirts", _ring(make, (1100.0, 930.0)), 70, 0),
        Area("town", "Town", _ring(make, (640.0, 500.0)), 50, 1),
        Area("old-town", "Old Town", _ring(make, (300.0, 225.0)), 30, 2),
    ]
    middle = grid[2, 1]
    monitors = [
        Monitor("m1", make.position((middle[0] - 85, middle[1] + 40)), "old-town"),
        Monitor("m2", make.position((middle[0] + 95, middle[1] + 20)), "old-town"),
        Monitor("m3", make.position((ring[4][0] - 12, ring[4][1])), "outskirts"),
    ]
    return Network(name, make.roads, areas, monitors, lights, "Europe/Dublin")


def _ring(make: _Maker, axes: Metres, corners: int = 24) -> tuple[Position, ...]:
    return tuple(
        make.position((axes[0] * math.sin(turn), axes[1] * math.cos(turn)))
        for turn in (2 * math.pi * number / corners for number in range(corners))
    )


def main(arguments: list[str]) -> None:
    seed = int(arguments[0]) if arguments else 1
    json.dump(make_town(seed).geojson(), sys.stdout, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
