"""A town to drive in: streets in a grid, vehicles on their right-hand lanes, in stepped time and with a seed.

┼────┼────┼────┼      crossings `block` metres apart; a vehicle keeps its own speed along a street, and turns or
│    │    │    │      goes straight on at each crossing by chance; at the town's edge it turns back into it
┼────┼──▶─┼────┼
│    │    │    │      metres from the south-west corner, x to the east
┼────┼────┼────┼
"""

from random import Random

__all__ = ["Town", "Vehicle"]

LANE = 2.0
"""metres from the middle of the street"""
SLOW, FAST = 7.0, 16.0
"""metres a second: 25 to 58 km/h"""


class Vehicle:
    """Where it is, and where it goes."""

    def __init__(self, town: "Town", speed: float) -> None:
        self._town = town
        self.speed = speed
        chance = town.chance
        self._crossing = (chance.randrange(town.columns), chance.randrange(town.rows))
        self._heading = (0, 0)
        self._done = chance.uniform(0.0, town.block)
        self._turn()

    def drive(self, seconds: float) -> None:
        self._done += self.speed * seconds
        while self._done >= self._town.block:
            self._done -= self._town.block
            self._crossing = (self._crossing[0] + self._heading[0], self._crossing[1] + self._heading[1])
            self._turn()

    def _turn(self) -> None:
        column, row = self._crossing
        back = (-self._heading[0], -self._heading[1])
        ways = [
            way
            for way in ((1, 0), (0, 1), (-1, 0), (0, -1))
            if way != back and 0 <= column + way[0] < self._town.columns and 0 <= row + way[1] < self._town.rows
        ]
        straight = self._heading if self._heading in ways and self._town.chance.random() < 0.6 else None
        self._heading = straight or self._town.chance.choice(ways)

    @property
    def place(self) -> tuple[float, float]:
        (column, row), (east, north), block = self._crossing, self._heading, self._town.block
        x, y = column * block + east * self._done, row * block + north * self._done
        return x + LANE * north, y - LANE * east


class Town:
    def __init__(self, seed: int, columns: int = 11, rows: int = 11, block: float = 250.0) -> None:
        self.chance = Random(seed)
        self.columns = columns
        self.rows = rows
        self.block = block

    def vehicles(self, count: int) -> list[Vehicle]:
        return [Vehicle(self, self.chance.uniform(SLOW, FAST)) for _ in range(count)]

    def corners(self, count: int) -> list[tuple[float, float]]:
        """Places for roadside units: crossings, each another one."""
        crossings = [(column, row) for column in range(self.columns) for row in range(self.rows)]
        return [
            (column * self.block + 8.0, row * self.block + 8.0) for column, row in self.chance.sample(crossings, count)
        ]
