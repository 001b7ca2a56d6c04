"""A made-up drive through a town, once a second, as a receiver would tell it: no recorded data.

A car starts at a kerb, keeps to streets that run along a rotated grid, speeds up and brakes as cars do, waits at some
crossings and turns at others. The truth of each second is what the sentences say, as exact integers: 1e-7 minutes,
1/1000 knots, 1/100 degrees.
"""

import math
import random
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

METRES_A_MINUTE = 1852.0
"""of latitude, near enough for a car that nobody has met"""


class Second(NamedTuple):
    time: int
    """ms since 1970"""
    lat: int
    lon: int
    """1e-7 minutes of arc"""
    knots: int
    heading: int

    @property
    def position(self) -> tuple[Fraction, Fraction]:
        """in 1e-7 degrees, exactly what the sentence says"""
        return Fraction(self.lat, 60), Fraction(self.lon, 60)


def drive(seconds: int, seed: int = 1, start: int = 1_774_267_200_000) -> Iterator[Second]:
    chance = random.Random(seed)
    lat, lon = 53 * 60 + 20.628, -(6 * 60 + 15.276)
    grid = chance.uniform(0, 90)
    course, speed, limit, wait = grid, 0.0, 13.9, 3
    block = 120.0
    for second in range(seconds):
        yield Second(
            start + second * 1000,
            round(lat * 1e7),
            round(lon * 1e7),
            round(speed * 3600 / 1852 * 1000),
            round(course * 100) % 36000,
        )
        if wait:
            wait -= 1
            continue
        if speed * speed / (2 * 2.5) >= block:  # the way that braking takes
            speed = max(0.0, speed - 2.5)
        else:
            speed = min(limit, speed + 1.8)
        block -= speed
        if block <= max(speed, 1.0):
            block = chance.uniform(80, 400)
            limit = chance.choice([8.3, 13.9, 13.9, 22.2])
            choice = chance.random()
            if choice < 0.3:
                wait, speed = chance.randint(2, 20), 0.0
            elif choice < 0.7:
                course = (course + chance.choice([90, 270])) % 360
                speed = min(speed, 5.0)
        lat += speed * math.cos(math.radians(course)) / METRES_A_MINUTE
        lon += speed * math.sin(math.radians(course)) / METRES_A_MINUTE / math.cos(math.radians(lat / 60))


def checked(body: str) -> str:
    total = 0
    for byte in body.encode():
        total ^= byte
    return f"${body}*{total:02X}\r\n"


def angle(units: int, width: int, sides: str, decimals: int = 7) -> str:
    """1e-`decimals` minutes as NMEA writes them."""
    degrees, minutes = divmod(abs(units), 60 * 10**decimals)
    whole, part = divmod(minutes, 10**decimals)
    return f"{degrees:0{width}d}{whole:02d}.{part:0{decimals}d},{sides[units < 0]}"


def sentences(second: Second) -> str:
    moment = time.gmtime(second.time // 1000)
    clock = time.strftime("%H%M%S", moment) + f".{second.time % 1000 // 10:02d}"
    date = time.strftime("%d%m%y", moment)
    place = f"{angle(second.lat, 2, 'NS')},{angle(second.lon, 3, 'EW')}"
    knots = f"{second.knots // 1000}.{second.knots % 1000:03d}"
    course = f"{second.heading // 100}.{second.heading % 100:02d}"
    return checked(f"GNRMC,{clock},A,{place},{knots},{course},{date},,,A") + checked(
        f"GNGGA,{clock},{place},1,10,0.80,45.4,M,46.9,M,,"
    )
