"""A fix, and what every source of fixes has in common. Runs on MicroPython.

    Fix       lat, lon      1e-7 degrees, north and east positive
              time          ms since 1970 (UTC) at which it was measured, as the source says
              speed         mm/s over ground
              heading       1/100 degree from true north, clockwise, 0 .. 35999
              accuracy      mm, the radius within which the source believes itself to be

What a source does not know is None. All are integers: an ESP32's float has 24 bits, a position needs 32.

    Location  fix(now) -> Fix, or None when there is none or it is stale

`now` is the caller's clock in milliseconds. It need not be UTC, and on a board that was just switched on it is not: so
age is counted from when a fix was heard, by that same clock, and never from `Fix.time`.
"""

import math

from vicinal import limits
from vicinal.errors import LimitError

__all__ = ["MAX_AGE", "Fix", "Latest", "Location"]

# A receiver that tells once a second and misses four has lost it; a car at 50 m/s is then 250 m further on.
MAX_AGE = 5000
TURN = 36000


class Fix:
    __slots__ = ("accuracy", "heading", "lat", "lon", "speed", "time")

    def __init__(
        self,
        lat: int,
        lon: int,
        time: "int | None" = None,
        speed: "int | None" = None,
        heading: "int | None" = None,
        accuracy: "int | None" = None,
    ) -> None:
        _check("latitude", lat, -limits.MAX_LAT, limits.MAX_LAT)
        _check("longitude", lon, -limits.MAX_LON, limits.MAX_LON)
        for what, value, most in (
            ("time", time, limits.INT_MAX),
            ("speed", speed, limits.INT_MAX),
            ("heading", heading, TURN - 1),
            ("accuracy", accuracy, limits.INT_MAX),
        ):
            if value is not None:
                _check(what, value, 0, most)
        self.lat = lat
        self.lon = lon
        self.time = time
        self.speed = speed
        self.heading = heading
        self.accuracy = accuracy

    @property
    def velocity(self) -> "tuple[int, int] | None":
        """North and east in 1e-7 degrees a second, as STEAM reckons with it; None: not known."""
        if self.speed is None or self.heading is None:
            return None
        angle = math.radians(self.heading / 100)
        widest = max(math.cos(math.radians(self.lat / 10000000)), 0.01)
        # 111,320 m to a degree: 1e-7 degrees are 11.132 mm.
        return round(self.speed * math.cos(angle) / 11.132), round(self.speed * math.sin(angle) / 11.132 / widest)

    def _all(self) -> "tuple[int | None, ...]":
        return self.lat, self.lon, self.time, self.speed, self.heading, self.accuracy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fix) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return (
            f"Fix({self.lat}, {self.lon}, time={self.time}, speed={self.speed}, heading={self.heading}, "
            f"accuracy={self.accuracy})"
        )


def _check(what: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise LimitError(what, repr(value), f"{least} .. {most}, a whole number")


class Location:
    def fix(self, now: int) -> "Fix | None":
        raise NotImplementedError


class Latest(Location):
    """The fix that was heard last, until it is older than `max_age` ms."""

    def __init__(self, max_age: int = MAX_AGE) -> None:
        self.max_age = max_age
        self._fix: Fix | None = None
        self._heard = 0

    def fix(self, now: int) -> "Fix | None":
        if self._fix is not None and now - self._heard > self.max_age:
            self._fix = None
        return self._fix

    def _hear(self, fix: "Fix | None", now: int) -> None:
        """None: the source says that it has lost its position."""
        self._fix = fix
        self._heard = now
