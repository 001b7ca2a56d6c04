"""The virtual radio of several processes: what is sent is heard where it reaches, time steps, holders die."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node
from vicinal_hw._holder import ALREADY, socket_of
from vicinal_hw.ble import _host
from vicinal_hw.ble.positions import Plane
from vicinal_hw.ble.shell import RadioError, Shell
from vicinal_hw.ble.virtual import VirtualRadio, known
from vicinal_hw.location.fix import Fix

PATIENCE = 10.0
LAT, LON = 533438000, -62546000
SECOND = 1_000_000
PEER = Path(__file__).with_name("peer.py")
PLANE = Plane(LAT, LON)

Open = Callable[..., VirtualRadio]


@pytest.fixture
def opened(air_name: str) -> Iterator[Open]:
    radios: list[VirtualRadio] = []

    def open_radio(x: float = 0.0, y: float = 0.0, **options: Any) -> VirtualRadio:
        lat, lon = PLANE.degrees(x, y)
        radios.append(VirtualRadio(air_name, lat, lon, **options))
        radios[-1].connect()
        return radios[-1]

    yield open_radio
    for radio in radios:
        radio.shut()


class Peer:
    """A radio in another process."""

    def __init__(self, name: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PEER), name, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.holder = self._read()["holder"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)


def fetch_all(radio: VirtualRadio) -> list[bytes]:
    found = []
    while (heard := radio.fetch(0.05)) is not None:
        found.append(heard.advertisement)
    return found


def test_another_process_hears_it_and_is_heard(opened: Open, air_name: str) -> None:
    peer = Peer(air_name, lat=LAT, lon=LON)
    radio = opened(50.0)
    assert radio.holder == peer.holder
    assert air_name in known()
    radio.advertise(b"\x04\xff\xff\xffx")
    heard = peer.ask(do="fetch", timeout=PATIENCE)
    assert bytes.fromhex(heard["data"]) == b"\x04\xff\xff\xffx"
    assert heard["rssi"] == pytest.approx(8 - 40 - 27 * 1.699, abs=1)
    radio.advertise(None)
    peer.ask(do="advertise", data=bytes(range(100)).hex())
    found = radio.fetch(PATIENCE)
    assert found is not None
    assert found.advertisement == bytes(range(100))
    peer.close()


def test_stepped_time_stands_still_and_every_run_is_the_same(opened: Open) -> None:
    one, other, far = opened(0, stepped=True, seed=5), opened(100), opened(5000)
    one.advertise(b"one")
    other.advertise(b"other")
    assert fetch_all(other) == []
    assert one.advance(10 * SECOND) == 10 * SECOND
    heard = fetch_all(other)
    assert set(heard) == {b"one"}
    assert 85 <= len(heard) <= 100
    assert set(fetch_all(one)) == {b"other"}
    assert fetch_all(far) == []
    far.move(*PLANE.degrees(-100, 0))
    one.advance(SECOND)
    assert b"one" in set(fetch_all(far))
    assert one.status()["sent"] >= 90


def test_the_same_seed_gives_the_same_over_again(air_name: str) -> None:
    def run(name: str) -> list[tuple[bytes, int, int]]:
        lat, lon = PLANE.degrees(80, 0)
        radios = [VirtualRadio(name, LAT, LON, stepped=True, seed=9, loss=0.3), VirtualRadio(name, lat, lon)]
        for radio in radios:
            radio.connect()
        radios[0].advertise(b"again")
        radios[0].advance(5 * SECOND)
        found = []
        while (heard := radios[1].fetch(0.05)) is not None:
            found.append((heard.advertisement, heard.rssi, heard.time))
        for radio in radios:
            radio.shut()
        return found

    first = run(f"{air_name}a")
    assert len(first) > 10
    assert run(f"{air_name}b") == first


def test_loss_can_be_set_for_everybody(opened: Open) -> None:
    one, other = opened(0, stepped=True), opened(10)
    one.set_loss(1.0)
    one.advertise(b"lost")
    one.advance(2 * SECOND)
    assert fetch_all(other) == []
    one.set_loss(0.0)
    one.advance(SECOND)
    assert fetch_all(other)
    with pytest.raises(LocalProtocolError, match="loss"):
        one.set_loss(2.0)


def test_what_is_not_fetched_is_dropped_and_counted(opened: Open) -> None:
    one, other = opened(0, stepped=True, interval=20), opened(10)
    one.advertise(b"many")
    while other.status()["dropped: not fetched"] == 0:
        one.advance(100 * SECOND)
    status = other.status()
    fetched = len(fetch_all(other))
    one.advance(SECOND)  # the next one says how many there were before it
    fetched += len(fetch_all(other))
    status = other.status()
    assert status["heard"] == fetched + status["dropped: not fetched"]
    assert other.counters["dropped: not fetched"] == status["dropped: not fetched"] > 0
    assert fetched > _host.UNFETCHED_MAX


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda radio: radio.advertise(bytes(255)), "255 bytes"),
        (lambda radio: radio.move(900_000_001, 0), "no place on Earth"),
        (lambda radio: radio.advance(1), "real time"),
        (lambda radio: radio._ask({"do": "dance"}), "dance"),
        (lambda radio: radio._ask({}), "do"),
        (lambda radio: radio._ask([1]), "not understood"),
        (lambda radio: radio._ask({"do": "advertise", "data": "xx", "interval": 1, "extended": None}), "hex"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_air_goes_on(opened: Open, call: Any, text: str) -> None:
    radio, other = opened(0), opened(10)
    with pytest.raises(LocalProtocolError, match=text):
        call(radio)
    radio.advertise(b"still here")
    assert other.fetch(PATIENCE) is not None


def test_what_waited_while_the_holder_had_no_turn_is_sent_and_not_only_the_last(opened: Open) -> None:
    one, other = opened(0, interval=20), opened(10)
    os.kill(one.holder, signal.SIGSTOP)
    try:
        for number in range(10):
            request = {"do": "advertise", "data": bytes([number] * 3).hex(), "interval": 20_000, "extended": False}
            one._open_connection().control.sendall(json.dumps({**request, "quiet": True}).encode() + b"\n")
    finally:
        os.kill(one.holder, signal.SIGCONT)
    heard: list[bytes] = []
    while len(set(heard)) < 10:
        found = other.fetch(PATIENCE)
        assert found is not None, heard
        heard.append(found.advertisement)
    assert list(dict.fromkeys(heard)) == [bytes([number] * 3) for number in range(10)]
    with pytest.raises(LocalProtocolError, match="interval"):
        one._ask({"do": "advertise", "data": "00", "interval": 1, "extended": False})


def test_the_record_has_what_labelled_radios_heard(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VICINAL_BLE_RECORD", str(tmp_path / "air.jsonl"))
    one, near, far = opened(0, stepped=True), opened(10, label="near"), opened(5000, label="far")
    nameless = opened(20)
    one.advertise(b"one")
    one.advance(SECOND)
    heard = fetch_all(near)
    assert heard
    assert fetch_all(nameless)
    assert fetch_all(far) == []
    lines = [json.loads(line) for line in (tmp_path / "air.jsonl").read_text().splitlines()]
    assert [(line["to"], bytes.fromhex(line["data"])) for line in lines] == [("near", data) for data in heard]


def test_strangers_on_the_socket_do_no_harm(opened: Open, air_name: str) -> None:
    radio, other = opened(0), opened(10)
    for octets in (b"", b"\n", b"{}\n", b"x" * 5000, b'{"protocol": 7, "stepped": null}\n', b"\xff\xfe\n"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(socket_of("ble", air_name)))
            if octets:
                stranger.sendall(octets)
                stranger.settimeout(PATIENCE)
                assert b"refused" in stranger.recv(1000)
    radio.advertise(b"still here")
    assert other.fetch(PATIENCE) is not None


def test_a_killed_holder_is_an_error_that_says_so_and_a_new_one_comes(opened: Open, air_name: str) -> None:
    radio = opened()
    os.kill(radio.holder, signal.SIGKILL)
    with pytest.raises(RadioError, match="is gone: process"):
        radio.fetch(PATIENCE)
    with pytest.raises(RadioError, match="is gone"):
        radio.advertise(b"nobody")
    again, other = opened(), opened()
    again.advertise(b"anew")
    assert other.fetch(PATIENCE) is not None


def test_a_killed_client_leaves_the_air(opened: Open, air_name: str) -> None:
    radio = opened(0, stepped=True)
    peer = Peer(air_name, lat=LAT, lon=LON)
    peer.ask(do="advertise", data="0102")
    peer.process.kill()
    peer.process.communicate()
    radio.advance(1)
    while True:  # until the holder has seen it go
        radio.advance(SECOND)
        if not fetch_all(radio):
            break


def test_one_name_one_holder(opened: Open, air_name: str) -> None:
    opened()
    command = [sys.executable, "-m", "vicinal_hw.ble.server", air_name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "another process holds it" in done.stderr) == (ALREADY, True)


@pytest.mark.parametrize("options", [["a/b"], ["x", "--loss", "7"], ["x", "--exponent", "0"]])
def test_bad_options_are_named(options: list[str]) -> None:
    command = [sys.executable, "-m", "vicinal_hw.ble.server", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "radio" in done.stderr


def test_time_must_be_agreed_upon(opened: Open, air_name: str) -> None:
    opened(stepped=True)
    with pytest.raises(RadioError, match="stepped time"):
        opened(stepped=False)


def test_events_between_two_shells_in_real_time(air_name: str) -> None:
    async def test() -> None:
        got: list[Event] = []
        members: list[str] = []
        car, office = Node("car", 1), Node("office", 2)
        office.subscribe("Speed", None, lambda event, now: got.append(event))
        office.on_member = lambda what, group, now: members.append(what)
        place = PLANE.degrees(100, 0)
        async with (
            Shell(car, VirtualRadio(air_name, LAT, LON)) as sender,
            Shell(office, VirtualRadio(air_name, *place)) as receiver,
        ):
            sender.set_position(LAT, LON)
            receiver.set_position(*place)
            car.announce("Speed", Proximity.circle(LAT, LON, 500), sender.now())
            car.publish(Event("Speed", [("rate", 57)]), sender.now())
            sender.update()
            async with asyncio.timeout(PATIENCE):
                while not got:
                    await asyncio.sleep(0.01)
        assert [event["rate"] for event in got] == [57]
        assert members == ["joined"]

    asyncio.run(test())


def test_a_shell_says_when_its_radio_is_lost(air_name: str) -> None:
    async def test() -> None:
        radio = VirtualRadio(air_name, LAT, LON)
        async with Shell(Node("car", 1), radio) as shell:
            os.kill(radio.holder, signal.SIGKILL)
            with pytest.raises(RadioError, match="is gone"):
                async with asyncio.timeout(PATIENCE):
                    await shell.failed
        async with Shell(Node("car", 1), VirtualRadio(air_name, LAT, LON)) as shell:
            shell.set_fix(Fix(LAT, LON, speed=11132, heading=0))
            assert (shell.node.position, shell.node.velocity) == ((LAT, LON), (1000, 0))
            shell.set_fix(None)
            assert shell.node.position is None

    asyncio.run(test())
