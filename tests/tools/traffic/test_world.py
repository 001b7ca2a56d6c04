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
from vicinal_tools.traffic.world import HARDEST, LENGTH, Vehicle, World


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


def behind_a_junction(metres: float) -> tuple[World, Vehicle, Vehicle]:
    """One that comes to a junction without a light, and one that stands so far behind it, in its way."""
    world = World(shipped(), 1, 2, 0.0)
    one, other = world.cars
    edge = next(
        edge
        for edge in world.lanes.edges
        if edge.lanes == 1 and edge.length > 80 and len(edge.end.leaving) > 2 and edge.end.light is None
    )
    after = next(way for way in world.lanes.ways(edge) if way.lanes == 1 and way.length > 60)
    one.edge, one.next, one.metres, one.lane, one.speed = edge, after, edge.length - 60, 0, 8.0
    other.edge, other.metres, other.lane = after, metres, 0
    return world, one, other


def drive(world: World, other: Vehicle, steps: int = 300) -> None:
    metres = other.metres
    for _ in range(steps):
        world.step()
        other.metres, other.speed = metres, 0.0  # it has broken down


def test_nobody_enters_a_junction_without_room_behind_it() -> None:
    """Else who comes across would be held up by who cannot leave it."""
    world, one, other = behind_a_junction(LENGTH + 3.0)
    edge = one.edge
    drive(world, other)
    assert one.edge is edge
    assert one.speed < 0.1
    assert one.metres < edge.length
    assert edge.length - one.metres < 15  # it waits before the junction, and not far away
    assert edge.end.holder is None  # and leaves it to others
    # With room behind it goes, and stands there behind the other.
    world, one, other = behind_a_junction(LENGTH + 20.0)
    after = one.next
    drive(world, other)
    assert one.edge is after
    assert 0 < one.metres <= other.metres - LENGTH
    assert one.edge.begin.holder is None  # across, and nobody is kept waiting


def test_who_keeps_to_signs_slows_down_and_others_do_not() -> None:
    def fastest(told: bool) -> tuple[float, float]:
        world = World(shipped(), 3, 60, 0.3)
        if told:
            heeded = [world.tell(one.number, "old-town", 15) for one in world.cars]
            assert heeded == [one.obeys for one in world.cars]
        found = {True: 0.0, False: 0.0}
        for step in range(600):
            world.step()
            for one in world.cars:
                if step > 100 and world._areas[id(one.edge)] == "old-town" and one.metres > 60:
                    found[one.obeys] = max(found[one.obeys], one.kmh)
        return found[True], found[False]

    before, after = fastest(False), fastest(True)
    assert before[0] > 20
    assert after[0] <= 15.5
    assert after[1] > 30
    # Nowhere else, and no harder than is comfortable.
    world = World(shipped(), 3, 1, 0.0)
    (one,) = world.cars
    for _ in range(100):
        world.step()
    area = world._areas[id(one.edge)]
    world.tell(0, "elsewhere", 5)
    assert world._wish(one, one.edge) == one.edge.speed * one.factor
    world.tell(0, area, 10)
    assert world._wish(one, one.edge) == pytest.approx(10 / 3.6 * one.factor)
    before_speed = one.speed
    world.step()
    assert one.speed >= before_speed - 0.31
    world.tell(0, area, 90)  # a road is not faster than it is
    assert world._wish(one, one.edge) == one.edge.speed * one.factor


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
