"""Dead reckoning: where what moves is between two times that it says so (spec/steam.md, STEAM-57 to STEAM-63).

    fix            fix                     who moves knows where it was, and how fast
     ●──────────────●─ ─ ─ ─ ─ ─▶          and so where it is now, for a while
           beacon ╰ where, how fast ─ ─▶   and so do those who hear it; a turn is told at once

A velocity is (north, east) in 1e-7 degrees a second: then a place is a multiplication away, in integers, and no
receiver needs a cosine. Loaded when something moves: a node that stands, among areas that stand, does without.
"""

from .. import limits
from .._compat import const
from ..proximity import CIRCLE, _offset, _wrap, distance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..proximity import Proximity
    from ._announcing import Announcer

__all__ = ["STILL", "astray", "between", "coded", "look", "reckon"]

STILL = (0, 0)

# A signed byte of it in a beacon: 0.7 m/s, so up to 90 m/s to the north, and at 53 degrees 54 m/s to the east.
UNIT = const(64)
_MOST = const(127)
# What is faster was no movement: a receiver that found its position again, say.
_JUMP = const(16384)
# Over less the errors of positions tell more than their difference; over more nobody knows what was between.
_SHORTEST = const(400)
_LONGEST = const(2000)
# For how long a node believes that it goes on as it did: two fixes of a receiver that tells once a second.
_AHEAD = const(2000)
# How far off members may be one interval after a beacon before another is due: 3.3 m to the north, less to the east.
_DRIFT = const(300)
# And how many then, at how many times the rate.
_TURN_BURST = const(6)
_TURN_FASTER = const(8)
# Looks are taken at whole multiples of this, so that many areas are one timer.
_GRID = const(50)


def between(before: "tuple[int, int, int]", lat: int, lon: int, now: int) -> "tuple[int, int] | None":
    """The velocity since a fix of lat, lon and time; None when that is too near to tell."""
    time = now - before[2]
    if time < _SHORTEST:
        return None
    found = ((lat - before[0]) * 1000 // time, _wrap(lon - before[1]) * 1000 // time)
    return STILL if time > _LONGEST or max(abs(found[0]), abs(found[1])) > _JUMP else found


def coded(speed: int) -> int:
    """As a beacon says it, to the nearest step."""
    return max(-_MOST, min(_MOST, (speed + UNIT // 2) // UNIT))


def reckon(lat: int, lon: int, velocity: "tuple[int, int]", time: int) -> "tuple[int, int]":
    """Where it is so many ms later."""
    lat += velocity[0] * time // 1000
    return max(-limits.MAX_LAT, min(limits.MAX_LAT, lat)), _wrap(lon + velocity[1] * time // 1000)


def ahead(position: "tuple[int, int]", velocity: "tuple[int, int]", time: int) -> "tuple[int, int]":
    """Where a node is, so many ms after it was told its position."""
    return reckon(position[0], position[1], velocity, max(0, min(time, _AHEAD)))


def said(velocity: "tuple[int, int]") -> "tuple[int, int]":
    """A velocity as those know it who hear a beacon."""
    return coded(velocity[0]) * UNIT, coded(velocity[1]) * UNIT


def turned(announcer: "Announcer", now: int) -> None:
    """Those who go by what we said last must hear it when it is wrong; but not of every bend by itself."""
    velocity = announcer.node.velocity
    for found in announcer.announced.values():
        if found.area.relative and found.shown is not None and not found.farewells:
            area = announcer._area_now(found, now)
            if area is None or (area == found.shown and velocity == found.told):
                continue
            then, here = (found.shown.lat, found.shown.lon), (area.lat, area.lon)
            if astray(then, found.told, here, velocity, now - found.told_at, found.every):
                found.turns = _TURN_BURST
                found.due = min(found.due, max(now, found.told_at + found.every // _TURN_FASTER))


def astray(
    told: "tuple[int, int]",
    as_told: "tuple[int, int]",
    place: "tuple[int, int]",
    velocity: "tuple[int, int]",
    time: int,
    every: int,
) -> bool:
    """Whether those who heard a beacon `time` ms ago, of a place and a velocity, will be wrong in one interval."""
    lat, lon = reckon(told[0], told[1], as_told, time + every)
    lat2, lon2 = reckon(place[0], place[1], velocity, every)
    return abs(lat2 - lat) > _DRIFT or abs(_wrap(lon2 - lon)) > _DRIFT


def look(
    area: "Proximity", course: "tuple[int, int]", age: int, place: "tuple[int, int]", own: "tuple[int, int]", now: int
) -> "tuple[bool, int]":
    """Whether a place, which moves too, is inside of an area that was so `age` ms ago; and when to look again.

    Nobody crosses an edge sooner than the way to it takes at the speed at which the two move against each other. So a
    look is taken then, and again, ever closer, until it is crossed."""
    lat, lon = reckon(place[0], place[1], course, -age)
    room = _room(area, lat, lon)
    # The node may be reckoned to stand meanwhile. A 1e-7 degree is at most 0.0112 m.
    speed = max(abs(course[0] - own[0]), abs(course[0])) + max(abs(course[1] - own[1]), abs(course[1]))
    wait = int(abs(room) * 89000 / speed) if speed else 1 << 20
    return room >= 0, (now + max(wait, 1) + _GRID - 1) // _GRID * _GRID


def _room(area: "Proximity", lat: int, lon: int) -> float:
    """Metres to the edge, or less; below 0 outside. It is 0 or more exactly where area.contains() is true."""
    if area.shape == CIRCLE:
        return area.dimx - distance(area.lat, area.lon, lat, lon)
    east, north = _offset(area.lat, area.lon, lat, lon)
    return min(area.dimx - abs(east) * 2, area.dimy - abs(north) * 2) / 2
