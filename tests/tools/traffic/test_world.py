"""Simulated traffic: the same run for the same seed, and physics that hold at every step."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from vicinal_tools.main import cli
from vicinal_tools.traffic.lanes import Edge
from vicinal_tools.traffic.towns import make_town
from vicinal_tools.traffic.tracks import shipped
from vicinal_tools.traffic.world import HARDEST, LENGTH, World


def test_the_town_that_comes_with_it_is_that_of_seed_1() -> None:
    assert shipped().geojson() == make_town(1).geojson()


def test_towns_are_connected_and_areas_cover_them() -> None:
    for seed in range(5):
        town = make_town(seed)
        world = World(town, vehicles=1)
        reached, todo = set(), [world.lanes.junctions[0]]
        while todo:
            one = todo.pop()
            if one.number not in reached:
                reached.add(one.number)
                todo += [edge.end for edge in one.leaving]
        assert len(reached) == len(world.lanes.junctions)
        assert all(town.area_of(point) is not None for road in town.roads for point in road.points)
        assert {town.area_of(town.monitors[name].place).name for name in ("m1", "m2")} == {"old-town"}  # type: ignore[union-attr]


def positions(seed: int, steps: int = 300) -> list[tuple[object, ...]]:
    world = World(shipped(), seed, 30)
    for _ in range(steps):
        world.step()
    return [(one.plate, one.place, one.speed, one.heading) for one in world.vehicles]


def test_a_seed_is_a_run() -> None:
    assert positions(4) == positions(4)
    assert positions(4) != positions(5)


@pytest.mark.parametrize("vehicles", [12, 150])
def test_physics(vehicles: int) -> None:
    """Nobody is in another's place, jumps, brakes harder than brakes can, or passes a red light; all get on."""
    town = shipped()
    world = World(town, 3, vehicles)
    driven: dict[int, float] = defaultdict(float)
    fastest: dict[int, float] = defaultdict(float)
    for _ in range(1200):
        before = {one.number: (one.place, one.edge, one.speed, one.holds) for one in world.vehicles}
        seconds = world.now / 1000
        world.step()
        for one in world.vehicles:
            place, edge, speed, held = before[one.number]
            moved = town.distance(place, one.place)
            # Across a junction the corner is cut, and a change of lanes is at once.
            assert moved <= (speed + one.speed) / 2 * 0.1 + 10
            assert -HARDEST * 0.1 - 1e-9 <= one.speed - speed <= 0.25
            if one.edge is not edge and edge.end.light is not None and held is None:
                assert edge.is_green(seconds)
            if isinstance(one.holds, Edge) and one.holds is not held:
                assert edge.is_green(seconds)  # what one needs to go past a light one gets with green only
            driven[one.number] += moved
            fastest[one.number] = max(fastest[one.number], one.speed / one.edge.speed)
        world._sort()
        for queue in world._queues.values():
            for a, b in pairwise(queue):
                assert b.metres - a.metres >= LENGTH
    assert min(driven.values()) > 100
    speeders = {one.number for one in world.vehicles if one.factor > 1}
    assert len(speeders) == round(vehicles / 4)
    assert any(fastest[number] > 1.15 for number in speeders)
    # Who comes onto a slower road has braked before.
    assert all(fastest[one.number] < 1.05 for one in world.vehicles if one.number not in speeders)


def test_plates_fit_the_frame_and_are_unlike() -> None:
    plates = [one.plate for one in World(shipped(), 9, 400).vehicles]
    assert len(set(plates)) == 400
    assert {len(one.encode()) for one in plates} == {7}


def test_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["sim", "traffic", "--vehicles", "3", "--seconds", "2"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == "time_ms,license_no,lat,lon,speed_kmh,heading_deg,braking"
    assert [line.split(",")[0] for line in lines[1:]] == ["1000"] * 3 + ["2000"] * 3
    file = tmp_path / "town.geojson"
    file.write_text(json.dumps(make_town(2).geojson()))
    again = CliRunner().invoke(cli, ["sim", "traffic", "--network", str(file), "--vehicles", "3", "--seconds", "1"])
    assert again.exit_code == 0
    full = CliRunner().invoke(cli, ["sim", "traffic", "--vehicles", "99999"])
    assert full.exit_code == 1
    assert "there is room for" in full.output
