"""Areas that give way so that the time holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steam_air import HERE, NAMES, Air, around, north, speed

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.beacon import Beacon
from vicinal.steam.elastic import ASSUMED_LOSS, Elastic, Losses, edge, promise, rounds_before
from vicinal.steam.frames import structure
from vicinal.steam.groups import subject_hash
from vicinal.steam.node import Node

spec = pytest.mark.spec


@spec("STEAM-53")
@given(st.integers(1, 15), st.floats(0, 1), st.floats(0, 1), st.integers(0, 5), st.integers(0, 5))
def test_a_promise_grows_with_rounds_and_falls_with_loss(n: int, p: float, q: float, r: int, s: int) -> None:
    low, high = sorted((p, q))
    assert 0 <= promise(n, high, r) <= promise(n, low, r) + 1e-12 <= 1 + 2e-12
    if r <= s:
        assert promise(n, p, r) <= promise(n, p, s) + 1e-12
    assert promise(n, p, 0) == 0
    assert promise(n, 0.0, 1) == 1


@spec("STEAM-53")
def test_rounds_that_fit() -> None:
    assert rounds_before(2000, 100, 4, 0, 9) == 5
    assert rounds_before(2000, 100, 4, 0, 3) == 3
    assert rounds_before(2000, 100, 4, 100, 9) == 4  # a tenth is taken by beacons
    assert rounds_before(2000, 100, 4, 1000, 9) == 0
    assert rounds_before(2000, 100, 4, 5000, 9) == 0
    assert rounds_before(399, 100, 4, 0, 9) == 0


def heard(losses: Losses, key: bytes, metres: int, loss: float, count: int, seed: int = 1) -> None:
    chance = random.Random(seed)
    for number in range(count):
        if chance.random() >= loss:
            losses.observe(key, number % 256, metres)


@spec("STEAM-52")
def test_losses_by_distance() -> None:
    losses = Losses()
    assert losses.at(50) == ASSUMED_LOSS
    heard(losses, b"few", 40, 0.0, 16)
    assert losses.at(50) == ASSUMED_LOSS  # the first only says where counting begins
    heard(losses, b"near", 40, 0.02, 1000)
    heard(losses, b"far", 180, 0.5, 1000)
    assert losses.at(10) == ASSUMED_LOSS  # nothing is known that near
    assert losses.at(50) < 0.08
    assert losses.at(100) == losses.at(50)
    assert 0.4 < losses.at(101) < 0.6
    assert losses.at(5000) == losses.at(101)  # the worst of what is known
    heard(losses, b"far", 180, 0.0, 1500)
    assert losses.at(200) < 0.08  # the old is forgotten


@spec("STEAM-52")
def test_beacons_heard_twice_or_late_are_no_loss_and_no_gain() -> None:
    losses = Losses()
    for number in range(200):
        losses.observe(b"a", number, 10)
        losses.observe(b"a", number, 10)
        if number > 3:
            losses.observe(b"a", number - 2, 10)
    assert losses.at(10) == 0
    assert losses._got[0] == 199


def test_neighbours_are_bounded() -> None:
    losses = Losses()
    losses.max_neighbours = 3
    for i in range(10):
        losses.observe(bytes([i]), 0, 10)
        losses.observe(b"\x00", i, 10)  # is never silent for longest
    assert len(losses._numbers) == 3
    assert losses._got[0] == 9  # and was never forgotten


def test_the_far_edge() -> None:
    assert edge(around(300), None) == 300
    assert edge(Proximity.rectangle(*HERE, 600, 800), None) == 500
    assert abs(edge(around(300), north(100)) - 400) < 1


@spec("STEAM-51")
def test_a_minimum_is_the_same_area_but_smaller() -> None:
    wide = Proximity.rectangle(*HERE, 400, 400)
    for minimum in (around(100), Proximity.rectangle(0, 0, 1, 1), Proximity.rectangle(*HERE, 4, 4, True)):
        with pytest.raises(LocalProtocolError, match="is not the same place and shape"):
            Elastic(wide, minimum)
    for minimum in (Proximity.rectangle(*HERE, 401, 1), Proximity.rectangle(*HERE, 1, 401)):
        with pytest.raises(LocalProtocolError, match="is larger than"):
            Elastic(wide, minimum)


@spec("STEAM-51", "STEAM-54", "STEAM-55")
@given(
    st.integers(1, 100),
    st.integers(100, 800),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_against_the_rule(low: int, high: int, course: list[tuple[float, int]]) -> None:
    """Shrinks at once to the largest that holds, grows by one step after three."""
    elastic = Elastic(around(high), around(low))
    sizes = [low + (high - low) * step // 8 for step in range(9)]
    step, good = 8, 0
    for loss, rounds in course:
        far = Losses()
        # Half of the way all is well; from there on it is lost so.
        far.at = lambda metres, loss=loss: 0.0 if metres <= (low + high) / 2 else loss  # type: ignore[method-assign, misc]
        holding = [i for i in range(9) if promise(3, far.at(sizes[i]), rounds) >= 0.99]
        before = (elastic.area, elastic.holds)
        changed = elastic.adapt(far, None, 3, rounds)
        best = max(holding, default=-1)
        if best <= step:
            step, good = max(best, 0), 0
        else:
            good += 1
            if good == 3:
                step, good = step + 1, 0
        assert elastic.area == around(sizes[step])
        assert elastic.holds == (best >= 0)
        assert changed == ((elastic.area, elastic.holds) != before) or sizes[step] in sizes[:step]


@spec("STEAM-52", "STEAM-54", "STEAM-55", "STEAM-56")
def test_a_node_gives_way_and_comes_back() -> None:
    """A neighbour 250 m away is lost half of the time, one 90 m away hardly ever; then the air clears."""
    told: list[tuple[int, bool, int]] = []
    node = Node("rsu", 1)
    node.set_position(*HERE, 0)
    node.announce(
        "Light",
        around(400),
        0,
        NAMES,
        minimum=around(50),
        on_adapt=lambda area, holds, now: told.append((area.dimx, holds, now)),
    )
    chance = random.Random(3)

    def live(start: int, until: int, losses: dict[int, float]) -> None:
        numbers = dict.fromkeys(losses, 0)
        for now in range(start, until, 100):
            for metres, loss in losses.items():
                numbers[metres] += 1
                area = Proximity.circle(*north(metres), 30)
                sender = metres.to_bytes(2, "big") + bytes([start // 30_000])  # drawn anew
                frame = Beacon(subject_hash("x"), sender, numbers[metres] % 256, 100, area, True)
                if chance.random() >= loss:
                    node.receive(structure(frame.encode()), -60, now)
            node.advertisement(now)

    live(0, 30_000, {90: 0.01, 250: 0.6})
    sizes = [size for size, _, _ in told]
    assert sizes[-1] == 181  # 50 + 350 * 3 / 8: the largest that does not reach beyond 200 m
    assert all(holds for _, holds, _ in told)
    live(30_000, 90_000, {90: 0.01, 250: 0.01})
    sizes = [size for size, _, _ in told]
    assert sizes[-1] == 400
    assert sizes[sizes.index(181) + 1 :] == sorted(set(sizes[sizes.index(181) + 1 :]))
    live(90_000, 150_000, {90: 0.9, 250: 0.9})
    assert told[-1][:2] == (50, True)  # nobody nearer than 90 m tells
    live(150_000, 210_000, {10: 0.9})
    assert told[-1][:2] == (50, False)
    assert node.counters["in dropped: not subscribed"] == node.counters["in frames"]


@spec("STEAM-53")
def test_what_else_a_node_says_counts() -> None:
    """A long event that waits for its turns leaves a short one fewer rounds."""
    told: list[tuple[int, bool]] = []
    node = Node("rsu", 1)
    node.set_position(*HERE, 0)
    node.announce("Long", around(), 0, validity=60_000)
    node.announce(
        "Light",
        around(),
        0,
        NAMES,
        minimum=around(50),
        on_adapt=lambda area, holds, now: told.append((area.dimx, holds)),
    )
    node.publish(speed().replace(subject="Light"), 0)
    for now in range(0, 3000, 100):
        node.advertisement(now)
    assert told == []
    for _ in range(4):
        node.publish(Event("Long", [("x", bytes(150))]), 3000)
    for now in range(3000, 5000, 100):
        node.advertisement(now)
    assert told == [(50, False)]


@spec("STEAM-53")
def test_beacons_take_their_share() -> None:
    told: list[tuple[int, bool]] = []
    node = Node("rsu", 1)
    node.set_position(*HERE, 0)
    for number in range(15):
        node.announce(f"s{number}", around(), 0, every=1500)
    node.announce(
        "Light", around(), 0, minimum=around(50), on_adapt=lambda area, holds, now: told.append((area.dimx, holds))
    )
    for now in range(0, 5000, 100):
        node.advertisement(now)
    assert told == [(50, False)]


@spec("STEAM-52")
def test_areas_that_stay_tell_nothing_of_distance() -> None:
    """Their producer may be anywhere."""
    node = Node("rsu", 1)
    node.set_position(*HERE, 0)
    node.announce("Light", around(), 0, minimum=around(50))
    for moves, known in ((False, 0), (True, 19)):
        for number in range(20):
            frame = Beacon(subject_hash("x"), b"abc", number, 100, around(30), moves)
            node.receive(structure(frame.encode()), -60, number)
        assert sum(node.losses._got) == known


def test_members_hear_of_the_smaller_area() -> None:
    air = Air()
    rsu, me = air.node("rsu"), air.node("me", north(250))
    air.listen(me, "Light")
    rsu.announce("Light", around(300), 0, NAMES, minimum=around(100))
    air.run(1000)
    assert len(me.groups()) == 1
    elastic = rsu._announcing().announced["Light"].elastic
    elastic.adapt = lambda *args: setattr(elastic, "area", around(200)) or True
    air.run(3000)
    assert me.groups() == []


@spec("STEAM-34")
def test_what_is_under_way_survives_another_size() -> None:
    """A member leaves one group for the other between two pieces of an event."""
    air = Air()
    rsu, me = air.node("rsu"), air.node("me", north(50))
    air.listen(me, "Light")
    rsu.announce("Light", around(300), 0, NAMES, keep=False)
    air.run(600)
    rsu.publish(speed(attrs={"Priority": 3}).replace(subject="Light"), air.now)
    for now in (600, 700):
        data = rsu.advertisement(now)
        assert data is not None
        me.receive(data, -60, now)
    assert me.pending == 2
    rsu.announce("Light", around(200), 800, NAMES, keep=False)
    for now in (800, 900):
        data = rsu.advertisement(now)
        assert data is not None
        me.receive(data, -60, now)
    assert [what for _, what, _, _ in air.members] == ["joined", "left", "joined"]
    assert len(air.got["me"]) == 1
