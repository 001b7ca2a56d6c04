"""Soft real time beside an ideal scheduler, and what nobody uses of the calendar.

The ideal is earliest deadline first without preemption, all nodes' events in one queue, deadlines known exactly: what
no bus can do, as 250 priorities must say what it knows. Both get the same arrivals, on 64 nodes, and the same bit
times. An event is late when its frame ends after its deadline.

    bursts    of up to 20 events at once: at times there is more to do than can be in time, whoever decides. Earliest
              deadline first is not the best there is then, and ours may miss fewer
    single    events at random with deadlines of a few frames: few are late, and it shows whether 250 priorities are
              enough

Nothing else is on the bus: no slots, no errors, no babbler.
"""

from heapq import heappop, heappush
from random import Random
from typing import NamedTuple, TypeAlias

from vicinal.cosmic.bits import INTERMISSION, frame_bits
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import pack
from vicinal.cosmic.node import Node
from vicinal_hw.can.bus import Bus
from vicinal_hw.can.stepped import Simulation

from .hard import NODES, calendar_of

__all__ = ["BURSTS", "LOADS", "SINGLE", "Kind", "Late", "Shares", "late", "shares"]

LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Kind(NamedTuple):
    """How many events come at once, and their deadlines in longest frames."""

    at_once: tuple[int, ...]
    deadlines: tuple[tuple[int, ...], ...]


BURSTS = Kind((1, 1, 1, 2, 4, 8, 20), ((3, 6, 12, 25, 60), (5, 30, 300, 1000, 3000)))
"""near deadlines, and such as go beyond what priorities tell apart"""
SINGLE = Kind((1,), ((2, 3, 4, 6, 12), (2, 5, 10, 20, 40)))

Arrival: TypeAlias = tuple[int, int, int, bytes]
"""when, at which node, deadline, data"""


class Late(NamedTuple):
    events: int
    ours: int
    ideal: int


def late(bitrate: int, kind: Kind, load: float, events: int, seed: int) -> Late:
    """So many events with each of the kinds of deadlines."""
    ours = ideal = 0
    for turn, deadlines in enumerate(kind.deadlines):
        arrived = arrivals(Random(2 * seed + turn), events, load, bitrate, kind.at_once, deadlines)
        ours += _on_the_bus(arrived, bitrate)
        ideal += _ideally(arrived, bitrate)
    return Late(events * len(kind.deadlines), ours, ideal)


def arrivals(
    random: Random, events: int, load: float, bitrate: int, at_once: tuple[int, ...], deadlines: tuple[int, ...]
) -> list[Arrival]:
    frame = 160 * 1_000_000 // bitrate
    sizes = (2, 4, 8, 8)
    bits = sum(frame_bits(Frame(pack(20, 33, 233), bytes(size))) for size in sizes) / len(sizes)
    mean = bits * 1_000_000 / bitrate
    found: list[Arrival] = []
    time = 0.0
    while len(found) < events:
        burst = random.choice(at_once)
        time += random.expovariate(1.0) * mean * burst / load
        for _ in range(burst):
            at = int(time + random.random() * frame)
            data = len(found).to_bytes(2, "big") + bytes(random.choice(sizes) - 2)
            found.append((at, random.randrange(NODES), at + random.choice(deadlines) * frame, data))
    return sorted(found[:events])


def _ideally(arrived: list[Arrival], bitrate: int) -> int:
    bit = 1_000_000_000 // bitrate
    queue: list[tuple[int, int, int]] = []
    now = missed = place = 0  # nanoseconds
    while place < len(arrived) or queue:
        if not queue:
            now = max(now, arrived[place][0] * 1000)
        while place < len(arrived) and arrived[place][0] * 1000 <= now:
            _, node, deadline, data = arrived[place]
            heappush(queue, (deadline, place, frame_bits(Frame(pack(20, node, 200 + node), data))))
            place += 1
        deadline, _, bits = heappop(queue)
        missed += (now + (bits - INTERMISSION) * bit) // 1000 > deadline
        now += bits * bit
    return missed


def _on_the_bus(arrived: list[Arrival], bitrate: int) -> int:
    simulation = Simulation(Bus(bitrate))
    simulation.bus.controller("who acknowledges").accept([])
    nodes = [Node(number, bitrate, max_messages=len(arrived)) for number in range(NODES)]
    channels = [SrtChannel(node, 200 + node.tx_node, 1, codec=Raw) for node in nodes]
    for channel in channels:
        channel.announce(0)
    stations = [simulation.attach(node, []) for node in nodes]
    coming = iter(arrived)

    def publish(arrival: Arrival) -> None:
        at, node, deadline, data = arrival
        channels[node].publish(data, at, deadline)
        stations[node].update()
        follow()

    def follow() -> None:
        arrival = next(coming, None)
        if arrival is not None:
            simulation.call_at(arrival[0], lambda: publish(arrival))

    follow()
    simulation.run(arrived[-1][0])
    while not simulation.bus.idle:
        simulation.run(simulation.now + 100_000)
    sent = sum(node.counters["out sent"] for node in nodes if node.counters)
    if sent != len(arrived):
        raise AssertionError(f"{sent} of {len(arrived)} events were sent")
    return sum(node.counters.get("out late", 0) for node in nodes)


class Shares(NamedTuple):
    """Bytes a second that non real-time events get of a bus with a calendar."""

    reserved: float
    speaking: float
    silent: float
    without: float
    """the same bus without a calendar"""


def shares(bitrate: int, cycles: int = 4) -> Shares:
    calendar = calendar_of(bitrate)
    end = calendar.cycle * cycles

    def measure(slots: bool, speaking: bool) -> float:
        simulation = Simulation(Bus(bitrate))
        simulation.bus.controller("who acknowledges").accept([])
        for slot in calendar.slots if slots else ():
            assert slot.tx_node is not None
            _speaker(simulation, slot.tx_node, HrtChannel(Node(slot.tx_node, bitrate), 200, slot, Raw), speaking)
        node = Node(NODES, bitrate)
        bulk = NrtChannel(node, 201, codec=Raw, fragmented=True)
        bulk.announce(0)
        station = simulation.attach(node, [])
        event = bytes(range(251)) * 4

        def feed() -> None:
            while node.stored < 3:
                bulk.publish(event, simulation.now)
            station.update()
            simulation.call_at(simulation.now + node.frame_time * 8, feed)

        feed()
        simulation.run(end)
        return node.counters["out sent"] * len(event) * 1e6 / end

    return Shares(
        calendar.reserved() / calendar.cycle, measure(True, True), measure(True, False), measure(False, False)
    )


def _speaker(simulation: Simulation, number: int, channel: HrtChannel, speaking: bool) -> None:
    slot = channel.slot
    channel.announce(0)
    station = simulation.attach(channel.node, [], f"node {number}")

    def publish() -> None:
        channel.publish(bytes(slot.size), simulation.now)
        station.update()
        simulation.call_at(simulation.now + slot.period, publish)

    if speaking:
        simulation.call_at(0, publish)
