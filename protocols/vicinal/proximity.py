"""Where an event is valid: circles and rectangles on the Earth (STEAM; seed 001, 5.2.3).

An absolute area lies at `lat`, `lon`. A relative one moves with its producer: `lat`, `lon` are then its offset
from the producer, usually 0, 0, and `at(lat, lon)` says where it is now. The point is the centre of either shape; a
rectangle is `dimx` metres from west to east and `dimy` from south to north (seed 001 leaves both open: ours).

The string form is the dissertation's, in degrees and metres:

    "0, 0, 53.3438, -6.2546, 500"            type 0 circle,    sub-type 0 absolute
    "1, 1, 0, 0, 200, 50"                    type 1 rectangle, sub-type 1 relative

Distance. Positions are integers in 1e-7 degrees, so the difference of two positions is exact even where a float
has 24 bits; only the difference becomes a float. It is then scaled by the two radii of curvature of WGS 84 at the
middle latitude, in Gauss's mid-latitude form, which on a sphere is an identity and on the ellipsoid is within
centimetres over 100 km:

    east  = 2 N cos(lat_m) sin(dlon/2)
    north = 2 M sin(dlat/2) cos(dlon/2)
    chord = sqrt(east^2 + north^2),  distance = the arc over that chord

Strings, and areas against areas, are in _areas.py: a node that only asks whether it is inside does not load them.
"""

import math

from . import limits
from .errors import LimitError, LocalProtocolError

__all__ = ["CIRCLE", "RECTANGLE", "Proximity", "distance"]

CIRCLE = 0
RECTANGLE = 1

_A = 6378137.0  # WGS 84: equatorial radius in metres, and the first eccentricity squared
_E2 = 0.00669437999014
_MEAN_RADIUS = 6371009.0
_RADIAN = 1.7453292519943296e-9  # of 1e-7 degree
_TURN = 3600000000

# The one place where an integer becomes a float, so that a test can make it a 32-bit one.
_float = float


class Proximity:
    __slots__ = ("dimx", "dimy", "lat", "lon", "relative", "shape")

    def __init__(self, shape: int, relative: bool, lat: int, lon: int, dimx: int, dimy: int = 0) -> None:
        """`dimx` is a circle's radius or a rectangle's width; `dimy` is a rectangle's height."""
        if type(shape) is not int or shape not in (CIRCLE, RECTANGLE):
            raise LocalProtocolError(f"proximity type is {shape!r}, want 0 (circle) or 1 (rectangle)")
        _check_position(lat, lon)
        sizes = (dimx, dimy) if shape == RECTANGLE else (dimx,)
        for size in sizes:
            if type(size) is not int or not 1 <= size <= limits.MAX_METRES:
                raise LimitError("proximity size", repr(size), f"1 .. {limits.MAX_METRES} whole metres")
        self.shape = shape
        self.relative = bool(relative)
        self.lat = lat
        self.lon = lon
        self.dimx = dimx
        self.dimy = dimy if shape == RECTANGLE else 0

    @classmethod
    def circle(cls, lat: int, lon: int, radius: int, relative: bool = False) -> "Proximity":
        return cls(CIRCLE, relative, lat, lon, radius)

    @classmethod
    def rectangle(cls, lat: int, lon: int, dimx: int, dimy: int, relative: bool = False) -> "Proximity":
        return cls(RECTANGLE, relative, lat, lon, dimx, dimy)

    @classmethod
    def parse(cls, text: str) -> "Proximity":
        from ._areas import parse

        return parse(text)

    @classmethod
    def from_fields(cls, fields: "list[int]") -> "Proximity":
        """From the integers of the wire form; see `fields`."""
        if (
            len(fields) != (6 if fields[:1] == [RECTANGLE] else 5)
            or type(fields[1]) is not int
            or fields[1] not in (0, 1)
        ):
            raise LocalProtocolError(f"proximity {fields!r} is no circle and no rectangle")
        return cls(fields[0], fields[1] == 1, *fields[2:])

    def __str__(self) -> str:
        from ._areas import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"Proximity.parse({str(self)!r})"

    def fields(self) -> "tuple[int, ...]":
        """The integers of the wire form: type, sub-type, lat, lon, radius or dimx, dimy."""
        head = (self.shape, int(self.relative), self.lat, self.lon, self.dimx)
        return head if self.shape == CIRCLE else head + (self.dimy,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proximity) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def at(self, lat: int, lon: int) -> "Proximity":
        """The absolute area while the producer is at `lat`, `lon`. An absolute area stays where it is."""
        if not self.relative:
            return self
        return Proximity(
            self.shape,
            False,
            max(-limits.MAX_LAT, min(limits.MAX_LAT, self.lat + lat)),
            _wrap(self.lon + lon),
            self.dimx,
            self.dimy,
        )

    def contains(self, lat: int, lon: int) -> bool:
        """Whether the point lies inside or on the edge."""
        self._want_absolute()
        if self.shape == CIRCLE:
            return distance(self.lat, self.lon, lat, lon) <= self.dimx
        east, north = _offset(self.lat, self.lon, lat, lon)
        return abs(east) * 2 <= self.dimx and abs(north) * 2 <= self.dimy

    def covers(self, other: "Proximity") -> bool:
        """Whether every point of `other` is inside. Exact for circles; up to the flatness of the Earth else."""
        from ._areas import covers

        return covers(self, other)

    def overlaps(self, other: "Proximity") -> bool:
        """Whether some point is in both."""
        from ._areas import overlaps

        return overlaps(self, other)

    def _want_absolute(self) -> None:
        if self.relative:
            raise LocalProtocolError(f"proximity {str(self)!r} is relative: use at(lat, lon) of its producer first")


def distance(lat1: int, lon1: int, lat2: int, lon2: int) -> float:
    """Metres between two positions in 1e-7 degrees: within 0.5 m to 100 km, within 1 % to 10,000 km, within
    4 % anywhere."""
    east, north = _offset(lat1, lon1, lat2, lon2)
    half = math.sqrt(east * east + north * north) / (2 * _MEAN_RADIUS)
    # The arc over the chord. The series is exact to float precision below 1,000 km and keeps 32-bit floats good.
    if half < 0.08:
        square = half * half
        return 2 * _MEAN_RADIUS * half * (1 + square / 6 + square * square * 3 / 40)
    return 2 * _MEAN_RADIUS * math.asin(min(1.0, half))


def _offset(lat1: int, lon1: int, lat2: int, lon2: int) -> "tuple[float, float]":
    """Chord components, east and north, in metres."""
    middle = _float((lat1 + lat2) // 2) * _RADIAN
    half_lat = _float(lat2 - lat1) * (_RADIAN / 2)
    half_lon = _float(_wrap(lon2 - lon1)) * (_RADIAN / 2)
    sine = math.sin(middle)
    w2 = 1 - _E2 * sine * sine
    n = _A / math.sqrt(w2)
    m = n * (1 - _E2) / w2
    east = 2 * n * math.cos(middle) * math.sin(half_lon)
    north = 2 * m * math.sin(half_lat) * math.cos(half_lon)
    return east, north


def _wrap(lon: int) -> int:
    return (lon + limits.MAX_LON) % _TURN - limits.MAX_LON


def _check_position(lat: int, lon: int) -> None:
    if type(lat) is not int or not -limits.MAX_LAT <= lat <= limits.MAX_LAT:
        raise LimitError("latitude", repr(lat), "-900000000 .. 900000000 (1e-7 degrees)")
    if type(lon) is not int or not -limits.MAX_LON <= lon <= limits.MAX_LON:
        raise LimitError("longitude", repr(lon), "-1800000000 .. 1800000000 (1e-7 degrees)")
