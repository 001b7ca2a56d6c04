"""Vehicles that have stopped, and the accidents they make: of one direction of an expressway.

A vehicle has stopped when four reports running come from one place (lane, segment, position), in any lane. Two
vehicles stopped at one place are an accident, from the minute after the second has stopped up to and including the
minute in which one of them reports from another place. As in Walmart's validator a segment has one accident a run, a
later one there is not noticed: so of a place one vehicle is remembered, and nothing once there was an accident. A
vehicle that enters the road anew is not the one that stood there.
"""

from typing import NamedTuple, TypeAlias

from .segments import minute_of

__all__ = ["STOPPED_AFTER", "Accidents"]

STOPPED_AFTER = 4

Place: TypeAlias = tuple[int, int, int]
"""lane, segment, position"""


class Accident(NamedTuple):
    since: int
    """the first minute in which it counts"""
    until: int | None
    """the last one; None while it is not cleared"""
    vids: tuple[int, int]


class Accidents:
    """`watched` are the vehicles of which `moved` wants to hear: few, as they have stopped some time. A driver of this
    asks before it calls."""

    __slots__ = ("accidents", "stopped", "watched")

    def __init__(self) -> None:
        self.stopped: dict[Place, int] = {}
        self.accidents: dict[int, Accident] = {}
        self.watched: set[int] = set()

    def stop(self, vid: int, place: Place, time: int) -> None:
        """The vehicle's fourth report from there."""
        seg = place[1]
        if seg in self.accidents:
            return
        other = self.stopped.setdefault(place, vid)
        self.watched.add(vid)
        if other != vid:
            self.accidents[seg] = Accident(minute_of(time) + 1, None, (other, vid))
            del self.stopped[place]

    def moved(self, vid: int, place: Place, time: int) -> None:
        """The vehicle that reported from there last now reports from elsewhere."""
        if self.stopped.get(place) == vid:
            del self.stopped[place]
        accident = self.accidents.get(place[1])
        if accident is not None and accident.until is None and vid in accident.vids:
            self.accidents[place[1]] = accident._replace(until=minute_of(time))

    def counting(self, minute: int) -> list[int]:
        """The segments with an accident in this minute. What happens during the minute does not change them."""
        return [
            seg
            for seg, (since, until, _) in self.accidents.items()
            if since <= minute and (until is None or minute <= until)
        ]

    def state(self) -> tuple[object, ...]:
        return self.stopped, {seg: tuple(accident) for seg, accident in self.accidents.items()}, self.watched

    @classmethod
    def of(cls, state: tuple[object, ...]) -> "Accidents":
        found = cls()
        found.stopped, accidents, found.watched = state  # type: ignore[assignment]
        found.accidents = {seg: Accident(*accident) for seg, accident in accidents.items()}  # type: ignore[attr-defined]
        return found
