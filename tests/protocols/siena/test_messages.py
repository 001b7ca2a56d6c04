"""The messages of protocols/spec/overlay.md: each there and back, and whatever is not exactly one refused."""

import random
from pathlib import Path
from typing import Any

import cbor2
import pycddl
import pytest
from cddl import Schema
from hypothesis import given
from hypothesis import strategies as st

from vicinal import wire
from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.siena import messages
from vicinal.siena.messages import encode, split
from vicinal.siena.messages_read import decode
from vicinal.siena.records import Record

spec = pytest.mark.spec
CDDL = (Path(__file__).parents[3] / "protocols" / "spec" / "overlay.cddl").read_text()
SPEED = Event("Speed", {"rate": 57.5}, {"Priority": 3}, "car-7", 12)
TAGS = Tags({"geography": "london", "membership": "gold"}, False)
TRAIL = (("b1", (("london", True), ("gold", True)), 12), ("b2", (), 14))
STATE = (("london", True), ("gold", False))
TARGETS = [("b2", 5, 1, 7, ("uk", None)), ("b3", 6, 2, 8, (None, None))]

MESSAGES: list[tuple[Any, ...]] = [
    ("hello", 1, 0, "car-7"),
    ("hello", 1, 1, "b1"),
    ("welcome", 1, "b1", -1),
    ("welcome", 1, "b1", 2**63 - 1),
    ("bye", 4, "too slow"),
    ("ping", 1),
    ("pong", 2**63 - 1),
    ("credit", 1024),
    ("advertise", 1, "rate  > 30", TAGS),
    ("unadvertise", 2, 1),
    ("subscribe", 3, "no filter at all", Tags(), None, None),
    ("subscribe", 3, "rate > 30", TAGS, "nightly", 17),
    ("unsubscribe", 4, 1),
    ("publish", None, 1, SPEED),
    ("publish", 7, 1, SPEED),
    ("answer", 7, True, 2),
    ("answer", 7, False, "no advertisement 1"),
    ("deliver", (1, 2), SPEED, None, ()),
    ("deliver", (1,), SPEED, 17, TRAIL),
    ("packets", 1, "b1", 5, STATE, ("event", SPEED, TAGS), TARGETS, TRAIL),
    ("packets", 0, "b1", 5, (), ("event", SPEED, Tags()), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("add", 3, Filter("rate > 30"), TAGS), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("remove", 3), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("void",), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, STATE, ("live", SPEED, TAGS), TARGETS, TRAIL),
    ("packets", 0, "b1", 5, (), ("again", SPEED, Tags()), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("hold",), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("resume", None), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("resume", 4711), [("b2", 5, 1, 7, ())], ()),
    ("packets", 1, "b1", 5, (), ("mark", 4711), [("b2", 5, 1, 7, ())], ()),
    ("ack", 1, "b1", 5, "b2", (6, 1), 7),
    ("leave", "london"),
    ("left", "london"),
    ("hello", 1, 0, "car-7", "a.b.c"),
    ("advertise", 1, "TRUE", Tags({"geography": "london"}, True, ["gold", "silver"])),
    ("ended", 3, "'ann' was denied 'gold'"),
    ("told", 9, "{}"),
    ("administer", 9, ("tell", "members")),
    ("administer", 9, ("approve", "ann", "gold", ("join", "publish"), 17)),
    ("administer", 9, ("deny", "ann", "gold")),
    ("administer", 9, ("revoke", "ann", 17)),
    ("administer", 9, ("deploy", "[[scope]]")),
    ("administer", 9, ("join", "b1", "gold")),
    ("administer", 9, ("leave", "b1", "gold")),
    ("change", ("approve", (5, "b1"), "ann", "gold", ("subscribe",), None)),
    ("change", ("deny", (5, "b1"), "ann", "gold")),
    ("change", ("revoke", (5, "b1"), "ann", 17)),
    ("change", ("deploy", (5, "b1"), "[[scope]]")),
    ("change", ("join", (5, "b1"), "b1", "gold")),
    ("change", ("leave", (5, "b1"), "b1", "gold")),
    (
        "packets",
        1,
        "b1",
        5,
        (),
        ("add", 3, Filter("x > 3"), Tags({"a": "x"}, who="ann")),
        [("b2", 5, 1, 7, ())],
        (),
    ),
    ("packets", 1, "b1", 5, (), ("load", "ann", 12), [("b2", 5, 1, 7, ())], ()),
    (
        "packets",
        1,
        "b1",
        5,
        (("london", True),),
        ("event", SPEED, Tags({"geography": "london"})),
        [
            ("b2", 5, 1, 7, (("london", "uk", "york"),)),
            ("b2", 5, 1, 8, ("uk", ("ann", ""))),
            ("b2", 5, 1, 9, (("london", "uk"), ("@uk#", "uk", "network", "wan"))),
        ],
        (),
    ),
]
RECORD = Record("b1", 5, 7, ("b2", "b3"), frozenset(["uk", "london"]), ((Filter("rate > 30"), TAGS),))


def item_of(message: tuple[Any, ...]) -> Any:
    return cbor2.loads(encode(message))


def refuse(item: Any, match: str | None = None) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError, match=match) as caught:
        decode(cbor2.dumps(item, canonical=True))
    return caught.value


@spec("OVER-1", "OVER-6", "OVER-7", "OVER-8", "OVER-24")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[0])
def test_there_and_back(message: tuple[Any, ...]) -> None:
    assert decode(encode(message)) == message


@spec("OVER-1", "OVER-23")
def test_a_record_there_and_back() -> None:
    ((kind, found),) = [decode(encode(("record", RECORD)))]
    assert kind == "record"
    for name in Record.__slots__:
        assert getattr(found, name) == getattr(RECORD, name)


def test_cddl_is_cddl() -> None:
    pycddl.Schema(CDDL)


@spec("OVER-1", "OVER-4")
@pytest.mark.parametrize("message", [*MESSAGES, ("record", RECORD)], ids=lambda message: message[0])
def test_cddl_and_code_agree(message: tuple[Any, ...]) -> None:
    """On the message itself, on it with a field missing or one too many, and on every field of another type."""
    schema, item = Schema(CDDL), item_of(message)
    assert schema.accepts(item)
    shorter = [] if len(message) == 5 and message[0] == "hello" else [item[:-1]]  # a token may be left out
    for wrong in [*shorter, [*item, 0], *([*item[:at], 1.5, *item[at + 1 :]] for at in range(len(item)))]:
        assert not schema.accepts(wrong)
        refuse(wrong)


@spec("OVER-3")
def test_events_are_passed_on_as_they_came() -> None:
    data = wire.encode(SPEED)
    for message in (("publish", 1, 1, SPEED), ("deliver", (1,), SPEED, None, ())):
        assert data in item_of(message)
        found = decode(encode(message))
        event = next(field for field in found if isinstance(field, Event))
        assert wire.encode(event) is wire.encode(event)  # kept, not made again
        assert wire.encode(event) == data


@spec("OVER-4")
@pytest.mark.parametrize(
    ("item", "match", "offset"),
    [
        ([], "begins with a type", 1),
        ({}, "begins with a type", 0),
        ([True], "type True is unknown", 1),
        ([15], "type 15 is unknown", 1),
        ([0, 1, 0, "x", "t" * 4097], "hello: .* is not a text of up to 4096", 6),
        ([6, 1, "TRUE", [["b", "a"]]], "admitted are none, twice or out of order", 8),
        ([6, 1, "TRUE", [["a", "a"]]], "admitted are none, twice or out of order", 8),
        ([6, 1, "TRUE", [[]]], "admitted are none, twice or out of order", 8),
        ([21, 9, 5, "b1", []], "statement 9 is unknown", 2),
        ([21, 0, 5, "b1", ["ann", "s", ["read"], None]], "action is 'read'", 7),
        ([22, 1, [9]], "nothing that an administrator says", 3),
        ([22, 1, [3, 7]], "7 is not a text", 3),
        ([22, 1, [2, "ann"]], "is not an array of 2", 3),
        ([3, -1], "ping: -1 is not an integer", 2),
        ([3, 2**63], "ping: 9223372036854775808 is not", 2),
        ([3], "ping: has 1 fields, and lacks one", 1),
        ([3, 1, 1], "ping: has 3 fields, want 2", 3),
        ([0, 1, 2, "x"], "role is 2", 3),
        ([0, 1, 0, ""], "name of 1 to 64 bytes", 4),
        ([0, 1, 0, "ä" * 33], "name of 1 to 64 bytes", 4),
        ([10, 1, 1, "text"], "not an event's bytes", 4),
        ([10, 1, 1, b"\x80"], "publish: an event is an array", 4),
        ([8, 1, "rate > 1", [True, "a"], None, None], "are not tags", 12),
        ([8, 1, "rate > 1", [1], None, None], "neither true nor false", 12),
        ([8, 1, "x" * 4097, [True], None, None], "text of up to 4096", 3),
        ([11, 1, 1, 1], "neither true nor false", 3),
        ([11, 1, True, "x"], "not an integer", 4),
        ([16, "b", 1, 1, [], [], [["rate >", [True]]]], "column 7", 8),
    ],
)
def test_refusals_say_the_place(item: Any, match: str, offset: int) -> None:
    assert refuse(item, match).offset == offset


@spec("OVER-6")
@pytest.mark.parametrize("flat", [[True, "b", "x", "a", "y"], [True, "a", "x", "a", "y"]])
def test_tags_have_one_form(flat: list[Any]) -> None:
    refuse([6, 1, "TRUE", flat], "twice or out of order")


@spec("OVER-25")
def test_a_packet_s_scopes_are_those_of_its_event() -> None:
    for message in MESSAGES[19:24]:
        item = item_of(message)
        refuse([*item[:4], [*item[4], "uk", True], *item[5:]], "scopes are not those|array of")
        refuse([*item[:6], [[*item[6][0][:4], [*item[6][0][4], None]]], item[7]], "not an array")


@spec("OVER-26")
def test_an_event_between_brokers_has_an_identity() -> None:
    nobody = wire.encode(Event("Speed"))
    refuse([17, 1, "b1", 5, [], [0, nobody, [True]], [["b2", 5, 1, 7, []]], []], "has no identity")


@spec("OVER-27")
def test_very_many_targets_are_several_messages() -> None:
    targets = [(f"b{number}", 1, 1, 1, ()) for number in range(2500)]
    message = ("packets", 0, "b1", 5, (), ("event", SPEED, Tags()), targets, ())
    parts = split(message)
    assert [len(part[6]) for part in parts] == [1024, 1024, 452]
    assert [target for part in parts for target in decode(encode(part))[6]] == targets
    assert split(parts[2]) == [parts[2]]
    refuse(item_of(message), "2500 targets, the limit is 1024")


@spec("OVER-5")
def test_limits_on_size() -> None:
    with pytest.raises(RemoteProtocolError, match="131073 bytes, the limit is 131072"):
        decode(bytes(131073), messages.MAX_BYTES_CLIENT)
    with pytest.raises(RemoteProtocolError, match="the limit is 1048576"):
        decode(bytes(1048577))
    with pytest.raises(RemoteProtocolError, match="more than 4096 items"):
        decode(cbor2.dumps([12, [1] * 5000, b"", None, []]), messages.MAX_BYTES_CLIENT)
    record = Record("b1", 1, 1, tuple(f"b{number}" for number in range(10000)), frozenset(), ())
    assert len(decode(encode(("record", record)))[1].neighbours) == 10000
    adverts = tuple((Filter(f"x = '{number:04000}'"), Tags()) for number in range(300))
    with pytest.raises(LimitError, match="bytes of message 'record'"):
        encode(("record", Record("b1", 1, 1, (), frozenset(), adverts)))


@spec("OVER-4")
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_mean_something(data: bytes) -> None:
    try:
        message = decode(data)
    except RemoteProtocolError:
        return
    if message[0] not in ("record", "hello"):
        assert encode(message) == data


@spec("OVER-4")
@given(st.sampled_from(MESSAGES), st.randoms(use_true_random=False))
def test_damaged_messages_are_refused_or_mean_something(message: tuple[Any, ...], chance: random.Random) -> None:
    data = bytearray(encode(message))
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    try:
        decode(bytes(data[: chance.randint(1, len(data))]))
    except RemoteProtocolError as caught:
        offset = caught.offset
    else:
        offset = 0
    assert 0 <= offset <= len(data)


@spec("OVER-25")
def test_clients_are_told_by_the_whole_name_of_a_durable_subscription() -> None:
    who = "c" * messages.MAX_NAME_BYTES + "/" + "d" * messages.MAX_NAME_BYTES
    one = [("b2", 1, 1, 1, ())]
    tags = Tags([("d", "S")], who=who)
    added = ("packets", 1, "b1", 1, (), ("add", 1, Filter("TRUE"), tags), one, ())
    load = ("packets", 1, "b1", 1, (), ("load", who, 5), one, ())
    to = [("b2", 1, 1, 1, ("S", (who, "")))]
    chosen = ("packets", 1, "b1", 1, (("S", True),), ("event", SPEED, Tags([("d", "S")])), to, ())
    for message in (added, load, chosen):
        data = encode(message)
        assert decode(data) == message
