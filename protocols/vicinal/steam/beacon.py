"""Announcements: where events of a subject are valid, said again and again (spec/steam.md, STEAM-13 to STEAM-20).

    0        version │ tagged │ kind: bit 0 a rectangle, bit 1 relative
    1..3     hash of the subject            4..6   sender
    7        number of the beacon, modulo 256
    8        tenths of a second until the next; 0: this was the last, the announcement is over
    9..16    latitude, longitude of the centre, 1e-7 degrees: where it is now, also of an area that moves
    17..18   radius, or width, in metres    19..20 height of a rectangle

19 or 21 bytes: with the structure around it, and flags before it, 26 or 28 of 31.
"""

from struct import pack, unpack

from .. import limits
from .._compat import const
from ..errors import LimitError, RemoteProtocolError
from ..proximity import CIRCLE, RECTANGLE, Proximity
from .frames import VERSION

__all__ = ["Beacon", "check_area", "read_beacon"]

# Metres in two bytes; a radio of this kind reaches a few hundred.
_MAX_SIZE = const(65535)
UNIT = const(100)
MAX_EVERY = const(25500)

_CIRCLE_BYTES = const(19)
_RECTANGLE_BYTES = const(21)


def check_area(area: Proximity) -> None:
    for size in (area.dimx, area.dimy):
        if size > _MAX_SIZE:
            raise LimitError("size of an announced area", size, f"{_MAX_SIZE} m")


class Beacon:
    """`area` is absolute: where it is now. `relative` says that it will move."""

    __slots__ = ("area", "every", "number", "relative", "sender", "subject")

    def __init__(self, subject: bytes, sender: bytes, number: int, every: int, area: Proximity, relative: bool) -> None:
        self.subject = subject
        self.sender = sender
        self.number = number
        self.every = every
        self.area = area
        self.relative = relative

    def encode(self) -> bytes:
        area = self.area
        head = bytes((VERSION << 5 | (2 if self.relative else 0) | area.shape,)) + self.subject + self.sender
        found = head + pack(">BBiiH", self.number, self.every // UNIT, area.lat, area.lon, area.dimx)
        return found + pack(">H", area.dimy) if area.shape == RECTANGLE else found


def read_beacon(payload: bytes) -> Beacon:
    """Of a frame whose first byte says that it is one."""
    shape = payload[0] & 1
    want = _CIRCLE_BYTES if shape == CIRCLE else _RECTANGLE_BYTES
    if len(payload) != want:
        raise RemoteProtocolError(f"a beacon of {len(payload)} bytes, want {want}", min(len(payload), want))
    lat, lon, dimx = unpack(">iiH", payload[9:19])
    dimy = payload[19] << 8 | payload[20] if shape == RECTANGLE else 1
    if not -limits.MAX_LAT <= lat <= limits.MAX_LAT or not -limits.MAX_LON <= lon <= limits.MAX_LON:
        raise RemoteProtocolError(f"a beacon at {lat}, {lon}", 9)
    if not dimx or not dimy:
        raise RemoteProtocolError("an area without a size", 17 if not dimx else 19)
    area = Proximity(shape, False, lat, lon, dimx, dimy)
    return Beacon(payload[1:4], payload[4:7], payload[7], payload[8] * UNIT, area, payload[0] & 2 != 0)
