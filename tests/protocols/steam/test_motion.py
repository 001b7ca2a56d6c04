"""Dead reckoning: what moves is where it is, and not where it was when somebody said so."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steam_air import HERE, Air, around, north

from vicinal.proximity import Proximity, distance
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import payloads, structure
from vicinal.steam.groups import subject_hash
from vicinal.steam.motion import STILL, astray, between, coded, look, reckon
from vicinal.steam.node import Node
from vicinal.steam.reading import read
from vicinal_hw.location.fix import Fix

spec = pytest.mark.spec
SPEED = subject_hash("Speed")

speeds = st.tuples(st.integers(-8128, 8128), st.integers(-8128, 8128))
steps = st.tuples(st.integers(-127, 127), st.integers(-127, 127))
nearby = st.tuples(st.integers(-30_000, 30_000), st.integers(-30_000, 30_000))


def beacon_at(area: Proximity, velocity: tuple[int, int], number: int = 0, sender: bytes = b"abc") -> bytes:
    return structure(Beacon(SPEED, sender, number, 1000, area, True, velocity).encode())


def listener(at: tuple[int, int] = HERE) -> Node:
    node = Node("me", 99)
    node.subscribe("Speed", None, lambda event, now: None)
    node.set_position(*at, 0)
    return node


def beacons(node: Node, until: int, start: int = 0) -> list[tuple[int, Beacon]]:
    """What a radio that can send at any time sends."""
    found = []
    for now in range(start, until):
        data = node.advertisement(now)
        if data is not None:
            frame = read(payloads(data)[0])
            assert isinstance(frame, Beacon)
            found.append((now, frame))
    return found


@spec("STEAM-57")
@given(st.integers(-30_000, 30_000))
def test_a_speed_is_said_to_the_nearest_step(speed: int) -> None:
    step = coded(speed)
    assert -127 <= step <= 127
    if abs(speed) <= 127 * 64:
        assert abs(step * 64 - speed) <= 32
    else:
        assert step == (127 if speed > 0 else -127)


@spec("STEAM-57")
def test_half_a_metre_a_second_off_at_most() -> None:
    """50 km/h to the north-east in Dublin: what a receiver says, as a beacon says it, after one second."""
    velocity = Fix(*HERE, speed=13_889, heading=4_500).velocity
    assert velocity is not None
    exact = reckon(*HERE, velocity, 1000)
    assert distance(*HERE, *exact) == pytest.approx(13.889, rel=0.005)
    assert exact[0] > HERE[0]
    assert exact[1] > HERE[1]
    said = reckon(*HERE, (coded(velocity[0]) * 64, coded(velocity[1]) * 64), 1000)
    assert distance(*said, *exact) < 0.5
    assert Fix(900_000_000, 0, speed=10_000, heading=9_000).velocity == (0, pytest.approx(89_831, abs=2))


@spec("STEAM-58")
@given(nearby, speeds, st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_way_in_two_parts_is_the_way(offset: tuple[int, int], velocity: tuple[int, int], one: int, more: int) -> None:
    start = (HERE[0] + offset[0], HERE[1] + offset[1])
    at_once = reckon(*start, velocity, one + more)
    in_two = reckon(*reckon(*start, velocity, one), velocity, more)
    assert max(abs(at_once[0] - in_two[0]), abs(at_once[1] - in_two[1])) <= 1


@spec("STEAM-59")
@pytest.mark.parametrize(
    ("time", "lat", "lon", "want"),
    [
        (399, 1000, 0, None),
        (400, 1000, -400, (2500, -1000)),
        (1000, 1000, 500, (1000, 500)),
        (2000, 1000, 500, (500, 250)),
        (2001, 1000, 500, STILL),
        (1000, 16384, -16384, (16384, -16384)),
        (1000, 16385, 0, STILL),
        (1000, 0, -16385, STILL),
    ],
)
def test_how_fast_two_positions_say(time: int, lat: int, lon: int, want: tuple[int, int] | None) -> None:
    assert between((*HERE, 7000), HERE[0] + lat, HERE[1] + lon, 7000 + time) == want


@spec("STEAM-59")
def test_a_node_tells_its_velocity_by_its_positions() -> None:
    node = Node("me", 1)
    node.set_position(*HERE, 0)
    node.set_position(*HERE, 50_000)
    assert node.velocity == STILL
    for now in range(50_100, 51_001, 100):  # ten a second: none alone is far enough
        node.set_position(HERE[0] + (now - 50_000), HERE[1], now)
    assert node.velocity == (1000, 0)
    assert node.place(51_500) == (HERE[0] + 1500, HERE[1])
    node.set_position(*HERE, 51_600, (3, 4))
    assert node.velocity == (3, 4)
    node.set_position(None, None, 52_000)
    assert (node.velocity, node.place(52_000)) == (STILL, None)
    node.set_position(HERE[0] + 5000, HERE[1], 52_500)
    assert node.velocity == STILL  # nobody knows where it was before


@spec("STEAM-59")
@pytest.mark.parametrize("asked", [70, 200, 300, 1000])
def test_a_receiver_that_is_asked_more_often_than_it_tells(asked: int) -> None:
    """10 m/s, a fix a second: what is heard twice is one fix, until it has been there for too long."""
    node = Node("me", 1)
    for now in range(0, 10_000, asked):
        node.set_position(HERE[0] + 898 * (now // 1000), HERE[1], now)
        if now >= 4000:
            assert node.velocity[0] == pytest.approx(898, rel=asked / 700 if asked < 1000 else 0.01)
            place = node.place(now)
            assert place is not None
            assert abs(place[0] - HERE[0] - 898 * now // 1000) <= 700
    there = node.position
    assert there is not None
    for now in range(10_000, 12_000, asked):
        node.set_position(*there, now)
    assert node.velocity == STILL


@spec("STEAM-60")
@given(
    nearby,
    steps,
    speeds,
    st.integers(1, 300),
    st.integers(1, 300) | st.none(),
    st.integers(0, 400),
)
def test_an_edge_is_crossed_when_it_is(
    offset: tuple[int, int], course: tuple[int, int], own: tuple[int, int], x: int, y: int | None, start: int
) -> None:
    """Nothing is heard and no position comes: the node's own timers say it, within 50 ms, and are few."""
    area = Proximity.circle(*HERE, x) if y is None else Proximity.rectangle(*HERE, x, y)
    velocity = (course[0] * 64, course[1] * 64)
    me = (HERE[0] + offset[0], HERE[1] + offset[1])
    node = listener(me)
    node.set_position(*me, start, own)
    node.receive(beacon_at(area, velocity), -60, start)
    wrong, wakes = 0, 0
    for now in range(start, start + 4000, 10):
        due = node.next_timeout()
        assert due is not None
        if due <= now:
            wakes += 1
            node.handle_timeout(now)
        here = reckon(*me, own, min(now - start, 2000))
        back = reckon(*here, velocity, start - now)
        inside = area.contains(*back)
        wrong = 0 if inside == (node.groups() != []) else wrong + 1
        assert wrong * 10 <= 50
    assert wakes <= 81
    node.handle_timeout(start + 4000)
    assert (node.groups(), node.heard()) == ([], [])


@spec("STEAM-60")
def test_a_crossing_is_foreseen_from_afar() -> None:
    """A car 1 km away that comes at 10 m/s is looked at a few times, and not twenty times a second."""
    area = Proximity.circle(*north(1000), 100)
    now, looks = 0, 0
    while True:
        inside, again = look(area, (-898, 0), now, HERE, STILL, now)
        if inside:
            break
        assert again > now
        now, looks = again, looks + 1
    assert now == pytest.approx(90_000, abs=500)
    assert looks < 20


@spec("STEAM-60")
def test_who_stands_among_what_stands_needs_no_timer() -> None:
    node = listener()
    node.receive(beacon_at(around(300), STILL), -60, 0)
    assert len(node.groups()) == 1
    assert node.next_timeout() == 4000
    assert node.heard()[0].look is None


@spec("STEAM-60", "STEAM-42")
def test_a_thousand_that_move_are_twenty_timers_a_second() -> None:
    node = listener()
    for number in range(1024):
        area = Proximity.circle(*north(100 + number % 7), 100)
        node.receive(beacon_at(area, (64, 64), sender=number.to_bytes(3, "big")), -60, number % 40)
    wakes = 0
    for now in range(40, 1040):
        due = node.next_timeout()
        if due is not None and due <= now:
            wakes += 1
            node.handle_timeout(now)
    assert 0 < wakes <= 21


@spec("STEAM-19", "STEAM-60")
def test_the_same_beacon_again_is_not_where_it_says() -> None:
    """A stack may send an advertisement twice; the area has gone on between."""
    node = listener(north(-105))
    node.receive(beacon_at(Proximity.circle(*HERE, 100), (-1344, 0)), -60, 0)
    for now in range(0, 1000, 50):
        node.receive(beacon_at(Proximity.circle(*HERE, 100), (-1344, 0)), -60, now)
    assert len(node.groups()) == 1
    assert node.heard()[0].at == 0
    assert node.counters["in beacons"] == 21


@spec("STEAM-61", "STEAM-62")
def test_two_beacons_in_an_interval_of_where_it_is_then() -> None:
    car = Node("car", 7)
    car.set_position(*HERE, 0, (1344, -2304))
    car.announce("Siren", around(150, relative=True), 0)
    found = beacons(car, 1400)
    for second in range(1, 10):  # a receiver that gives a position a second
        start = 1000 * second + 400
        car.set_position(*reckon(*HERE, (1344, -2304), start), start, (1344, -2304))
        found += beacons(car, start + 1000, start)
    for now, frame in found:
        there = reckon(*HERE, (1344, -2304), now)
        assert max(abs(frame.area.lat - there[0]), abs(frame.area.lon - there[1])) <= 1
        assert (frame.velocity, frame.every) == ((1344, -2304), 1000)
    times = [now for now, _ in found][2:]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert 437 <= min(gaps) < max(gaps) <= 563
    assert len(set(gaps)) > 8
    assert sum(gaps) / len(gaps) == pytest.approx(500, abs=25)


@spec("STEAM-62")
def test_who_stands_says_it_once() -> None:
    car = Node("car", 7)
    car.set_position(*HERE, 0)
    car.announce("Siren", around(150, relative=True), 0)
    assert [now for now, _ in beacons(car, 5000)] == [0, 250, 500, 1500, 2500, 3500, 4500]


@spec("STEAM-63")
@given(st.tuples(st.integers(-3000, 3000), st.integers(-3000, 3000)), st.integers(0, 2000), speeds)
def test_a_turn_is_told_when_others_would_be_wrong(turn: tuple[int, int], time: int, before: tuple[int, int]) -> None:
    told = (coded(before[0]) * 64, coded(before[1]) * 64)
    after = (before[0] + turn[0], before[1] + turn[1])
    here = reckon(*HERE, before, time)
    believed, truth = reckon(*HERE, told, time + 1000), reckon(*here, after, 1000)
    off = max(abs(believed[0] - truth[0]), abs(believed[1] - truth[1]))
    assert astray(HERE, told, here, after, time, 1000) == (off > 300)


@spec("STEAM-63")
def test_a_turn_as_it_goes_out() -> None:
    car = Node("car", 7)
    car.set_position(*HERE, 0, (1344, 0))
    car.announce("Siren", around(150, relative=True), 0)
    for now in range(1000, 5000, 1000):
        assert len(beacons(car, now, now - 1000)) <= 4
        # As it was foretold, whatever the numbers' rounding: nothing.
        due = car.next_timeout()
        car.set_position(*reckon(*HERE, (1344, 0), now), now, (1340, 3))
        assert car.next_timeout() == due
    corner = reckon(*HERE, (1344, 0), 4100)
    car.set_position(*corner, 4100, (0, 2304))
    found = beacons(car, 5200, 4100)
    times = [now for now, _ in found]
    assert 4100 <= times[0] <= 4225
    assert [later - times[0] for later in times[:7]] == [0, 125, 250, 375, 500, 625, 750]
    assert {frame.velocity for _, frame in found} == {(0, 2304)}
    # Who stops says so, although the position is the same.
    car.set_position(*corner, 5300, (0, 2304))
    beacons(car, 6000, 5300)
    car.set_position(*corner, 6000, (0, 0))
    stopped = [(now - 6000, frame.velocity) for now, frame in beacons(car, 6500, 6000)]
    assert stopped[0][0] <= 125
    assert len(stopped) >= 4
    assert {velocity for _, velocity in stopped} == {(0, 0)}
    # And a bend in each position is no more than eight beacons in an interval.
    spinning = []
    for step in range(40):
        now = 7000 + 50 * step
        car.set_position(*corner, now, ((-1) ** step * 2304, 0))
        spinning += beacons(car, now + 50, now)
    assert 8 <= len(spinning) <= 17


def test_an_ambulance_that_turns_is_followed() -> None:
    """The law over the air: a corner, a tenth lost, positions once a second, and nobody is wrong for long."""
    air = Air(loss=0.1, seed=3)
    ambulance = air.node("ambulance")
    listeners = [air.node(f"me-{i}", (HERE[0] + 898 * (i % 7), HERE[1] + 1500 * (i // 7))) for i in range(49)]
    for me in listeners:
        air.listen(me, "Siren", names=None)
    ambulance.announce("Siren", around(40, relative=True), 0, keep=False)
    wrong = dict.fromkeys(range(49), 0)
    seen = set()

    def at(now: int) -> tuple[int, int]:
        to_corner = min(now, 20_000)
        return HERE[0] + 1344 * to_corner // 1000 // 5, HERE[1] + 2304 * (now - to_corner) // 1000 // 4

    def drive(now: int) -> None:
        if now % 1000 == 0:
            ambulance.set_position(*at(now), now)
        area = Proximity.circle(*at(now), 40)
        for i, me in enumerate(listeners):
            assert me.position is not None
            inside = area.contains(*me.position)
            wrong[i] = 0 if inside == (me.groups() != []) or now < 2000 else wrong[i] + air.interval
            # A second until the receiver tells of the corner, and an interval.
            assert wrong[i] <= 2000
            if inside:
                seen.add(i)

    air.run(40_000, drive)
    assert len(seen) > 5
