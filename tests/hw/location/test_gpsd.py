"""gpsd: what its lines mean, without a socket; then a real gpsd, fed with a drive, killed and started again."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hw.location import conftest
from hw.location.conftest import Process, free_port, program
from hw.location.drive import Second, drive, sentences
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError
from vicinal_hw.location.fix import Fix
from vicinal_hw.location.gpsd import (
    ANSWER,
    FIRST_PAUSE,
    LAST_PAUSE,
    MAX_LINE,
    QUIET,
    Gpsd,
    GpsdError,
    Reports,
    now_ms,
    pause,
)

VERSION = b'{"class":"VERSION","release":"3.22","rev":"3.22","proto_major":3,"proto_minor":14}\n'
TPV = (
    b'{"class":"TPV","device":"/dev/pts/1","mode":3,"time":"2026-03-23T12:00:25.000Z","ept":0.005,"lat":53.344314375,'
    b'"lon":-6.256863375,"altHAE":92.3000,"track":109.4000,"speed":12.810,"eph":17.100}\n'
)
FIX = Fix(533443144, -62568634, 1774267225000, 12810, 10940, 17100)
Start = Callable[[list[str], int], Process]


def tpv(**fields: Any) -> bytes:
    """Values are written into the JSON as they stand."""
    fields = {"class": '"TPV"', "mode": "3", "lat": "1", "lon": "2", **fields}
    return ("{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}\n").encode()


def reports(*data: bytes, now: int = 0) -> Reports:
    found = Reports()
    found.receive_data(VERSION + b"".join(data), now)
    return found


def assert_accounted(found: Reports) -> None:
    counts = dict(found.counters)
    assert counts.pop("lines") == sum(counts.values())


# Lines


def test_a_fix() -> None:
    found = reports(TPV)
    assert found.fix(0) == FIX
    assert found.counters["fixes"] == 1
    assert_accounted(found)


def test_byte_by_byte() -> None:
    found = Reports()
    for byte in VERSION + TPV:
        found.receive_data(bytes([byte]), 0)
    assert found.fix(0) == FIX


def test_gpsd_is_asked_to_tell_once_it_has_said_who_it_is() -> None:
    found = Reports(device="/dev/ttyAMA0")
    assert found.data_to_send() == b""
    found.receive_data(VERSION + VERSION, 0)
    asked = found.data_to_send()
    assert asked.startswith(b"?WATCH=")
    assert asked.endswith(b";\n")
    assert json.loads(asked[7:-2]) == {"enable": True, "json": True, "device": "/dev/ttyAMA0"}
    assert found.data_to_send() == b""


@given(
    st.integers(-(90 * 10**9), 90 * 10**9),
    st.integers(-(180 * 10**9), 180 * 10**9),
    st.integers(0, 10**6),
    st.integers(0, 36000),
)
def test_numbers_are_exact(lat: int, lon: int, speed: int, track: int) -> None:
    def text(value: int, places: int) -> str:
        digits = str(abs(value)).rjust(places + 1, "0")
        return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"

    fix = reports(tpv(lat=text(lat, 9), lon=text(lon, 9), speed=text(speed, 3), track=text(track, 2))).fix(0)
    assert fix is not None
    assert abs(fix.lat - Fraction(lat, 100)) <= Fraction(1, 2)
    assert abs(fix.lon - Fraction(lon, 100)) <= Fraction(1, 2)
    assert (fix.speed, fix.heading) == (speed, track % 36000)


@pytest.mark.parametrize(
    ("text", "lat"),
    [
        # Half of 1e-7, and a little less, which is the same float.
        ("45.00000005", 450000001),
        ("45.0000000499999999999999999999", 450000000),
        ("-45.00000005", -450000001),
        ("-0.0", 0),
        ("1e-7", 1),
        ("4.9E-8", 0),
        ("9.0e+1", 900000000),
        ("9", 90000000),
    ],
)
def test_rounding_and_exponents(text: str, lat: int) -> None:
    fix = reports(tpv(lat=text)).fix(0)
    assert fix is not None
    assert fix.lat == lat


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"mode": "0"}, "no fix"),
        ({"mode": "1"}, "no fix"),
        ({"mode": "null"}, "no fix"),
        ({"status": "8"}, "simulated"),
    ],
)
def test_a_fix_that_is_lost(fields: dict[str, str], counted: str) -> None:
    found = reports(TPV, tpv(**fields))
    assert found.fix(0) is None
    assert found.counters[counted] == 1
    assert_accounted(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"lat": "90.0000001"},
        {"lon": "-180.0000001"},
        {"lat": '"53"'},
        {"lat": "[]"},
        {"lat": "true"},
        {"lat": "1e31"},
        {"lat": "1e-999"},
        {"lat": "0." + "1" * 39},
        {"track": "360.01"},
        {"track": "-1"},
        {"speed": "-0.5"},
        {"speed": "1e20"},
        {"eph": "-1"},
        {"time": '"2026-02-29T12:00:00Z"'},
        {"time": '"today"'},
        {"time": '"1970-01-01T00:00:00+01:00"'},
    ],
)
def test_bad_fields_are_counted_and_change_nothing(fields: dict[str, str]) -> None:
    found = reports(TPV, tpv(**fields))
    assert found.counters["bad field"] == 1
    assert found.fix(0) == FIX
    assert_accounted(found)


@pytest.mark.parametrize(
    "line",
    [b"", b"\xff\xfe", b"{", b"[" * 10000, b"7", b"null", b'{"lat": NaN', b"1" * 5000],
)
def test_lines_that_are_no_reports(line: bytes) -> None:
    found = reports(line + b"\n", TPV)
    assert found.counters["not JSON"] == 1
    assert found.fix(0) == FIX
    assert_accounted(found)


def test_a_line_may_be_so_long() -> None:
    room = MAX_LINE - len(b'{"class":""}')
    found = reports(b'{"class":"' + b"x" * room + b'"}\n', b'{"class":"' + b"x" * (room + 1) + b'"}\n', TPV)
    assert (found.counters["other"], found.counters["too long"]) == (2, 1)
    assert found.fix(0) == FIX
    found.receive_data(b"x" * 10 * MAX_LINE, 0)
    assert len(found._buffer) <= MAX_LINE
    found.receive_data(b"x\n" + TPV, 0)
    assert (found.counters["fixes"], found.counters["too long"]) == (2, 2)
    assert_accounted(found)


@given(st.lists(st.binary(max_size=60) | st.just(TPV) | st.just(TPV[:-40] + b"\n"), max_size=8), st.data())
def test_any_bytes_in_any_pieces(chunks: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(chunks)
    whole, pieces = reports(stream), reports()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        pieces.receive_data(stream[:size], 0)
        stream = stream[size:]
    assert pieces.counters == whole.counters
    assert pieces.fix(0) == whole.fix(0)
    assert_accounted(whole)


@pytest.mark.parametrize("track", ["360", "360.000", "359.995", "0"])
def test_north(track: str) -> None:
    assert reports(tpv(track=track)).fix(0) == Fix(10000000, 20000000, heading=0)


def test_accuracy_of_an_older_gpsd() -> None:
    fix = reports(tpv(epx="3.5", epy="12.25")).fix(0)
    assert fix == Fix(10000000, 20000000, accuracy=12250)


def test_a_stranger_is_named() -> None:
    found = Reports()
    found.receive_data(b"SSH-2.0-x\r\nmore\n", 0)
    assert found.problem == "what is there is not gpsd: it began with b'SSH-2.0-x\\r'"
    assert found.counters["not gpsd"] == found.counters["lines"] == 1
    assert found.data_to_send() == b""


def test_staleness() -> None:
    found = reports(TPV, now=1000)
    assert found.fix(6000) == FIX
    assert found.fix(6001) is None


def test_silence() -> None:
    found = reports(now=1000)
    found.data_to_send()
    assert found.next_timeout() == 1000 + QUIET
    found.handle_timeout(999 + QUIET)
    assert found.data_to_send() == b""
    found.handle_timeout(1000 + QUIET)
    assert found.data_to_send() == b"?VERSION;\n"
    found.receive_data(VERSION, 5000 + QUIET)
    assert found.next_timeout() == 5000 + 2 * QUIET
    found.handle_timeout(5000 + 2 * QUIET)
    found.receive_data(b"half a line does not count", 5000 + 2 * QUIET)
    assert found.problem is None
    found.handle_timeout(5000 + 2 * QUIET + ANSWER)
    assert found.problem == "it has said nothing for 20 s"
    found.begin(90000)
    assert (found.problem, found.is_gpsd, found.next_timeout()) == (None, False, 90000 + QUIET)


def test_somebody_who_never_says_who_he_is() -> None:
    found = Reports()
    found.handle_timeout(QUIET)
    assert found.problem == "it has said nothing for 10 s"


def test_pauses() -> None:
    pauses = [pause(failures) for failures in range(1, 100)]
    assert pauses[0] == FIRST_PAUSE
    assert pauses[-1] == LAST_PAUSE
    assert all(b == min(2 * a, LAST_PAUSE) for a, b in pairwise(pauses))


# The shell


async def until(what: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)


def run(main: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await main

    asyncio.run(bounded())


def test_no_gpsd_is_said_clearly() -> None:
    async def main() -> None:
        port = free_port()
        with pytest.raises(GpsdError, match=rf"no gpsd at 127.0.0.1 port {port}: Connection refused. Is it running?"):
            async with Gpsd(port=port):
                pass

    run(main())


def test_a_port_that_is_none() -> None:
    with pytest.raises(LimitError, match="port is 0, the limit is 1"):
        Gpsd(port=0)


def test_a_server_that_is_not_gpsd() -> None:
    async def main() -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example ESMTP\r\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(GpsdError, match="not gpsd: it began with b'220 mail"):
                async with Gpsd(port=port):
                    pass

    run(main())


def write_track(path: Path, track: list[Second]) -> None:
    path.write_bytes("".join(map(sentences, track)).encode())


def assert_right(fix: Fix, truth: dict[int, Second]) -> None:
    assert fix.time is not None
    second = truth[fix.time]
    lat, lon = second.position
    assert abs(fix.lat - lat) <= 1, (fix, second)
    assert abs(fix.lon - lon) <= 1, (fix, second)


def test_without_gpsd_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "SBIN", "/nowhere")
    monkeypatch.setenv("CI", "false")
    with pytest.raises(pytest.skip.Exception, match=r"gpsd is not there\. As root on Debian: apt-get install"):
        program("gpsd")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="gpsd is not there"):
        program("gpsd")


def test_gpsfake_drives_gpsd(start: Start, tmp_path: Path) -> None:
    """Every position within 1e-7 degrees of its sentence, and the speed and heading of it."""
    command = [program("gpsfake"), "-c", "0.01", "-q"]
    program("gpsd")
    track = list(drive(120))
    write_track(tmp_path / "drive.nmea", track)
    truth = {second.time: second for second in track}

    async def main() -> None:
        port = free_port()
        start([*command, "-P", str(port), str(tmp_path / "drive.nmea")], port)
        seen: dict[int, Fix] = {}
        async with Gpsd(port=port, required=False) as location:

            def look() -> bool:
                fix = location.fix(now_ms())
                if fix is not None and fix.time is not None:
                    seen[fix.time] = fix
                return len(seen) >= 60

            async with asyncio.timeout(60):
                while not look():
                    await asyncio.sleep(0.005)
            assert location.counters["bad field"] == location.counters["not JSON"] == 0
        whole = 0
        for fix in seen.values():
            assert_right(fix, truth)
            if fix.speed is not None and fix.heading is not None:
                second = truth[fix.time or 0]
                whole += 1
                assert abs(fix.speed - Fraction(second.knots * 1852, 3600)) <= 2
                assert abs(fix.heading - second.heading) in (0, 1, 35999)
        assert whole > 50

    run(main())


def test_gpsd_is_killed_and_comes_back(start: Start) -> None:
    """gpsd takes its sentences from a TCP port of ours, once in 20 ms."""
    gpsd = program("gpsd")
    track = list(drive(1000, seed=2))
    truth = {second.time: second for second in track}

    async def main() -> None:
        place = 0

        async def feed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal place
            try:
                while True:
                    writer.write(sentences(track[place % len(track)]).encode())
                    place += 1
                    await writer.drain()
                    await asyncio.sleep(0.02)
            except OSError:
                writer.close()

        def start_gpsd() -> Process:
            return start([gpsd, "-N", "-n", "-b", "-S", str(port), f"tcp://127.0.0.1:{source}"], port)

        port = free_port()
        async with await asyncio.start_server(feed, "127.0.0.1", 0) as server:
            source = server.sockets[0].getsockname()[1]
            async with Gpsd(port=port, required=False) as location:

                def has_fix() -> bool:
                    fix = location.fix(now_ms())
                    if fix is None or fix.time is None:
                        return False
                    assert_right(fix, truth)
                    return True

                await until(lambda: location.trouble)
                assert "Connection refused" in str(location.trouble)
                for connections in (1, 2, 3):
                    process = start_gpsd()
                    await until(lambda: location.connections == connections)  # noqa: B023
                    assert location.trouble is None
                    before = location.counters["fixes"]
                    await until(lambda: location.counters["fixes"] > before + 3 and has_fix())  # noqa: B023
                    process.kill()
                    await until(lambda: location.trouble)
                    # Nobody tells any more: by the clock of whoever asks it is stale.
                    assert location.fix(now_ms() + location.max_age + 1) is None

    run(main())
