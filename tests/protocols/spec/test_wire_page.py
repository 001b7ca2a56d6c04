"""The sentences of protocols/spec/wire.md."""

from itertools import pairwise
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import item_of, not_an_event, spec, unhex
from strategies import arbitrary_events

from vicinal import limits, wire
from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.stream import FrameReader, frame

NAN, INF = float("nan"), float("inf")


@spec("WIRE-1", "WIRE-2", "WIRE-3", "WIRE-4", "WIRE-5", "WIRE-6", "WIRE-8")
def test_wire_parts() -> None:
    event = Event("Speed", [("rate", 57.5), ("id", b"x")], {"zz": Event("b"), "Priority": 3}, "car-7", 12)
    assert item_of(event) == ["Speed", "car-7", 12, ["rate", 57.5, "id", b"x"], [1, 3, "zz", ["b", None, None, [], []]]]
    assert wire.decode(wire.encode(event)) == event
    bare = ["a", None, None, [], []]
    for bad in (bare[:4], [*bare, []], {0: "a"}, "a"):
        not_an_event(bad, "an event is an array of")
    not_an_event(["a", "p", None, [], []], "both producer and seq")
    not_an_event(["a", None, None, ["x"], []], "names and values alternate")
    not_an_event(["a", None, None, [], [1]], "names and values alternate")


@spec("WIRE-5", "WIRE-6")
def test_wire_attribute_keys() -> None:
    known = ["Priority", "Proximity", "Time", "Deadline", "Expires", "Source", "Session"]
    values = [1, "0, 0, 0, 0, 1", 1, 1, 2, "", ""]
    assert item_of(Event("a", (), dict(zip(known, values))))[4][::2] == [1, 2, 3, 4, 5, 6, 7]
    for name in known:
        not_an_event(["a", None, None, [], [name, 1]], "neither a known number nor another name")
    for key in (0, 8, -1, None, b"x"):
        not_an_event(["a", None, None, [], [key, 1]], "neither a known number nor another name")


@spec("WIRE-7")
@given(st.lists(st.sampled_from(["a", "b", "aa", "Z", "é", "priority", "Time", "Source"]), unique=True), st.randoms())
def test_wire_order_of_attributes(names: list[str], random: Any) -> None:
    event = Event("a", (), [(name, "s" if name == "Source" else 5) for name in names])
    flat = item_of(event)[4]
    keys = [cbor2.dumps(key) for key in flat[::2]]
    assert keys == sorted(keys)
    pairs = list(zip(flat[::2], flat[1::2]))
    random.shuffle(pairs)
    mixed = [part for pair in pairs for part in pair]
    if mixed != flat:
        not_an_event(["a", None, None, [], mixed], "twice or out of order")


@spec("WIRE-9", "PROX-12")
def test_wire_proximity() -> None:
    for text, fields in (
        ("0, 0, 53.5, -6.25, 500", [0, 0, 535000000, -62500000, 500]),
        ("1, 1, 0, 0, 2, 3", [1, 1, 0, 0, 2, 3]),
    ):
        event = Event("a", (), {"Proximity": text})
        assert item_of(event)[4] == [2, fields]
        assert wire.decode(wire.encode(event)).attrs["Proximity"] == Proximity.parse(text)
    not_an_event(["a", None, None, [], [2, "0, 0, 53.5, -6.25, 500"]], "Proximity")


@spec("WIRE-11")
@given(arbitrary_events, st.data())
def test_wire_accepts_what_it_writes_and_nothing_else(event: Event, data: st.DataObject) -> None:
    """One byte changed: refused, or another event whose one encoding it is."""
    good = wire.encode(event)
    assert wire.decode(good) == event
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        other = wire.decode(changed)
    except RemoteProtocolError:
        return
    assert wire.encode(other.replace()) == changed


@spec("WIRE-12")
@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: unhex("856161f6f6") + tail))
def test_wire_takes_arbitrary_bytes(data: bytes) -> None:
    refusal = None
    try:
        wire.decode(data)
    except RemoteProtocolError as error:
        refusal = error
    assert refusal is None or 0 <= refusal.offset <= len(data)


def read(data: bytes, cuts: list[int], max_bytes: int = limits.MAX_EVENT_BYTES) -> list[Event]:
    reader = FrameReader(max_bytes)
    found = []
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        reader.receive_data(data[start:end])
        event = reader.next_event()
        while event is not None:
            found.append(event)
            event = reader.next_event()
    reader.receive_eof()
    return found


@spec("WIRE-13", "WIRE-14")
@given(st.lists(arbitrary_events, max_size=4), st.lists(st.integers(0, 10000), max_size=8))
def test_stream_gives_the_same_in_any_slices(sent: list[Event], cuts: list[int]) -> None:
    data = b"".join([frame(event) for event in sent])
    assert data == b"".join([cbor2.dumps(wire.encode(event)) for event in sent])
    assert read(data, cuts) == sent
    assert read(data, list(range(len(data)))) == sent


@spec("WIRE-15")
def test_stream_limits() -> None:
    for limit, head in ((65536, "5a00010001"), (1 << 30, "5a00010001"), (100, "5865")):
        reader = FrameReader(limit)
        reader.receive_data(unhex(head))
        with pytest.raises(RemoteProtocolError, match="the limit is"):
            reader.next_frame()
    reader = FrameReader(100)
    reader.receive_data(unhex("5864"))
    assert reader.next_frame() is None


@spec("WIRE-16", "WIRE-17")
@pytest.mark.parametrize("start", ["00", "60", "80", "a0", "c0", "f6", "5f", "5c", "5817", "590018", "5a0000ffff"])
def test_stream_refuses_other_heads_and_stays_refused(start: str) -> None:
    reader = FrameReader()
    reader.receive_data(unhex(start))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=r"want a byte string|longer than needed"):
            reader.next_event()
        reader.receive_data(frame(Event("a")))


@spec("WIRE-17", "WIRE-19")
@given(st.lists(arbitrary_events, max_size=3), st.lists(st.integers(0, 1000), max_size=5))
def test_stream_offsets_count_from_its_start(sent: list[Event], cuts: list[int]) -> None:
    good = b"".join([frame(event) for event in sent])
    bad = unhex("47 856161f7f68080")
    with pytest.raises(RemoteProtocolError, match="undefined") as caught:
        read(good + bad + frame(Event("a")), cuts)
    assert caught.value.offset == len(good) + 4


@spec("WIRE-18")
@given(arbitrary_events)
def test_stream_end(event: Event) -> None:
    data = frame(event)
    assert read(data, []) == [event]
    for size in range(1, len(data)):
        with pytest.raises(RemoteProtocolError, match="ends inside a frame"):
            read(data[:size], [])
