"""STEAM nodes on the virtual radio in stepped time, and the town that `make bench` measures, smaller."""

import pytest

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.groups import Group
from vicinal.steam.node import Node
from vicinal_hw.ble.air import Air
from vicinal_hw.ble.positions import Plane
from vicinal_hw.ble.stepped import Simulation, Station
from vicinal_tools.bench import steam
from vicinal_tools.ble.town import Town
from vicinal_tools.ble.trial import EVERY, Result, Trial

LAT, LON = 533438000, -62546000
PLANE = Plane(LAT, LON)


def listening(simulation: Simulation, sender: int, x: float) -> tuple[Station, list[tuple[int, int]], list[str]]:
    """A station that gathers what it gets, and what it joins and leaves."""
    node = Node(f"n{sender}", sender)
    got: list[tuple[int, int]] = []
    members: list[str] = []
    node.subscribe("Speed", None, lambda event, now: got.append((event["rate"], now)))
    node.on_member = lambda what, group, now: members.append(what)
    return simulation.attach(node, *PLANE.degrees(x, 0)), got, members


@pytest.mark.spec("STEAM-35", "STEAM-38")
def test_an_event_reaches_who_is_inside_and_nobody_else() -> None:
    simulation = Simulation(Air(1), PLANE)
    car = simulation.attach(Node("car", 1), LAT, LON)
    _, near, joined = listening(simulation, 2, 80)
    _, in_reach, outside = listening(simulation, 3, 150)
    _, far, _ = listening(simulation, 4, 900)
    car.node.announce("Speed", Proximity.circle(LAT, LON, 100), simulation.now)
    car.update()
    simulation.call_at(2_000, lambda: car.publish(Event("Speed", [("rate", 30)])))
    simulation.run(10_000)
    assert [rate for rate, _ in near] == [30]
    assert 2_000 <= near[0][1] < 4_000
    assert joined == ["joined"]
    assert in_reach == far == []
    assert outside == []


@pytest.mark.spec("STEAM-36", "STEAM-48")
def test_who_drives_in_gets_the_last_value_and_who_drives_out_leaves() -> None:
    simulation = Simulation(Air(2), PLANE)
    car = simulation.attach(Node("car", 1), LAT, LON)
    other, got, members = listening(simulation, 2, 500)
    car.node.announce("Speed", Proximity.circle(LAT, LON, 100), 0)
    car.update()
    simulation.call_at(500, lambda: car.publish(Event("Speed", [("rate", 50)])))
    simulation.call_at(10_000, lambda: other.move(*PLANE.degrees(50, 0)))
    simulation.call_at(20_000, lambda: other.move(*PLANE.degrees(180, 0)))
    simulation.run(30_000)
    assert [rate for rate, _ in got] == [50]
    assert 10_000 < got[0][1] < 13_000
    assert members == ["joined", "left"]


def test_the_epoch_is_where_time_begins() -> None:
    simulation = Simulation(Air(1), PLANE, epoch=1_700_000_000_000)
    car = simulation.attach(Node("car", 1), LAT, LON)
    _, got, _ = listening(simulation, 2, 10)
    now = simulation.now
    assert now == 1_700_000_000_000
    car.node.announce("Speed", Proximity.circle(LAT, LON, 100), now)
    car.update()
    event = Event("Speed", [("rate", 1)], {"Expires": now + 5_000})
    simulation.call_at(now + 2_000, lambda: car.publish(event))
    simulation.run(now + 6_000)
    assert [rate for rate, _ in got] == [1]


def small(loss: float, seed: int = 1) -> tuple[Result, Trial]:
    trial = Trial(60, 4, loss=loss, seed=seed, ambulances=3, seconds=20, town=Town(seed, 5, 5))
    return trial.run(), trial


def test_a_small_town_without_loss() -> None:
    result, trial = small(0.0)
    assert result.expected > 200
    assert result.in_time == result.expected
    assert (result.outside, result.twice) == (0, 0)
    assert len(result.joins) + len(result.leaves) >= 5
    assert max(result.joins + result.leaves) <= EVERY
    assert max(result.errors) <= EVERY
    assert trial.overdue() == 0
    for party in trial.parties:
        counters = party.station.node.counters
        dropped = sum(count for name, count in counters.items() if name.startswith("in dropped"))
        assert counters["in frames"] == (
            counters.get("in beacons", 0) + counters.get("in pieces", 0) + party.station.node.pending + dropped
        )


def test_a_small_town_with_a_tenth_lost() -> None:
    result, _ = small(0.1)
    assert result.in_time >= 0.99 * result.expected > 200
    assert (result.outside, result.twice) == (0, 0)
    assert max(result.joins + result.leaves) <= EVERY
    assert max(result.errors) <= EVERY


def test_the_same_seed_is_the_same_town() -> None:
    assert small(0.1, seed=3)[0] == small(0.1, seed=3)[0]


def test_the_judge_can_say_no() -> None:
    """Half of all frames lost is too much for three rounds, and a radio that is deaf gets nothing."""
    result, _ = small(0.5)
    assert result.in_time < 0.99 * result.expected
    trial = Trial(60, 4, ambulances=3, seconds=10, town=Town(1, 5, 5))
    for party in trial.parties[::2]:
        party.station.radio.stop_scan()
    result = trial.run()
    assert result.in_time < 0.7 * result.expected
    assert trial.overdue() > 0
    result, trial = small(0.97)
    assert max(result.errors) > EVERY or trial.overdue() > 0


def test_the_judge_knows_early_from_late() -> None:
    trial = Trial(2, 0, ambulances=1, town=Town(1, 5, 5))
    (number,), party = trial.ambulances, trial.parties[1]
    key, group = (party, number), Group(number, "Siren", Proximity.circle(0, 0, 1))
    for now, fact, what in (
        (5_000, True, ""),
        (5_300, False, "joined"),
        (6_000, False, "left"),
        (6_100, True, ""),
        (7_000, True, ""),
        (7_900, True, ""),
    ):
        if fact:
            trial._inside ^= {key}
            trial._weigh(key, True, now)
        else:
            trial._changed(party, what, group, now)
    # 300 ms late; then left 100 ms too soon; and one that came back before it was noticed.
    assert (trial._joins, trial._leaves, trial._errors) == ([300], [], [300, 100, 900])


def test_vehicles_stay_on_their_streets() -> None:
    town = Town(4, 3, 3, 100.0)
    for vehicle in town.vehicles(20):
        for _ in range(500):
            before = vehicle.place
            vehicle.drive(0.5)
            x, y = vehicle.place
            assert -2 <= x <= 202
            assert -2 <= y <= 202
            assert min(x % 100, 100 - x % 100) <= 2.001 or min(y % 100, 100 - y % 100) <= 2.001
            assert abs(x - before[0]) + abs(y - before[1]) <= vehicle.speed * 0.5 + 8


def test_a_plane_and_back() -> None:
    for x, y in ((0.0, 0.0), (1234.5, -987.6), (-20_000.0, 20_000.0)):
        lat, lon = PLANE.degrees(x, y)
        assert PLANE.metres(lat, lon) == pytest.approx((x, y), abs=0.02)
    assert Plane(0, 1_799_999_990).metres(0, -1_799_999_990)[0] == pytest.approx(0.2226, abs=0.01)


def test_every_kind_of_stranger_is_counted() -> None:
    node = Node("n", 1)
    node.subscribe("Speed", None, lambda event, now: None)
    heard = 0
    for advertisements in steam.strangers().values():
        for advertisement in advertisements:
            node.receive(advertisement, -70, 0)
            heard += 1
    assert node.counters["heard"] == heard
    assert node.counters["strangers"] > heard // 2


def test_rows_of_a_small_town_have_goals() -> None:
    rows = list(steam.rows(40, 3, 12))
    assert [row.what for row in rows if row.goal] == [row.what for row in rows[:7]]
    assert all(row.met is not None for row in rows[:7])
