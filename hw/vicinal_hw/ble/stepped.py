"""STEAM nodes on the virtual radio in stepped time: what a simulation and a bench drive.

    simulation = Simulation(Air(seed=1), Plane(lat, lon))
    station = simulation.attach(node, lat, lon)
    simulation.call_at(1_000, lambda: station.publish(event))      milliseconds, as nodes count
    simulation.run(60_000)

Each station has its own clock phase, by the seed: real ones were not switched on in the same millisecond. A handler
that publishes does so through its station.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from vicinal.event import Event
from vicinal.steam.node import Node

from .air import DEFAULT_POWER, Air
from .positions import Plane
from .turns import Turns

__all__ = ["Simulation", "Station"]

MILLISECOND = 1000


class Station:
    """A node and its radio."""

    def __init__(self, simulation: "Simulation", node: Node, interval: int, power: int, start: int) -> None:
        self.node = node
        self.radio = simulation.air.radio(node.name, power=power)
        self.radio.on_heard = self._on_heard
        self.radio.scan()
        self._simulation = simulation
        self._interval = interval * MILLISECOND
        self._turns = Turns(node, self._advertise, interval)
        self._timer: int | None = None
        simulation.call_at(start, self.update)
        self._start = start

    def move(self, lat: int, lon: int) -> None:
        self.radio.move(*self._simulation.plane.metres(lat, lon))
        self.node.set_position(lat, lon, self._simulation.now)
        self.update()

    def publish(self, event: Event) -> bool:
        taken = self.node.publish(event, self._simulation.now)
        self.update()
        return taken

    def update(self) -> None:
        """To be called after the node was told something behind the simulation's back: an announcement, say."""
        now = self._simulation.now
        if now < self._start:
            return
        self._wake(self._turns.service(now))

    def _wake(self, timer: int | None) -> None:
        now = self._simulation.now
        # One that is set already and comes too early does no harm: what is due is looked up then.
        if timer is not None and (self._timer is None or timer < self._timer):
            self._timer = max(timer, now + 1)
            self._simulation._set_timer(self._timer, self)

    def _expire(self, time: int) -> None:
        if self._timer == time:
            self._timer = None
            self.update()

    def _advertise(self, data: bytes | None) -> None:
        self.radio.advertise(data, self._interval)

    def _on_heard(self, data: bytes, rssi: int, now: int) -> None:
        self.node.receive(data, rssi, self._simulation.now)
        self._wake(self.node.next_timeout())


class Simulation:
    """Time is milliseconds here, as in nodes; the air counts microseconds. `epoch` is what it is at the start."""

    def __init__(self, air: Air, plane: Plane, seed: int = 0, epoch: int = 0) -> None:
        self.air = air
        self.plane = plane
        self.epoch = epoch
        self.stations: list[Station] = []
        self._random = Random(seed)
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def now(self) -> int:
        return self.epoch + self.air.now // MILLISECOND

    def attach(self, node: Node, lat: int, lon: int, interval: int = 100, power: int = DEFAULT_POWER) -> Station:
        start = self.now + self._random.randrange(interval)
        station = Station(self, node, interval, power, start)
        self.stations.append(station)
        station.move(lat, lon)
        return station

    def call_at(self, time: int, action: Callable[[], None]) -> None:
        self._count += 1  # equal times in the order in which they were asked for
        heappush(self._timers, (max(time, self.now), self._count, action))

    def run(self, until: int) -> None:
        """What is due at `until` is done."""
        timers, air = self._timers, self.air
        while True:
            limit = min(timers[0][0], until) if timers else until
            if air.step(max((limit - self.epoch) * MILLISECOND, air.now)):
                continue
            if not timers or timers[0][0] > until:
                return
            heappop(timers)[2]()

    def _set_timer(self, time: int, station: Station) -> None:
        self.call_at(time, lambda: station._expire(time))
