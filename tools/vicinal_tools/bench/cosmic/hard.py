"""Hard real time under everything at once: does any admitted event miss its slot?

64 nodes, each with a hard real-time channel, in a calendar that holds 95 % of the bus. All of them also send soft
real-time events, one node or another in nearly even gaps, so that both and their repetitions load the bus to 95 %, with
the longest frames there are.
A controller that babbles at non real-time priority takes every bit that is left. A transmission is destroyed at its
last bit, which costs most: a frame of a slot up to as often as was declared for its channel, any other up to twice in a
row. The nodes' clocks are off by up to half the precision that the calendar was told.

    latency     from the slot's ready time until its last frame is sent, never more than the window
    missed      the publisher's or the subscriber's exception handler was told
"""

from random import Random
from typing import NamedTuple

from vicinal.cosmic.bits import frame_bits
from vicinal.cosmic.calendar import Calendar, Refused
from vicinal.cosmic.channels import Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import MAX_ETAG, NRT_FIRST, pack
from vicinal.cosmic.node import Node
from vicinal.cosmic.slot import Slot, frames_of, window_of
from vicinal_hw.can.bus import INTACT, LAST_BIT, Bus
from vicinal_hw.can.controller import Controller, State
from vicinal_hw.can.stepped import Simulation, Station

__all__ = ["BITRATES", "LOAD", "NODES", "Hard", "run"]

BITRATES = (125_000, 250_000, 500_000, 1_000_000)
NODES = 64
LOAD = 0.95
# What is reckoned for it: repetitions cost less than the reckoning says, as a destroyed frame is cut short.
_RECKONED = 0.967
DESTROYED = 0.05
"""of the frames. Each time costs the sender 8 on its error counter and each success gives back 1: much more, and nodes
go bus-off, which no calendar plans for"""
BABBLER = 127
_FIRST_HRT, _FIRST_SRT, _BABBLE = 200, 400, 600

# Bytes and omission degree, by turns; every 16th node has an event in fragments, all in one slot.
_KINDS = ((8, 1), (8, 0), (8, 2), (2, 1))
_LONG = (20, 1)
_SRT_DATA = bytes(8)  # zeros need most stuff bits
_BABBLED = Frame(pack(NRT_FIRST, BABBLER, 0), bytes(8))


class Hard(NamedTuple):
    bitrate: int
    slots: int
    missed: int
    worst: int
    """microseconds from the ready time"""
    bound: int
    """the window of the slot that was closest to its own, in microseconds"""
    above: int
    """slots that took longer than their window"""
    destroyed: int
    babbled: int
    """frames of the babbling controller"""
    reserved: float
    """of the bus, by the calendar"""
    load: float
    """of the bus, measured, the babbler's too"""
    without: float
    """the same without the babbler's frames"""
    misses: list[str]


class Skewed:
    """A clock that is off by a constant."""

    def __init__(self, off: int) -> None:
        self.off = off

    def in_sync(self, now: int) -> bool:
        return True

    def to_global(self, now: int) -> int:
        return now + self.off

    def to_local(self, time: int) -> int:
        return time - self.off


class Disturbance:
    """Destroys transmissions: in a slot as many as its channel declared, at most, of others two in a row."""

    def __init__(self, seed: int, slots: dict[int, Slot]) -> None:
        self._random = Random(seed)
        self._slots = slots
        self._left: dict[int, int] = {}  # by identifier
        self._until: dict[int, int] = {}  # the end of the slot that this is meant for
        self.destroyed = 0

    def __call__(self, frame: Frame, attempts: int, start: int) -> int:
        number = frame.id
        slot = None if number >> 21 else self._slots[number]
        first = not attempts if slot is None else start >= self._until.get(number, 0)
        if first:
            degree = 2 if slot is None else slot.omissions
            self._left[number] = self._random.randint(0, degree) if self._random.random() < DESTROYED else 0
            if slot is not None:
                self._until[number] = start + slot.length * 1000
        left = self._left.get(number)
        if not left or (slot is not None and slot.size > 8 and self._random.random() < 0.5):
            return INTACT
        self._left[number] = left - 1
        self.destroyed += 1
        return LAST_BIT


class Sender:
    """A node with a hard and a soft real-time channel, who hears its neighbour's."""

    def __init__(self, number: int, bitrate: int, off: int, slot: Slot, neighbour: Slot) -> None:
        self.node = Node(number, bitrate, Skewed(off))
        self.off = off
        self.slot = slot
        self.neighbour = neighbour
        self.worst = 0
        self.above = 0
        self.missed: list[tuple[str, int]] = []
        self.delivered = 0
        self.published = 0
        self.hard = HrtChannel(self.node, _FIRST_HRT + number, slot, Raw)
        self.soft = SrtChannel(self.node, _FIRST_SRT + number, 1, codec=Raw)
        self.heard = _FIRST_HRT + (number + 1) % NODES
        self.hard.announce(0, self._failed)
        self.soft.announce(0)
        HrtChannel(self.node, self.heard, neighbour, Raw).subscribe(self._on_event, 0, self._missing)
        self._publish(0)

    def _publish(self, now: int) -> None:
        size = self.slot.size
        self.hard.publish((self.published % (1 << 8 * size)).to_bytes(size, "big"), now)
        self.published += 1

    def _failed(self, reason: str, event: object, now: int) -> None:
        self.missed.append((reason, now))
        self._publish(now)

    def _missing(self, reason: str, event: object, now: int) -> None:
        self.missed.append((reason, now))

    def _on_event(self, event: bytes, tx_node: int, now: int) -> None:
        if int.from_bytes(event, "big") != self.delivered % (1 << 8 * len(event)):
            self.missed.append((f"event {event.hex()} after {self.delivered}", now))
        self.delivered += 1

    def deliveries_until(self, end: int) -> int:
        """How many slots of the neighbour's have ended by our clock, reckoned without anybody's counters."""
        slot = self.neighbour
        return (self.node.clock.to_global(end) - slot.phase - slot.length) // slot.period + 1

    def attach(self, simulation: Simulation) -> Station:
        station = simulation.attach(self.node, [(self.heard, MAX_ETAG, True)], f"node {self.node.tx_node}")
        slot, sent, off = self.slot, station.controller.on_sent, self.off
        assert sent is not None

        def on_sent(frame: Frame, now: int) -> None:
            if not frame.id >> 21:
                took = (now // 1000 + off - slot.phase) % slot.period
                if took > self.worst:
                    self.worst = took
                self.above += took > slot.window
            if self.hard.written is None:
                self._publish(now // 1000)
            sent(frame, now)

        station.controller.on_sent = on_sent
        return station


def calendar_of(bitrate: int) -> Calendar:
    """Slots one behind the other, in three periods, until 95 % of the bus are reserved."""
    precision = max(20, 10_000_000 // bitrate)
    kinds = [_LONG if number % 16 == 15 else _KINDS[number % 4] for number in range(NODES)]
    turns = [4 if number % 4 == 0 else 1 if number % 4 == 1 else 2 for number in range(NODES)]
    total = sum((window_of(*kind, bitrate) + precision) * turn for kind, turn in zip(kinds, turns))
    shortest = int(total / 4 / LOAD)
    while True:
        found = Calendar(bitrate, precision)
        try:
            for number in sorted(range(NODES), key=lambda number: -turns[number]):
                size, degree = kinds[number]
                found.reserve(f"c{number}", shortest * 4 // turns[number], size, degree, number, precision)
            return found
        except Refused:
            shortest += max(1, shortest // 500)


def run(bitrate: int, slots: int, seed: int) -> Hard:
    """At least so many slots, in whole cycles of the calendar."""
    random = Random(seed)
    calendar = calendar_of(bitrate)
    of = {slot.tx_node: slot for slot in calendar.slots}
    disturbance = Disturbance(seed, {pack(0, number, _FIRST_HRT + number): of[number] for number in range(NODES)})
    bus = Bus(bitrate, disturbance)
    simulation = Simulation(bus)
    half = calendar.precision // 2
    senders = [
        Sender(number, bitrate, random.randint(-half, half), of[number], of[(number + 1) % NODES])
        for number in range(NODES)
    ]
    stations = [sender.attach(simulation) for sender in senders]
    in_a_cycle = sum(calendar.cycle // slot.period for slot in calendar.slots)
    end = calendar.cycle * (-(-slots // in_a_cycle) + 1)
    _load_softly(simulation, senders, stations, random, _gap(calendar))
    babbler = _babble(bus)
    simulation.run(end)
    expected = sum(sender.deliveries_until(end) for sender in senders)
    delivered = sum(sender.delivered for sender in senders)
    told = sum(len(sender.missed) for sender in senders)
    nearest = max(senders, key=lambda sender: sender.worst / sender.slot.window)
    return Hard(
        bitrate,
        expected,
        max(told, expected - delivered),
        nearest.worst,
        nearest.slot.window,
        sum(sender.above for sender in senders),
        disturbance.destroyed,
        babbler.sent,
        calendar.reserved() / calendar.cycle,
        bus.busy / bus.now,
        bus.busy / bus.now - babbler.sent * _microseconds(_BABBLED.id, _BABBLED.data, bitrate) * 1000 / bus.now,
        [f"node {sender.node.tx_node}: {each}" for sender in senders for each in sender.missed[:3]],
    )


def _microseconds(number: int, data: bytes, bitrate: int) -> float:
    return frame_bits(Frame(number, data)) * 1e6 / bitrate


def _gap(calendar: Calendar) -> float:
    """Microseconds from one soft real-time event to the next, with which both classes load the bus as wanted."""
    bitrate = calendar.bitrate
    again = 1 + DESTROYED * 1.2  # how often a frame is destroyed, on the average, with the error frame's length
    hard = sum(
        frames_of(slot.size) * _microseconds(pack(0, 33, 233), bytes(min(slot.size, 8)), bitrate) / slot.period
        for slot in calendar.slots
    )
    return _microseconds(pack(20, 33, 433), _SRT_DATA, bitrate) * again / (_RECKONED - hard * again)


def _load_softly(
    simulation: Simulation, senders: list[Sender], stations: list[Station], random: Random, gap: float
) -> None:
    """From one node or another, with deadlines of 5 to 100 frames."""
    frame = senders[0].node.frame_time
    at = 0.0

    def publish() -> None:
        nonlocal at
        number, now = random.randrange(NODES), simulation.now
        senders[number].soft.publish(_SRT_DATA, now, now + random.randrange(5, 100) * frame)
        stations[number].update()
        at += gap * (0.5 + random.random())
        simulation.call_at(int(at), publish)

    simulation.call_at(0, publish)


def _babble(bus: Bus) -> Controller:
    """A controller that always has a frame, the longest there is, and nobody who could stop it."""
    controller = bus.controller("babbler")
    controller.accept([])
    frame = _BABBLED
    controller.on_sent = lambda sent, now: controller.load(frame)

    def on_state(state: State, now: int) -> None:
        if state is State.BUS_OFF:
            controller.recover()
        elif controller.mailbox is None:
            controller.load(frame)

    controller.on_state = on_state
    controller.load(frame)
    return controller
