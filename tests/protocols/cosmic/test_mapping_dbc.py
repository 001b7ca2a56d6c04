"""DBC files as mappings: what cantools makes of a frame, we do, and the real captures say what the car did."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cantools
import pytest
from can_helpers import AT_50, FORD, FROM_30_TO_80, captures
from hypothesis import assume, given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import cases

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Field, Mapping
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_hw.can import dbc

TEXT = """VERSION ""
BU_: ECU
BO_ 100 Simple: 8 ECU
 SG_ speed : 7|16@0+ (0.01,0) [0|655.35] "km/h" ECU
 SG_ temperature : 16|8@1- (1,-40) [0|0] "degC" ECU
 SG_ gear : 24|3@1+ (1,0) [0|7] "" ECU
 SG_ torque : 39|12@0- (0.5,-100) [-1124|923.5] "Nm" ECU
BO_ 2147483748 Extended: 8 ECU
 SG_ real : 0|32@1- (1,0) [0|0] "V" ECU
 SG_ scaled : 39|32@0- (2,1) [0|0] "A" ECU
BO_ 101 Muxed: 8 ECU
 SG_ page M : 0|4@1+ (1,0) [0|15] "" ECU
 SG_ a m0 : 8|8@1+ (1,0) [0|0] "" ECU
 SG_ inner m1M : 8|4@1+ (1,0) [0|15] "" ECU
 SG_ b m0 : 16|16@1- (0.5,0) [0|0] "" ECU
 SG_ c m2 : 16|16@1- (0.5,0) [0|0] "" ECU
 SG_ always : 63|8@0+ (1,0) [0|0] "" ECU
BO_ 102 Whole: 8 ECU
 SG_ u : 0|64@1+ (1,0) [0|0] "" ECU
BO_ 103 Early: 2 ECU
 SG_ late m3 : 0|8@1+ (1,0) [0|0] "" ECU
 SG_ switch M : 8|8@1+ (1,0) [0|0] "" ECU
VAL_ 100 gear 0 "P" 1 "R" 2 "N" 3 "D" ;
SIG_VALTYPE_ 2147483748 real : 1;
SIG_VALTYPE_ 2147483748 scaled : 1;
SG_MUL_VAL_ 101 a page 0-0;
SG_MUL_VAL_ 101 inner page 1-1;
SG_MUL_VAL_ 101 b inner 0-0, 4-5;
SG_MUL_VAL_ 101 c inner 2-2;
"""


def shown(params: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (type(value).__name__, repr(value)) for name, value in params.items()}


@spec("MAP-19", "MAP-20", "MAP-21")
@cases(300)
@given(st.sampled_from([100, 101, 102, 103, 1 << 31 | 100]), st.binary(min_size=8, max_size=8), st.booleans())
def test_what_cantools_reads_we_read(key: int, data: bytes, names: bool) -> None:
    message = MAPPINGS[names].message(key & 0x1FFFFFFF, key > 0x7FF)
    assert message is not None
    their = next(one for one in DATABASE.messages if one.name == message.subject)
    try:
        found = their.decode(data[: message.length], decode_choices=names)
    except cantools.database.DecodeError:
        # It wants a signal for every number of a multiplexer; to us the others are pages without signals.
        assert message.subject in ("Muxed", "Early")
        return
    want = shown({name: value if isinstance(value, int | float) else str(value) for name, value in found.items()})
    assert shown(message.params(data)) == want
    assert shown(message._interpret(data[: message.length])) == want


@st.composite
def layouts(draw: st.DrawFn) -> str:
    """A message of signals that do not overlap, at random."""
    free = set(range(64))
    lines = []
    for at in range(draw(st.integers(1, 10))):
        big, length = draw(st.booleans()), draw(st.integers(1, 64))
        field = Field("x", "uint", draw(st.integers(0, 63)), length, big)
        if free.issuperset(field.bits()):
            free.difference_update(field.bits())
            factor = draw(st.sampled_from(["1,0", "2,-7", "0.01,0", "-0.5,40", "1,0.25", "2.0,1.0", "1e-3,-1e3"]))
            sign = draw(st.sampled_from("+-"))
            lines.append(f' SG_ s{at} : {field.start}|{length}@{0 if big else 1}{sign} ({factor}) [0|0] "" ECU')
    return "\n".join(['VERSION ""', "BU_: ECU", "BO_ 100 M: 8 ECU", *lines, ""])


@spec("MAP-8", "MAP-11", "MAP-20")
@cases(150)
@given(layouts(), st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=5))
def test_signals_anywhere_are_read_as_cantools_reads_them(text: str, frames: list[bytes]) -> None:
    database: Any = cantools.database.load_string(text, "dbc")
    message = dbc.loads(text).messages[0]
    for data in frames:
        want = shown(database.messages[0].decode(data))
        assert shown(message.params(data)) == shown(message._interpret(data)) == want


@spec("MAP-7", "MAP-19", "MAP-21")
@cases(300)
@given(st.sampled_from([100, 101, 103, 1 << 31 | 100]), st.binary(min_size=8, max_size=8))
def test_what_we_send_cantools_would_send(key: int, data: bytes) -> None:
    message = MAPPINGS[False].message(key & 0x1FFFFFFF, key > 0x7FF)
    assert message is not None
    their = next(one for one in DATABASE.messages if one.name == message.subject)
    params = message.params(data)
    assume(all(value == value for value in params.values()))
    try:
        sent = their.encode(params)
    except cantools.database.EncodeError:  # a multiplexer without signals of its own, or a value out of its range
        return
    assert message.encode(Event(message.subject, params)) == sent


DATABASE: Any = cantools.database.load_string(TEXT, "dbc")
MAPPINGS = [dbc.loads(TEXT), dbc.loads(TEXT, by_name=True)]


@spec("MAP-19", "MAP-20", "MAP-14")
def test_units_names_and_ranges_are_kept() -> None:
    numbers, names = MAPPINGS
    assert numbers.units("Simple") == {"speed": "km/h", "temperature": "degC", "torque": "Nm"}
    frame = Frame(100, b"\x12\x34\xd8\x03\x00\x00\x00\x00", extended=False)
    event, named = numbers.decode(frame), names.decode(frame)
    assert event == Event("Simple", [("speed", 46.6), ("temperature", -80), ("gear", 3), ("torque", -100.0)])
    assert named is not None
    assert named["gear"] == "D"
    assert numbers.encode(named) == frame
    with pytest.raises(LocalProtocolError, match=r"speed is 655.36, the limit is 655.35 km/h or less"):
        numbers.encode(event.replace(params={**event.params, "speed": 655.36}))


def test_a_mapping_of_a_dbc_can_be_staged() -> None:
    """What a device reads is what cantools read here."""
    tables = json.loads(json.dumps(MAPPINGS[0].tables()))
    staged = Mapping.from_tables(tables)
    assert staged.tables() == tables
    assert staged.decode(Frame(101, b"\x01\x05\x02\x01\0\0\0\x09", False)) == Event(
        "Muxed", {"page": 1, "inner": 5, "b": 129.0, "always": 9}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "car.dbc: not a DBC file that cantools reads: Invalid syntax at line 1, column 1"),
        (TEXT.replace("24|3@", "20|8@"), "The signals gear and temperature are overlapping in message Simple"),
        (TEXT.replace("BO_ 102", "BO_ 101"), "car.dbc: identifier 101 (0x65) is of Muxed and of Whole"),
    ],
)
def test_a_bad_dbc_is_refused(text: str, said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        dbc.loads(text, "car.dbc")
    assert str(caught.value).startswith("car.dbc: ")
    assert said in str(caught.value)


def test_overlaps_pass_where_asked(tmp_path: Path) -> None:
    file = tmp_path / "x.dbc"
    file.write_text(TEXT.replace("24|3@", "20|8@"))
    assert dbc.load(file, strict=False).of_subject("Simple") is not None
    with pytest.raises(LocalProtocolError, match="No such file"):
        dbc.load(tmp_path / "y.dbc")


# The captures of a Ford Fusion, with the DBC of its make. Its speed is in 0x202, from the engine's controller (47.03
# and 27.81 .. 75.69 km/h), and in 0x415, from the brakes' (47.04 and 27.80 .. 75.76).
SPEEDS = [("EngVehicleSpThrottle2", "Veh_V_ActlEng"), ("BrakeSysFeatures", "Veh_V_ActlBrk")]


def frames_of(file: Path) -> Iterator[Frame]:
    for line in file.read_text().splitlines():
        number, _, data = line.split()[2].partition("#")
        yield Frame(int(number, 16), bytes.fromhex(data), len(number) > 3)


def events_of(mapping: Mapping, file: Path, subject: str) -> list[Event]:
    message = mapping.of_subject(subject)
    assert message is not None
    return [message.decode(frame.data) for frame in frames_of(file) if frame.id == message.id]


@pytest.fixture(scope="module")
def ford() -> Mapping:
    return dbc.load(FORD)


@captures
@pytest.mark.parametrize(("subject", "name"), SPEEDS)
def test_a_car_at_50_km_per_hour(ford: Mapping, subject: str, name: str) -> None:
    assert ford.units(subject)[name] == "kph"
    speeds = [event[name] for event in events_of(ford, AT_50, subject)]
    assert len(speeds) > 200
    assert statistics.mean(speeds) == pytest.approx(47.0, abs=0.2)  # type: ignore[type-var]


@captures
@pytest.mark.parametrize(("subject", "name"), SPEEDS)
def test_a_car_from_30_to_80_km_per_hour(ford: Mapping, subject: str, name: str) -> None:
    events = events_of(ford, FROM_30_TO_80, subject)
    assert events[0][name] == pytest.approx(27.8, abs=0.05)
    assert events[-1][name] == pytest.approx(75.7, abs=0.1)


@captures
def test_every_frame_of_the_captures_is_read_as_cantools_reads_it(ford: Mapping) -> None:
    database: Any = cantools.database.load_file(FORD)
    checked = 0
    for frame in [*frames_of(AT_50), *list(frames_of(FROM_30_TO_80))[::5]]:
        message = ford.message(frame.id, frame.extended)
        if message is not None:
            theirs = database.decode_message(frame.id, frame.data, decode_choices=False)
            assert shown(message.params(frame.data)) == shown(theirs)
            checked += 1
    assert checked > 15000
