"""How many vehicles were in a segment, and how fast: the statistics of one direction of an expressway, by the minute.

    cars(m, s)   distinct vehicles that reported from segment s in minute m
    LAV(m, s)    latest average velocity: all speeds of minutes m-5 .. m-1, summed and divided by their number, rounded
                 half up; 0 if there are none

Four readings of LAV are in use; this is the one of Walmart's validator. A minute is asked for by the minute after it,
so that of a minute that is over only numbers are kept, and of the one under way the vehicles too.
"""

from typing import TypeAlias

__all__ = ["SEGMENTS", "Segments", "minute_of"]

SEGMENTS = 100
LAV_MINUTES = 5

Minute: TypeAlias = tuple[int, list[int], list[int], list[int]]
"""its number; of each segment the sum of speeds, the number of readings, the number of vehicles"""


def minute_of(time: int) -> int:
    return time // 60 + 1


class Segments:
    """`speeds`, `readings` and `vehicles` are of the minute under way, by segment. Who drives this adds each report to
    all three, by itself: it is the most frequent thing that is done."""

    __slots__ = ("minute", "over", "readings", "speeds", "vehicles")

    def __init__(self) -> None:
        self.minute = 0
        self.over: list[Minute] = []
        self._clear()

    def _clear(self) -> None:
        self.speeds = [0] * SEGMENTS
        self.readings = [0] * SEGMENTS
        self.vehicles: list[set[int]] = [set() for _ in range(SEGMENTS)]

    def begin(self, minute: int) -> None:
        """The minute under way is over; a later one begins."""
        self.over.append((self.minute, self.speeds, self.readings, [len(vids) for vids in self.vehicles]))
        self.over = [one for one in self.over if one[0] >= minute - LAV_MINUTES]
        self.minute = minute
        self._clear()

    def cars(self) -> list[int]:
        """Of the minute before this one, by segment."""
        if self.over and self.over[-1][0] == self.minute - 1:
            return self.over[-1][3]
        return [0] * SEGMENTS

    def lav(self) -> list[int]:
        """Of this minute, by segment."""
        speeds = [sum(column) for column in zip(*(one[1] for one in self.over))] or [0] * SEGMENTS
        readings = [sum(column) for column in zip(*(one[2] for one in self.over))] or [0] * SEGMENTS
        return [(2 * total + n) // (2 * n) if n else 0 for total, n in zip(speeds, readings)]

    def state(self) -> tuple[object, ...]:
        return self.minute, self.over, self.speeds, self.readings, self.vehicles

    @classmethod
    def of(cls, state: tuple[object, ...]) -> "Segments":
        found = cls()
        found.minute, found.over, found.speeds, found.readings, found.vehicles = state  # type: ignore[assignment]
        return found
