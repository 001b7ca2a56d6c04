"""What a source of traffic is: vehicles that drive, in steps of 100 ms, whoever makes them do so.

    world.World            the simulator of our own          sumo.SumoTraffic       Eclipse SUMO
    replay.TrackTraffic    recorded tracks                   replay.CaptureTraffic  recorded CAN buses, on some route

A vehicle that is not `present` says nothing: it is parked, or its track has a gap.
"""

from random import Random
from typing import Protocol

from vicinal_cloud.traffic.network import Position

__all__ = ["PLATE_MAX", "STEP_MS", "Driven", "Traffic", "factors", "make_factor", "make_plate", "plates"]

STEP_MS = 100
PLATE_MAX = 7
"""characters: what the frame of seed 001, 5.8.2 has room for"""
LETTERS = "BCDFGHJKLMNPRSTVWXYZ"


class Driven(Protocol):
    number: int
    plate: str
    place: Position
    heading: float
    present: bool

    @property
    def kmh(self) -> float: ...

    @property
    def braking(self) -> bool: ...


class Traffic(Protocol):
    now: int
    """ms since the start"""

    @property
    def vehicles(self) -> "list[Driven]": ...

    def step(self) -> None: ...

    def tell(self, number: int, area: str, limit: int) -> bool:
        """The driver of a vehicle has seen a sign. Whether that driver keeps to signs, and can."""

    def close(self) -> None: ...


def make_plate(chance: Random, taken: "set[str]") -> str:
    """Seven characters, as the frame has room for; none that is taken."""
    while True:
        made = f"{chance.randrange(100):02}{chance.choice(LETTERS)}{chance.randrange(10_000):04}"
        if made not in taken:
            taken.add(made)
            return made


def plates(chance: Random, count: int, taken: "set[str] | None" = None) -> list[str]:
    known = set(taken or ())
    return [make_plate(chance, known) for _ in range(count)]


def make_factor(chance: Random, fast: bool) -> float:
    """Of the usual speed, that a driver likes to drive."""
    return chance.uniform(1.25, 1.65) if fast else chance.uniform(0.8, 0.97)


def factors(chance: Random, count: int, speeders: float) -> list[float]:
    """`speeders` is the part of drivers who do not keep to limits."""
    fast = set(chance.sample(range(count), round(count * speeders)))
    return [make_factor(chance, number in fast) for number in range(count)]
