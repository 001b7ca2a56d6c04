"""What is taken off a measured speed, and what the rest costs.

    [tariff]
    currency = "EUR"
    tolerance_kmh = 3                    # taken off up to 100 km/h
    tolerance_percent = 3                # above
    bands = [{ over = 1, fine = 3000 }, { over = 21, fine = 12000, points = 1 }, ...]      # cents

A driver is over the limit when the speed less the tolerance is. Whatever is rounded is rounded for the driver.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.tables_cpython import Table

from .texts import flaw

__all__ = ["DEFAULT", "Band", "Tariff"]

CURRENCY_MAX = 8
FINE_MAX = (1 << 31) - 1


class Band(NamedTuple):
    over: int
    """km/h over the limit, from here on"""
    fine: int
    """in the smallest unit of the currency"""
    points: int = 0


class Tariff(NamedTuple):
    bands: tuple[Band, ...]
    currency: str = "EUR"
    tolerance_kmh: int = 3
    tolerance_percent: int = 3

    def tolerance(self, speed: float) -> int:
        if speed <= 100:
            return self.tolerance_kmh
        return max(self.tolerance_kmh, math.ceil(speed * self.tolerance_percent / 100))

    def over(self, speed: float, limit: int) -> int:
        """Whole km/h above the limit after the tolerance; 0 or less: not over it."""
        return math.floor(speed) - self.tolerance(speed) - limit

    def band(self, over: int) -> Band | None:
        found = None
        for band in self.bands:
            if over >= band.over:
                found = band
        return found


DEFAULT = Tariff(
    (
        Band(1, 3_000),
        Band(11, 6_000),
        Band(16, 9_000),
        Band(21, 12_000, 1),
        Band(31, 24_000, 2),
        Band(41, 40_000, 2),
        Band(61, 70_000, 2),
    )
)


def read(file: Path, values: dict[str, Any]) -> Tariff:
    table = Table(file, "tariff", values)
    kmh, percent = table.number("tolerance_kmh", 3, 0, 20), table.number("tolerance_percent", 3, 0, 20)
    currency: str = table.take("currency", str, "EUR")
    if not 0 < len(currency) <= CURRENCY_MAX or flaw(currency):
        table.fail("currency", f"is {currency!r}, want 1 to {CURRENCY_MAX} characters")
    bands: list[Band] = []
    for row in table.tables("bands"):
        over, fine = row.number("over", None, 1, 300), row.number("fine", None, 0, FINE_MAX)
        if over is None or fine is None:
            table.fail("bands", "has a row without over or fine")
        band = Band(over, fine, row.number("points", 0, 0, 100))
        if bands and band.over <= bands[-1].over:
            table.fail("bands", f"has over = {band.over} after {bands[-1].over}, want them to rise")
        row.done()
        bands.append(band)
    table.done()
    return Tariff(tuple(bands) or DEFAULT.bands, currency, kmh, percent)
