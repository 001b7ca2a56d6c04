"""What a segment costs, and what else is said to a vehicle that comes into it: the tariff of a minute.

    toll = 2 * (cars(m-1) - 50)^2    if LAV(m) < 40, cars(m-1) > 50, no accident here or in the four segments downstream
         = 0                         otherwise

All of it is known when the minute begins, and nothing that happens during the minute changes it: answers depend on
the order of reports only in so far as it is that of one vehicle, or across the end of a minute.
"""

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["NONE", "Tariff", "accident_ahead", "tariff", "toll"]

FREE_CARS = 50
FREE_SPEED = 40
ALERT_SEGMENTS = 5
NONE = -1
"""no accident"""

Tariff: TypeAlias = list[tuple[int, int, int]]
"""by segment: the LAV, the toll, the segment of the nearest accident ahead or NONE"""


def toll(cars: int, lav: int) -> int:
    """Where there is no accident ahead."""
    return 2 * (cars - FREE_CARS) ** 2 if cars > FREE_CARS and lav < FREE_SPEED else 0


def accident_ahead(seg: int, downstream: int, accidents: Iterable[int]) -> int:
    """The nearest in this segment and the four downstream, which are those that grow (+1) or fall (-1)."""
    ahead = [
        distance for distance in ((there - seg) * downstream for there in accidents) if 0 <= distance < ALERT_SEGMENTS
    ]
    return seg + min(ahead) * downstream if ahead else NONE


def tariff(cars: list[int], lavs: list[int], accidents: list[int], downstream: int) -> Tariff:
    """`cars` of the minute before, `lavs` and `accidents` of this one."""
    found = []
    for seg, (count, lav) in enumerate(zip(cars, lavs)):
        ahead = accident_ahead(seg, downstream, accidents) if accidents else NONE
        found.append((lav, toll(count, lav) if ahead == NONE else 0, ahead))
    return found
