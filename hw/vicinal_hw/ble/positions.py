"""A plane of metres around a place: positions are 1e-7 degrees in messages, and metres on the air.

Good to a thousandth within 50 km of the place, which is more than any radio of ours reaches.
"""

import math

__all__ = ["Plane"]

_A = 6378137.0  # WGS 84: equatorial radius, and the first eccentricity squared
_E2 = 0.00669437999014
_UNIT = math.pi / 180 / 10_000_000
_TURN = 3_600_000_000


class Plane:
    def __init__(self, lat: int, lon: int) -> None:
        """The place that is 0, 0; in 1e-7 degrees."""
        self.lat = lat
        self.lon = lon
        bent = 1 - _E2 * math.sin(lat * _UNIT) ** 2
        self._north = _UNIT * _A * (1 - _E2) / bent**1.5
        self._east = _UNIT * _A / math.sqrt(bent) * max(math.cos(lat * _UNIT), 1e-6)

    def metres(self, lat: int, lon: int) -> tuple[float, float]:
        """East and north; the shorter way around."""
        turned = (lon - self.lon + _TURN // 2) % _TURN - _TURN // 2
        return turned * self._east, (lat - self.lat) * self._north

    def degrees(self, x: float, y: float) -> tuple[int, int]:
        lon = self.lon + round(x / self._east)
        return self.lat + round(y / self._north), (lon + _TURN // 2) % _TURN - _TURN // 2
