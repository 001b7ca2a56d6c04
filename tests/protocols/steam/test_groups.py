"""Who is in a group: interested, and inside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steam_air import HERE, Air, around, balanced, north, speed

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import structure
from vicinal.steam.groups import Groups, fnv24, group_id, subject_hash
from vicinal.steam.node import Node

spec = pytest.mark.spec
SPEED = subject_hash("Speed")


def beacon(
    number: int = 0, every: int = 1000, area: Proximity | None = None, sender: bytes = b"abc", moves: bool = False
) -> bytes:
    return structure(Beacon(SPEED, sender, number, every, area or around(), moves).encode())


def listener(at: tuple[int, int] | None = HERE) -> tuple[Node, list[tuple[str, int, int]]]:
    node, seen = Node("me", 99), list[tuple[str, int, int]]()
    node.subscribe("Speed", None, lambda event, now: None)
    node.on_member = lambda what, group, now: seen.append((what, group.id, now))
    if at is not None:
        node.set_position(*at, 0)
    return node, seen


@spec("STEAM-34")
def test_the_number_of_a_group_is_what_the_page_says() -> None:
    area = Proximity.rectangle(533438000, -62546000, 200, 50)
    where = (533438000).to_bytes(4, "big") + (-62546000).to_bytes(4, "big", signed=True)
    assert group_id(SPEED, area) == fnv24(SPEED + b"\x01\x00\xc8\x00\x32" + where)
    assert group_id(SPEED, area, b"abc") == fnv24(SPEED + b"\x01\x00\xc8\x00\x32abc")


@spec("STEAM-34", "STEAM-36")
def test_one_group_of_two_producers() -> None:
    """Both announce the same: joined once, left with the last of them."""
    node, seen = listener()
    number = group_id(SPEED, around())
    node.receive(beacon(), -60, 0)
    node.receive(beacon(sender=b"xyz"), -60, 500)
    assert seen == [("joined", number, 0)]
    assert [group.id for group in node.groups()] == [number]
    node.receive(beacon(1, 0), -60, 900)
    assert seen == [("joined", number, 0)]
    node.receive(beacon(1, 0, sender=b"xyz"), -60, 1000)
    assert seen == [("joined", number, 0), ("left", number, 1000)]
    assert node.groups() == []


@spec("STEAM-34")
def test_moving_areas_are_groups_by_themselves_wherever_they_are() -> None:
    node, seen = listener()
    node.receive(beacon(moves=True), -60, 0)
    node.receive(beacon(moves=True, sender=b"xyz"), -60, 0)
    assert len({number for _, number, _ in seen}) == len(node.groups()) == 2
    node.receive(beacon(1, moves=True, area=Proximity.circle(*north(100), 300)), -60, 500)
    assert len(seen) == 2
    assert node.groups()[0].area == Proximity.circle(*north(100), 300)


@spec("STEAM-35", "STEAM-36")
@given(st.lists(st.tuples(st.booleans(), st.integers(-500, 500)), max_size=20), st.booleans())
def test_member_while_inside(moves: list[tuple[bool, int]], knows: bool) -> None:
    """Whoever moves, the area or the node: a member exactly while inside."""
    node, seen = listener(HERE if knows else None)
    area, at, inside = around(), HERE if knows else None, False
    for number, (of_area, metres) in enumerate([(True, 0), *moves]):
        if of_area:
            area = Proximity.circle(*north(metres), 300)
            node.receive(beacon(number, area=area, moves=True), -60, number)
        else:
            at = north(metres)
            node.set_position(*at, number)
        now_inside = at is not None and area.contains(*at)
        assert node.heard()[0].inside == now_inside == (len(node.groups()) == 1)
        if now_inside != inside:
            assert (seen[-1][0], seen[-1][2]) == ("joined" if now_inside else "left", number)
            inside = now_inside
    assert [what for what, _, _ in seen] == (["joined", "left"] * len(seen))[: len(seen)]
    node.set_position(None, None, 99)
    assert node.groups() == []


@spec("STEAM-35")
def test_only_who_is_interested_joins() -> None:
    node, seen = listener()
    other = structure(Beacon(subject_hash("Light"), b"abc", 0, 1000, around(), False).encode())
    node.receive(other, -60, 0)
    assert (seen, node.heard()) == ([], [])
    assert node.counters == {"heard": 1, "in frames": 1, "in dropped: not subscribed": 1}


@spec("STEAM-37")
def test_silence_ends_it() -> None:
    node, seen = listener()
    node.receive(beacon(every=700), -60, 100)
    node.receive(beacon(1, 500), -60, 1000)
    assert node.next_timeout() == 2900  # as the first said; it may be early
    node.handle_timeout(2900)
    assert node.next_timeout() == 3000
    node.handle_timeout(2999)
    assert len(node.groups()) == 1
    node.handle_timeout(3000)
    assert (node.groups(), node.heard(), seen[-1][0], seen[-1][2]) == ([], [], "left", 3000)
    assert node.next_timeout() is None


@spec("STEAM-37")
def test_each_has_its_own_interval() -> None:
    node, _ = listener()
    node.receive(beacon(every=5000), -60, 0)
    node.receive(beacon(every=100, sender=b"xyz"), -60, 50)
    assert node.next_timeout() == 450
    node.handle_timeout(450)
    assert [heard.beacon.sender for heard in node.heard()] == [b"abc"]
    assert node.next_timeout() == 20000


@spec("STEAM-34", "STEAM-36")
def test_another_size_is_another_group() -> None:
    node, seen = listener()
    node.receive(beacon(), -60, 0)
    node.receive(beacon(1, area=around(200)), -60, 1)
    one, other = group_id(SPEED, around()), group_id(SPEED, around(200))
    assert seen == [("joined", one, 0), ("left", one, 1), ("joined", other, 1)]
    assert [group.id for group in node.groups()] == [other]


@spec("STEAM-37")
def test_silence_ends_it_although_no_timer_fires() -> None:
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me, names=None)
    car.announce("Speed", around(), 0)
    car.publish(Event("Speed"), 0)
    beacon, *pieces = [car.advertisement(now) for now in (0, 100, 200)]
    assert beacon is not None
    me.receive(beacon, -60, 0)
    for piece in pieces:
        assert piece is not None
        me.receive(piece, -60, 4000)
    assert (air.got["me"], me.groups()) == ([], [])


@spec("STEAM-16", "STEAM-37")
def test_the_last_beacon_ends_it_and_begins_nothing() -> None:
    node, seen = listener()
    node.receive(beacon(0, 0), -60, 0)
    assert (node.heard(), node.counters["in dropped: farewell"]) == ([], 1)
    node.receive(beacon(), -60, 0)
    node.receive(beacon(1, 0), -60, 7)
    assert (node.heard(), seen[-1][::2]) == ([], ("left", 7))


@spec("STEAM-19")
@given(st.integers(0, 255), st.integers(0, 255))
def test_late_beacons_change_nothing(number: int, step: int) -> None:
    node, _ = listener()
    node.receive(beacon(number), -60, 0)
    node.receive(beacon((number + step) % 256, area=around(5)), -60, 1)
    late = step >= 129
    assert node.heard()[0].beacon.area == (around(300) if late or not step else around(5))
    assert node.heard()[0].at == (0 if late or not step else 1)
    assert node.counters.get("in dropped: late beacon", 0) == late


@spec("STEAM-42")
def test_the_silent_ones_outside_give_way() -> None:
    node, _ = listener()
    groups: Groups = node._listening().groups
    groups.max_heard = 3
    far = Proximity.circle(0, 0, 5)
    for number, (name, area) in enumerate([(b"in1", around()), (b"ou1", far), (b"ou2", far)]):
        node.receive(beacon(sender=name, area=area), -60, number)
    node.receive(beacon(1, sender=b"ou1", area=far), -60, 5)
    node.receive(beacon(sender=b"in2"), -60, 6)
    assert [heard.beacon.sender for heard in node.heard()] == [b"in1", b"ou1", b"in2"]  # ou2 was silent for longest
    node.receive(beacon(sender=b"in3"), -60, 7)
    node.receive(beacon(sender=b"ou9", area=far), -60, 8)
    assert node.counters["in dropped: no room"] == 1
    assert [heard.beacon.sender for heard in node.heard()] == [b"in1", b"in2", b"in3"]
    node.receive(beacon(sender=b"new"), -60, 4005)  # in1 has been silent for too long
    assert [heard.beacon.sender for heard in node.heard()] == [b"in2", b"in3", b"new"]
    node.receive(beacon(1, sender=b"in3", area=far), -60, 4005)
    node.receive(beacon(sender=b"nex"), -60, 4005)  # in3 is not what it was
    assert [heard.beacon.sender for heard in node.heard()] == [b"in2", b"new", b"nex"]
    assert balanced(node)


@spec("STEAM-38")
def test_nothing_is_delivered_outside() -> None:
    """Pieces from before the first beacon are dropped, and those heard outside; others wait until we are back."""
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me)
    air.nodes.remove(me)
    car.announce("Speed", around(), 0, ("license_no", "rate"), keep=False)
    car.publish(speed(attrs={"Priority": 3}), 0)
    heard = [data for data in (car.advertisement(now) for now in range(0, 2000, 100)) if data is not None]
    first, *pieces = [data for data in heard if data[4] & 15 < 4][:1] + [data for data in heard if data[4] & 15 > 3]
    me.receive(pieces[0], -60, 0)
    assert me.counters["in dropped: no beacon"] == 1
    me.receive(first, -60, 0)
    for piece in pieces[:2]:
        me.receive(piece, -60, 0)
    me.set_position(*north(400), 1)
    assert me.pending == 2
    for piece in pieces:
        me.receive(piece, -60, 1)
    assert me.counters["in dropped: outside"] == len(pieces) == 12
    assert air.got["me"] == []
    me.set_position(*HERE, 2)
    assert air.got["me"] == []
    me.receive(pieces[2], -60, 2)
    assert len(air.got["me"]) == 1
    assert balanced(me)


@spec("STEAM-39", "STEAM-40", "STEAM-41")
@pytest.mark.parametrize(
    ("attrs", "condition", "why"),
    [
        ({}, None, None),
        ({}, "rate > 30", None),
        ({}, "rate > 90", "filter"),
        ({"Expires": 5_001}, None, None),
        ({"Expires": 5_000}, None, "expired"),
        ({"Proximity": around(10)}, None, None),
        ({"Proximity": Proximity.circle(*north(50), 10)}, None, "outside"),
        ({"Proximity": Proximity.circle(0, 0, 1, True)}, None, None),
    ],
)
def test_what_an_event_says_of_itself(attrs: dict[str, object], condition: str | None, why: str | None) -> None:
    air = Air()
    car, me = air.node("car"), air.node("me")
    me.subscribe("Speed", None if condition is None else Filter(condition), air.taker(me))
    me.subscribe("Speed", Filter("rate > 99"), air.taker(me))
    car.announce("Speed", around(), 4000)
    car.publish(speed(attrs=attrs), 4000)
    for now in range(4000, 6000, 100):
        data = car.advertisement(now)
        if data is not None:
            me.receive(data, -60, 5000)
    assert len(air.got["me"]) == (why is None)
    assert me.counters.get(f"event dropped: {why}", 0) >= (why is not None)
    assert balanced(me)


@spec("STEAM-39")
def test_who_enters_an_events_own_area_later_gets_it_then() -> None:
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me, names=None)
    car.announce("Speed", around(), 0)
    car.publish(speed(attrs={"Proximity": Proximity.circle(*north(50), 10)}), 0)
    air.run(3000)
    assert air.got["me"] == []
    me.set_position(*north(50), air.now)
    air.run(6000)
    assert len(air.got["me"]) == 1


def test_subscriptions_end() -> None:
    node, seen = listener()
    with pytest.raises(LocalProtocolError, match="no such subscription"):
        node.unsubscribe("Speed", print, 0)
    node.subscribe("Speed", None, print)
    node.receive(beacon(), -60, 0)
    node.unsubscribe("Speed", print, 1)
    assert len(node.groups()) == 1
    node.unsubscribe("Speed", node._listening().subscriptions[SPEED].handlers[0][1], 2)
    assert (seen[-1][::2], node.groups(), node.heard()) == (("left", 2), [], [])
    node.receive(beacon(), -60, 3)
    assert node.counters["in dropped: not subscribed"] == 1
    with pytest.raises(LocalProtocolError, match="no such subscription"):
        node.unsubscribe("Speed", print, 4)


@spec("STEAM-6")
def test_subjects_that_cannot_be_told_apart_are_refused() -> None:
    # Found by search: both hash to 24 bits the same.
    one, two = clash()
    node = Node("me", 1)
    node.subscribe(one, None, print)
    with pytest.raises(LocalProtocolError, match="have the same hash: rename one"):
        node.subscribe(two, None, print)
    node.announce(one, around(), 0)
    with pytest.raises(LocalProtocolError, match="have the same hash: rename one"):
        node.announce(two, around(), 0)
    with pytest.raises(LocalProtocolError, match=r"has the names None, not \('x',\)"):
        node.subscribe(one, None, print, ("x",))


@spec("STEAM-23", "STEAM-25")
@pytest.mark.parametrize("names", [None, ("license_no", "rate")])
def test_a_subject_with_the_hash_of_another_is_not_delivered(names: tuple[str, ...] | None) -> None:
    one, two = clash()
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me, one, names=names)
    car.announce(two, around(), 0, names)
    car.publish(Event(two, [("license_no", "x"), ("rate", 1)]), 0)
    air.run(3000)
    assert air.got["me"] == []
    assert me.counters["event dropped: " + ("undecodable" if names is None else "checksum")] > 0


@spec("STEAM-23", "STEAM-25")
@pytest.mark.parametrize(("names", "reason"), [(None, "in dropped: no names"), (("a", "b"), "event dropped: checksum")])
def test_other_names_are_another_type(names: tuple[str, ...] | None, reason: str) -> None:
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me, names=names)
    car.announce("Speed", around(), 0, ("license_no", "rate"))
    car.publish(speed(), 0)
    air.run(2000)
    assert air.got["me"] == []
    assert me.counters[reason] > 0


def test_names_or_not_who_knows_them_hears_the_full_form() -> None:
    air = Air()
    car, me = air.node("car"), air.node("me")
    air.listen(me, names=("x",))
    car.announce("Speed", around(), 0)
    car.publish(speed(), 0)
    air.run(2000)
    assert len(air.got["me"]) == 1


def clash() -> tuple[str, str]:
    seen: dict[bytes, str] = {}
    for number in range(100000):
        subject = f"s{number}"
        other = seen.setdefault(subject_hash(subject), subject)
        if other != subject:
            return other, subject
    raise AssertionError("24 bits are more than they were")


@spec("STEAM-3", "STEAM-7")
def test_what_a_node_is_made_of() -> None:
    for sender in (0, 1 << 24, -1):
        with pytest.raises(LimitError, match="sender is"):
            Node("me", sender)
    for room in (26, 255):
        with pytest.raises(LimitError, match=f"room in an advertisement is {room}, the limit is 27 .. 254"):
            Node("me", 1, room)
    with pytest.raises(LimitError, match="interval is 0"):
        Node("me", 1, interval=0)
    node, _ = listener()
    node.receive(beacon(sender=(99).to_bytes(3, "big")), -60, 0)
    assert node.counters["in dropped: own"] == 1
    with pytest.raises(LimitError, match="latitude is 900000001"):
        node.set_position(900000001, 0, 0)
