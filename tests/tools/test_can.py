"""`vicinal can` as people meet it: logs of every kind decoded and replayed, buses watched, frames sent."""

import gzip
import itertools
import json
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import can
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from strategies import cases

from vicinal.cosmic.mapping import Message
from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter
from vicinal_hw.can import dbc
from vicinal_hw.can._dbc_cut import cut
from vicinal_tools.can.board import Board
from vicinal_tools.can.decode import Decoder
from vicinal_tools.can.json_lines import line_of, writer
from vicinal_tools.can.logs import Log, Row, open_log
from vicinal_tools.can.replay import Pace, Report, message_of, replay
from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]
DATA = Path(__file__).parents[3] / "shared" / "data" / "can"
FORD = DATA / "ford_lincoln_base_pt.opendbc.dbc"
AT_50 = DATA / "acc_on_going_at_50km_per_hour.candump"
FROM_30_TO_80 = DATA / "acc_on_speed_changing_from_30km_to_80km_per_hour.candump"
captures = pytest.mark.skipif(not FORD.exists(), reason=f"the captures are not there: {DATA}")

TOML = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "license_no", bytes = "0..6", type = "string" },
    { name = "rate", bytes = 7, type = "double", unit = "km/h" },
]
[[message]]
id = 0x10
subject = "Door"
fields = [
    { name = "open", start = 0, type = "bool" },
    { name = "which", start = 1, length = 7, type = "uint", names = { 0 = "left", 1 = "right" } },
]
"""
DBC = """VERSION ""
NS_ :
\tCM_
\tBA_
BS_:
BU_: ECU
BO_ 100 Engine: 2 ECU
 SG_ rpm : 7|16@0+ (0.25,0) [0|0] "1/min" ECU
BO_ 101 Gear: 1 ECU
 SG_ gear : 0|4@1+ (1,0) [0|0] "" ECU
BO_ 102 Paged: 2 ECU
 SG_ page M : 0|8@1+ (1,0) [0|0] "" ECU
 SG_ value m1 : 8|8@1+ (1,0) [0|0] "" ECU
CM_ BO_ 100 "a comment with ; and
BO_ 101 Gear: 1 ECU
 SG_ gear : 0|4@1+ (1,0) [0|0] \\"quoted\\" ECU
VAL_ 101 gear 9 ""wrong"" ;";
BA_DEF_ BO_ "Cycle" INT 0 100;
BA_ "Cycle" BO_ 100 10;
VAL_TABLE_ Gears 0 "P" 1 "R" ;
VAL_ 101 gear 0 "P" 1 "R" ;
"""
LOG = """(1000.000000) can0 00003039#3030443132333439
(1000.010000) can0 010#02
(1000.020000) can1 7FF#
(1000.030000) can0 00003039#3030443132333420 R
(1000.040000) can0 00003039#R
"""
numbers = itertools.count()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name, text in (("car.toml", TOML), ("car.dbc", DBC), ("drive.log", LOG)):
        (tmp_path / name).write_text(text)
        found[name] = str(tmp_path / name)
    return found


@pytest.fixture
def channel() -> str:
    """A virtual bus of this test alone."""
    return f"test-{next(numbers)}"


def call(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["can", *arguments], input=stdin)


def refused(*arguments: str, stdin: bytes = b"") -> str:
    result = call(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def lines(result: Result, code: int = 0) -> list[Any]:
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


# decode

DECODED = [
    {"time": 1000.0, "subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}},
    {"time": 1000.01, "subject": "Door", "params": {"open": False, "which": 1}},
    {"time": 1000.03, "subject": "Speed", "params": {"license_no": "00D1234", "rate": 32.0}},
]


def test_decode_with_a_mapping(files: dict[str, str]) -> None:
    result = call("decode", files["drive.log"], "--mapping", files["car.toml"], "--verbose")
    assert lines(result) == DECODED
    assert result.stdout.startswith('{"time": 1000.000000, "subject": "Speed", "params": {"license_no": "00D1234", ')
    assert result.stderr == "5 frames, 3 decoded, 1 with other identifiers, 1 remote\n"


def test_decode_only_some(files: dict[str, str]) -> None:
    arguments = ("decode", files["drive.log"], "--mapping", files["car.toml"])
    assert lines(call(*arguments, "--message", "Door")) == DECODED[1:2]
    assert lines(call(*arguments, "--filter", "rate > 40")) == DECODED[:1]
    assert lines(call(*arguments, "--filter", "$Time >= 1000030")) == DECODED[2:]
    assert lines(call(*arguments, "--filter", "subject = 'Nobody'")) == []
    assert lines(call(*arguments, "-m", "Door", "--names"))[0]["params"]["which"] == "right"


def test_decode_reads_stdin_gzip_and_json_mappings(files: dict[str, str], tmp_path: Path) -> None:
    packed = tmp_path / "drive.gz"
    packed.write_bytes(gzip.compress(LOG.encode()))
    from vicinal.cosmic.mapping_toml_cpython import loads

    staged = tmp_path / "car.json"
    staged.write_text(json.dumps(loads(TOML).tables()))
    for mapping in (files["car.toml"], str(staged)):
        assert lines(call("decode", str(packed), "--mapping", mapping)) == DECODED
        assert lines(call("decode", "-", "--mapping", mapping, stdin=LOG.encode())) == DECODED
        assert lines(call("decode", "-", "--mapping", mapping, stdin=packed.read_bytes())) == DECODED


@pytest.mark.parametrize("kind", ["asc", "blf", "trc", "log"])
@pytest.mark.parametrize("packed", [False, True])
def test_decode_reads_what_python_can_writes(files: dict[str, str], tmp_path: Path, kind: str, packed: bool) -> None:
    path = tmp_path / f"drive.{kind}"
    with can.Logger(path) as logger:
        for at, text in enumerate([b"00D1234\x39", b"00D1234\x20"]):
            logger(can.Message(1000 + at / 100, 12345, data=text, is_extended_id=True))
        logger(can.Message(1000.5, 0x10, data=b"\x02", is_extended_id=False))
    anonymous = tmp_path / "anything"
    anonymous.write_bytes(gzip.compress(path.read_bytes()) if packed else path.read_bytes())
    found = lines(call("decode", str(anonymous), "--mapping", files["car.toml"]))
    assert [line["params"] for line in found] == [DECODED[0]["params"], DECODED[2]["params"], DECODED[1]["params"]]
    assert found[2]["time"] - found[0]["time"] == pytest.approx(0.5, abs=1e-3)


def test_decode_names_what_is_broken(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "broken.log"
    log.write_text(f"nonsense\n\n{LOG}(1.0) can0 10#00\n(1.0) can0 010#0\n(1.0) can0 00003039#3030\n")
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert lines(result, code=1) == DECODED
    said = result.stderr.splitlines()
    assert said[0] == f"{log}: 1 frames refused, the first: Speed (0x3039) with 2 bytes of data, it has 8 (at byte 2)"
    assert said[1] == f"{log}:1: not a line of candump -l: 'nonsense'"
    assert said[2] == f"{log}:8: not a line of candump -l: '(1.0) can0 10#00'"
    assert said[3] == f"{log}:9: not a line of candump -l: '(1.0) can0 010#0'"
    assert said[4] == f"{log}: 3 broken lines"


def test_decode_of_no_log_at_all_ends(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "text"
    log.write_text("a line of prose\n" * 1000)
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"{log}: 1,000 broken lines, 990 not shown"
    log.write_bytes(b"\x00" * (1 << 20))
    assert "more than 4096 bytes without a line end" in refused("decode", str(log), "--mapping", files["car.toml"])
    log.write_text("")
    assert call("decode", str(log), "--mapping", files["car.toml"]).stderr == f"{log}: no frames\n"


def test_a_cut_gzip_gives_what_could_be_read(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "cut.gz"
    text = "".join(f"({at}.000000) can0 010#{at % 251:02X}\n" for at in range(50000))
    whole = gzip.compress(text.encode())
    log.write_bytes(whole[: len(whole) // 2])
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert len(lines(result, code=1)) > 10000
    assert result.stderr == (f"Error: {log}: the gzip ends too early: the file was cut; what came before was read\n")
    log.write_bytes(whole[:1000] + bytes(100) + whole[1100:])
    assert "the gzip is damaged" in call("decode", str(log), "--mapping", files["car.toml"]).stderr


def test_decode_refuses_kindly(files: dict[str, str]) -> None:
    log, toml, database = files["drive.log"], files["car.toml"], files["car.dbc"]
    assert "Give --dbc FILE or --mapping FILE" in refused("decode", log)
    assert "not both" in refused("decode", log, "--dbc", database, "--mapping", toml)
    assert "No such file" in refused("decode", log + "x", "--mapping", toml)
    assert "did you mean Speed?" in refused("decode", log, "--mapping", toml, "-m", "Sped")
    assert "no message is called 'Engin': did you mean Engine?" in refused(
        "decode", log, "--dbc", database, "-m", "Engin"
    )
    assert "column 7" in refused("decode", log, "--mapping", toml, "--filter", "rate >")
    assert "not a DBC file" in refused("decode", log, "--dbc", toml)


def test_a_reader_that_goes_away_is_no_failure(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text("(1.000000) can0 010#00\n" * 100_000)
    with subprocess.Popen(
        [*COMMAND, "can", "decode", str(log), "--mapping", files["car.toml"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["subject"] == "Door"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


@captures
def test_the_car_at_50_km_per_hour(tmp_path: Path) -> None:
    packed = tmp_path / "drive.gz"
    packed.write_bytes(gzip.compress(AT_50.read_bytes()))
    for log in (str(AT_50), str(packed)):
        found = lines(call("decode", log, "--dbc", str(FORD), "--message", "EngVehicleSpThrottle2"))
        assert statistics.mean(line["params"]["Veh_V_ActlEng"] for line in found) == pytest.approx(47.0, abs=0.2)
        assert {line["subject"] for line in found} == {"EngVehicleSpThrottle2"}


@captures
def test_the_car_from_30_to_80_km_per_hour() -> None:
    result = call("decode", str(FROM_30_TO_80), "--dbc", str(FORD), "-v")
    found = [line for line in lines(result) if line["subject"] == "EngVehicleSpThrottle2"]
    assert found[0]["params"]["Veh_V_ActlEng"] == pytest.approx(27.8, abs=0.05)
    assert found[-1]["params"]["Veh_V_ActlEng"] == pytest.approx(75.7, abs=0.05)
    assert "41,250 frames, 36,741 decoded, 4,509 with other identifiers" in result.stderr


@captures
def test_a_file_cut_down_to_one_message_says_the_same_of_it() -> None:
    whole = dbc.load(FORD)
    for message in whole.messages[::40]:
        alone = dbc.load(FORD, only=[message.subject])
        assert [one.table() for one in alone.messages] == [message.table()]


def test_comments_that_look_like_messages_are_comments() -> None:
    whole = dbc.loads(DBC)
    assert [message.subject for message in whole.messages] == ["Engine", "Gear", "Paged"]
    for name in ("Engine", "Gear", "Paged"):
        alone = dbc.loads(DBC, only=[name])
        assert [one.table() for one in alone.messages] == [whole.of_subject(name).table()]  # type: ignore[union-attr]
    assert cut(DBC, {"Nobody"}) == cut(DBC)
    assert cut(DBC).count("\n") == cut(DBC, {"Gear"}).count("\n") == DBC.count("\n")


# The lines, and what is behind them


@cases(200)
@given(st.binary(max_size=9), st.sampled_from(["Engine", "Gear", "Paged", "Speed", "Door"]), st.booleans())
def test_a_line_is_what_the_mapping_reads(data: bytes, subject: str, names: bool) -> None:
    message = MESSAGES[names][subject]
    try:
        line = writer(message)("12.500000", data)
    except RemoteProtocolError as error:
        with pytest.raises(RemoteProtocolError, match=re.escape(str(error))):
            message.params(data)
        return
    params = message.params(data)
    assert line == line_of("12.500000", subject, params)
    found = json.loads(line)
    assert found == {"time": 12.5, "subject": subject, "params": params}
    assert list(found["params"]) == list(params)


def _messages(names: bool) -> dict[str, Message]:
    from vicinal.cosmic.mapping_toml_cpython import loads

    return {one.subject: one for one in [*dbc.loads(DBC, by_name=names).messages, *loads(TOML, by_name=names).messages]}


MESSAGES = [_messages(False), _messages(True)]


def test_odd_names_and_numbers_are_json() -> None:
    from vicinal.cosmic.mapping import Field

    fields = [
        Field('100% "x"\n{}', "uint", 0, 8),
        Field("float", "float", 8, 32),
        Field("bytes", "bytes", 40, 8),
        Field("huge", "double", 48, 8, scale=1e307),
    ]
    message = Message(1, "a%sb\u2028é", fields)
    line = writer(message)("1.5", b"\x07\x00\x00\xc0\x7f\xff\xff")
    assert json.loads(line) == {
        "time": 1.5,
        "subject": "a%sb\u2028é",
        "params": {
            '100% "x"\n{}': 7,
            "float": {"$float": "nan"},
            "bytes": {"$bytes": "/w=="},
            "huge": {"$float": "inf"},
        },
    }


def test_every_frame_is_counted_once(files: dict[str, str], tmp_path: Path) -> None:
    decoder = Decoder(dbc.loads(DBC), condition=Filter("rpm > 100"))
    rows: list[Row] = [("1.0", "c", number, "", data) for number in ("064", "065", "FFF") for data in ("", "0FFF", "R")]
    out = decoder.feed(rows)
    assert (
        decoder.frames == 9 == (decoder.lines + decoder.others + decoder.unmatched + decoder.remotes + decoder.refused)
    )
    assert (len(out), decoder.remotes, decoder.refused, decoder.others, decoder.unmatched) == (1, 2, 2, 3, 1)


@given(st.lists(st.sampled_from(["(1.5) can0 123#11\n", "junk\n", "\n", "(1.5) can0 00000123##311 T\r\n"])), st.data())
def test_a_log_in_any_pieces_is_the_same_log(parts: list[str], data: Any) -> None:
    text = "".join(parts).encode()
    at = data.draw(st.integers(0, len(text)))
    log = Log("x", "candump", _Pieces([text[:at], text[at:]]), _Pieces([]), None)  # type: ignore[arg-type]
    rows = [row for batch in log.batches() for row in batch]
    good = [part for part in parts if part.startswith("(")]
    assert [row[2] for row in rows] == [part.split()[2].partition("#")[0] for part in good]
    assert log.broken == parts.count("junk\n")
    assert [number for number, _ in log.named] == [at for at, part in enumerate(parts, 1) if part == "junk\n"][:10]


class _Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_zeros_before_the_time_are_no_part_of_the_number(tmp_path: Path) -> None:
    log = tmp_path / "x"
    log.write_text("(0000000012.000500) can0 123#\n(0000000000.000500) can0 123#\n")
    assert [row[0] for batch in open_log(str(log)).batches() for row in batch] == ["12.000500", "0.000500"]


# replay


class _Clock:
    """Time that passes only where somebody sleeps, or works for `each`."""

    def __init__(self, each: float = 0.0) -> None:
        self.now = 50.0
        self.each = each
        self.sent: list[tuple[float, int]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def send(self, message: can.Message) -> None:
        self.sent.append((round(self.now - 50.0, 6), message.arbitration_id))
        self.now += self.each


def replayed(files: dict[str, str], speed: float, clock: _Clock, channel: str | None = None) -> Report:
    report = Report()
    replay(open_log(files["drive.log"]), Pace(speed), report, clock.send, channel, clock, clock.sleep)
    return report


@pytest.mark.parametrize(("speed", "times"), [(1, [0, 0.01, 0.02, 0.03, 0.04]), (10, [0, 0.001, 0.002, 0.003, 0.004])])
def test_replay_keeps_the_distances(files: dict[str, str], speed: float, times: list[float]) -> None:
    clock = _Clock()
    report = replayed(files, speed, clock)
    assert clock.sent == list(zip(times, [12345, 0x10, 0x7FF, 12345, 12345]))
    assert (report.sent, report.latest, report.rounds) == (5, 0, 1)


def test_replay_says_how_late_it_was_and_does_not_drift(files: dict[str, str]) -> None:
    clock = _Clock(each=0.012)
    assert replayed(files, 1, clock).latest == pytest.approx(0.008)
    assert [round(at, 3) for at, _ in clock.sent] == [0, 0.012, 0.024, 0.036, 0.048]
    clock = _Clock(each=0.5)
    report = replayed(files, 0, clock)
    assert report.latest == 0
    assert report.text() == "5 frames sent in 2.500 s (2/s)"
    assert [number for _, number in clock.sent] == [12345, 0x10, 0x7FF, 12345, 12345]


def test_replay_of_one_channel(files: dict[str, str]) -> None:
    clock = _Clock()
    assert replayed(files, 1, clock, "can1").sent == 1


@given(st.lists(st.floats(0, 1000)), st.sampled_from([0.5, 1, 10]))
def test_a_log_that_goes_back_in_time_is_not_waited_for(stamps: list[float], speed: float) -> None:
    pace = Pace(speed)
    due = [pace.due(stamp) for stamp in stamps]
    assert due == sorted(due)
    for stamp, at in zip(stamps, due):
        assert at >= (stamp - stamps[0]) / speed


@pytest.mark.parametrize(
    "row",
    [
        ("1.5", "can0", "123", "", "DEADBEEF"),
        ("1.5", "can0", "00003039", "", ""),
        ("1.5", "can0", "123", "", "R4"),
        ("1.5", "can0", "123", "#1", "AA" * 64),
    ],
)
def test_a_row_is_the_message_python_can_reads(row: Row, tmp_path: Path) -> None:
    stamp, channel, number, flags, data = row
    log = tmp_path / "x.log"
    log.write_text(f"({stamp}) {channel} {number}#{flags}{data}\n")
    theirs = next(iter(can.LogReader(log)))
    ours = message_of(row)
    assert ours.equals(theirs, timestamp_delta=None, check_direction=False)


def test_replay_onto_a_bus(files: dict[str, str], channel: str) -> None:
    with can.Bus(interface="virtual", channel=channel) as bus:
        result = call("replay", files["drive.log"], channel, "-i", "virtual", "--speed", "0", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert (found["sent"], found["rounds"], found["errors"]) == (5, 1, 0)
        received = [bus.recv(1) for _ in range(5)]
    assert [message and message.arbitration_id for message in received] == [12345, 0x10, 0x7FF, 12345, 12345]
    assert received[4] is not None
    assert received[4].is_remote_frame


def test_replay_loops_until_it_is_told(files: dict[str, str], channel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def send(_: can.BusABC, message: can.Message) -> None:
        if len(sent) == 12:
            raise KeyboardInterrupt
        sent.append(message.arbitration_id)

    monkeypatch.setattr("vicinal_tools.can.buses.send", send)
    result = call("replay", files["drive.log"], channel, "-i", "virtual", "--speed", "100", "--loop")
    assert result.exit_code != 0
    assert sent == [12345, 0x10, 0x7FF, 12345, 12345] * 2 + [12345, 0x10]
    assert result.stdout.startswith("12 frames sent in ")
    assert result.stdout.endswith(", 2 rounds\n")


def test_buses_that_are_not_there(files: dict[str, str]) -> None:
    log = files["drive.log"]
    assert "which bus?" in refused("replay", log)
    assert "python-can has here: " in refused("replay", log, "x", "-i", "nonsense")
    assert "want NAME=VALUE" in refused("replay", log, "x", "-i", "virtual", "-o", "nonsense")
    result = call("replay", log, "no-such-bus")
    assert result.exit_code == 1
    assert "vicinal doctor" in result.stderr


# send


def test_send_frames_and_events(files: dict[str, str], channel: str) -> None:
    with can.Bus(interface="virtual", channel=channel) as bus:
        assert call("send", channel, "123#DE.AD", "00003039#", "-i", "virtual").exit_code == 0
        speed = ("--mapping", files["car.toml"], "--subject", "Speed", "license_no=1234567", "rate=57")
        result = call("send", channel, *speed, "-i", "virtual", "--repeat", "2", "--every", "0")
        assert result.exit_code == 0, result.output
        door = ("--mapping", files["car.toml"], "--subject", "Door", "open=true", "which=right")
        assert call("send", channel, *door, "-i", "virtual").exit_code == 0
        found = [bus.recv(1) for _ in range(5)]
    assert [(one.arbitration_id, one.is_extended_id, bytes(one.data)) for one in found if one] == [
        (0x123, False, b"\xde\xad"),
        (0x3039, True, b""),
        (0x3039, True, b"1234567\x39"),
        (0x3039, True, b"1234567\x39"),
        (0x10, False, b"\x03"),
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (["12345#00"], "3 hexadecimal digits, or 8 if it is extended; 12345 has 5. Did you mean 00012345#00?"),
        (["1#"], "Did you mean 001#?"),
        (["FFF#"], "identifier FFF is past 7FF"),
        (["123#1"], "1 digits of data, want two for each byte"),
        (["123#" + "00" * 9], "9 bytes of data, the limit is 8"),
        (["hello"], "want ID#DATA in hexadecimal"),
        (["--subject", "Speed", "rate=1"], "Give --mapping FILE or --dbc FILE"),
        (["--mapping", "car.toml", "-s", "Sped", "rate=1"], "did you mean Speed?"),
        (["--mapping", "car.toml", "-s", "Speed", "rate"], "'rate': want NAME=VALUE"),
        (["--mapping", "car.toml", "-s", "Speed", "speed=1"], "Speed has no 'speed', it has license_no, rate"),
        (["--mapping", "car.toml", "-s", "Speed", "rate=1"], "event 'Speed' lacks 'license_no'"),
        (
            ["--mapping", "car.toml", "-s", "Speed", "license_no=x", "rate=300"],
            "rate is 300, the limit is 0 .. 255 km/h",
        ),
        (["--mapping", "car.toml", "-s", "Speed", "license_no=x", "rate=fast"], "rate is 'fast', want a number"),
        (["--mapping", "car.toml", "-s", "Door", "open=maybe", "which=1"], "open=maybe: want true or false"),
    ],
)
def test_send_refuses_kindly(files: dict[str, str], what: list[str], said: str) -> None:
    assert said in refused("send", "x", *[files.get(text, text) for text in what], "-i", "virtual")


# monitor


@pytest.fixture
def sender(channel: str) -> Iterator[None]:
    """Sends the log's frames again and again."""
    done = threading.Event()

    def send() -> None:
        with can.Bus(interface="virtual", channel=channel) as bus:
            while not done.wait(0.02):
                for row in [
                    ("0.0", "", "00003039", "", "3030443132333439"),
                    ("0.0", "", "010", "", "02"),
                    ("0.0", "", "7FF", "", ""),
                ]:
                    bus.send(message_of(row))

    thread = threading.Thread(target=send)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.mark.usefixtures("sender")
def test_monitor_as_json(files: dict[str, str], channel: str) -> None:
    arguments = ("monitor", channel, "-i", "virtual", "--mapping", files["car.toml"], "--json", "--for", "60")
    found = lines(call(*arguments, "--count", "6"))
    assert {line["subject"]: line["params"] for line in found} == {
        "Speed": {"license_no": "00D1234", "rate": 57.0},
        "Door": {"open": False, "which": 1},
    }
    found = lines(call(*arguments, "--count", "2", "--filter", "rate > 50"))
    assert [line["subject"] for line in found] == ["Speed", "Speed"]
    assert "nothing would ever be shown" in refused(*arguments, "--filter", "subject = 'Nobody'")


@pytest.mark.usefixtures("sender")
def test_monitor_shows_a_table(files: dict[str, str], channel: str) -> None:
    result = call("monitor", channel, "-i", "virtual", "--mapping", files["car.toml"], "--count", "4", "--for", "60")
    assert result.exit_code == 0, result.output
    assert "license_no 00D1234  rate 57 km/h" in result.stdout
    assert "with other identifiers" in result.stdout
    raw = call("monitor", channel, "-i", "virtual", "--count", "3", "--for", "60")
    assert "30 30 44 31 32 33 34 39" in raw.stdout


def test_monitor_ends_in_time(files: dict[str, str], channel: str) -> None:
    assert call("monitor", channel, "-i", "virtual", "--for", "0.1").exit_code == 0
    assert call("monitor", channel, "-i", "virtual", "--for", "0.1", "--count", "1").exit_code == 1
    assert "give --dbc FILE or --mapping FILE too" in refused("monitor", channel, "--filter", "TRUE")


def test_the_board_counts_and_rates() -> None:
    from rich.console import Console

    board = Board(dbc.loads(DBC))
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    board.table(10.0)
    for at in range(20):
        assert board.add(100, False, b"\x10\x00", at) == ("Engine", {"rpm": 1024.0})
    assert board.add(100, False, b"\x10", 0) is None
    assert board.add(5, False, b"", 0) is None
    console.print(board.table(12.0))
    text = console.export_text()
    assert "Engine   064      20   10.0  rpm 1024 1/min" in text
    assert "22 frames, 20 shown, 1 with other identifiers, 1 refused (Engine (0x64) with 1 bytes of data" in text
