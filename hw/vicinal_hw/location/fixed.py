"""A node that does not move: a roadside unit, whose place was surveyed when it was put up. Runs on MicroPython."""

from .fix import Fix, Location

__all__ = ["Fixed"]


class Fixed(Location):
    """`lat` and `lon` in 1e-7 degrees, `accuracy` in mm. The fix has no time, as nobody measures it again."""

    def __init__(self, lat: int, lon: int, accuracy: "int | None" = None) -> None:
        self._fix = Fix(lat, lon, None, 0, None, accuracy)

    def fix(self, now: int) -> Fix:
        return self._fix
