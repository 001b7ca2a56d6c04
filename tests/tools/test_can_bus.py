"""`vicinal can replay`, `send` and `monitor`: frames on a bus, at the right time."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import can
import pytest
from can_helpers import DBC, call, channel, files, lines, refused
from hypothesis import given
from hypothesis import strategies as st

from vicinal_hw.can import dbc
from vicinal_tools.can.board import Board
from vicinal_tools.can.logs import Row, open_log
from vicinal_tools.can.replay import Pace, Report, message_of, replay

__all__ = ["channel", "files"]

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
    board.add(100, False, b"\x10\x00", 0)
    console.print(board.table(14.0, overall=True))
    assert "Engine   064      21    5.2  rpm 1024 1/min" in console.export_text()
    assert "Engine   064      20   10.0  rpm 1024 1/min" in text
    assert "22 frames, 20 shown, 1 with other identifiers, 1 refused (Engine (0x64) with 1 bytes of data" in text
