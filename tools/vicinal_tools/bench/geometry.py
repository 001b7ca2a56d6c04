"""How far `distance` is off the WGS 84 geodesic, with 64-bit floats and with the 32-bit ones of an ESP32."""

import math
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from vicinal import proximity

from . import Row

LIMIT_METRES = 0.5
REACH_METRES = 100_000.0


def rows() -> Iterator[Row]:
    for bits in (64, 32):
        worst = worst_error(bits, 3000)
        yield Row(
            f"distance to 100 km, {bits}-bit floats",
            f"off by {worst:.3f} m at worst",
            f"limit {LIMIT_METRES} m",
            f"{worst / LIMIT_METRES:.2f} of it",
            "under the limit",
            worst < LIMIT_METRES,
        )


def worst_error(bits: int, count: int, seed: int = 1) -> float:
    """Metres, over pairs anywhere but at the poles."""
    from geographiclib.geodesic import Geodesic

    rng = random.Random(seed)
    worst = 0.0
    for _ in range(count):
        lat, lon = rng.uniform(-85, 85), rng.uniform(-180, 180)
        there = Geodesic.WGS84.Direct(lat, lon, rng.uniform(0, 360), rng.uniform(0, REACH_METRES))
        points = [round(degrees * 1e7) for degrees in (lat, lon, there["lat2"], there["lon2"])]
        true = Geodesic.WGS84.Inverse(*(point / 1e7 for point in points))["s12"]
        found = proximity.distance(*points) if bits == 64 else single_distance(*points)
        worst = max(worst, abs(found - true))
    return worst


def single_distance(*points: int) -> float:
    """`distance` with every number a 32-bit float: numpy keeps them so, and the functions of math are rounded."""
    import numpy as np

    def rounded(function: Any) -> Any:
        return lambda x: np.float32(function(float(x)))

    functions = SimpleNamespace(**{name: rounded(getattr(math, name)) for name in ("sin", "cos", "sqrt", "asin")})
    with mock.patch.multiple(proximity, math=functions, _float=np.float32):
        return float(proximity.distance(*points))
