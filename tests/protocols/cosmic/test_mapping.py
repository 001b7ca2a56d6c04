"""The mapping between CAN frames and events (spec/can_mapping.md), and its TOML."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cosmic_bus import TinyBus
from hypothesis import assume, given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import cases

from vicinal.cosmic import mapping_toml_cpython
from vicinal.cosmic.channels import SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Field, Mapping, Message
from vicinal.cosmic.mapping_toml_cpython import loads
from vicinal.cosmic.node import Node
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter

CASES = Path(__file__).parent / "mapping_cases.py"

SPEED = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "license_no", bytes = "0..6", type = "string" },
    { name = "rate", bytes = 7, type = "double", unit = "km/h" },
]
"""


@spec("MAP-1", "MAP-2", "MAP-3", "MAP-8", "MAP-10", "MAP-14")
def test_the_example_of_the_dissertation() -> None:
    mapping = loads(SPEED)
    event = Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)])
    frame = Frame(12345, b"00D1234\x39", extended=True)
    assert mapping.decode(frame) == event
    assert mapping.encode(event) == frame
    assert mapping.units("Speed") == {"rate": "km/h"}
    assert event[0] == "00D1234"


def test_the_example_of_the_docstring() -> None:
    text = mapping_toml_cpython.__doc__ or ""
    mapping = loads(text[text.index("    [[message]]") : text.index("The keys")])
    event = Event("Engine", {"rpm": 850.0, "gear": 3, "brake": True, "page": 2, "coolant": 90.0})
    assert mapping.decode(mapping.encode(event)) == event
    assert Mapping.from_tables(mapping.tables()).tables() == mapping.tables()


@spec("MAP-4")
def test_other_frames_are_no_events() -> None:
    mapping = loads(SPEED)
    assert mapping.decode(Frame(12344, bytes(8))) is None
    assert mapping.decode(Frame(0x39, bytes(8), extended=False)) is None
    assert mapping.decode(Frame(12345, remote=True)) is None


@spec("MAP-2")
def test_an_extended_identifier_is_not_a_standard_one() -> None:
    text = '[[message]]\nid = 5\nsubject = "{0}"\nfields = []\n'
    mapping = loads(text.format("standard") + text.format("extended") + "extended = true\n")
    for subject in ("standard", "extended"):
        event = mapping.decode(Frame(5, b"", extended=subject == "extended"))
        assert event is not None
        assert event.subject == subject
        assert mapping.encode(event).extended == (subject == "extended")


@spec("MAP-5", "MAP-6")
def test_short_frames_are_refused_and_long_ones_cut() -> None:
    mapping = loads(SPEED)
    with pytest.raises(RemoteProtocolError, match=r"Speed \(0x3039\) with 7 bytes of data, it has 8"):
        mapping.decode(Frame(12345, b"00D1234"))
    message = mapping.of_subject("Speed")
    assert message is not None
    assert message.params(b"00D1234\x39and more") == {"license_no": "00D1234", "rate": 57.0}


@spec("MAP-7")
def test_a_subject_under_two_identifiers_is_sent_under_the_first() -> None:
    mapping = loads(SPEED + SPEED.replace("12345", "7"))
    event = Event("Speed", [("license_no", "a"), ("rate", 1.0)])
    assert mapping.encode(event).id == 12345
    assert mapping.decode(Frame(7, mapping.encode(event).data, extended=False)) == event
    assert mapping.identifiers() == {"Speed": [12345 | 1 << 31, 7]}


def field(**keys: Any) -> str:
    values = {"name": "x", "type": "uint", "bytes": 0} | keys
    inner = ", ".join(f"{key} = {_toml(value)}" for key, value in values.items() if value is not None)
    return f'[[message]]\nid = 1\nsubject = "S"\nholes = true\nfields = [{{ {inner} }}]\n'


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).replace("'", '"')


def data_of(value: Any, **keys: Any) -> bytes:
    return loads(field(**keys)).encode(Event("S", {"x": value})).data


@spec("MAP-11", "MAP-12", "MAP-13")
@pytest.mark.parametrize(
    ("value", "keys", "data"),
    [
        (57.2, {"type": "double"}, b"\x39"),
        (0.5, {"type": "double"}, b"\x00"),
        (1.5, {"type": "double"}, b"\x02"),
        (57, {"type": "double"}, b"\x39"),
        (57.0, {}, b"\x39"),
        (-40, {"offset": -40}, b"\x00"),
        (-39.5, {"type": "double", "offset": -40, "scale": 0.5}, b"\x01"),
        (-1.0, {"type": "double", "signed": True}, b"\xff"),
        (15, {"scale": 5}, b"\x03"),
        (-128, {"type": "int"}, b"\x80"),
        (258, {"bytes": "0..1", "endian": "big"}, b"\x01\x02"),
        (258, {"bytes": "0..1", "endian": "little"}, b"\x02\x01"),
        (1.0, {"type": "float", "bytes": "0..3", "endian": "big"}, b"\x3f\x80\x00\x00"),
        (float("inf"), {"type": "float", "bytes": "0..3", "endian": "little"}, b"\x00\x00\x80\x7f"),
    ],
)
def test_numbers_in_the_frame(value: float, keys: dict[str, Any], data: bytes) -> None:
    assert data_of(value, **keys) == data


@spec("MAP-12", "MAP-13")
@pytest.mark.parametrize(
    ("value", "keys", "said"),
    [
        (256, {}, "x is 256, the limit is 0 .. 255"),
        (255.5, {"type": "double", "unit": "km/h"}, "x is 255.5, the limit is 0 .. 255 km/h"),
        (-1, {}, "the limit is 0 .. 255"),
        (128, {"type": "int"}, "the limit is -128 .. 127"),
        (7, {"scale": 5}, "x is 7, want 0 and a multiple of 5"),
        (1.5, {}, "x is 1.5, want a whole number"),
        (True, {}, "x is True, want a number"),
        (1, {"type": "bool", "bytes": None, "start": 0}, "x is 1, want true or false"),
        ("1", {}, "x is '1', want a number"),
        (float("inf"), {"type": "double"}, "x is inf, want a finite number"),
        (1e39, {"type": "float", "bytes": "0..3", "endian": "big"}, "the limit is the largest 32-bit float"),
        (201, {"max": 200, "unit": "km/h"}, "x is 201, the limit is 200 km/h or less"),
        (9, {"min": 10}, "x is 9, the limit is 10 or more"),
        (b"ab", {"type": "bytes"}, "length of x is 2, the limit is exactly 1 bytes"),
        ("ab", {"type": "string"}, "length of x 'ab' is 2, the limit is 1 bytes"),
        ("é", {"type": "string"}, "length of x 'é' is 2, the limit is 1 bytes"),
        (7, {"type": "string"}, "x is 7, want a string"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        data_of(value, **keys)
    assert str(caught.value).startswith("message S (0x1): ")
    assert said in str(caught.value)


@spec("MAP-13")
def test_what_is_received_is_not_held_against_min_and_max() -> None:
    event = loads(field(max=10)).decode(Frame(1, b"\xff", False))
    assert event is not None
    assert event["x"] == 255


@spec("MAP-15")
def test_names_for_numbers() -> None:
    text = field(names={"0": "off", "1": "on"}, type="double", scale=0.5)
    numbers, names = loads(text), loads(text, by_name=True)
    for raw, number, name in ((0, 0.0, "off"), (1, 0.5, "on"), (2, 1.0, 1.0)):
        frame = Frame(1, bytes([raw]), False)
        assert numbers.decode(frame) == Event("S", {"x": number})
        assert names.decode(frame) == Event("S", {"x": name})
        assert numbers.encode(Event("S", {"x": name})) == frame
    with pytest.raises(LocalProtocolError, match="x is 'maybe', want a number or one of off, on"):
        numbers.encode(Event("S", {"x": "maybe"}))


WRONG: list[tuple[str, str]] = [
    ("", "f.toml: want at least one [[message]]"),
    ("x = [", "f.toml: not TOML: "),
    ("[messages]\n", "f.toml: [messages] is not known: want [[message]]"),
    ('[message]\nid = 1\nsubject = "S"\nfields = []\n', "want at least one [[message]], with two brackets"),
    ('[[message]]\nsubject = "S"\nfields = []\n', "f.toml: [[message]] 1 'S': id is missing"),
    ("[[message]]\nid = 1\nfields = []\n", "f.toml: [[message]] 1: subject is missing"),
    (SPEED.replace("12345", "0x20000000"), "[[message]] 1 'Speed': id is 536870912, want 0 .. 536870911"),
    (SPEED.replace("12345", '"12345"'), "id is '12345', want an integer"),
    (SPEED + SPEED, "[[message]] 2 'Speed': id is 12345 (0x3039), which is that of 'Speed' already"),
    (SPEED + "extended = false\n", "extended is false, but id 0x3039 is past 0x7ff"),
    (SPEED + "lenght = 8\n", "lenght is not known here: want subject, id, extended, length, endian, holes, fields"),
    (SPEED + "length = 65\n", "length is 65, want 0 .. 64"),
    (SPEED + "length = 7\n", "length is 7 bytes, but 'rate' goes to byte 7 (from 0)"),
    (SPEED.replace("bytes = 7", "bytes = 6"), "fields 'license_no' and 'rate' overlap at bit 48 (byte 6, bit 0)"),
    (SPEED.replace("0..6", "0..5"), "leave 8 of 64 bits to nobody, the first at bit 48 (byte 6, bit 0): name them, or"),
    (SPEED.replace("0..6", "6..0"), "bytes is '6..0', want 0 <= first <= last <= 63"),
    (SPEED.replace("0..6", "0-6"), "bytes is '0-6', want a number, as 7, or both ends"),
    (SPEED.replace('name = "rate"', 'name = "license_no"'), "field 2 'license_no': name is that of another field"),
    (SPEED.replace("double", "real"), "field 2 'rate': type is 'real', want string, bytes, bool, int, uint, double"),
    (field(bytes="0..1"), "[[message]] 1 'S', field 1 'x': endian is missing: the field is in several bytes"),
    (field(endian="middle"), 'endian is \'middle\', want "big" or "little"'),
    (field(bytes="0..8", endian="big"), "bytes are 9, a number has at most 8"),
    (field(start=1), "bytes is given, and start or length too"),
    (field(bytes=None), 'bytes is missing: want bytes = "0..6", or start and length in bits'),
    (field(bytes=None, start=512), "start is 512, want 0 .. 511"),
    (field(bytes=None, start=0, length=65), "length is 65, want 1 .. 64"),
    (field(bytes=None, start=0, type="string"), "start is in bits, but a string has whole bytes"),
    (field(type="bool"), "type is bool, which is one bit, and the field has 8"),
    (field(type="float"), "type is float, which has 32 or 64 bits, and the field has 8; want double?"),
    (field(scale=0), "scale is 0, want another number"),
    (field(scale=0.5), 'scale is 0.5, want an integer, or type "double"'),
    (field(scale="2"), "scale is '2', want a number"),
    (field(type="string", scale=2), "scale is not known here"),
    (field(min=2, max=1), "min is 2, want at most max, which is 1"),
    (field(names={"256": "a"}), "names has 256, which 8 bits cannot hold"),
    (field(names={"off": "a"}), "names has 'off', want numbers"),
    (field(names={"0": "a", "1": "a"}), "names has 'a' twice"),
    (field(when={"page": 1}), "when asks for 'page', which is no field before this one"),
    (field(name=""), "name is '', want 1 to 255 bytes of text"),
]


@spec("MAP-1", "MAP-2", "MAP-9", "MAP-17", "MAP-18")
@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_a_wrong_table_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        loads(text, "f.toml")
    assert str(caught.value).startswith("f.toml: ")
    assert said in str(caught.value)


@spec("MAP-16", "MAP-17")
def test_fields_that_never_meet_share_bits() -> None:
    text = """
    [[message]]
    id = 1
    subject = "S"
    fields = [
        { name = "page", bytes = 0, type = "int" },
        { name = "a", bytes = 1, type = "uint", when = { page = -1 } },
        { name = "inner", start = 8, length = 4, type = "uint", when = { page = [2, 3] } },
        { name = "b", start = 12, length = 4, type = "uint", when = { inner = 0 } },
        { name = "c", start = 12, length = 4, type = "int", when = { inner = 1 } },
    ]
    """
    mapping = loads(text)
    for data, params in (
        (b"\xff\x07", {"page": -1, "a": 7}),
        (b"\x02\x70", {"page": 2, "inner": 0, "b": 7}),
        (b"\x03\xf1", {"page": 3, "inner": 1, "c": -1}),
        (b"\x03\x02", {"page": 3, "inner": 2}),
        (b"\x04\x00", {"page": 4}),
    ):
        assert mapping.decode(Frame(1, data, False)) == Event("S", params)
        assert mapping.encode(Event("S", params)) == Frame(1, data, False)
    with pytest.raises(LocalProtocolError, match="event 'S' has 'b', which goes with inner 0 only"):
        mapping.encode(Event("S", {"page": 3, "inner": 1, "c": 1, "b": 0}))
    with pytest.raises(LocalProtocolError, match="overlap at bit 12"):
        loads(text.replace("inner = 1", "inner = 0"))


# Laws: fields at random, in frames up to those of CAN FD.


@st.composite
def messages(draw: st.DrawFn) -> Message:
    size = draw(st.integers(1, 12))
    free = set(range(8 * size))
    fields: list[Field] = []
    for at in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["int", "uint", "double", "float", "bool", "bytes"]))
        if kind == "bytes":
            start, length = 8 * draw(st.integers(0, size - 1)), 8
        else:
            start = draw(st.integers(0, 8 * size - 1))
            # 48 bits and a scale of 1/8 are exact in a double, so that every value comes back.
            length = {"bool": 1, "float": draw(st.sampled_from([32, 64]))}.get(kind) or draw(st.integers(1, 48))
        whole = kind in ("int", "uint")
        one = Field(
            f"f{at}",
            kind,
            start,
            length,
            big=kind != "bytes" and draw(st.booleans()),
            signed=kind == "double" and draw(st.booleans()),
            scale=draw(st.sampled_from([1, 2, -3] if whole else [1, 0.125, -2]))
            if kind in ("int", "uint", "double")
            else 1,
            offset=draw(st.integers(-50, 50)) if kind in ("int", "uint", "double") else 0,
        )
        if free.issuperset(one.bits()):
            free.difference_update(one.bits())
            fields.append(one)
    assume(fields)
    return Message(1, "S", fields, size)


def by_bits(one: Field, data: bytes) -> int:
    """The raw value by the definition, a bit at a time (MAP-8)."""
    bits = [data[bit // 8] >> bit % 8 & 1 for bit in one.bits()]
    if not one.big:
        bits.reverse()
    found = int("".join(map(str, bits)), 2)
    return found - (1 << one.length) if one.signed and bits[0] else found


@spec("MAP-8", "MAP-10", "MAP-11")
@cases(300)
@given(messages(), st.data())
def test_every_frame_is_read_alike_by_definition_by_interpretation_and_compiled(message: Message, data: Any) -> None:
    frame = data.draw(st.binary(min_size=message.length, max_size=message.length))
    for one in message.fields:
        assert one.raw(frame) == by_bits(one, frame)
    said = {name: (type(value), repr(value)) for name, value in message._interpret(frame).items()}
    assert {name: (type(value), repr(value)) for name, value in message.params(frame).items()} == said


@spec("MAP-3", "MAP-7", "MAP-12")
@cases(300)
@given(messages(), st.data())
def test_what_was_read_can_be_sent_again(message: Message, data: Any) -> None:
    frame = data.draw(st.binary(min_size=message.length, max_size=message.length))
    event = message.decode(frame)
    again = message.encode(event)
    assert message.decode(again) == event
    for one in message.fields:
        if one.kind != "float":  # a NaN may come back with other bits
            assert one.raw(again) == one.raw(frame)
    used = {bit for one in message.fields for bit in one.bits()}
    assert all(again[bit // 8] >> bit % 8 & 1 == 0 for bit in range(8 * message.length) if bit not in used)


@spec("MAP-13")
@cases(300)
@given(messages(), st.data())
def test_what_was_sent_is_read_again_or_was_refused(message: Message, data: Any) -> None:
    numbers = st.integers(-(1 << 50), 1 << 50) | st.floats(width=32)
    values = {"bool": st.booleans(), "bytes": st.binary(max_size=2)}
    params = {one.name: data.draw(values.get(one.kind, numbers)) for one in message.fields}
    try:
        frame = message.encode(Event("S", params))
    except LocalProtocolError:
        return
    for one in message.fields:
        value, sent = message.params(frame)[one.name], params[one.name]
        if one.kind == "double":
            assert abs(value - sent) <= abs(one.scale) / 2
        else:
            assert value == sent or (value != value and sent != sent) or (one.kind == "float" and one.length == 32)


@given(st.binary(max_size=8))
def test_arbitrary_bytes_raise_only_remote_errors(data: bytes) -> None:
    mapping = loads(SPEED)
    try:
        event = mapping.decode(Frame(12345, data))
    except RemoteProtocolError:
        return
    assert event is not None
    assert mapping.encode(event).data[7] == data[7]


@spec("MAP-22")
@cases(200)
@given(
    st.sampled_from(["rate > 30", "subject = 'Speed'", "subject <> 'Speed' OR rate < 5", "subject LIKE 'S%'"]),
    st.data(),
)
def test_acceptance_masks_let_every_wanted_frame_through(text: str, data: Any) -> None:
    mapping = loads(SPEED + SPEED.replace("12345", "77").replace("Speed", "Slow") + SPEED.replace("12345", "0x7f"))
    asked = Filter(text)
    most = data.draw(st.sampled_from([0, 2, 3]))
    masks = asked.to_can(mapping.identifiers(), most).masks
    for message in mapping.messages:
        event = message.decode(b"D1\0\0\0\0\0" + data.draw(st.binary(min_size=1, max_size=1)))
        if asked.matches(event):
            assert any(
                mask["extended"] == message.extended and (message.id ^ mask["can_id"]) & mask["can_mask"] == 0
                for mask in masks
            )


def test_only_the_subscribed_identifier_passes() -> None:
    mapping = loads(SPEED + SPEED.replace("12345", "77").replace("Speed", "Slow"))
    translated = Filter("subject = 'Speed' AND rate > 30").to_can(mapping.identifiers())
    assert translated.masks == [{"can_id": 12345, "can_mask": 0x1FFFFFFF, "extended": True}]


def test_limits() -> None:
    with pytest.raises(LocalProtocolError, match="a mapping has at most 16384"):
        Mapping([Message(0, "S", [])] * 16385)
    with pytest.raises(LocalProtocolError, match="fields are 257, an event has at most 256 parameters"):
        Mapping.from_tables({"message": [{"id": 1, "subject": "S", "fields": [{}] * 257}]})


def test_a_message_is_the_codec_of_a_channel() -> None:
    """The dissertation's Speed on COSMIC: 12345 is the event's id on the bus, its etag, whoever sends it."""
    message = loads(SPEED).of_subject("Speed")
    car, display = Node(7, 500_000), Node(8, 500_000)
    heard: list[Event] = []
    speed = SrtChannel(car, 12345, deadline=20_000, codec=message)
    speed.announce(0)
    SrtChannel(display, 12345, deadline=20_000, codec=message).subscribe(lambda event, *_: heard.append(event), 0)
    event = Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)])
    bus = TinyBus(500_000, [car, display])
    bus.at(100, lambda: speed.publish(event, 100) and None)
    bus.run(50_000)
    assert [(frame.id & 0x3FFF, frame.data) for _, frame in bus.log] == [(12345, b"00D1234\x39")]
    assert heard == [event]


@pytest.mark.micropython
def test_a_device_says_the_same(micropython: Callable[..., str]) -> None:
    done = subprocess.run([sys.executable, str(CASES)], capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert micropython(CASES, heap="128k").splitlines() == done.stdout.splitlines()
    assert "accepted" not in done.stdout
    assert "False\n" not in done.stdout
