"""The laws of the wire: one encoding for every event and nothing else accepted, by cbor2 and by our own codec alike."""

import random
from unittest import mock

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from vicinal import _cbor, attributes, limits, wire
from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.stream import FrameReader, frame
from vicinal_tools.bench.language import hostile

times = st.integers(0, limits.INT_MAX - 1)
areas = st.builds(
    Proximity,
    st.just(0),
    st.booleans(),
    st.integers(-limits.MAX_LAT, limits.MAX_LAT),
    st.integers(-limits.MAX_LON, limits.MAX_LON),
    st.integers(1, limits.MAX_METRES),
) | st.builds(Proximity.rectangle, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 9))
known = st.fixed_dictionaries(
    {},
    optional={
        "Priority": st.integers(-32767, 32767),
        "Proximity": areas,
        "Time": times,
        "Deadline": times,
        "Source": strategies.texts,
        "Session": strategies.texts,
    },
)
others = st.dictionaries(
    strategies.names.filter(lambda name: name not in attributes.NAMES), strategies.values, max_size=3
)
identities = st.just((None, None)) | st.tuples(strategies.names, st.integers(0, limits.INT_MAX))


@st.composite
def whole_events(draw):
    """With everything that an event can have."""
    params = st.lists(st.tuples(strategies.names, strategies.values), max_size=5, unique_by=lambda pair: pair[0])
    attrs = {**draw(others), **draw(known)}
    if draw(st.booleans()):
        attrs["Expires"] = draw(st.integers(attrs.get("Time", -1) + 1, limits.INT_MAX))
    producer, seq = draw(identities)
    return Event(draw(strategies.names), draw(params), attrs, producer, seq)


def fresh(event):
    """The same event that was never encoded: a decoded one remembers its bytes."""
    return event.replace()


def by_own_codec(data):
    with mock.patch.object(wire, "loads_if_canonical", return_value=None):
        return wire.decode(data)


@strategies.cases(2000)
@given(whole_events())
def test_what_is_encoded_is_decoded_and_both_codecs_agree(event):
    data = wire.encode(event)
    found = wire.decode(data)
    assert found == event == by_own_codec(data)
    assert list(found.params.items()) == list(event.params.items()) or "nan" in repr(event)
    assert wire.encode(fresh(found)) == data == _cbor.dumps(wire._to_item(event))


def verdict(decode, data):
    try:
        return decode(data)
    except RemoteProtocolError as error:
        return error.reason, error.offset


def check(data):
    """What is accepted is the one encoding of what it means; both codecs say the same, word for word."""
    found = verdict(wire.decode, data)
    assert found == verdict(by_own_codec, data)
    if isinstance(found, Event):
        assert wire.encode(fresh(found)) == data
    else:
        assert 0 <= found[1] <= len(data)


@strategies.cases(3000)
@given(st.binary(max_size=64))
def test_arbitrary_bytes_raise_only_remote_protocol_errors(data):
    check(data)


@strategies.cases(3000)
@given(whole_events(), st.integers(0, 1 << 32))
def test_a_changed_message_is_refused_or_means_another_event(event, seed):
    rng = random.Random(seed)
    data = bytearray(wire.encode(event))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        change = rng.randrange(4)
        if change == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif change == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif change == 2:
            data.insert(at, rng.choice((0, 0x18, 0x58, 0x81, 0xC2, 0xF7, 0xFB, 0xFF, rng.randrange(256))))
        elif len(data) > 1:
            del data[min(at, len(data) - 1)]
    check(bytes(data))


@given(whole_events())
def test_every_truncation_and_every_longer_message_is_refused(event):
    data = wire.encode(event)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            wire.decode(data[:size])
    with pytest.raises(RemoteProtocolError, match=r"1 bytes after the value"):
        wire.decode(data + b"\x00")


@pytest.mark.parametrize("name", sorted(hostile()))
def test_hostile_messages_are_refused(name):
    """In how much time is measured by `make bench`."""
    with pytest.raises(RemoteProtocolError):
        wire.decode(hostile()[name])


def test_bignum_keys_never_reach_a_dict():
    """They would collide, and take seconds. cbor2 is told so before it decodes them."""
    keys = b"".join(b"\xc2\x49" + (i * ((1 << 61) - 1)).to_bytes(9, "big") + b"\x00" for i in range(1, 100))
    decoded = mock.patch("vicinal._cbor_cpython.dumps", side_effect=AssertionError("decoded"))
    with decoded, pytest.raises(RemoteProtocolError, match=r"bignum \(tag 2\)"):
        wire.decode(b"\x85\x61a\xf6\xf6\x80\x82\x61b\xb8\x63" + keys)


@strategies.cases(1000)
@given(st.lists(whole_events(), max_size=4), st.data())
def test_a_stream_in_any_slices_gives_the_same_events(events, data):
    stream = b"".join(frame(event) for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    whole, sliced, bytewise = FrameReader(), FrameReader(), FrameReader()
    assert feed(whole, [stream]) == events
    assert feed(sliced, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]) == events
    assert feed(bytewise, [stream[i : i + 1] for i in range(len(stream))]) == events
    for reader in (whole, sliced, bytewise):
        reader.receive_eof()


def feed(reader, parts):
    found = []
    for part in parts:
        reader.receive_data(part)
        while (event := reader.next_event()) is not None:
            found.append(event)
    return found


@strategies.cases(1000)
@given(st.lists(whole_events(), max_size=2), st.binary(min_size=1, max_size=24))
def test_a_damaged_stream_fails_at_the_same_place_however_it_is_fed(events, rest):
    stream = b"".join(frame(event) for event in events) + rest

    def outcome(size):
        reader = FrameReader()
        found = []
        try:
            for at in range(0, len(stream), size):
                found += feed(reader, [stream[at : at + size]])
            reader.receive_eof()
        except RemoteProtocolError as error:
            with pytest.raises(RemoteProtocolError, match=r"."):
                reader.next_frame()
            return len(found) if size == 1 else None, str(error)
        return len(found) if size == 1 else None, None

    assert outcome(1)[1] == outcome(len(stream))[1] == outcome(3)[1]
    assert outcome(1)[0] is None or outcome(1)[0] >= len(events)


def test_a_frame_too_long_is_refused_before_it_has_come():
    reader = FrameReader(max_bytes=100)
    reader.receive_data(b"\x58\x65")
    with pytest.raises(RemoteProtocolError, match="101 bytes, the limit is 100"):
        reader.next_frame()


def test_the_reader_does_not_keep_what_it_has_given():
    reader = FrameReader()
    data = frame(Event("a", [("x", b"\0" * 1000)]))
    for _ in range(200):
        reader.receive_data(data)
        assert reader.next_event() is not None
        assert len(reader._buffer) < 3 * 4096


@pytest.mark.parametrize(
    "event",
    [
        Event("a", [(f"p{i}", "x" * 300) for i in range(250)]),
        Event("a", [(f"p{i}", Event("b", [(f"q{j}", j) for j in range(250)])) for i in range(20)]),
    ],
    ids=["bytes", "items"],
)
def test_an_event_too_large_is_refused_by_its_sender(event):
    with pytest.raises(LimitError, match=r"65536|4096"):
        wire.encode(event)


def test_the_largest_event_passes():
    event = Event("a", [("x", b"\0" * (limits.MAX_EVENT_BYTES - 12))])
    assert len(wire.encode(event)) == limits.MAX_EVENT_BYTES
    assert wire.decode(wire.encode(event)) == event
