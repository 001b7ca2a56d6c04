"""Vehicles that drive, in steps of 100 ms. Every run of a seed is the same run.

    world = World(network, seed=7, vehicles=12)
    world.step()                                             0.1 s later
    for one in world.vehicles: one.plate, one.kmh, one.place, one.heading, one.braking

Each follows the one ahead by the Intelligent Driver Model (Treiber, Hennecke, Helbing, 2000):

    a = A (1 - (v / v0)^4 - (s* / s)^2)           s* = S0 + v T + v (v - v ahead) / (2 sqrt(A B))

s is the gap to the next: a vehicle, a red light, or a junction that another is crossing. Before a turn v0 falls so that
braking is comfortable. Most drivers keep a little below the usual speed of their road, and below what a sign has told
them of its area; `speeders` is the part of them who do not. On two lanes who is held up changes to the other if there
is room.
"""

import math
from random import Random

from vicinal_cloud.traffic.network import Network, Position

from .drivers import STEP_MS, Driven, make_factor, make_plate
from .lanes import Edge, Junction, Lanes

__all__ = ["STEP_MS", "Vehicle", "World"]

STEP = STEP_MS / 1000
A, B, T, S0 = 1.8, 2.2, 1.3, 2.0
"""m/s^2 accelerating and braking at ease, seconds of headway, metres between standing vehicles"""
HARDEST = 8.0
"""m/s^2: what brakes can do"""
LENGTH = 4.5
LOOK = 90.0
"""metres ahead that matter"""
BRAKING = -0.6
"""m/s^2 from which on the brake lights are on"""
CROSSING = 12.0
"""metres before a junction without a light at which one may claim it"""
KEEP = 60.0
"""metres before and behind a junction in which one keeps to one lane: who comes there is not seen"""
SLOWING = 3.0
"""m/s^2 with which one comes down to what a sign says"""


class Vehicle:
    present = True

    def __init__(self, number: int, plate: str, edge: Edge, metres: float, lane: int, factor: float) -> None:
        self.number = number
        self.plate = plate
        self.edge = edge
        self.metres = metres
        self.lane = lane
        self.factor = factor
        """of the usual speed, that it likes to drive"""
        self.told: dict[str, int] = {}
        """limits that signs have shown its driver, by area, km/h"""
        self.speed = 0.0
        """m/s"""
        self.acceleration = 0.0
        self.next: Edge | None = None
        self.holds: Junction | Edge | None = None
        """what nobody else may cross or enter meanwhile"""
        self.rank = 0
        """in its queue"""
        self.place: Position = (0, 0)
        self.heading = 0.0

    @property
    def obeys(self) -> bool:
        return self.factor <= 1

    @property
    def kmh(self) -> float:
        return self.speed * 3.6

    @property
    def braking(self) -> bool:
        return self.acceleration < BRAKING


class World:
    def __init__(self, network: Network, seed: int = 0, vehicles: int = 12, speeders: float = 0.25) -> None:
        self.network = network
        self.lanes = Lanes(network)
        self.chance = Random(seed)
        self.now = 0
        """ms since the start"""
        self.cars: list[Vehicle] = []
        self._queues: dict[tuple[int, int], list[Vehicle]] = {}
        self._numbers = {id(edge): number for number, edge in enumerate(self.lanes.edges)}
        places = self._places()
        if vehicles > len(places):
            raise ValueError(f"{vehicles} vehicles: there is room for {len(places)} in {network.name}")
        self._areas = {id(edge): self._area_of(edge) for edge in self.lanes.edges}
        fast = set(self.chance.sample(range(vehicles), round(vehicles * speeders)))
        taken: set[str] = set()
        for number, (edge, metres, lane) in enumerate(self.chance.sample(places, vehicles)):
            factor = make_factor(self.chance, number in fast)
            made = Vehicle(number, make_plate(self.chance, taken), edge, metres, lane, factor)
            made.next = self._choose(made.edge)
            self.cars.append(made)
        self._locate()

    @property
    def vehicles(self) -> list[Driven]:
        return list(self.cars)

    def close(self) -> None:
        pass

    def tell(self, number: int, area: str, limit: int) -> bool:
        """The driver has seen a sign. Whether it makes a difference."""
        vehicle = self.cars[number]
        vehicle.told[area] = limit
        return vehicle.obeys

    def _area_of(self, edge: Edge) -> str:
        x, y, _ = edge.place(edge.length / 2, 0)
        found = self.network.area_of(self.network.plane.degrees(x, y))
        return "" if found is None else found.name

    def _wish(self, vehicle: Vehicle, edge: Edge) -> float:
        """How fast its driver would go there, m/s."""
        limit = vehicle.told.get(self._areas[id(edge)]) if vehicle.obeys else None
        return (edge.speed if limit is None else min(edge.speed, limit / 3.6)) * vehicle.factor

    def _places(self) -> list[tuple[Edge, float, int]]:
        gap = LENGTH + S0 + 6
        return [
            (edge, number * gap + 5, lane)
            for edge in self.lanes.edges
            for lane in range(edge.lanes)
            for number in range(int((edge.length - 10) // gap))
        ]

    def _choose(self, edge: Edge) -> Edge:
        """Straight on more often than not."""
        ways = self.lanes.ways(edge)
        weights = [3.0 if abs((way.first - edge.last + 180) % 360 - 180) < 40 else 1.0 for way in ways]
        return self.chance.choices(ways, weights)[0]

    # One step

    def step(self) -> None:
        self._sort()
        seconds = self.now / 1000
        for vehicle in self.cars:
            vehicle.acceleration = self._acceleration(vehicle, seconds)
        for vehicle in self.cars:
            self._drive(vehicle)
        self.now += STEP_MS
        self._sort()
        for vehicle in self.cars:
            if vehicle.edge.lanes > 1 and (self.now // STEP_MS + vehicle.number) % 10 == 0:
                self._change_lane(vehicle)
        self._locate()

    def _sort(self) -> None:
        queues: dict[tuple[int, int], list[Vehicle]] = {}
        for vehicle in self.cars:
            queues.setdefault((self._numbers[id(vehicle.edge)], vehicle.lane), []).append(vehicle)
        for queue in queues.values():
            queue.sort(key=lambda one: (one.metres, one.number))
            for rank, vehicle in enumerate(queue):
                vehicle.rank = rank
        self._queues = queues

    def _queue(self, edge: Edge, lane: int) -> list[Vehicle]:
        return self._queues.get((self._numbers[id(edge)], lane), [])

    def _ahead(self, vehicle: Vehicle) -> tuple[float, float]:
        """Metres to the back of the next vehicle, and its speed."""
        queue = self._queue(vehicle.edge, vehicle.lane)
        if vehicle.rank + 1 < len(queue):
            other = queue[vehicle.rank + 1]
            return other.metres - LENGTH - vehicle.metres, other.speed
        far, edge, after = vehicle.edge.length - vehicle.metres, vehicle.edge, vehicle.next
        if far < LOOK and after is not None:
            queue = self._queue(after, min(vehicle.lane, after.lanes - 1))
            if queue and queue[0] is not vehicle and edge is not after:
                return far + queue[0].metres - LENGTH, queue[0].speed
        return math.inf, 0.0

    def _acceleration(self, vehicle: Vehicle, seconds: float) -> float:
        edge, after, speed = vehicle.edge, vehicle.next, vehicle.speed
        assert after is not None
        left = edge.length - vehicle.metres
        turn = min(edge.turn_speed(after), self._wish(vehicle, after))
        wanted = min(self._wish(vehicle, edge), math.sqrt(turn * turn + 2 * 1.5 * max(0.0, left - 2)))
        found = A * (1 - (speed / wanted) ** 4) if speed <= wanted else max(-SLOWING, -3.0 * (speed - wanted))
        gap, other = self._ahead(vehicle)
        found = min(found, _following(speed, gap, other))
        if left < LOOK and not self._may_cross(vehicle, left, seconds):
            found = min(found, _following(speed, left - 1.0, 0.0))
        return max(-HARDEST, found)

    def _may_cross(self, vehicle: Vehicle, left: float, seconds: float) -> bool:
        """Past a light one holds the edge that one comes onto, elsewhere the junction: from when one could just stop
        until one is across."""
        if vehicle.holds is not None and vehicle.holds in (vehicle.edge.end, vehicle.next):
            return True
        edge, after = vehicle.edge, vehicle.next
        assert after is not None
        if len(edge.end.leaving) <= 2:
            return True
        if not edge.is_green(seconds):
            return False
        if left > CROSSING + vehicle.speed * vehicle.speed / (2 * B):
            return left > 30.0 or edge.end.light is not None
        if vehicle.rank + 1 < len(self._queue(edge, vehicle.lane)):
            return False
        goal = edge.end if edge.end.light is None else after
        room = self._queue(after, min(vehicle.lane, after.lanes - 1))
        if goal.holder is None and (not room or room[0].metres > LENGTH + S0 + 2):
            goal.holder = vehicle
            vehicle.holds = goal
            return True
        return False

    def _drive(self, vehicle: Vehicle) -> None:
        before = vehicle.speed
        vehicle.speed = max(0.0, before + vehicle.acceleration * STEP)
        vehicle.metres += (before + vehicle.speed) / 2 * STEP
        if vehicle.holds in (vehicle.edge, vehicle.edge.begin) and vehicle.metres > LENGTH + S0:
            self._release(vehicle)
        while vehicle.metres >= vehicle.edge.length:
            assert vehicle.next is not None
            if vehicle.holds not in (vehicle.edge.end, vehicle.next):
                self._release(vehicle)
            vehicle.metres -= vehicle.edge.length
            vehicle.edge = vehicle.next
            vehicle.lane = min(vehicle.lane, vehicle.edge.lanes - 1)
            vehicle.next = self._choose(vehicle.edge)

    def _release(self, vehicle: Vehicle) -> None:
        if vehicle.holds is not None and vehicle.holds.holder is vehicle:
            vehicle.holds.holder = None
        vehicle.holds = None

    def _change_lane(self, vehicle: Vehicle) -> None:
        other = 1 - vehicle.lane if vehicle.edge.lanes == 2 else vehicle.lane - 1 if vehicle.lane else 1
        if vehicle.holds is not None or not KEEP < vehicle.metres < vehicle.edge.length - KEEP:
            return
        gap, _ = self._ahead(vehicle)
        wish = self._wish(vehicle, vehicle.edge)
        held_up = gap < 5 + 2 * vehicle.speed and vehicle.speed < 0.9 * wish
        back = vehicle.lane == 1 and gap > 60
        if not held_up and not back:
            return
        for one in self._queue(vehicle.edge, other):
            ahead = one.metres - vehicle.metres
            safe = LENGTH + S0 + (T * one.speed if ahead <= 0 else T * vehicle.speed)
            if abs(ahead) < safe:
                return
        vehicle.lane = other
        self._sort()

    def _locate(self) -> None:
        degrees = self.network.plane.degrees
        for vehicle in self.cars:
            x, y, vehicle.heading = vehicle.edge.place(vehicle.metres, vehicle.lane)
            vehicle.place = degrees(x, y)


def _following(speed: float, gap: float, other: float) -> float:
    if gap == math.inf:
        return A
    if gap <= 0.1:
        return -HARDEST if speed > 0 else 0.0
    wanted = S0 + max(0.0, speed * T + speed * (speed - other) / (2 * math.sqrt(A * B)))
    return float(A * (1 - (wanted / gap) ** 2))
