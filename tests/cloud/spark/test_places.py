"""Map matching, areas, limits and days, for arrays as for one place at a time."""

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from cloud.spark import town
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import numpy as np
from cloud.spark.town import places

from vicinal_cloud.spark.traffic.places import ACROSS_M, MATCH_M, Places
from vicinal_cloud.traffic.limits import Hours, Limits, Rule


def test_matching_is_what_looking_at_every_road_gives() -> None:
    where = places()
    network = where.network
    chance = np.random.default_rng(5)
    lat = chance.integers(network.south, network.north, 600)
    lon = chance.integers(network.west, network.east, 600)
    # And on the roads themselves, as cars are.
    world = town.World(network, 1, 60)
    for _ in range(20):
        world.step()
    lat = np.concatenate([lat, [one.place[0] for one in world.vehicles]])
    lon = np.concatenate([lon, [one.place[1] for one in world.vehicles]])
    heading = np.concatenate(
        [
            np.where(chance.random(600) < 0.5, np.nan, chance.uniform(0, 360, 600)),
            [one.heading for one in world.vehicles],
        ]
    )
    piece, far, along = where.match(lat, lon, heading)
    assert (piece[600:] >= 0).all()
    for row in range(len(lat)):
        wanted = _nearest(where, int(lat[row]), int(lon[row]), float(heading[row]))
        if wanted is None:
            assert piece[row] == -1
        else:
            assert where.pieces[piece[row]].segment_id == wanted[0]
            assert far[row] == pytest.approx(wanted[1], abs=1e-6)
            assert along[row] == wanted[2]


def _nearest(where: Places, lat: int, lon: int, heading: float) -> tuple[str, float, int] | None:
    plane = where.network.plane
    x, y = plane.metres(lat, lon)
    best: tuple[float, str, float, int] | None = None
    for road in sorted(where.network.roads, key=lambda one: one.ident):
        for at, (a, b) in enumerate(zip(road.points, road.points[1:])):
            (ax, ay), (bx, by) = plane.metres(*a), plane.metres(*b)
            size = (bx - ax) ** 2 + (by - ay) ** 2
            if not size:
                continue
            part = min(1.0, max(0.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / size))
            distance = math.hypot(x - ax - part * (bx - ax), y - ay - part * (by - ay))
            turn = math.cos(math.radians(heading) - math.atan2(bx - ax, by - ay))
            cost = distance + (0.0 if math.isnan(heading) else ACROSS_M * (1 - abs(turn)))
            sign = 0 if math.isnan(heading) else int(math.copysign(1, turn))
            if distance <= MATCH_M and (best is None or cost < best[0] - 1e-9):
                best = (cost, f"{road.ident}/{at}", distance, sign)
    return None if best is None else best[1:]


def test_areas_and_limits_are_those_of_traffic_control() -> None:
    where = places()
    where.limits.add(Rule("old-town", 20, 0, Hours.parse("00:00-12:00"))) if "old-town" in where.network.areas else None
    chance = np.random.default_rng(6)
    lat = chance.integers(where.network.south, where.network.north, 800)
    lon = chance.integers(where.network.west, where.network.east, 800)
    times = town.START + chance.integers(0, 86_400_000, 800)
    areas = where.areas(lat, lon)
    values, sources = where.limits_at(areas, times)
    for row in range(800):
        area = where.network.area_of((int(lat[row]), int(lon[row])))
        assert areas[row] == ("" if area is None else area.name)
        limit = None if area is None else where.limits.in_force(area.name, int(times[row]))
        assert (sources[row], values[row]) == (
            (limit.source, limit.value) if limit else ("", pytest.approx(math.nan, nan_ok=True))
        )


@given(
    st.lists(st.integers(0, 4_000_000_000_000), min_size=1), st.sampled_from(["UTC", "Asia/Kathmandu", "Pacific/Apia"])
)
def test_a_day_is_the_towns(times: list[int], zone: str) -> None:
    network = town.network()
    network.timezone = ZoneInfo(zone)
    here = Places(network, Limits(network.timezone))
    found = here.days(np.array(times)).tolist()
    assert found == [datetime.fromtimestamp(one / 1000, network.timezone).date().isoformat() for one in times]
    for day, one in zip(found, times):
        assert here.days([here.end_of(day) - 1, here.end_of(day)])[0] == day < here.days([here.end_of(day)])[0]
        assert one < here.end_of(day)
