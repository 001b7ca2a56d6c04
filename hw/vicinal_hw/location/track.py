"""A track that was recorded, or made up, replayed: a virtual position. Runs on MicroPython.

    track time = the first fix's time + (now - start) * rate

    recorded    ●────────●────────●                  ●────────●
    fix(now)    ●··························● None    ●·················● None
                interpolated between fixes   └ max_age after the last before a gap

Fixes that are more than `max_age` apart are a gap, as the receiver had none there: nothing is made up in it. Between
others, position, speed and heading are interpolated, in integers, on the straight line of lat and lon (which within
seconds is the way a car takes), the short way round over the date line and through north. Without `interpolate` the fix
is the one recorded last.
"""

from vicinal import limits
from vicinal.errors import LimitError, LocalProtocolError

from ._numbers import nearest
from .fix import MAX_AGE, TURN, Fix, Location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Track"]

_CIRCLE = 2 * limits.MAX_LON


class Track(Location):
    """`start` is when the first fix is at, by the caller's clock. `rate` is a ratio of integers: (10, 1) is ten times
    as fast. Every fix needs a time, later than that of the one before."""

    def __init__(
        self,
        fixes: "Sequence[Fix]",
        start: int,
        rate: "tuple[int, int]" = (1, 1),
        interpolate: bool = True,
        max_age: int = MAX_AGE,
    ) -> None:
        if not fixes:
            raise LocalProtocolError("a track needs one fix at least")
        if rate[0] < 1 or rate[1] < 1:
            raise LimitError("rate", f"{rate[0]}/{rate[1]}", "a ratio of whole numbers from 1")
        self._times = _times_of(fixes)
        self._fixes = fixes
        self._start = start
        self._rate = rate
        self._interpolate = interpolate
        self._max_age = max_age

    def ends(self) -> int:
        """When the last fix is reached, by the caller's clock."""
        length = self._times[-1] - self._times[0]
        return self._start - (-length * self._rate[1] // self._rate[0])

    def fix(self, now: int) -> "Fix | None":
        """None before the start, in a gap, and `max_age` (of the track's time) after the end."""
        time = self._times[0] + (now - self._start) * self._rate[0] // self._rate[1]
        place = self._place_of(time)
        if place < 0:
            return None
        before = self._fixes[place]
        passed = time - self._times[place]
        if self._interpolate and passed and place + 1 < len(self._fixes):
            length = self._times[place + 1] - self._times[place]
            if length <= self._max_age:
                return _between(before, self._fixes[place + 1], time, passed, length)
        return before if passed <= self._max_age else None

    def _place_of(self, time: int) -> int:
        """Of the last fix that is not after `time`; -1 if there is none."""
        low, high = 0, len(self._times)
        while low < high:
            middle = (low + high) // 2
            if self._times[middle] <= time:
                low = middle + 1
            else:
                high = middle
        return low - 1


def _times_of(fixes: "Sequence[Fix]") -> "list[int]":
    times: list[int] = []
    for fix in fixes:
        if fix.time is None:
            raise LocalProtocolError(f"fix {len(times)} of the track has no time")
        if times and fix.time <= times[-1]:
            raise LocalProtocolError(f"fix {len(times)} of the track is at {fix.time}, not after {times[-1]}")
        times.append(fix.time)
    return times


def _between(a: Fix, b: Fix, time: int, passed: int, length: int) -> Fix:
    def along(first: int, way: int) -> int:
        return first + nearest(way * passed, length)

    speed = heading = accuracy = None
    if a.speed is not None and b.speed is not None:
        speed = along(a.speed, b.speed - a.speed)
    if a.heading is not None and b.heading is not None:
        heading = along(a.heading, _short_way(b.heading - a.heading, TURN)) % TURN
    if a.accuracy is not None and b.accuracy is not None:
        accuracy = max(a.accuracy, b.accuracy)
    lon = along(a.lon, _short_way(b.lon - a.lon, _CIRCLE))
    if not -limits.MAX_LON <= lon <= limits.MAX_LON:
        lon += -_CIRCLE if lon > 0 else _CIRCLE
    return Fix(along(a.lat, b.lat - a.lat), lon, time, speed, heading, accuracy)


def _short_way(way: int, turn: int) -> int:
    return (way + turn // 2) % turn - turn // 2
