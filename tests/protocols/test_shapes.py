"""Shapes against the strict reader: what a shape takes the reader takes, as the same event; what it leaves the reader
decides alone."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import events

import vicinal.wire as wire
from vicinal._cbor_read import loads
from vicinal._shapes_cpython import _LEARN_EVERY, _MAX_OF_LENGTH, _MAX_SHAPES, Shapes, _shape_of
from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.wire import _from_item, decode, encode


def strictly(data: bytes) -> Event | None:
    try:
        return _from_item(loads(data))
    except VicinalError:
        return None


def speed(seq: int, rate: float = 47.3, plate: str = "B-XY 123", **more: object) -> Event:
    return Event("Speed", [("license_no", plate), ("rate", rate), ("lat", -521234567), *more.items()], (), "car-7", seq)


@given(events(), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4))
def test_a_shape_agrees_with_the_reader_on_all_of_its_length(event: Event, changes: list[tuple[int, int]]) -> None:
    data = encode(event)
    read = strictly(data)
    assert read is not None
    shape = _shape_of(data, read)
    if shape is None:
        return
    values = [*read.params.values(), *read.attrs.values()]
    assert shape(data) == event or any(value != value for value in values)
    changed = bytearray(data)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    try:
        found = shape(bytes(changed))
    except (ValueError, VicinalError):
        found = None
    if found is not None:
        assert found == strictly(bytes(changed))
        assert encode(found) == bytes(changed)


VALUES = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.floats(width=16),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-30, 300),
    st.booleans(),
    st.text(max_size=30),
    st.binary(max_size=30),
)


@given(VALUES, VALUES, st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 63) - 1))
def test_a_shape_takes_all_that_differ_in_values_of_one_size(a: object, b: object, seq: int, next_: int) -> None:
    first, second = [Event("S", [("x", value), ("y", 1)], (), "p", number) for value, number in ((a, seq), (b, next_))]
    shape = _shape_of(encode(first), first)
    assert shape is not None
    data = encode(second)
    if len(data) != len(encode(first)):
        return
    try:
        found = shape(data)
    except ValueError:
        found = None
    assert found is None or found == second == strictly(data)
    # The same heads, so the same shape: nothing but NaN may go the long way.
    if _head(a) == _head(b) and _head(seq) == _head(next_) and a == a and b == b:
        assert found is not None


def _head(value: object) -> int:
    """The first byte, without what is a value in itself."""
    first: int = wire._dumps(value)[0]
    if first >> 5 < 2 and first & 31 < 24:
        return first & 0xE0
    return 0xF4 if isinstance(value, bool) else first


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x18\x05",  # heads longer than needed
        b"\x19\x00\x20",
        b"\x1a\x00\x00\x00\xff",
        b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
        b"\x1b\x80\x00\x00\x00\x00\x00\x00\x00",  # past 64-bit signed
        b"\xfa" + struct.pack(">f", 1.5),  # a float that a shorter one holds
        b"\xfb" + struct.pack(">d", 1.5),
        b"\xfb" + struct.pack(">d", 0.10000000149011612),
        b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x01",  # another NaN
        b"\xf9\x7e\x01",
        b"\xf7",  # undefined
        b"\x62\xff\xff",  # not UTF-8
    ],
)
def test_what_the_reader_refuses_no_shape_takes(wrong: bytes) -> None:
    right = {0x18: 100, 0x19: 300, 0x1A: 70000, 0x1B: 1 << 40, 0xFA: 0.1000000014901161, 0xFB: 0.1, 0xF9: 1.5}
    right.update({0xF7: True, 0x62: "ab"})
    value = right[wrong[0]]
    if wrong[0] == 0xFA:
        value = struct.unpack(">f", struct.pack(">f", 0.1))[0]
    event = Event("S", [("x", value)], (), "p", 1)
    data = encode(event)
    shape = _shape_of(data, event)
    assert shape is not None
    mine = wire._dumps(value)
    bad = data.replace(mine, wrong, 1)
    assert len(bad) == len(data)
    assert strictly(bad) is None
    with contextlib.suppress(ValueError):
        assert shape(bad) is None


def test_frequent_shapes_are_learned_and_their_number_is_bounded() -> None:
    shapes = Shapes()
    for seq in range(_LEARN_EVERY):
        event = speed((1 << 32) + seq)
        assert shapes.decode(encode(event)) is None
        shapes.missed(encode(event), event)
    other = speed((1 << 32) + 99, 48.1, "B-XY 999")
    assert shapes.decode(encode(other)) == other
    for number in range(_MAX_SHAPES * 3):
        event = Event("S" * (number % 200 + 1), [(f"n{number}", 1)], (), "p", 1)
        for _ in range(_LEARN_EVERY):
            shapes.missed(encode(event), event)
        sizes = [len(known) for known in shapes._by_length.values()]
        assert max(sizes) <= _MAX_OF_LENGTH
        assert sum(sizes) <= _MAX_SHAPES


def test_wire_decode_uses_them_and_says_the_same_of_what_is_wrong() -> None:
    for seq in range(3 * _LEARN_EVERY):
        assert decode(encode(speed((1 << 33) + seq))) == speed((1 << 33) + seq)
    bad = bytearray(encode(speed(1 << 33)))
    bad[bad.index(b"B-XY")] = 0xFF
    assert wire._shapes.decode(bytes(bad)) is None
    with pytest.raises(VicinalError, match="UTF-8"):
        decode(bytes(bad))
    attributes = Event("A", [("x", 1)], {"Priority": 300}, "p", 1 << 33)
    shape = _shape_of(encode(attributes), attributes)
    assert shape is not None
    too_high = encode(attributes).replace(b"\x19\x01\x2c", b"\x19\x80\x00")
    with pytest.raises(VicinalError):
        shape(too_high)
