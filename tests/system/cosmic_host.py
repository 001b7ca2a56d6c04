"""A computer on a stepped bus with all that COSMIC has: a clock of its own that drifts, names by the binding protocol,
the bus's time, channels; and, where wanted, a broker of names or the clock's master. The glue that an application has
around `vicinal.cosmic`, in stepped time."""

from collections.abc import Callable
from typing import Any

from vicinal.cosmic.binding import Binding
from vicinal.cosmic.binding_broker import BindingBroker
from vicinal.cosmic.binding_frames import BROKER, FIRST_ETAG
from vicinal.cosmic.clock import SUBJECT, BusClock
from vicinal.cosmic.clock_master import ClockMaster
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import NRT_FIRST, pack
from vicinal.cosmic.node import Node
from vicinal_hw.can.stepped import Simulation, Station

MILLION = 1_000_000


class Drifting:
    """A node whose clock started at another time and runs too fast or too slow: the station counts the bus's
    microseconds, the node its own."""

    def __init__(self, node: Node, offset: int, ppm: int) -> None:
        self.node = node
        self.offset = offset
        self.ppm = ppm
        self.bitrate = node.bitrate
        self.count = node.count

    def local(self, time: int) -> int:
        return self.offset + time + time * self.ppm // MILLION

    def true(self, local: "int | None") -> "int | None":
        """When the local clock will show it."""
        if local is None:
            return None
        time = (local - self.offset) * MILLION // (MILLION + self.ppm)
        while self.local(time) < local:
            time += 1
        return time

    def receive_frame(self, frame: Frame, now: int) -> None:
        self.node.receive_frame(frame, self.local(now))

    def frame_to_send(self, now: int) -> "Frame | None":
        return self.node.frame_to_send(self.local(now))

    def frame_sent(self, frame: Frame, now: int) -> None:
        self.node.frame_sent(frame, self.local(now))

    def transmit_error(self, now: int, frame: "Frame | None" = None) -> None:
        self.node.transmit_error(self.local(now), frame)

    def next_timeout(self) -> "int | None":
        return self.true(self.node.next_timeout())

    def next_timeouts(self) -> "tuple[int | None, int | None]":
        due, promotion = self.node.next_timeouts()
        return self.true(due), self.true(promotion)

    def handle_timeout(self, now: int) -> None:
        self.node.handle_timeout(self.local(now))

    def set_silent(self, silent: bool, now: int) -> None:
        self.node.set_silent(silent, self.local(now))


class Host:
    def __init__(self, simulation: Simulation, number: int, subjects: "list[str]", master: bool = False) -> None:
        self.simulation = simulation
        self.clock = BusClock()
        self.node = Node(BROKER, simulation.bus.bitrate, self.clock)
        self.drifting = Drifting(self.node, 5_000_000 * number, (number * 37) % 160 - 80)
        now = self.now
        self.binding = Binding(b"host" + number.to_bytes(4, "big"), now)
        self.master = ClockMaster(self.clock, 0, now) if master else None
        self.etags: dict[str, int] = {}
        self.told: list[tuple[str, str, int]] = []
        self.received: list[tuple[str, Any, int]] = []
        self.failed: list[tuple[str, str, Any]] = []
        self.lost: list[tuple[str, str]] = []
        for etag in range(FIRST_ETAG):
            self.node.listen(etag, self._on_binding)
        for subject in [SUBJECT, *subjects]:
            self.binding.want(subject)
        self.station: Station = simulation.attach(self.drifting, None, f"host {number}")  # type: ignore[arg-type]
        self._wakes: int | None = None
        self.stir()

    @property
    def now(self) -> int:
        """by our own clock"""
        return self.drifting.local(self.simulation.now)

    @property
    def ready(self) -> bool:
        return self.binding.tx_node is not None and len(self.etags) == len(self.binding.etags._wanted)

    # Names and time

    def _on_binding(self, frame: Frame, now: int) -> None:
        self.binding.receive(frame, now)
        self.simulation.call_at(self.simulation.now, self.stir)

    def _on_time(self, frame: Frame, now: int) -> None:
        (self.clock if self.master is None else self.master).receive(frame.data, now)

    def _time_sent(self, frame: Frame, now: int) -> None:
        if self.master is not None:
            self.master.sent(now)
            self.simulation.call_at(self.simulation.now, self.stir)

    def stir(self) -> None:
        """Whatever is due in binding and clock; what they say goes into the node's queue."""
        now = self.now
        due = self.binding.next_timeout()
        if due is not None and due <= now:
            self.binding.handle_timeout(now)
        for frame in self.binding.frames_to_send(now):
            assert self.node.send_frame(frame, now)
        while (event := self.binding.next_event()) is not None:
            self._named(event)
        due = self.binding.next_timeout()
        if self.master is not None and SUBJECT in self.etags:
            data = self.master.data_to_send(now)
            if data is not None:
                number = pack(NRT_FIRST, self.node.tx_node, self.etags[SUBJECT])
                assert self.node.send_frame(Frame(number, data), now)
            due = min(self.master.next_timeout(), due or self.master.next_timeout())
        self.station.update()
        self._wake(due)

    def _wake(self, due: "int | None") -> None:
        if due is None or due == self._wakes:
            return
        self._wakes = due
        at = self.drifting.true(due)
        assert at is not None

        def wake() -> None:
            if self._wakes == due:
                self._wakes = None
                self.stir()

        self.simulation.call_at(max(at, self.simulation.now + 1), wake)

    def _named(self, event: "tuple[str, str, int]") -> None:
        self.told.append(event)
        kind, subject, number = event
        if kind == "node":
            self.node.tx_node = number
        elif kind == "bound":
            self.etags[subject] = number
            if subject == SUBJECT:
                self.node.listen(number, self._on_time, self._time_sent)

    # Channels

    def hears(self, subject: str) -> "tuple[Callable[[Any, int, int], None], int, Callable[[str, Any, int], None]]":
        """Arguments for subscribe()."""
        return (
            lambda event, tx_node, now: self.received.append((subject, event, tx_node)),
            self.now,
            lambda reason, event, now: self.lost.append((subject, reason)),
        )

    def fails(self, subject: str) -> "tuple[int, Callable[[str, Any, int], None]]":
        """Arguments for announce()."""
        return self.now, lambda reason, event, now: self.failed.append((subject, reason, event))

    def publish(self, channel: Any, event: Any) -> bool:
        done: bool = channel.publish(event, self.now)
        self.station.update()
        return done


class BrokerHost:
    """A broker of names and nothing else."""

    def __init__(self, simulation: Simulation, rank: int) -> None:
        self.simulation = simulation
        self.node = Node(BROKER, simulation.bus.bitrate)
        self.broker = BindingBroker(rank, simulation.now)
        for etag in range(FIRST_ETAG):
            self.node.listen(etag, self._on_frame)
        self.station = simulation.attach(self.node, [(0, 0x3F80, True)], f"broker {rank}")
        self.alive = True
        self._wakes: int | None = None
        self.stir()

    def _on_frame(self, frame: Frame, now: int) -> None:
        self.broker.receive(frame, now)
        self.simulation.call_at(now, self.stir)

    def stir(self) -> None:
        if not self.alive:
            return
        now = self.simulation.now
        due = self.broker.next_timeout()
        if due is not None and due <= now:
            self.broker.handle_timeout(now)
        for frame in self.broker.frames_to_send(now):
            assert self.node.send_frame(frame, now)
        self.station.update()
        due = self.broker.next_timeout()
        if due is not None and due != self._wakes:
            self._wakes = due
            self.simulation.call_at(max(due, now + 1), lambda: self._wake(due))

    def _wake(self, due: int) -> None:
        if self._wakes == due:
            self._wakes = None
            self.stir()

    def kill(self) -> None:
        """What it had queued is gone, and a frame that it is sending is cut off."""
        self.alive = False
        self.station.controller.detach()
