"""What a simulated town does, written down: a CSV line for each vehicle and second, as SUMO's FCD has them.

time_ms,license_no,lat,lon,speed_kmh,heading_deg,braking
"""

import csv
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TextIO

from vicinal_cloud.traffic.network import Network, load

from .world import STEP_MS, World

__all__ = ["COLUMNS", "rows", "shipped", "write"]

COLUMNS = ("time_ms", "license_no", "lat", "lon", "speed_kmh", "heading_deg", "braking")


def shipped() -> Network:
    """The town that comes with the product."""
    return load(Path(str(files(__package__).joinpath("aldermere.geojson"))))


def rows(world: World, seconds: int) -> Iterator[tuple[str, ...]]:
    for _ in range(seconds):
        for _ in range(1000 // STEP_MS):
            world.step()
        for one in world.vehicles:
            lat, lon = one.place[0] / 1e7, one.place[1] / 1e7
            yield (
                str(world.now), one.plate, f"{lat:.7f}", f"{lon:.7f}", f"{one.kmh:.2f}", f"{one.heading:.1f}",
                str(int(one.braking)),
            )  # fmt: skip


def write(world: World, seconds: int, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows(world, seconds))
