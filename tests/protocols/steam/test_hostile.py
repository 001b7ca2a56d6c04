"""The air is full of strangers, and some of them mean it: nothing is raised, and nothing grows."""

import os
import random
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steam_air import HERE, NAMES, around, balanced, north, speed

from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.steam.frames import payloads, structure
from vicinal.steam.node import Node
from vicinal.steam.reading import read

spec = pytest.mark.spec
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@given(st.binary(max_size=260))
def test_arbitrary_bytes_raise_only_what_is_declared(data: bytes) -> None:
    for payload in [data, *payloads(data)]:
        offset = 0
        try:
            read(payload)
        except RemoteProtocolError as error:
            offset = error.offset
        assert 0 <= offset <= len(payload)


def good_ones() -> list[bytes]:
    """What two real nodes send: beacons of both shapes, both forms, short and long."""
    found = []
    for number, (relative, names, room) in enumerate([(True, NAMES, 28), (False, None, 31), (False, NAMES, 254)]):
        node = Node("car", number + 1, room)
        node.set_position(*HERE, 0)
        node.announce("Speed", around(relative=relative), 0, names)
        for rate in range(3):
            node.publish(speed(rate, attrs={"Priority": rate}), 0)
        if names is None:
            node.publish(Event("Speed", [("text", "long" * 20)]), 0)
        for now in range(0, 9000, 100):
            data = node.advertisement(now)
            if data is not None and data not in found:
                found.append(data)
    return found


def mutated(chance: random.Random, good: list[bytes]) -> Iterator[bytes]:
    while True:
        kind = chance.randrange(8)
        data = bytearray(chance.choice(good))
        if kind == 0:
            yield chance.randbytes(chance.randrange(40))
        elif kind == 1:
            yield structure(chance.randbytes(chance.randrange(1, 28)))
        elif kind == 2:
            yield structure(bytes([0x20 | chance.randrange(6)]) + data[5:11] + chance.randbytes(chance.randrange(18)))
        elif kind == 3:
            yield bytes(data[: chance.randrange(len(data))])
        elif kind == 4:
            yield b"\x02\x01\x06" + data + chance.randbytes(chance.randrange(5))
        elif kind == 5:
            data[8:11] = chance.randbytes(3)  # any sender
            yield bytes(data)
        else:
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            yield bytes(data)


@spec("STEAM-2", "STEAM-32", "STEAM-28", "STEAM-42")
def test_many_advertisements() -> None:
    """A million of them in `make soak`."""
    chance = random.Random(7)
    me = Node("me", 99)
    me.set_position(*HERE, 0)
    got: list[Event] = []
    me.subscribe("Speed", None, lambda event, now: got.append(event), NAMES)
    source = mutated(chance, good_ones())
    listener = me._listening()
    sizes = []
    for now in range(1_000_000 if SOAK else 100_000):
        me.receive(next(source), -60, now // 10)
        if now % 1000 == 0:
            me.set_position(*north(chance.randrange(400)), now // 10)
            due = me.next_timeout()
            if due is not None and due <= now // 10:
                me.handle_timeout(now // 10)
            assert balanced(me)
            del got[:]
        if now % 20_000 == 19_999:
            assert len(listener.groups.heard) <= listener.groups.max_heard
            assert listener.reassembly.events <= listener.reassembly.max_events
            assert listener.reassembly.bytes <= listener.reassembly.max_bytes
            assert len(listener._seen) <= listener.max_seen
            sizes.append(footprint(listener))
    assert max(sizes) < 2_000_000
    reasons = {name.split(": ")[1] for name in me.counters if ": " in name}
    assert reasons >= {
        "version", "tagged", "kind", "malformed", "not subscribed", "no beacon", "outside", "repeated", "mismatch",
        "checksum", "duplicate", "no room",
    }  # fmt: skip


def footprint(root: object) -> int:
    """Bytes of all that hangs on a listener, but for its node."""
    seen: set[int] = set()
    todo, total = [root], 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type | Callable | Node):  # type: ignore[arg-type]
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, dict):
            todo += [*one, *one.values()]
        elif isinstance(one, list | tuple | set):
            todo += one
        todo += [getattr(one, name, None) for name in getattr(one, "__slots__", ())]
        todo += list(getattr(one, "__dict__", {}).values())
    return total


@spec("STEAM-5")
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "version"),
        (b"\x00", "version"),
        (b"\xe0" + bytes(20), "version"),
        (b"\x30" + bytes(22), "tagged"),
        (b"\x35" + bytes(22), "tagged"),
        (b"\x26" + bytes(22), "kind"),
        (b"\x20", "not subscribed"),
        (b"\x24" + bytes(22), "not subscribed"),
    ],
)
def test_why_a_frame_is_dropped(payload: bytes, reason: str) -> None:
    me = Node("me", 99)
    me.subscribe("Speed", None, print)
    me.receive_payload(payload, -60, 0)
    assert me.counters == {"heard": 1, "in frames": 1, f"in dropped: {reason}": 1}


def test_strangers_are_counted_apart() -> None:
    me = Node("me", 99)
    me.receive(b"\x02\x01\x06", -60, 0)
    me.receive(b"", -60, 0)
    assert me.counters == {"heard": 2, "strangers": 2}
    assert me.next_timeout() is None
    assert me.advertisement(0) is None
