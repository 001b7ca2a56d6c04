"""Advertisements, frames, and events cut to pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.proximity import Proximity
from vicinal.steam.beacon import Beacon, check_area, read_beacon
from vicinal.steam.frames import (
    LEGACY_ROOM,
    MAX_ROOM,
    MIN_ROOM,
    Cut,
    Piece,
    check_of,
    data_of,
    payloads,
    read_piece,
    structure,
)
from vicinal.steam.groups import fnv24, subject_hash
from vicinal.steam.reading import read

spec = pytest.mark.spec
threes = st.binary(min_size=3, max_size=3)
rooms = st.sampled_from([27, LEGACY_ROOM, 31, 100, MAX_ROOM])


@spec("STEAM-1", "STEAM-2")
@given(st.lists(st.binary(min_size=1, max_size=24), max_size=3), st.binary(max_size=20))
def test_our_structures_are_found_among_others(frames: list[bytes], name: bytes) -> None:
    other = bytes([len(name) + 1, 0x09]) + name
    advertisement = b"\x02\x01\x06" + other + b"".join(structure(frame) + other for frame in frames)
    assert payloads(advertisement) == frames
    assert payloads(advertisement + bytes(5)) == frames  # filled up
    assert payloads(advertisement + b"\x09\xff\xff\xff\x20") == frames  # cut off


@spec("STEAM-2")
@pytest.mark.parametrize(
    "advertisement",
    [
        b"",
        b"\x00",
        b"\x02\x01\x06",
        b"\x1a\xff\x4c\x00\x02\x15" + bytes(21),  # another company
        b"\x05\x16\xff\xff\xff\x20",  # service data, not ours
        b"\x03\xff\xff\xff",  # nothing in it
        b"\x04\xff\xff\xff",  # cut off
        b"\x00\x05\xff\xff\xff\x20\x00",  # after the end
        b"\x05\x09\xff\xff\xff\x20",  # our mark inside another structure
    ],
)
def test_strangers(advertisement: bytes) -> None:
    assert payloads(advertisement) == []


@spec("STEAM-2")
def test_30_structures_are_looked_at() -> None:
    assert payloads(b"\x01\x09" * 29 + structure(b"x")) == [b"x"]
    assert payloads(b"\x01\x09" * 30 + structure(b"x")) == []


@spec("STEAM-1", "STEAM-3")
@given(st.binary(max_size=200), rooms)
def test_no_structure_is_larger_than_its_room(data: bytes, room: int) -> None:
    cut = Cut(data, b"", room)
    for index in range(cut.pieces):
        sent = structure(Piece(False, b"abc", b"def", 0, index, cut.count, cut.chunk(index)).encode())
        assert len(sent) == sent[0] + 1 <= room


@spec("STEAM-4", "STEAM-8")
@given(st.booleans(), threes, threes, st.integers(0, 0xFFFF), st.integers(1, 15), st.binary(min_size=1), st.data())
def test_a_piece_is_read_as_it_was_written(
    typed: bool, subject: bytes, sender: bytes, number: int, count: int, chunk: bytes, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, count if count > 1 else 0))
    written = Piece(typed, subject, sender, number, index, count, chunk).encode()
    found = read(written)
    assert isinstance(found, Piece)
    fields = (found.typed, found.subject, found.sender, found.number, found.index, found.count, found.chunk)
    assert fields == (typed, subject, sender, number, index, count, chunk)
    assert written[0] == (0x25 if typed else 0x24)
    assert written[1:10] == subject + sender + number.to_bytes(2, "big") + bytes([index << 4 | count])


@spec("STEAM-4", "STEAM-5", "STEAM-8")
@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("", "no frame of version 1"),
        ("04", "no frame of version 1"),
        ("44", "no frame of version 1"),
        ("30" + "00" * 20, "tagged"),
        ("26" + "00" * 20, "kind 6"),
        ("2f" + "00" * 20, "kind 15"),
        ("24" + "00" * 8, "has no chunk"),
        ("24" + "00" * 8 + "01", "has no chunk"),
        ("24" + "00" * 8 + "0077", "piece 0 of 0"),
        ("24" + "00" * 8 + "1177", "piece 1 of 1"),
        ("24" + "00" * 8 + "3277", "piece 3 of 2"),
    ],
)
def test_what_is_no_frame(frame: str, error: str) -> None:
    with pytest.raises(RemoteProtocolError, match=error):
        read(bytes.fromhex(frame))


@spec("STEAM-6")
def test_hashes_are_fnv_1a() -> None:
    """By the published 32-bit values of FNV-1a, folded."""
    for text, full in (("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)):
        assert fnv24(text.encode()) == (full >> 24) ^ (full & 0xFFFFFF)
    assert subject_hash("a") == bytes.fromhex("0c29c8")


@spec("STEAM-9", "STEAM-10", "STEAM-11")
@given(st.binary(min_size=1, max_size=190), rooms, st.binary(max_size=10))
def test_any_count_of_the_pieces_is_the_event(data: bytes, room: int, seed: bytes) -> None:
    cut = Cut(data, seed, room)
    chunks = [cut.chunk(i) for i in range(cut.pieces)]
    assert len({len(chunk) for chunk in chunks}) == 1
    assert data_of(chunks[: cut.count]) == (check_of(seed, data), data)
    if cut.count > 1:
        for missing in range(cut.count):
            rest = chunks[:missing] + chunks[missing + 1 :]
            lost = bytes(len(chunks[0]))
            for chunk in rest:
                lost = bytes(a ^ b for a, b in zip(lost, chunk))
            assert lost == chunks[missing]


@spec("STEAM-10")
def test_impossible_fills_are_refused() -> None:
    assert data_of([b"\x00\x01"]) is None  # no data
    assert data_of([b"\x02\x00\x00", b"\x01\x00\x00"]) is None  # as much as chunks
    assert data_of([b"\x01\x00\x00", b"\x01\x00\x07"]) is None  # not zero
    assert data_of([b"\x01\x00", b"\x00\x00"]) is None  # nothing left
    assert data_of([b"\x01\x00\x00", b"\x01\x07\x00"]) == (b"\x00\x00", b"\x01\x07")


@spec("STEAM-11")
def test_the_check_sees_the_seed_and_every_byte() -> None:
    assert check_of(b"", b"123456789") == b"\x39\x26"  # of CRC-32's cbf43926
    assert check_of(b"1234", b"56789") == b"\x39\x26"
    assert check_of(b"x", b"123456789") != b"\x39\x26"


@spec("STEAM-12")
@pytest.mark.parametrize(("room", "one", "most"), [(28, 12, 207), (31, 15, 252), (254, 238, 3597)])
def test_as_few_chunks_as_the_room_allows(room: int, one: int, most: int) -> None:
    assert Cut(bytes(one), b"", room).count == 1
    assert Cut(bytes(one + 1), b"", room).count == 2
    assert Cut(bytes(most), b"", room).count == 15
    with pytest.raises(LimitError, match=f"is {most + 1}, the limit is {most}"):
        Cut(bytes(most + 1), b"", room)
    for size in range(1, min(most, 400) + 1):
        cut = Cut(bytes(size), b"", room)
        assert (cut.count - 1) * (room - 14) < len(cut.body) <= cut.count * (room - 14)


positions = st.tuples(st.integers(-900000000, 900000000), st.integers(-1800000000, 1800000000))
sizes = st.integers(1, 65535)
speeds = st.tuples(*[st.integers(-127, 127).map(lambda step: step * 64)] * 2)


@spec("STEAM-13", "STEAM-14", "STEAM-16")
@given(
    threes, threes, st.integers(0, 255), st.integers(0, 255), positions, sizes, sizes | st.none(), speeds | st.none()
)
def test_a_beacon_is_read_as_it_was_written(
    subject: bytes,
    sender: bytes,
    number: int,
    tenths: int,
    at: tuple[int, int],
    x: int,
    y: int | None,
    speed: tuple[int, int] | None,
) -> None:
    moves, velocity = speed is not None, speed or (0, 0)
    area = Proximity.circle(*at, x) if y is None else Proximity.rectangle(*at, x, y)
    written = Beacon(subject, sender, number, tenths * 100, area, moves, velocity).encode()
    assert len(written) == (19 if y is None else 21) + 2 * moves
    assert len(structure(written)) <= MIN_ROOM < LEGACY_ROOM
    found = read(written)
    assert isinstance(found, Beacon)
    assert (found.subject, found.sender, found.number, found.every) == (subject, sender, number, tenths * 100)
    assert (found.area, found.relative, found.velocity) == (area, moves, velocity)
    for size in itertools.chain(range(1, len(written)), [len(written) + 1]):
        with pytest.raises(RemoteProtocolError, match="a beacon of"):
            read((written + b"\0")[:size])


@spec("STEAM-15")
@pytest.mark.parametrize(
    ("kind", "rest", "error"),
    [
        ("20", "35a4e901" + "00000000" + "0001", "a beacon at 900000001, 0"),
        ("20", "00000000" + "6b49d201" + "0001", "a beacon at 0, 1800000001"),
        ("20", "ca5b16ff" + "00000000" + "0001", "a beacon at -900000001, 0"),
        ("20", "00000000" + "00000000" + "0000", "without a size .at byte 17"),
        ("21", "00000000" + "00000000" + "00010000", "without a size .at byte 19"),
    ],
)
def test_areas_that_are_none(kind: str, rest: str, error: str) -> None:
    with pytest.raises(RemoteProtocolError, match=error):
        read_beacon(bytes.fromhex(kind + "00" * 8 + rest))


@spec("STEAM-15")
def test_areas_too_large_for_a_beacon() -> None:
    check_area(Proximity.rectangle(0, 0, 65535, 65535))
    for area in (Proximity.circle(0, 0, 65536), Proximity.rectangle(0, 0, 5, 65536)):
        with pytest.raises(LimitError, match="is 65536, the limit is 65535 m"):
            check_area(area)


def test_reading_asks_for_a_kind_it_was_told() -> None:
    assert read_piece(bytes.fromhex("25" + "00" * 8 + "0177")).typed
