"""What faults cost: bus-off on a full bus, fragments of somebody who means ill, and three channels on a device.

Bus-off is measured twice, in stepped time: with a controller that tells its node at once, and with one that is only
asked for its state, as often as Recovery wants. The bus is full of the longest frames, so that the way back takes
longest: 128 times 11 recessive bits, of which there are 11 after each frame.
"""

import tracemalloc
from collections.abc import Iterator
from typing import NamedTuple

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import BUS_OFF
from vicinal.cosmic.fragments import fragments
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import NRT_FIRST, pack, unpack
from vicinal.cosmic.node import Node
from vicinal_hw.can.bus import INTACT, LAST_BIT, Bus
from vicinal_hw.can.controller import State
from vicinal_hw.can.stepped import NAMES, Simulation

__all__ = ["BusOff", "Hostile", "bus_off", "hostile"]

_EVENTS = 50


class BusOff(NamedTuple):
    detected: int
    """microseconds after the controller went off"""
    back: int
    """microseconds after the controller went off"""
    queued: int
    lost: int
    """or delivered twice, or out of order"""


def bus_off(bitrate: int, told: bool) -> BusOff:
    off: list[int] = []
    known: list[int] = []
    back: list[int] = []

    def omit(frame: Frame, attempts: int, start: int) -> int:
        return LAST_BIT if not off and unpack(frame.id)[1] == 1 else INTACT

    simulation = Simulation(Bus(bitrate, omit))
    station = simulation.attach(Node(1, bitrate), [], "the node that goes off")
    controller = station.controller
    told_state = controller.on_state
    assert told_state is not None

    def on_state(state: State, now: int) -> None:
        if state is State.BUS_OFF:
            off.append(now // 1000)
        if told:
            told_state(state, now)

    def poll() -> None:
        now = simulation.now
        if station.recovery.report(NAMES[controller.state], now):
            controller.recover()
        station.update()
        simulation.call_at(station.recovery.next_timeout(), poll)

    def changed(state: str, now: int) -> None:
        if state == BUS_OFF:
            known.append(now)
        elif off:
            back.append(now)

    controller.on_state = on_state
    station.recovery.on_change = changed
    if not told:
        simulation.call_at(1, poll)
    heard: list[bytes] = []
    listener = simulation.attach(Node(2, bitrate), [(200, 0x3FFF, True)])
    SrtChannel(listener.node, 200, 1, codec=Raw).subscribe(lambda event, tx_node, now: heard.append(event), 0)
    _fill(simulation, bitrate)
    speed = SrtChannel(station.node, 200, 1_000_000, codec=Raw)
    speed.announce(0)
    events = [bytes([number]) for number in range(_EVENTS)]
    for event in events:
        speed.publish(event, 0)
    station.update()
    simulation.run(1_000_000)
    lost = 0 if heard == events else max(1, _EVENTS - len(set(heard)))
    return BusOff(known[0] - off[0], back[0] - off[0], _EVENTS, lost)


def _fill(simulation: Simulation, bitrate: int) -> None:
    """Somebody who always has a longest frame, at the lowest urgency."""
    controller = simulation.bus.controller("full")
    controller.accept([])
    frame = Frame(pack(NRT_FIRST, 0, 0), bytes(8))
    controller.on_sent = lambda sent, now: controller.load(frame)
    controller.load(frame)


class Hostile(NamedTuple):
    frames: int
    peak: int
    """bytes"""
    recovered: int
    """microseconds after the last hostile frame, until an honest event of any sender comes through"""
    dropped: dict[str, int]
    balanced: bool


def hostile() -> Hostile:
    """Every sender that can be forged announces 2^32 bytes, sends wrong counts and fragments of nothing, and lets as
    many long events grow as it may, faster than any bus. Then an honest node tries every 10 ms."""
    node = Node(1, 1_000_000)
    got: list[bytes] = []
    for etag in _ETAGS:
        channel = NrtChannel(node, etag, codec=Raw, fragmented=True)
        channel.subscribe(lambda event, tx_node, now: got.append(event), 0)
    frames = 0
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        for tx_node, etag, payload in _attack():
            frames += 1
            node.receive_frame(Frame(pack(NRT_FIRST, tx_node, etag), payload), frames)
        peak = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    honest = bytes(range(256)) * 12
    now = frames
    while not got and now < frames + 10_000_000:
        now += 10_000
        for payload in fragments(honest):
            node.receive_frame(Frame(pack(NRT_FIRST, 126, _ETAGS[0]), payload), now)
    came = sum(node.counters[what] for what in _CAME)
    booked = sum(count for what, count in node.counters.items() if what[:3] == "in " and what not in _CAME)
    return Hostile(frames, peak, now - frames, node.reassembly().dropped, came == booked and got == [honest])


_CAME = ("in received", "in reassembled")
_ETAGS = range(200, 224)


def _attack() -> Iterator[tuple[int, int, bytes]]:
    four_gb = (0b1111001 << 33 | (1 << 32) // 3).to_bytes(5, "big") + bytes(3)
    event = list(fragments(bytes(4_000)))
    for tx_node in range(2, 126):
        for etag in _ETAGS:
            for payload in (four_gb, event[0], event[30], event[1], b"", b"\xff" * 8):
                yield tx_node, etag, payload
    for payload in event[:20]:
        for tx_node in range(2, 126):
            for etag in _ETAGS[:20]:
                yield tx_node, etag, payload
