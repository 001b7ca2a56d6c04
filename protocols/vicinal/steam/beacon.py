"""Announcements: where events of a subject are valid, said again and again (spec/steam.md, STEAM-13 to STEAM-20).

    0        version │ tagged │ kind: bit 0 a rectangle, bit 1 relative
    1..3     hash of the subject            4..6   sender
    7        number of the beacon, modulo 256
    8        tenths of a second until the next; 0: this was the last, the announcement is over
    9..16    latitude, longitude of the centre, 1e-7 degrees: where it is now, also of an area that moves
    17..18   radius, or width, in metres    19..20 height of a rectangle
    then     of a relative one its velocity to the north and to the east, a signed byte each: see motion.py

19 to 23 bytes: with the structure around it, and flags before it, 26 to 30 of 31.
"""

from struct import pack, unpack

from .. import limits
from .._compat import const
from ..errors import LimitError, RemoteProtocolError
from ..proximity import RECTANGLE, Proximity
from .frames import VERSION

__all__ = ["Beacon", "check_area", "read_beacon"]

# Metres in two bytes; a radio of this kind reaches a few hundred.
_MAX_SIZE = const(65535)
UNIT = const(100)
MAX_EVERY = const(25500)

_CIRCLE_BYTES = const(19)
_SPEED_UNIT = const(64)  # motion.UNIT


def check_area(area: Proximity) -> None:
    for size in (area.dimx, area.dimy):
        if size > _MAX_SIZE:
            raise LimitError("size of an announced area", size, f"{_MAX_SIZE} m")


class Beacon:
    """`area` is absolute: where it is now. `relative` says that it will move, and `velocity` how: to the north and to
    the east, in 1e-7 degrees a second and steps of 64."""

    __slots__ = ("area", "every", "number", "relative", "sender", "subject", "velocity")

    def __init__(
        self,
        subject: bytes,
        sender: bytes,
        number: int,
        every: int,
        area: Proximity,
        relative: bool,
        velocity: "tuple[int, int]" = (0, 0),
    ) -> None:
        self.subject = subject
        self.sender = sender
        self.number = number
        self.every = every
        self.area = area
        self.relative = relative
        self.velocity = velocity

    def encode(self) -> bytes:
        area = self.area
        head = bytes((VERSION << 5 | (2 if self.relative else 0) | area.shape,)) + self.subject + self.sender
        found = head + pack(">BBiiH", self.number, self.every // UNIT, area.lat, area.lon, area.dimx)
        if area.shape == RECTANGLE:
            found += pack(">H", area.dimy)
        if self.relative:
            found += pack(">bb", self.velocity[0] // _SPEED_UNIT, self.velocity[1] // _SPEED_UNIT)
        return found


def read_beacon(payload: bytes) -> Beacon:
    """Of a frame whose first byte says that it is one."""
    shape = payload[0] & 1
    relative = payload[0] & 2
    want = _CIRCLE_BYTES + 2 * shape + relative  # two bytes more for either
    if len(payload) != want:
        raise RemoteProtocolError(f"a beacon of {len(payload)} bytes, want {want}", min(len(payload), want))
    lat, lon, dimx = unpack(">iiH", payload[9:19])
    dimy = payload[19] << 8 | payload[20] if shape == RECTANGLE else 1
    if not -limits.MAX_LAT <= lat <= limits.MAX_LAT or not -limits.MAX_LON <= lon <= limits.MAX_LON:
        raise RemoteProtocolError(f"a beacon at {lat}, {lon}", 9)
    if not dimx or not dimy:
        raise RemoteProtocolError("an area without a size", 17 if not dimx else 19)
    area = Proximity(shape, False, lat, lon, dimx, dimy)
    found = Beacon(payload[1:4], payload[4:7], payload[7], payload[8] * UNIT, area, relative != 0)
    if relative:
        north, east = unpack(">bb", payload[want - 2 :])
        found.velocity = (north * _SPEED_UNIT, east * _SPEED_UNIT)
    return found
