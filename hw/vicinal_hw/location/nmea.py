"""NMEA 0183, the sentences of every receiver on a wire, in integers. Runs on MicroPython.

    $GPRMC,123519.00,A,5320.6280123,N,00615.2760000,W,22.4,84.4,230326,,,A*4F <CR><LF>
     ││└ sentence                                                          └ XOR of all between $ and *
     └┴─ talker: GP, GL, GA, GN ...: any. P is a maker's own ($PGRMC is no RMC), and passed over

    RMC   time, A|V, position, knots, course, date, mode       the only one with a date
    GGA   time, position, quality, satellites, HDOP
    GNS   time, position, a mode for each system, satellites, HDOP
    VTG   course, knots, km/h, mode                            no time: it goes with the time before it

Sentences of the same time of day make one fix: it is there with the first that has a position, and gains speed, heading
and accuracy with the others. Any of them may say void, and then there is no fix until the time changes.

How numbers become integers:

    position   (degrees * 60 + minutes) / 60 to the nearest 1e-7 degree, halves away from zero: off by 0.5e-7 at most
    speed      knots * 1852 / 3600 to the nearest mm/s (km/h if there are no knots)
    heading    to the nearest 1/100 degree; 360 is 0
    time       cut to milliseconds. Years 80 to 99 are 1980 to 1999, and 00 to 79 are 2000 to 2079
    accuracy   HDOP * 5 m, which is a guess: what receivers in the open have beside a perfect sky is about that

What is wrong on a wire is counted, never raised. Every `$` ends as one count:

    started = used + other + void + no position + no checksum + bad checksum + bad field
              + too long + cut short + not text + (1 while one is being received)
"""

from ._numbers import DAY, days_of, decimal, nearest, whole
from .fix import MAX_AGE, TURN, Fix, Latest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_SENTENCE", "Nmea"]

# The standard says 82 with $ and CR LF, receivers that give seven decimals of minutes say more. Beyond it is noise.
MAX_SENTENCE = 128
# mm/s: receivers for civilians end at 515 m/s.
MAX_SPEED = 1000000
# In hundredths. Receivers say 99.99 when they do not know.
_MAX_HDOP = 9998
_MM_PER_HDOP = 5000

# Autonomous, differential, estimated (by wheels, in a tunnel), float, precise, real-time kinematic; not N (none),
# M (typed in), S (simulated). And the same as digits.
_MEASURED = b"ADEFPR"
_QUALITY = b"123456"
# Millimetres: what one knot and one km/h make in an hour.
_KNOT = 1852000
_KM = 1000000
_HEX = b"0123456789ABCDEF"


class _Wrong(Exception):
    """A field that is not what it should be; does not leave this module."""


class Nmea(Latest):
    """receive_data() as it comes, in pieces of any size; fix(now) whenever it is wanted."""

    def __init__(self, max_age: int = MAX_AGE) -> None:
        super().__init__(max_age)
        self.counters = {
            "started": 0,
            "used": 0,
            "other": 0,
            "void": 0,
            "no position": 0,
            "no checksum": 0,
            "bad checksum": 0,
            "bad field": 0,
            "too long": 0,
            "cut short": 0,
            "not text": 0,
            "noise bytes": 0,
        }
        self.epoch = 0
        """goes up when the receiver's time changes, so once for each fix it tells of"""
        self._line = bytearray(MAX_SENTENCE)
        self._size = -1  # -1 outside of a sentence
        self._day = -1  # days since 1970, -1 before the first RMC
        self._clock: int | None = None  # the time of day of this epoch, in ms
        self._since = 0
        self._void = False
        self._forget()

    def _forget(self) -> None:
        self._place: tuple[int, int] | None = None
        self._speed: int | None = None
        self._heading: int | None = None
        self._accuracy: int | None = None

    def receive_data(self, data: "Iterable[int]", now: int) -> None:
        """`data` is bytes, or anything that gives bytes."""
        for byte in data:
            size = self._size
            if byte == 0x24:
                if size >= 0:
                    self.counters["cut short"] += 1
                self.counters["started"] += 1
                self._size = 0
            elif byte == 0x0D or byte == 0x0A:
                if size >= 0:
                    self._size = -1
                    self.counters[self._sentence(bytes(self._line[:size]), now)] += 1
            elif size < 0:
                self.counters["noise bytes"] += 1
            elif not 0x20 <= byte <= 0x7E:
                self._size = -1
                self.counters["not text"] += 1
            elif size == MAX_SENTENCE:
                self._size = -1
                self.counters["too long"] += 1
            else:
                self._line[size] = byte
                self._size = size + 1

    # Sentences: each is read to its end before it changes anything, and says how it is counted.

    def _sentence(self, line: bytes, now: int) -> str:
        star = line.find(b"*")
        if star < 0:
            return "no checksum"
        total = 0
        for byte in line[:star]:
            total ^= byte
        if line[star + 1 :].upper() != bytes([_HEX[total >> 4], _HEX[total & 15]]):
            return "bad checksum"
        fields = line[:star].split(b",")
        address = fields[0]
        kind = address[2:]
        if len(address) != 5 or address[:1] == b"P":
            return "other"
        try:
            if kind == b"RMC":
                return self._rmc(fields, now)
            if kind == b"GGA":
                return self._gga(fields, _QUALITY, now)
            if kind == b"GNS":
                return self._gga(fields, _MEASURED, now)
            if kind == b"VTG":
                return self._vtg(fields)
        except _Wrong:
            return "bad field"
        return "other"

    def _rmc(self, fields: "list[bytes]", now: int) -> str:
        _want(len(fields) >= 10 and fields[2] in (b"A", b"V"))
        clock = _time_of_day(fields[1])
        day = _date(fields[9])
        place = _place(fields[3:7])
        speed = _speed(fields[7], _KNOT)
        heading = _heading(fields[8])
        if fields[2] == b"V" or (len(fields) > 12 and fields[12] and not _any(fields[12], _MEASURED)):
            return self._lose(clock, day, now)
        if clock is None or place is None:
            return "no position"
        self._enter(clock, day, now)
        self._place = place
        self._speed = speed
        self._heading = heading
        self._tell()
        return "used"

    def _gga(self, fields: "list[bytes]", good: bytes, now: int) -> str:
        """GNS, too: a letter for each system instead of a digit. After the GNS of all systems together there is one of
        each system that repeats neither mode nor position."""
        _want(len(fields) >= 9)
        clock = _time_of_day(fields[1])
        place = _place(fields[2:6])
        accuracy = _accuracy(fields[8])
        if fields[6] and not _any(fields[6], good):
            return self._lose(clock, -1, now)
        if not fields[6] or clock is None or place is None:
            return "no position"
        self._enter(clock, -1, now)
        self._place = place
        self._accuracy = accuracy
        self._tell()
        return "used"

    def _vtg(self, fields: "list[bytes]") -> str:
        _want(len(fields) >= 9)
        heading = _heading(fields[1])
        speed = _speed(fields[5], _KNOT)
        if speed is None:
            speed = _speed(fields[7], _KM)
        if len(fields) > 9 and fields[9] and not _any(fields[9], _MEASURED):
            return "void"
        if self._place is None:
            return "no position"
        self._speed = speed
        self._heading = heading
        self._tell()
        return "used"

    # Epochs

    def _enter(self, clock: int, day: int, now: int) -> None:
        before = self._clock
        if clock != before:
            if now - self._since > DAY // 2:
                self._day = -1  # nobody knows how many midnights that were
            elif self._day >= 0 and before is not None and before - clock > DAY // 2:
                self._day += 1
            self._clock = clock
            self._since = now
            self._void = False
            self._forget()
            self.epoch += 1
        if day >= 0:
            self._day = day

    def _lose(self, clock: "int | None", day: int, now: int) -> str:
        if clock is not None:
            self._enter(clock, day, now)
        self._void = True
        self._forget()
        self._hear(None, now)
        return "void"

    def _tell(self) -> None:
        """Age counts from the first sentence of the epoch: a VTG that goes on alone keeps no position alive."""
        if self._void or self._place is None or self._clock is None:
            return
        time = self._day * DAY + self._clock if self._day >= 0 else None
        lat, lon = self._place
        self._hear(Fix(lat, lon, time, self._speed, self._heading, self._accuracy), self._since)


# Fields: None is empty, where a receiver may leave a field empty.


def _want(good: bool) -> None:
    if not good:
        raise _Wrong


def _any(text: bytes, letters: bytes) -> bool:
    return any(byte in letters for byte in text)


def _time_of_day(text: bytes) -> "int | None":
    """hhmmss.sss; 60 is a leap second."""
    if not text:
        return None
    hours, minutes, rest = whole(text[:2]), whole(text[2:4]), text[4:]
    seconds, scale = decimal(rest)
    _want(0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61 * scale and _two_digits(rest))
    return (hours * 60 + minutes) * 60000 + seconds * 1000 // scale


def _two_digits(number: bytes) -> bool:
    """before the point"""
    point = number.find(b".")
    return (len(number) if point < 0 else point) == 2


def _date(text: bytes) -> int:
    """ddmmyy as days since 1970, -1 if empty."""
    if not text:
        return -1
    year = whole(text[4:])
    _want(len(text) == 6 and year >= 0)
    days = days_of(year + (1900 if year >= 80 else 2000), whole(text[2:4]), whole(text[:2]))
    _want(days >= 0)
    return days


def _place(fields: "list[bytes]") -> "tuple[int, int] | None":
    if not (fields[0] or fields[2]):
        return None
    return _angle(fields[0], fields[1], 2, b"NS", 90), _angle(fields[2], fields[3], 3, b"EW", 180)


def _angle(text: bytes, side: bytes, digits: int, sides: bytes, most: int) -> int:
    """ddmm.mmmm or dddmm.mmmm"""
    degrees, rest = whole(text[:digits]), text[digits:]
    minutes, scale = decimal(rest)
    _want(degrees >= 0 and 0 <= minutes < 60 * scale and _two_digits(rest))
    _want(degrees * 60 * scale + minutes <= most * 60 * scale)
    _want(len(side) == 1 and side in sides)
    found = nearest((degrees * 60 * scale + minutes) * 10000000, 60 * scale)
    return -found if side == sides[1:] else found


def _speed(text: bytes, an_hour: int) -> "int | None":
    if not text:
        return None
    number, scale = decimal(text)
    found = nearest(number * an_hour, 3600 * scale)
    _want(number >= 0 and found <= MAX_SPEED)
    return found


def _heading(text: bytes) -> "int | None":
    if not text:
        return None
    number, scale = decimal(text)
    _want(0 <= number <= 360 * scale)
    return nearest(number * 100, scale) % TURN


def _accuracy(text: bytes) -> "int | None":
    if not text:
        return None
    number, scale = decimal(text)
    _want(number >= 0)
    hundredths = nearest(number * 100, scale)
    return hundredths * _MM_PER_HDOP // 100 if hundredths <= _MAX_HDOP else None
