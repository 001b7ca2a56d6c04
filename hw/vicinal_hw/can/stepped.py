"""COSMIC nodes on the virtual bus in stepped time: what a simulation and a bench drive.

    simulation = Simulation(Bus(500_000))
    station = simulation.attach(node, filters)
    simulation.call_at(1_000, lambda: node.publish(...))     microseconds, as nodes count
    simulation.run(1_000_000)

After everything that a node hears or does, its mailbox is made to hold what the node wants sent now: the one-frame
rule. A frame on the wire cannot be exchanged; if it is destroyed there, it comes back, and what is wanted then goes
next. Priorities that have risen are looked at when the bus is contested: nobody can see the difference, and a full bus
is simulated in less time.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from vicinal.cosmic.faults import ACTIVE, BUS_OFF, PASSIVE, WARNING, Recovery
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.node import Node

from .bus import Bus
from .controller import Controller, Mask, State

__all__ = ["NAMES", "Simulation", "Station"]

MICROSECOND = 1000
NAMES = {State.ACTIVE: ACTIVE, State.WARNING: WARNING, State.PASSIVE: PASSIVE, State.BUS_OFF: BUS_OFF}


class Station:
    """A node and its controller."""

    def __init__(self, simulation: "Simulation", node: Node, controller: Controller) -> None:
        self.node = node
        self.controller = controller
        self.recovery = Recovery(node)
        self._simulation = simulation
        self._timer: int | None = None
        controller.on_receive = self._on_receive
        controller.on_sent = self._on_sent
        controller.on_error = self._on_error
        controller.on_abort = self._on_abort
        controller.on_state = self._on_state

    def update(self) -> None:
        """To be called after the node was told something behind the simulation's back: a publish, say."""
        controller, node, simulation = self.controller, self.node, self._simulation
        if controller.state is not State.BUS_OFF:
            wanted = node.frame_to_send(simulation.now)
            held = controller.mailbox
            if wanted is not held and wanted != held and (held is None or controller.abort()) and wanted is not None:
                controller.load(wanted)
        timer, promotion = node.next_timeouts()
        if controller.state is State.BUS_OFF:
            again = self.recovery.next_timeout()
            timer = again if timer is None else min(timer, again)
        if promotion is not None:
            simulation._rising[self] = promotion
        else:
            simulation._rising.pop(self, None)
        if timer != self._timer:
            self._timer = timer
            if timer is not None:
                simulation._set_timer(timer, self)

    def _expire(self, time: int) -> None:
        if self._timer == time:
            self._timer = None
            now = self._simulation.now
            if self.controller.state is State.BUS_OFF:
                self._report(now)
            self.node.handle_timeout(now)
            self.update()

    def _report(self, now: int) -> None:
        if self.recovery.report(NAMES[self.controller.state], now):
            self.controller.recover()

    def _on_receive(self, frame: Frame, now: int) -> None:
        self.node.receive_frame(frame, now // MICROSECOND)
        self.update()

    def _on_sent(self, frame: Frame, now: int) -> None:
        self.node.frame_sent(frame, now // MICROSECOND)
        self.update()

    def _on_error(self, frame: Frame | None, now: int) -> None:
        if frame is not None:
            self.node.transmit_error(now // MICROSECOND, frame)
            self.update()

    def _on_abort(self, frame: Frame, now: int) -> None:
        self.update()

    def _on_state(self, state: State, now: int) -> None:
        self._report(now // MICROSECOND)
        self.update()


class Simulation:
    """Time is microseconds here, as in nodes; the bus counts nanoseconds."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.stations: list[Station] = []
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._rising: dict[Station, int] = {}  # whose frame gets another priority, and when
        self._count = 0

    @property
    def now(self) -> int:
        return self.bus.now // MICROSECOND

    def attach(self, node: Node, filters: Iterable[Mask] | None = None, name: str = "") -> Station:
        """`filters` None: the node hears everything, which costs the simulation a call for each frame."""
        controller = self.bus.controller(name)
        controller.accept(filters)
        station = Station(self, node, controller)
        self.stations.append(station)
        station.update()
        return station

    def call_at(self, time: int, action: Callable[[], None]) -> None:
        self._count += 1  # equal times in the order in which they were asked for
        heappush(self._timers, (max(time, self.now), self._count, action))

    def run(self, until: int) -> None:
        """What is due at `until` is done, contests for the bus at `until` stay open."""
        timers, bus = self._timers, self.bus
        while True:
            limit = timers[0][0] if timers else until
            if limit > until:
                limit = until
            limit = max(limit * MICROSECOND, bus.now)
            if (self._rising and self._promote(limit)) or bus.step(limit):
                continue
            if not timers or timers[0][0] > until:
                return
            heappop(timers)[2]()

    def _promote(self, limit: int) -> bool:
        """Whether priorities have risen for a contest that is next. They count then, and not while somebody sends."""
        contest = self.bus.contest_at()
        if contest is None or contest > limit:
            return False
        now = contest // MICROSECOND
        due = [station for station, promotion in self._rising.items() if promotion <= now]
        if not due:
            return False
        if not self.bus.step(max(contest, self.bus.now)):
            for station in due:
                station.node.handle_timeout(now)
                station.update()
        return True

    def _set_timer(self, time: int, station: Station) -> None:
        self.call_at(time, lambda: station._expire(time))
