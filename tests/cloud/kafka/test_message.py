"""What an event is in Kafka, and what becomes of each offset of a log: no Kafka is needed to know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.wire import decode, encode
from vicinal_cloud.kafka.cursor import Cursor, decode_cursor, encode_cursor
from vicinal_cloud.kafka.message import lost_message, message_of, record_of
from vicinal_cloud.kafka.mirror import plan
from vicinal_cloud.kafka.sources import Part
from vicinal_cloud.log import Record, entry_of
from vicinal_cloud.log.scoped import entry_with

NOW = 1_700_000_000_000


def record(offset: int, tags: Tags | None = None, subject: str = "Speed") -> Record:
    event = Event(subject, {"rate": 57.5}, {"Time": NOW}, "car-7", offset)
    entry = entry_of(event) if tags is None else entry_with(event, tags)
    return Record(offset, NOW - 5, entry.producer, entry.seq, entry.event)


def test_others_can_read_it() -> None:
    message = message_of(record(12), "b1", NOW)
    assert message.key == b"car-7"
    assert message.value is not None
    assert decode(message.value)["rate"] == 57.5
    assert message.timestamp == NOW - 5
    assert dict(message.headers) == {
        "content-type": b"application/cbor",
        "subject": b"Speed",
        "vicinal-log": b"b1",
        "vicinal-offset": b"12",
        "vicinal-received": b"%d" % (NOW - 5),
        "vicinal-seq": b"12",
    }


@pytest.mark.parametrize("tags", [None, Tags([("area", "north")], False)])
@pytest.mark.parametrize("subject", ["Speed", "x" * 40, "Geschwindigkeit über Grund"])
def test_and_it_comes_back_as_it_was(tags: Tags | None, subject: str) -> None:
    stored = record(12, tags, subject)
    message = message_of(stored, "b1", NOW)
    assert dict(message.headers)["subject"].decode() == subject
    assert message.value is not None
    assert decode(message.value).subject == subject
    assert record_of(message.key, message.value, message.headers, 12, 0) == stored


def test_a_clock_that_is_ahead_is_not_believed() -> None:
    """Kafka refuses what is an hour ahead, and the mirror would stop there for ever."""
    message = message_of(record(1), "b1", NOW - 86_400_000)
    assert message.timestamp == NOW - 86_400_000
    assert dict(message.headers)["vicinal-received"] == b"%d" % (NOW - 5)


def test_what_a_stranger_put_there_is_read_as_far_as_it_goes() -> None:
    data = encode(Event("Speed", {"rate": 1}))
    assert record_of(b"somebody", data, None, 3, 77) == Record(3, 77, "somebody", 0, data)
    assert record_of(None, None, [], 3, 77) is None
    for key, headers in ((b"\xff", []), (b"x", [("vicinal-seq", b"one")])):
        with pytest.raises(RemoteProtocolError):
            record_of(key, data, headers, 3, 77)


@given(
    st.integers(0, 50),
    st.integers(0, 60),
    st.lists(st.sampled_from("rhd"), max_size=40),  # a record, one that is hidden, one that is damaged
)
def test_every_offset_is_accounted_for(start: int, first: int, kinds: list[str]) -> None:
    begin = max(start, first)
    records = [record(begin + at) for at, kind in enumerate(kinds) if kind == "r"]
    part = Part(first, begin + len(kinds) + 3, begin + len(kinds), records, kinds.count("h"))
    before = Cursor(start, 5, 6, 7)
    messages, after = plan(part, before, "b1", NOW)
    assert after.next == begin + len(kinds)
    assert after.mirrored - before.mirrored == len(records)
    assert after.hidden - before.hidden == kinds.count("h")
    assert after.lost - before.lost == kinds.count("d") + begin - start
    assert [one.value for one in messages if one.value is not None] == [one.event for one in records]
    said: list[int] = []
    for one in messages:
        headers = dict(one.headers)
        low = int(headers["vicinal-offset"])
        said += range(low, int(headers.get("vicinal-last", b"%d" % low)) + 1)
    assert said == sorted(said)
    if not part.hidden:  # each offset is in one message, and no other is
        assert said == list(range(start, after.next))
    if records:
        assert after.last == (records[-1].offset, "car-7", records[-1].seq)


def test_cursors_come_back() -> None:
    for cursor in (Cursor(), Cursor(9, 5, 3, 1, (8, "car-7", 4))):
        assert decode_cursor(encode_cursor(cursor)) == cursor
    for bad in (b"", b"{}", b'{"next": -1, "mirrored": 0, "hidden": 0, "lost": 0, "last": null}', b"[1]"):
        with pytest.raises(RemoteProtocolError):
            decode_cursor(bad)


def test_what_is_lost_has_no_value() -> None:
    message = lost_message("b1", 3, 9, "damaged", NOW)
    assert message.value is None
    assert dict(message.headers)["vicinal-lost"] == b"damaged"
