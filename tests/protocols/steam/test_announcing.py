"""What the radio of a producer sends, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steam_air import HERE, NAMES, Air, around, balanced, north, speed

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam._rotation import Outgoing, Rotation
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import Cut, Piece, payloads
from vicinal.steam.node import Node
from vicinal.steam.reading import read

spec = pytest.mark.spec


def sender(at: tuple[int, int] | None = HERE) -> Node:
    node = Node("car", 7)
    if at is not None:
        node.set_position(*at, 0)
    return node


def sent(node: Node, until: int, start: int = 0, step: int = 100) -> list[tuple[int, Beacon | Piece]]:
    found = []
    for now in range(start, until, step):
        data = node.advertisement(now)
        if data is not None:
            (payload,) = payloads(data)
            found.append((now, read(payload)))
        assert balanced(node)
    return found


def beacons(found: list[tuple[int, Beacon | Piece]]) -> list[tuple[int, Beacon]]:
    return [(now, frame) for now, frame in found if isinstance(frame, Beacon)]


def pieces(found: list[tuple[int, Beacon | Piece]]) -> list[Piece]:
    return [frame for _, frame in found if isinstance(frame, Piece)]


@spec("STEAM-17", "STEAM-13", "STEAM-50")
def test_beacons_three_fast_ones_then_at_the_interval() -> None:
    node = sender()
    node.announce("Speed", around(), 0)
    found = beacons(sent(node, 5000, step=50))
    assert [now for now, _ in found] == [0, 250, 500, 1500, 2500, 3500, 4500]
    assert [frame.number for _, frame in found] == list(range(7))
    assert {(frame.every, frame.sender) for _, frame in found} == {(1000, b"\0\0\7")}
    assert node.next_timeout() == 5500
    assert node.advertisement(5499) is None


@spec("STEAM-17")
def test_a_radio_that_was_away_does_not_catch_up() -> None:
    node = sender()
    node.announce("Speed", around(), 0, every=100)
    sent(node, 200, step=25)
    assert [now for now, _ in beacons(sent(node, 5400, start=5000, step=50))] == [5000, 5100, 5200, 5300]


@spec("STEAM-14", "STEAM-17", "STEAM-33")
def test_an_area_that_moves_is_announced_where_it_is() -> None:
    node = sender(None)
    node.announce("Speed", Proximity.circle(100, -200, 300, True), 0)
    assert sent(node, 2000) == []
    assert node.next_timeout() is None
    assert node.publish(speed(), 2000) is False
    assert node.counters == {"out accepted": 1, "out dropped: no position": 1}
    node.set_position(*HERE, 2000)
    ((_, first),) = sent(node, 2001, start=2000)
    assert isinstance(first, Beacon)
    assert (first.area, first.relative) == (Proximity.circle(HERE[0] + 100, HERE[1] - 200, 300), True)
    node.set_position(*north(500), 2100)
    assert beacons(sent(node, 3100, start=2100))[0][1].area.lat == north(500)[0] + 100
    node.publish(speed(), 3100)
    node.set_position(None, None, 3100)
    assert (node.stored, node.counters["out dropped: no position"]) == (0, 2)
    node.publish(speed(), 3100)
    assert node.counters["out dropped: no position"] == 3
    assert sent(node, 9000, start=3100) == []


@spec("STEAM-18")
def test_farewells() -> None:
    node = sender()
    node.announce("Speed", around(), 0)
    node.publish(speed(), 0)
    sent(node, 600)
    node.unannounce("Speed", 600)
    with pytest.raises(LocalProtocolError, match="'Speed' is not announced"):
        node.publish(speed(), 600)
    found = beacons(sent(node, 5000, start=600, step=50))
    assert [(now, frame.every) for now, frame in found] == [(600, 0), (850, 0), (1100, 0)]
    assert node.next_timeout() is None
    assert balanced(node)
    with pytest.raises(LocalProtocolError, match="'Speed' is not announced"):
        node.unannounce("Speed", 5000)
    node.announce("Speed", around(), 5000)
    node.unannounce("Speed", 5000)  # nobody has heard of it
    assert node.advertisement(5000) is None
    assert node._announcing().announced == {}


@spec("STEAM-20")
def test_announced_again_it_changes_and_numbers_go_on() -> None:
    node = sender()
    node.announce("Speed", around(), 0)
    node.publish(speed(), 0)
    before = sent(node, 3000)
    node.announce("Speed", around(50), 3000, NAMES, every=500)
    node.publish(speed(), 3000)
    after = sent(node, 6000, start=3000)
    first = beacons(after)[0][1]
    assert (first.area, first.every) == (around(50), 500)
    assert first.number == beacons(before)[-1][1].number + 1
    assert {(piece.number, piece.typed) for piece in pieces(before)} == {(0, False)}
    assert {(piece.number, piece.typed) for piece in pieces(after)} == {(1, True)}


@spec("STEAM-20")
def test_announced_again_while_saying_farewell() -> None:
    node = sender()
    node.announce("Speed", around(), 0)
    sent(node, 600)
    node.unannounce("Speed", 600)
    sent(node, 700, start=600)
    node.announce("Speed", around(), 700)
    assert [frame.every for _, frame in beacons(sent(node, 3000, start=700))] == [1000] * 4


@spec("STEAM-15", "STEAM-16", "STEAM-33")
def test_what_cannot_be_announced_or_published() -> None:
    node = sender()
    for every in (0, 50, 99, 150, 25600):
        with pytest.raises(LimitError, match=f"time between beacons is {every}, the limit is 100 .. 25500 ms"):
            node.announce("Speed", around(), 0, every=every)
    with pytest.raises(LimitError, match="size of an announced area is 70000"):
        node.announce("Speed", around(70000), 0)
    with pytest.raises(LocalProtocolError, match="subject 'Speed' is not announced"):
        node.publish(speed(), 0)
    for number in range(16):
        node.announce(f"s{number}", around(), 0)
    with pytest.raises(LimitError, match="announcements of a node is 17, the limit is 16"):
        node.announce("Speed", around(), 0)
    with pytest.raises(LimitError, match="bytes of an event in advertisements"):
        node.publish(Event("s0", [("x", bytes(300))]), 0)
    assert node.counters == {}
    assert node.seq == 0


@spec("STEAM-24")
def test_events_are_numbered_once_and_keep_an_identity_they_have() -> None:
    air = Air()
    car, me = air.node("car", first_seq=70000), air.node("me")
    air.listen(me)
    car.announce("Speed", around(), 0, NAMES)
    for event in (speed(1), speed(2, producer="far away", seq=1 << 62), speed(3), speed(4, producer="car", seq=70002)):
        car.publish(event, air.now)
        air.run(air.now + 2000)
    car.publish(speed(5), air.now)
    air.run(air.now + 2000)
    assert [(event["rate"], event.identity) for _, event in air.got["me"]] == [
        (1, ("car", 70000)),
        (2, ("far away", 1 << 62)),
        (3, ("car", 70001)),
        (4, ("car", 70002)),
        (5, ("car", 70003)),
    ]


@spec("STEAM-43", "STEAM-45", "STEAM-48", "STEAM-50")
def test_one_event_as_it_goes_out() -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES)
    node.publish(speed(attrs={"Priority": 3}), 0)
    found = sent(node, 4500)
    line = ["B" if isinstance(frame, Beacon) else str(frame.index) for _, frame in found]
    # Three rounds with beacons in between, then a round after each beacon.
    assert "".join(line) == "B01B2B3123023" + "01" + "B3012" + "B0123" + "B1230"
    assert (node.counters["out sent"], node.stored) == (1, 0)


@spec("STEAM-48")
def test_the_last_event_is_said_again_unless_it_is_not() -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES)
    node.publish(speed(attrs={"Expires": 5000}), 0)
    sent(node, 3000)
    assert pieces(sent(node, 5000, start=3000)) != []
    assert pieces(sent(node, 9000, start=5000)) == []
    node.publish(speed(), 9000)
    node.publish(speed(), 9000)
    sent(node, 13000, start=9000)
    assert {piece.number for piece in pieces(sent(node, 16000, start=13000))} == {2}
    node.announce("Speed", around(), 16000, NAMES, keep=False)
    node.publish(speed(), 16000)
    assert {piece.number for piece in pieces(sent(node, 18000, start=16000))} == {3}
    assert pieces(sent(node, 22000, start=18500)) == []


@spec("STEAM-45", "STEAM-48", "STEAM-50")
def test_three_times_and_no_more_until_the_next_beacon() -> None:
    node = sender()
    node.announce("x", around(), 0, ())
    sent(node, 1400)
    node.publish(Event("x"), 1400)
    line = [(now, "B" if isinstance(frame, Beacon) else "e") for now, frame in sent(node, 2700, start=1400)]
    assert line == [(1400, "e"), (1500, "B"), (1600, "e"), (1700, "e"), (2500, "B"), (2600, "e")]


@spec("STEAM-44")
def test_what_is_due_first_is_said_first() -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES)
    node.publish(speed(), 0)
    node.publish(speed(attrs={"Deadline": 1000}), 0)
    node.publish(speed(attrs={"Priority": 1}), 0)
    first = []
    for piece in pieces(sent(node, 2000)):
        if piece.number not in first:
            first.append(piece.number)
    assert first == [2, 1, 0]


@spec("STEAM-46")
@pytest.mark.parametrize(
    ("asked", "attrs", "counter"),
    [
        (range(0, 300, 100), {}, "out dropped: expired"),  # a beacon and two of three pieces
        (range(0, 500, 100), {}, "out sent"),
        (range(0, 300, 100), {"Expires": 250}, "out dropped: expired"),
    ],
)
def test_sent_is_what_was_said_completely(asked: range, attrs: dict[str, int], counter: str) -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES, validity=2000)
    node.publish(speed(attrs={"Priority": 3, **attrs}), 0)
    for now in asked:
        node.advertisement(now)
    until = attrs.get("Expires", 2000)
    assert node.stored == 1
    node.handle_timeout(until - 1)
    assert node.stored == 1
    node.handle_timeout(until)
    assert (node.stored, node.counters[counter]) == (0, 1)
    assert balanced(node)
    if counter != "out sent":
        assert pieces(sent(node, until + 3000, start=until)) == []  # nor is it the last event
    assert node.publish(speed(attrs={"Expires": 9000}), 9000) is False
    assert balanced(node)


@spec("STEAM-44", "STEAM-46", "STEAM-49")
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(-2, 2), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=30
    )
)
def test_the_order_of_events(todo: list[tuple[int, int, int, int]]) -> None:
    """Against the rule as the page says it, with events that come in between."""
    rotation, said = Rotation(), dict[int, list[int]]()
    for order, (size, priority, deadline, turns) in enumerate(todo):
        event = Outgoing(None, None, Cut(bytes(size), b"", 28), False, order, priority, deadline, 99)
        full = len(rotation.fresh) == rotation.max_fresh
        gone = rotation.put(event)
        if full:
            assert gone is event or (gone is not None and gone.said and gone not in rotation.fresh)
            assert gone is not event or not any(other.said for other in rotation.fresh)
            rounds = [other.rounds for other in rotation.fresh if other is not event and other.said]
            assert gone is event or gone is None or all(gone.rounds >= other for other in rounds)
        else:
            assert gone is None
        for _ in range(turns):
            before = list(rotation.fresh)
            begun = [other for other in before if other.place]
            found = rotation.pick()
            assert (found is None) == (not before)
            if found is None:
                break
            if begun:
                assert [found] == begun
            else:
                best = min((o.rounds, -o.priority, o.deadline, o.number) for o in before)
                assert (found.rounds, -found.priority, found.deadline, found.number) == best
            piece = read(payloads(found.next_piece(b"abc", b"def"))[0])
            assert isinstance(piece, Piece)
            said.setdefault(piece.number, []).append(piece.index)
            if rotation.spoken(found):
                rotation.remove(found)
                indexes = said[found.number]
                count = found.cut.pieces
                assert [sorted(indexes[i * count : (i + 1) * count]) for i in range(3)] == [list(range(count))] * 3
                assert len(indexes) == 3 * count
                assert len({indexes[i * count] for i in range(3)}) == min(3, count)


@spec("STEAM-43")
def test_beacons_leave_every_other_frame_to_events() -> None:
    node = sender()
    for number in range(16):
        node.announce(f"s{number}", around(), 0, every=100)
    node.publish(Event("s3", [("x", 1)]), 0)
    line = ["B" if isinstance(frame, Beacon) else "e" for _, frame in sent(node, 1900)]
    assert line[:6] == ["B", "e"] * 3
    assert node.counters["out sent"] == 1
    # And beacons themselves are fair: all have been sent before one is for the third time.
    counts = [found.number for found in node._announcing().announced.values()]
    assert max(counts) - min(counts) <= 1


@spec("STEAM-49")
def test_a_full_queue() -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES, validity=60000)
    assert [node.publish(speed(n), 0) for n in range(17)] == [True] * 16 + [False]
    assert node.counters["out dropped: queue full"] == 1
    found = pieces(sent(node, 600))
    assert {piece.number for piece in found} == {0}
    assert node.publish(speed(99), 600)
    assert (node.counters["out sent"], node.stored) == (1, 16)
    assert balanced(node)


def test_waking_up() -> None:
    """Beacons that are due do not make a shell spin that cannot send just now."""
    node = sender()
    assert node.next_timeout() is None
    node.announce("Speed", around(), 100)
    assert node.next_timeout() == 100
    node.handle_timeout(100)
    assert node.next_timeout() is None
    node.publish(speed(), 150)
    assert node.next_timeout() == 2150
    assert node.advertisement(200) is not None
    assert node.next_timeout() == 350  # kept in step with the announcement
    node.handle_timeout(2150)
    assert node.stored == 0


@spec("STEAM-8", "STEAM-13")
def test_numbers_run_around() -> None:
    node = sender()
    node.announce("Speed", around(), 0, NAMES)
    found = node._announcing().announced["Speed"]
    found.number, found.numbers = 255, 65535
    for now in (0, 2000):
        node.publish(speed(), now)
        sent(node, now + 2000, start=now)
    assert (found.number, found.numbers) == (5, 1)
