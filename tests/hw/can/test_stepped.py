"""COSMIC nodes on the virtual bus in stepped time."""

from random import Random

import pytest
from cosmic_bus import TinyBus

from vicinal.cosmic.bits import worst_bits
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import ACTIVE, BUS_OFF
from vicinal.cosmic.identifier import unpack
from vicinal.cosmic.node import Node
from vicinal_hw.can.bus import INTACT, LAST_BIT, Bus
from vicinal_hw.can.omissions import Omissions
from vicinal_hw.can.stepped import Simulation

SPEED, TEXT = 200, 201


def channels(node: Node, now: int) -> tuple[SrtChannel, NrtChannel]:
    speed = SrtChannel(node, SPEED, deadline=100_000, codec=Raw, fragmented=False)
    text = NrtChannel(node, TEXT, codec=Raw, fragmented=True)
    speed.announce(now)
    text.announce(now)
    return speed, text


@pytest.mark.parametrize("bitrate", [125_000, 250_000, 500_000, 1_000_000])
def test_many_nodes_and_every_event_once(bitrate: int) -> None:
    simulation = Simulation(Bus(bitrate, Omissions(7, 0.05, anywhere=True)))
    heard: list[tuple[int, bytes]] = []
    listener = simulation.attach(Node(100, bitrate))
    for etag, fragmented in ((SPEED, False), (TEXT, True)):
        channel = NrtChannel(listener.node, etag, codec=Raw, fragmented=fragmented)
        channel.subscribe(lambda event, tx_node, now: heard.append((tx_node, event)), 0)
    expected = []
    stations = []
    for number in range(1, 33):
        station = simulation.attach(Node(number, bitrate), [])
        stations.append(station)
        speed, text = channels(station.node, 0)
        for turn in range(5):

            def publish(station=station, speed=speed, text=text, turn=turn) -> None:  # type: ignore[no-untyped-def]
                speed.publish(bytes([turn]), simulation.now)
                text.publish(bytes([turn]) * 20, simulation.now)
                station.update()

            simulation.call_at(turn * 5_000 + number, publish)
            expected += [(number, bytes([turn])), (number, bytes([turn]) * 20)]
    simulation.run(3_000_000)
    assert sorted(heard) == sorted(expected)
    assert all(station.node.stored == 0 for station in stations)
    assert simulation.bus.errors > 0
    assert simulation.bus.idle


def test_bus_off_on_a_full_bus_is_over_within_50_ms_and_loses_nothing() -> None:
    """Detected when it happens, back after 128 frames of the others; the longest frames there are, and a full bus."""
    bitrate = 500_000
    destroyed = True

    def omit(frame: object, attempts: int, start: int) -> int:
        return LAST_BIT if destroyed and unpack(frame.id)[1] == 1 else INTACT  # type: ignore[attr-defined]

    simulation = Simulation(Bus(bitrate, omit))
    one, two = simulation.attach(Node(1, bitrate)), simulation.attach(Node(2, bitrate), [])
    heard: list[bytes] = []
    receiver = simulation.attach(Node(3, bitrate), [(SPEED, 0x3FFF, True)])
    SrtChannel(receiver.node, SPEED, deadline=100_000, codec=Raw, fragmented=False).subscribe(
        lambda event, tx_node, now: heard.append(event), 0
    )
    changes: list[tuple[str, int]] = []
    one.recovery.on_change = lambda state, now: changes.append((state, now))
    speed, _ = channels(one.node, 0)
    _, text = channels(two.node, 0)
    for number in range(20):
        speed.publish(bytes([number]), 0)
    one.update()

    def flood() -> None:
        while two.node.stored < 3:
            text.publish(b"\0" * 200, simulation.now)
        two.update()
        if simulation.now < 200_000:
            simulation.call_at(simulation.now + 1_000, flood)

    flood()
    while not any(state == BUS_OFF for state, _ in changes):
        simulation.run(simulation.now + 100)
    destroyed = False
    simulation.run(1_000_000)
    off = next(at for state, at in changes if state == BUS_OFF)
    back = next(at for state, at in changes if state == ACTIVE and at > off)
    longest = worst_bits(8) * 1_000_000 // bitrate
    assert 2_816 < back - off <= 128 * longest + 2_816
    assert back - off < 50_000
    assert heard == [bytes([number]) for number in range(20)]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_a_bus_that_asks_everybody_each_time(seed: int) -> None:
    """Stations look at rising priorities only when the bus is contested: against a model that asks all nodes."""
    random = Random(seed)
    bitrate = 1_000_000  # a bit is a microsecond: both count exactly
    arrivals = []
    for number in range(600):
        at = random.randrange(60_000)
        arrivals.append((at, random.randrange(16), at + random.randrange(300, 60_000), number.to_bytes(2, "big")))
    arrivals.sort()

    def publishers() -> tuple[list[Node], list[SrtChannel]]:
        nodes = [Node(number, bitrate) for number in range(16)]
        made = [SrtChannel(node, SPEED, 1, codec=Raw) for node in nodes]
        for channel in made:
            channel.announce(0)
        for node in nodes:
            node.channels = {}
        return nodes, made

    nodes, ours = publishers()
    simulation = Simulation(Bus(bitrate))
    stations = [simulation.attach(node, []) for node in nodes]
    log: list[tuple[int, bytes]] = []
    simulation.bus.controller("ear").on_receive = lambda frame, now: log.append((frame.id, frame.data))
    model = TinyBus(bitrate, publishers()[0])
    theirs = [SrtChannel(node, SPEED, 1, codec=Raw) for node in model.nodes]
    for channel in theirs:
        channel.announced = True
    for at, place, deadline, data in arrivals:

        def publish(at=at, place=place, deadline=deadline, data=data) -> None:  # type: ignore[no-untyped-def]
            ours[place].publish(data, at, deadline)
            stations[place].update()

        simulation.call_at(at, publish)
        model.at(at, lambda at=at, place=place, due=deadline, data=data: theirs[place].publish(data, at, due))
    simulation.run(200_000)
    model.run(200_000)
    assert len(log) == 600
    assert log == [(frame.id, frame.data) for _, frame in model.log]
