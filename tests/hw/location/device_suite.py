"""Location on either interpreter: python device_suite.py vectors.json [POSITIONS], micropython the same.

A vector is what comes in on the wire (one character a byte), the fix there is at the end of it, and how it was counted.
The port is a fake of machine.UART, made after its documentation.
"""

import json
import sys

from vicinal.errors import VicinalError
from vicinal_hw.location.fix import Fix
from vicinal_hw.location.fixed import Fixed
from vicinal_hw.location.nmea import MAX_SENTENCE, Nmea
from vicinal_hw.location.track import Track
from vicinal_hw.location.uart import AT_ONCE, Uart

COUNTED_ONCE = [name for name in Nmea().counters if name not in ("started", "noise bytes")]


def sentence(body):
    total = 0
    for byte in body.encode():
        total ^= byte
    return f"${body}*{total:02X}\r\n".encode()


def rmc(clock, minutes="20.0", status="A", date="230326"):
    return sentence(f"GPRMC,{clock},{status},53{minutes},N,00615.0,W,10.0,90.0,{date},,,A")


def as_list(fix):
    return fix and [fix.lat, fix.lon, fix.time, fix.speed, fix.heading, fix.accuracy]


def check(vector, pieces):
    nmea = Nmea()
    data = bytes([ord(character) for character in vector["text"]])
    for start in range(0, len(data), pieces):
        nmea.receive_data(data[start : start + pieces], 1000)
    assert as_list(nmea.fix(1000)) == vector["fix"], (vector["name"], as_list(nmea.fix(1000)), vector["fix"])
    counted = {name: count for name, count in nmea.counters.items() if count and name != "started"}
    wanted = {name: count for name, count in vector["counters"].items() if count}
    assert counted == wanted, (vector["name"], counted, wanted)
    assert_accounted(nmea)


def assert_accounted(nmea):
    open_now = nmea.counters["started"] - sum([nmea.counters[name] for name in COUNTED_ONCE])
    assert open_now in (0, 1), nmea.counters


def test_vectors(vectors):
    for vector in vectors:
        check(vector, 1)
        check(vector, 7)
        check(vector, 100000)


def test_a_fix_goes_stale_by_the_callers_clock():
    nmea = Nmea(max_age=3000)
    nmea.receive_data(rmc("120000"), 50000)
    assert nmea.fix(53000) is not None
    assert nmea.fix(53001) is None
    assert nmea.fix(50000) is None  # gone is gone
    nmea.receive_data(rmc("120004"), 54000)
    assert nmea.fix(54000) is not None


def test_what_repeats_itself_goes_stale_too():
    """A receiver that hangs at one time, or tells only its speed, does not keep a position alive."""
    nmea = Nmea(max_age=3000)
    for now in range(0, 6000, 500):
        nmea.receive_data(rmc("120000"), now)
        nmea.receive_data(sentence("GPVTG,84.4,T,,M,22.4,N,,K,A"), now)
        assert (nmea.fix(now) is not None) == (now <= 3000), now


def test_epochs():
    nmea = Nmea()
    seen = []
    for data in (
        rmc("120000"),
        sentence("GPGGA,120000.000,5320.0,N,00615.0,W,1,8,1.0,,,,,,"),
        rmc("120001"),
        rmc("120002", status="V"),
    ):
        nmea.receive_data(data, 0)
        seen.append(nmea.epoch)
    assert seen == [1, 1, 2, 3]


def test_a_day_that_nobody_counted():
    """After half a day of silence a GGA has no date until an RMC has told it."""
    nmea = Nmea()
    nmea.receive_data(rmc("120000"), 0)
    gga = sentence("GPGGA,130000,5320.0,N,00615.0,W,1,8,1.0,,,,,,")
    nmea.receive_data(gga, 43200001)
    assert nmea.fix(43200001).time is None
    nmea.receive_data(rmc("130000", date="240326"), 43200001)
    assert nmea.fix(43200001).time == 1774357200000


def test_memory_is_bounded():
    nmea = Nmea()
    nmea.receive_data(b"$" + b"x" * 5000, 0)
    assert len(nmea._line) == MAX_SENTENCE
    assert nmea.counters["too long"] == 1


class FakePort:
    """A fake of machine.UART with timeout=0."""

    def __init__(self):
        self.waiting = b""

    def any(self):
        return len(self.waiting)

    def readinto(self, into, count):
        if not self.waiting:
            return None
        count = min(count, len(self.waiting))
        into[:count] = self.waiting[:count]
        self.waiting = self.waiting[count:]
        return count


def test_a_receiver_on_a_port():
    port = FakePort()
    location = Uart(port, 3000)
    assert not location.service(0)
    assert location.fix(0) is None
    port.waiting = b"".join([rmc(f"12000{second}", f"20.{second}") for second in range(9)])
    turns = 1
    size = len(port.waiting)
    while location.service(1000):
        turns += 1
        assert len(port.waiting) % AT_ONCE == size % AT_ONCE
    assert turns == -(-size // AT_ONCE)
    assert as_list(location.fix(1000)) == [533466667, -62500000, 1774267208000, 5144, 9000, None]
    assert location.fix(4001) is None


def test_a_port_that_has_less_than_it_said():
    class Liar(FakePort):
        def any(self):
            return 5

    assert not Uart(Liar()).service(0)


def test_a_fixed_place():
    location = Fixed(533438000, -62546000, 10)
    assert as_list(location.fix(0)) == as_list(location.fix(10**15)) == [533438000, -62546000, None, 0, None, 10]


def test_what_no_fix_is():
    good = {"lat": 0, "lon": 0}
    for wrong in (
        {"lat": 900000001},
        {"lat": -900000001},
        {"lon": 1800000001},
        {"lon": -1800000001},
        {"lat": 1.0},
        {"lat": True},
        {"lat": None},
        {"heading": 36000},
        {"heading": -1},
        {"speed": -1},
        {"accuracy": 0.5},
        {"time": -1},
    ):
        options = dict(good)
        options.update(wrong)
        try:
            said = str(Fix(**options))
        except VicinalError as error:
            said = str(error)
        for name in wrong:
            assert f" is {wrong[name]!r}, the limit is " in said, (wrong, said)
    assert Fix(1, 2, 3) == Fix(1, 2, 3) != Fix(1, 2, 4)
    assert len({Fix(1, 2, 3), Fix(1, 2, 3)}) == 1


def test_how_fast_in_degrees():
    assert Fix(0, 0).velocity is Fix(0, 0, speed=5).velocity is Fix(0, 0, heading=5).velocity is None
    assert Fix(0, 0, speed=11132, heading=0).velocity == (1000, 0)
    assert Fix(600000000, 0, speed=11132, heading=27000).velocity == (0, -2000)


def test_a_track():
    track = Track([Fix(0, 0, 10000, 1000, 35900), Fix(100, -50, 11000, 2000, 100)], 500000)
    assert track.fix(499999) is None
    assert as_list(track.fix(500000)) == [0, 0, 10000, 1000, 35900, None]
    assert as_list(track.fix(500250)) == [25, -13, 10250, 1250, 35950, None]
    assert as_list(track.fix(500500)) == [50, -25, 10500, 1500, 0, None]
    assert as_list(track.fix(506000)) == [100, -50, 11000, 2000, 100, None]
    assert track.fix(506001) is None
    assert track.ends() == 501000


def random_sentences(path):
    """Lines of: sentence without $ and checksum, lat, lon; as the test on CPython worked them out with fractions."""
    count = 0
    with open(path) as file:  # noqa: PTH123 - MicroPython has no pathlib
        for line in file:
            body, lat, lon = line.split()
            nmea = Nmea()
            nmea.receive_data(sentence(body), 0)
            fix = nmea.fix(0)
            assert as_list(fix)[:2] == [int(lat), int(lon)], (line, fix)
            count += 1
    print(f"{count} positions right")


def main(arguments):
    with open(arguments[0]) as file:  # noqa: PTH123
        vectors = json.load(file)
    failed = 0
    names = [name for name in sorted(globals()) if name.startswith("test_")]
    for name in names:
        try:
            if name == "test_vectors":
                test_vectors(vectors)
            else:
                globals()[name]()
        except Exception as error:
            failed += 1
            print("FAILED", name, repr(error))
            if hasattr(sys, "print_exception"):
                sys.print_exception(error)
    if len(arguments) > 1:
        random_sentences(arguments[1])
    print(f"{len(names) - failed} passed, {failed} failed")


if __name__ == "__main__":
    main(sys.argv[1:])
