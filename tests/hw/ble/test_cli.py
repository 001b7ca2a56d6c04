"""vicinal ble: explain says something about any bytes, scan shows what beacon sends, and both say what is missing."""

import json
import os
import signal
import subprocess
import sys
import time
from random import Random

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import structure
from vicinal.steam.node import Node
from vicinal_tools.ble.board import MAX_SENDERS, Board
from vicinal_tools.ble.structures import describe, explain, from_hex
from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "ble"]
LAT, LON = 533438000, -62546000


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["ble", *arguments])


def frames(node: Node, count: int = 40) -> list[bytes]:
    found = [node.advertisement(100 * at) for at in range(count)]
    return [advertisement for advertisement in found if advertisement is not None]


def talking(names: list[str] | None = None, relative: bool = False) -> Node:
    node = Node("car", 0x0A0B0C)
    node.set_position(LAT, LON, 0)
    area = Proximity.circle(0, 0, 200, True) if relative else Proximity.rectangle(LAT, LON, 300, 50)
    node.announce("Speed", area, 0, names)
    node.publish(Event("Speed", [("rate", 57), ("license_no", "00D12345")]), 0)
    return node


# explain


def test_a_beacon_and_a_piece_are_explained() -> None:
    advertisements = frames(talking())
    result = invoke("explain", "02:01:06:" + advertisements[0].hex(":"), "--subject", "Speed")
    assert result.exit_code == 0, result.output
    for text in (
        "no classic Bluetooth",
        "beacon",
        "(Speed)",
        "0a0b0c",
        "1000 ms",
        "300 x 50 m around 53.3438000, -6.25460",
    ):
        assert text in result.output
    result = invoke("explain", *[f"{byte:02x}" for byte in advertisements[1]])
    assert "piece 1 of" in result.output
    assert "with names" in result.output
    moving = invoke("explain", frames(talking(["rate", "license_no"], relative=True))[0].hex())
    assert "moves with its sender" in moving.output
    assert "stands, or does not say" in moving.output


def test_a_speed_is_said_as_people_say_it() -> None:
    area = Proximity.circle(533438000, -62546000, 150)
    for velocity, text in (((1280, 0), "51 km/h towards 0 degrees"), ((0, -2048), "49 km/h towards 270 degrees")):
        frame = Beacon(b"abc", b"xyz", 0, 1000, area, True, velocity).encode()
        assert dict(describe(frame)[0])["speed"] == text


def test_parity_and_the_end_are_named() -> None:
    node = talking(["rate", "license_no"])
    fields = [dict(describe(advertisement[4:])[0]) for advertisement in frames(node)]
    assert any(each["frame"].startswith("parity of") for each in fields)
    assert any("values only" in each["frame"] for each in fields)
    node.unannounce("Speed", 5000)
    last = node.advertisement(5000)
    assert last is not None
    assert "over" in dict(describe(last[4:])[0])["next in"]


@pytest.mark.parametrize(
    ("octets", "text", "code"),
    [
        ("", "empty advertisement", 0),
        ("0201060303aafe0d16aafe10f803676f6f676c6507", "service 0xfeaa", 0),
        ("0bff4c00100501189c1234aa", "Apple", 0),
        ("050948c3a9", "cut off: it says 5 bytes follow, there are 4", 1),
        ("0509c3a9ff41", r"é\\xffA", 0),
        ("020af4", "-12 dBm", 0),
        ("1107" + "00" * 15 + "01", "01000000-0000", 0),
        ("0000000000", "filling: 5 bytes", 0),
        ("020106000001", "not all of it is zero", 1),
        ("02ff4c", "two bytes", 1),
        ("04ffffffe0", "no frame of ours", 1),
        ("03ffffff", "no frame of ours", 1),
        ("04aa010203", "type 0xaa", 0),
        ("01ff", "two bytes", 1),
        ("ff", "cut off", 1),
    ],
)
def test_strangers_are_explained_kindly(octets: str, text: str, code: int) -> None:
    result = invoke("explain", octets)
    assert text in result.output
    assert result.exit_code == code
    as_json = invoke("explain", octets, "--json")
    assert as_json.exit_code == code
    found = json.loads(as_json.output)
    assert "".join(part["bytes"] for part in found["structures"]) == octets
    assert found["ours"] is False


@given(st.binary(max_size=300))
def test_any_bytes_are_explained_and_none_is_left_out(octets: bytes) -> None:
    parts = explain(octets)
    assert b"".join(part.raw for part in parts) == octets
    assert [part.offset for part in parts] == [
        sum(len(before.raw) for before in parts[:at]) for at in range(len(parts))
    ]


@given(st.binary(max_size=40))
def test_any_frame_of_our_company_is_explained(payload: bytes) -> None:
    part = explain(structure(payload))[0]
    assert bool(part.fields) != bool(part.wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [("0g", "'g' is no hexadecimal digit (digit 2)"), ("020", "half a byte"), ("00" * 1651, "1651")],
)
def test_what_is_no_hex_is_refused(text: str, message: str) -> None:
    result = invoke("explain", text)
    assert result.exit_code == 2
    assert message in result.output


@given(st.binary(min_size=1, max_size=60))
def test_every_way_to_write_hex(octets: bytes) -> None:
    for text in (octets.hex(), octets.hex(" "), octets.hex(":").upper(), " ".join(f"0x{byte:02x}," for byte in octets)):
        assert from_hex(text) == octets


# What scan shows


def heard(board: Board, advertisements: list[bytes]) -> list[Event]:
    found = [one for at, data in enumerate(advertisements) for one in board.hear(data, -60, 100 * at)]
    return [one.event for one in found if one.event is not None]


def test_a_board_shows_each_event_once() -> None:
    board = Board({})
    events = heard(board, frames(talking()) * 2)
    assert [event["license_no"] for event in events] == ["00D12345"]
    assert board.events == 1
    assert board.strangers == board.refused == 0


def test_events_without_names_need_them() -> None:
    advertisements = frames(talking(["rate", "license_no"]))
    assert heard(Board({}), advertisements) == []
    assert [event["rate"] for event in heard(Board({"Speed": ("rate", "license_no")}), advertisements)] == [57]
    board = Board({"Speed": ("rate", "plate")})
    assert heard(board, advertisements) == []
    assert "other names?" in board.reason


def test_a_filter_chooses() -> None:
    assert heard(Board({}, Filter("rate > 100")), frames(talking())) == []
    assert len(heard(Board({}, Filter("rate > 50")), frames(talking()))) == 1


def test_a_board_is_bounded_whatever_comes() -> None:
    board, chance = Board({}), Random(1)
    for number in range(3 * MAX_SENDERS):
        payload = bytes([0x20 | chance.choice([0, 1, 4, 5])]) + chance.randbytes(chance.choice([18, 20, 12]))
        board.hear(structure(payload), -60, number)
        board.hear(chance.randbytes(31), -60, number)
    assert len(board._lines) <= MAX_SENDERS
    assert board.heard == 6 * MAX_SENDERS


# The command, with a virtual radio and without any


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_scan_hears_what_beacon_sends(air_name: str) -> None:
    scan = start("scan", "--virtual", air_name, "--count", "2", "--for", "60", "--json")
    beacon = start("beacon", "Speed", "rate=57", "--virtual", air_name, "--for", "60", "--every", "0.5", "--json")
    out, err = scan.communicate(timeout=90)
    assert scan.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 2
    assert all(line["event"]["params"] == {"rate": 57} for line in lines)
    assert lines[0]["rssi"] < 0
    beacon.send_signal(signal.SIGINT)
    out, err = beacon.communicate(timeout=30)
    assert beacon.returncode == 130, err
    sent = json.loads(out)
    assert sent["events"] >= 2
    assert sent["beacons"] >= 3


def test_beacon_counts_and_the_table_shows(air_name: str) -> None:
    scan = start("scan", "--virtual", air_name, "--for", "8", "--names", "Speed=rate")
    time.sleep(1)
    done = subprocess.run(
        [*COMMAND, "beacon", "Speed", "rate=57", "--virtual", air_name, "--typed", "--count", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 events, 1 sent" in done.stdout
    out, err = scan.communicate(timeout=60)
    assert scan.returncode == 0, err
    assert "Speed" in out
    assert "rate 57" in out


def test_too_few_events_are_exit_code_1(air_name: str) -> None:
    done = subprocess.run(
        [*COMMAND, "scan", "--virtual", air_name, "--for", "0.3", "--count", "1", "--json"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["beacon", "Speed"], "where is the area"),
        (["beacon", "Speed", "--at", "91,0"], "latitude"),
        (["beacon", "Speed", "--at", "here"], "want LAT,LON"),
        (["beacon", "Speed", "rate", "--at", "1,2"], "want NAME=VALUE"),
        (["scan", "--virtual", "x", "--adapter", "hci0"], "not both"),
        (["scan", "--names", "Speed"], "SUBJECT=NAME"),
        (["scan", "--beacons"], "--json"),
        (["scan", "--filter", "rate >"], "--filter"),
    ],
)
def test_bad_input_is_named(arguments: list[str], text: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert text in result.output


def test_without_bluez_it_says_what_to_do(tmp_path: object) -> None:
    environment = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/nothing"}
    done = subprocess.run(
        [*COMMAND, "scan", "--for", "1"], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 1
    assert "bluetoothd" in done.stderr
    assert "--virtual" in done.stderr
