"""COSMIC's adapter on the virtual CAN bus: frames of a car, event channels, and a bus that is not flooded."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import can
import pytest
from can_helpers import AT_50, DBC, FORD, TOML, captures

from vicinal.control import SUBJECT as CONTROL
from vicinal.control import Subscription
from vicinal.cosmic.channels import NrtChannel, SrtChannel
from vicinal.cosmic.node import Node
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters.cosmic import CosmicAdapter
from vicinal_edge.contract import PATIENCE, AdapterContract, RecordingPort, settings
from vicinal_hw.can.dbc import load
from vicinal_hw.can.interface import VicinalBus
from vicinal_hw.can.shell import Shell, open_bus

FIGURE = bytes.fromhex("3030443132333439")  # "00D1234" and 57: seed 001, 5.8.2
SPEED = Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)])
CHANNELS = [{"subject": "Text", "etag": 300}, {"subject": CONTROL, "etag": 301}]


@pytest.fixture(autouse=True, scope="module")
def _own_buses() -> Iterator[None]:
    """Not pytest's tmp_path: a Unix socket's path may have 107 characters."""
    with TemporaryDirectory(prefix="can") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VICINAL_CAN_DIR", folder)
        yield
        for _ in range(100):
            if not list(Path(folder).rglob("*.sock")):
                break
            time.sleep(0.1)
        assert [path.name for path in Path(folder).rglob("*.sock")] == [], "a bus outlived its clients"


@pytest.fixture
def channel() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def adapter(channel: str, folder: Path, name: str = "car", **values: Any) -> CosmicAdapter:
    (folder / "car.toml").write_text(TOML)
    (folder / "car.dbc").write_text(DBC)
    given = {"interface": "vicinal", "channel": channel, **values}
    return CosmicAdapter(name, settings(given, str(folder / "gateway.toml")))


@asynccontextmanager
async def connected(made: CosmicAdapter, folder: Path) -> AsyncIterator[tuple[CosmicAdapter, RecordingPort]]:
    place = folder / made.service
    place.mkdir(exist_ok=True)
    port = RecordingPort(made.service, place)
    await made.connect(port)
    try:
        yield made, port
    finally:
        await made.disconnect()


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.002)


async def sent(publishing: Awaitable["asyncio.Future[None] | None"]) -> None:
    acknowledged = await publishing
    if acknowledged is not None:
        await asyncio.wait_for(acknowledged, PATIENCE)


def count(made: CosmicAdapter, what: str) -> int:
    return int(made.status().get(what, 0))


class Contract(AdapterContract):
    values: ClassVar[dict[str, Any]]

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        channel = f"t{uuid.uuid4().hex[:12]}"
        numbers = iter(range(1, 9))
        yield lambda name: adapter(channel, folder, name, tx_node=next(numbers), **self.values)


class TestFramesOfACar(Contract):
    """12345 is Speed, as in the dissertation; control events have a channel on the same bus."""

    values: ClassVar[dict[str, Any]] = {"mapping": "car.toml", "event_channel": CHANNELS}
    keeps_identity = False
    free = False


class TestChannels(Contract):
    values: ClassVar[dict[str, Any]] = {
        "event_channel": [{"subject": "Speed", "etag": 299, "validity_ms": 60_000}, *CHANNELS]
    }

    def test_what_is_tunnelled_arrives_unchanged(self) -> None:
        """Fragments, from one bus to another: who is there takes them for the node's that sent them."""

        async def work() -> None:
            with TemporaryDirectory() as place:
                folder = Path(place)
                here, there = uuid.uuid4().hex[:12], uuid.uuid4().hex[:12]
                made = [
                    connected(adapter(channel, folder, f"a{n}", tx_node=n, **self.values), folder)
                    for n, channel in enumerate((here, here, there, there))
                ]
                async with made[0] as (sender, _), made[1] as (near, port), made[2] as (far, _), made[3] as (last, end):
                    await near.tunnel(True)
                    await last.subscribe(Filter("subject = 'Speed'"))
                    await sent(sender.publish(self.event(seq=1)))
                    await until(lambda: len(port.packets) > 5)
                    while not end.events and port.packets:
                        await sent(far.inject(port.packets.pop(0)))
                    await until(lambda: end.events)
                    self.same(end.events[0], self.event(seq=1))

        asyncio.run(work())


class TestSoftRealTime(Contract):
    values: ClassVar[dict[str, Any]] = {
        "event_channel": [
            {"subject": "Speed", "etag": 299, "class": "srt", "deadline_ms": 5_000, "validity_ms": 60_000},
            *CHANNELS,
        ]
    }
    test_what_is_tunnelled_arrives_unchanged = TestChannels.test_what_is_tunnelled_arrives_unchanged


# Mapped frames


def test_figure_5_8_2_to_the_bit(channel: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with connected(adapter(channel, tmp_path, mapping="car.toml"), tmp_path) as (made, port):
            with can.Bus(interface="vicinal", channel=channel) as car:
                await made.subscribe(Filter("subject = 'Speed'"))
                car.send(can.Message(arbitration_id=12345, data=FIGURE))
                await until(lambda: port.events)
                assert port.events == [SPEED]
                assert port.events[0].identity is None
                await made.announce(SPEED)
                await sent(made.publish(SPEED))
                found = await asyncio.to_thread(car.recv, PATIENCE)
                assert found is not None
                assert (found.arbitration_id, found.is_extended_id, bytes(found.data)) == (12345, True, FIGURE)
                assert len(port.events) == 1

    asyncio.run(work())


def test_a_trusted_event_is_the_one_that_is_checked(tmp_path: Path) -> None:
    """What is filled in without the constructor's checks is what the constructor makes."""
    from vicinal import wire

    made = adapter("none", tmp_path, mapping="car.toml")
    for key, data in ((12345 | 1 << 31, FIGURE), (12345 | 1 << 31, b"\0" * 8), (0x10, b"\x03")):
        message = made.settings.plain[key]
        found, want = made._all_readers[key](data), message.decode(data)
        assert found == want
        assert found.replace() == want
        assert wire.decode(wire.encode(found.replace(attrs={"Priority": 3}).stamp("car", 1))).params == want.params


def test_a_number_past_64_bits_is_malformed_and_no_event(channel: str, tmp_path: Path) -> None:
    mapping = '[[message]]\nid = 7\nsubject = "Odo"\nendian = "big"\n'
    mapping += 'fields = [{ name = "metres", bytes = "0..7", type = "uint" }]\n'
    (tmp_path / "odo.toml").write_text(mapping)

    async def work() -> None:
        async with connected(adapter(channel, tmp_path, mapping="odo.toml"), tmp_path) as (made, port):
            with can.Bus(interface="vicinal", channel=channel) as car:
                await made.subscribe(Filter("subject = 'Odo'"))
                for data in (b"\xff" * 8, b"\x01" * 3, b"\0" * 7 + b"\x09"):
                    car.send(can.Message(arbitration_id=7, is_extended_id=False, data=data))
                await until(lambda: port.events)
                assert [event["metres"] for event in port.events] == [9]
                assert len(port.wrong) == 2
                assert len(set(port.wrong)) == 1
                assert count(made, "frames: malformed") == 2

    asyncio.run(work())


def test_what_the_mapping_cannot_represent_is_refused_when_it_is_announced(channel: str, tmp_path: Path) -> None:
    wrong = [
        (Event("Speed", [("rate", 1.0)]), "lacks 'license_no'"),
        (SPEED.replace(params={**SPEED.params, "lat": 1}), "has 'lat', for which"),
        (Event("Speed", [("license_no", 7), ("rate", 1.0)]), "'license_no' of 'Speed' is a int"),
        (Event("Speed", [("license_no", "x"), ("rate", True)]), "'rate' of 'Speed' is a bool"),
        (Event("Fog"), "neither a message nor an event channel of subject 'Fog'; it has Speed, Door"),
    ]

    async def work() -> None:
        async with connected(adapter(channel, tmp_path, mapping="car.toml"), tmp_path) as (made, _):
            for event, why in wrong:
                with pytest.raises(Refused, match=why):
                    await made.announce(event)
            await made.announce(Event("Door", [("open", True), ("which", "left")]))
            with pytest.raises(LocalProtocolError, match="rate is 400"):
                await made.publish(SPEED.replace(params={"license_no": "x", "rate": 400.0}))
            with pytest.raises(Refused, match="can meet"):
                await made.subscribe(Filter("subject = 'Fog'"))
            await made.subscribe(Filter("rate > 30"))

    asyncio.run(work())


def test_only_what_is_wanted_passes_the_controller(channel: str, tmp_path: Path) -> None:
    """Frames that nobody asked for do not wake the gateway; with the subscription they come."""

    async def work() -> None:
        async with connected(adapter(channel, tmp_path, mapping="car.toml"), tmp_path) as (made, port):
            with can.Bus(interface="vicinal", channel=channel) as car:

                def drive() -> None:
                    for _ in range(20):
                        car.send(can.Message(arbitration_id=12345, data=FIGURE))
                        car.send(can.Message(arbitration_id=0x10, is_extended_id=False, data=b"\x03"))
                        car.send(can.Message(arbitration_id=0x11, is_extended_id=False, data=b"\x03"))

                await made.subscribe(Filter("subject = 'Door'"))
                await asyncio.to_thread(drive)
                await until(lambda: len(port.events) == 20)
                assert {event.subject for event in port.events} == {"Door"}
                assert count(made, "frames: not wanted") == 0
                await made.subscribe(Filter("subject = 'Speed' AND rate > 30"))
                await made.unsubscribe(Filter("subject = 'Door'"))
                port.events.clear()
                await asyncio.to_thread(drive)
                await until(lambda: len(port.events) == 20)
                assert {event.subject for event in port.events} == {"Speed"}
                assert count(made, "frames: not wanted") == 0

    asyncio.run(work())


def test_a_bus_without_acceptance_filters_gives_no_more(channel: str, tmp_path: Path) -> None:
    """python-can's own virtual bus, which has no descriptor to wait for either."""

    async def work() -> None:
        made = adapter(channel, tmp_path, interface="virtual", mapping="car.toml", tx_node=4, event_channel=CHANNELS)
        other = adapter(channel, tmp_path, "other", interface="virtual", tx_node=5, event_channel=CHANNELS)
        async with connected(made, tmp_path) as (_, port), connected(other, tmp_path):
            with can.Bus(interface="virtual", channel=channel) as car:
                await made.subscribe(Filter("subject IN ('Door', 'Text')"))
                for _ in range(5):
                    car.send(can.Message(arbitration_id=12345, data=FIGURE))
                    car.send(can.Message(arbitration_id=0x10, is_extended_id=False, data=b"\x03"))
                await sent(other.publish(Event("Text", [("t", "fog")])))
                await until(lambda: len(port.events) == 6)
                assert [event.subject for event in port.events] == ["Door"] * 5 + ["Text"]
                assert count(made, "frames: not wanted") == 5

    asyncio.run(work())


@captures
def test_a_real_drive_through_the_adapter(channel: str, tmp_path: Path) -> None:
    """A capture of a Ford, replayed on the bus: what is subscribed comes, decoded as the mapping does it, in order."""
    mapping = load(FORD)
    wanted = ["EngVehicleSpThrottle2", "WheelSpeed", "SteeringPinion_Data_Alt"]
    frames: list[can.Message] = []
    for line in AT_50.read_text().splitlines()[:3000]:
        number, _, data = line.split()[2].partition("#")
        octets = bytes.fromhex(data)
        frames.append(can.Message(arbitration_id=int(number, 16), is_extended_id=False, data=octets))
    want = []
    for frame in frames:
        message = mapping.message(frame.arbitration_id, False)
        if message is not None and message.subject in wanted:
            want.append(message.decode(bytes(frame.data)))
    assert len(want) > 400

    async def work() -> None:
        made = adapter(channel, tmp_path, mapping=str(FORD))
        async with connected(made, tmp_path) as (_, port):
            names = ", ".join(f"'{name}'" for name in wanted)
            await made.subscribe(Filter(f"subject IN ({names})"))
            with can.Bus(interface="vicinal", channel=channel) as car:
                await asyncio.to_thread(lambda: [car.send(frame) for frame in frames])
                await until(lambda: len(port.events) >= len(want))
            assert port.events == want
            assert port.wrong == []

    asyncio.run(work())


def test_a_frame_nobody_acknowledges_is_sent_once_when_somebody_wakes(channel: str, tmp_path: Path) -> None:
    """The gateway is alone for longer than it waits for a confirmation."""

    async def work() -> None:
        made = adapter(channel, tmp_path, mapping="car.toml", validity_ms=60_000)
        async with connected(made, tmp_path):
            waiting = await made.publish(SPEED)
            assert waiting is not None
            await asyncio.sleep(2.5)
            assert not waiting.done()
            with can.Bus(interface="vicinal", channel=channel) as car:
                await asyncio.wait_for(waiting, PATIENCE)
                await sent(made.publish(SPEED.replace(params={"license_no": "last", "rate": 1.0})))
                found: list[bytes] = []
                while not found or found[-1][:4] != b"last":
                    message = await asyncio.to_thread(car.recv, PATIENCE)
                    assert message is not None
                    found.append(bytes(message.data))
            assert [data[:4] for data in found] == [b"00D1", b"last"]

    asyncio.run(work())


# Event channels


def test_identity_and_attributes_pass_a_channel_and_a_board_understands_it(channel: str, tmp_path: Path) -> None:
    """The other end is a COSMIC node as it runs on a board, not an adapter."""
    heard: list[Event] = []
    text = Event("Text", [("t", "fog"), ("b", b"\0")], {"Priority": 3, "Own": 7}, "es1", 5)

    async def work() -> None:
        made = adapter(channel, tmp_path, tx_node=4, event_channel=CHANNELS)
        async with connected(made, tmp_path) as (_, port):
            bus, confirms = open_bus(interface="vicinal", channel=channel)
            async with Shell(bus, Node(9, 500_000), confirms) as board:
                end = NrtChannel(board.node, 300)
                end.subscribe(lambda event, tx_node, now: heard.append(event), board.now())
                end.announce(board.now())
                await made.subscribe(Filter("subject = 'Text'"))
                await sent(made.publish(text))
                await until(lambda: heard)
                assert heard == [text]
                end.publish(text.replace(seq=6), board.now())
                board.update()
                await until(lambda: port.events)
                assert port.events == [text.replace(seq=6)]
            bus.shutdown()

    asyncio.run(work())


def test_a_deadline_and_a_priority_decide_what_goes_first(channel: str, tmp_path: Path) -> None:
    channels = [{"subject": "Text", "etag": 300, "class": "srt", "deadline_ms": 2_000, "validity_ms": 60_000}]
    order: list[Any] = []

    async def work() -> None:
        made = adapter(channel, tmp_path, tx_node=4, event_channel=channels)
        async with connected(made, tmp_path) as (_, port):
            # Alone, nobody acknowledges: the first waits in the controller, the others in the queue.
            waiting = []
            for name, attrs in (
                ("first" * 20, {}),
                ("usual", {}),
                ("low", {"Priority": -3}),
                ("high", {"Priority": 7}),
                ("due", {"Deadline": port.now() + 100}),
                ("late", {"Deadline": port.now() + 30_000}),
            ):
                waiting.append(await made.publish(Event("Text", [("n", name)], attrs)))
            bus, confirms = open_bus(interface="vicinal", channel=channel)
            async with Shell(bus, Node(9, 500_000), confirms) as board:
                SrtChannel(board.node, 300, 1000).subscribe(
                    lambda event, tx_node, now: order.append(event["n"]), board.now()
                )
                for one in waiting:
                    assert one is not None
                    await asyncio.wait_for(one, PATIENCE)
                await until(lambda: len(order) == 6)
            bus.shutdown()
        assert order == ["first" * 20, "due", "high", "usual", "low", "late"]

    asyncio.run(work())


def test_what_has_expired_is_refused_and_said(channel: str, tmp_path: Path) -> None:
    async def work() -> None:
        made = adapter(channel, tmp_path, tx_node=4, event_channel=CHANNELS, mapping="car.toml")
        async with connected(made, tmp_path) as (_, port):
            for event in (SPEED, Event("Text", [("t", "fog")])):
                with pytest.raises(Refused, match="expired"):
                    await made.publish(event.replace(attrs={"Expires": port.now() - 5}))
                waiting = await made.publish(event.replace(attrs={"Expires": port.now() + 150}))
                assert waiting is not None
                with pytest.raises(Refused, match=r"not sent on CAN bus.*: expired"):
                    await asyncio.wait_for(waiting, PATIENCE)
            assert count(made, "out dropped: expired") == 2
            assert count(made, "out accepted") == 2
            assert count(made, "stored") == 0

    asyncio.run(work())


def test_a_full_queue_holds_back_who_publishes(channel: str, tmp_path: Path) -> None:
    """Nobody is there to acknowledge: so many are taken, the next waits, and is taken when the bus moves."""

    async def work() -> None:
        made = adapter(channel, tmp_path, mapping="car.toml", queue=4, validity_ms=20_000)
        async with connected(made, tmp_path):
            taken = [await made.publish(SPEED) for _ in range(4)]
            fifth = asyncio.create_task(made.publish(SPEED))
            await asyncio.sleep(0.3)
            assert not fifth.done()
            with pytest.raises(Refused, match="room"):
                await made.publish(SPEED.replace(attrs={"Expires": int(time.time() * 1000) + 100}))
            with can.Bus(interface="vicinal", channel=channel):
                for one in [*taken, await asyncio.wait_for(fifth, PATIENCE)]:
                    assert one is not None
                    await asyncio.wait_for(one, PATIENCE)
            assert count(made, "out sent") == 5

    asyncio.run(work())


def test_a_flood_from_above_does_not_delay_the_car(channel: str, tmp_path: Path) -> None:
    """The gateway publishes without end, on a bus in stepped time. A brake of the car, at a lower identifier, waits for
    the one frame that is on the wire, and no other; and the gateway never has two frames in the kernel."""
    before: list[int] = []

    async def work() -> None:
        common: dict[str, Any] = {"mapping": "car.toml", "tx_node": 4, "event_channel": CHANNELS}
        made = adapter(channel, tmp_path, options={"time": "stepped"}, validity_ms=60_000, **common)
        async with connected(made, tmp_path):
            with (
                VicinalBus(channel, time="stepped") as car,
                can.Bus(interface="vicinal", channel=channel) as witness,
            ):

                async def flood() -> None:
                    while True:
                        await made.publish(SPEED)
                        await made.publish(Event("Text", [("t", "x" * 200)]))

                task = asyncio.create_task(flood())
                for number in range(60):
                    car.advance(37_000 * (number % 9))  # somewhere in a frame
                    await asyncio.sleep(0.005)
                    assert made._bus.queued() <= 1  # type: ignore[union-attr]
                    while witness.recv(0) is not None:
                        pass
                    car.send(can.Message(arbitration_id=0x005, is_extended_id=False, data=[number]))
                    car.advance(2 * 320_000)
                    seen = []
                    while (message := witness.recv(0)) is not None:
                        seen.append(message.arbitration_id)
                    before.append(seen.index(0x005))
                task.cancel()
                assert count(made, "confirmed") > 40

    asyncio.run(work())
    assert len(before) == 60
    assert set(before) == {0, 1}


# Names


def test_a_gateway_that_is_the_broker_binds_itself_and_others(channel: str, tmp_path: Path) -> None:
    control = Subscription("es9", "es1", "subject = 'Speed' AND rate > 30").to_event().stamp("g1", 5)

    async def work() -> tuple[int, int]:
        broker = adapter(channel, tmp_path, "broker", broker=True, bind=True)
        other = adapter(channel, tmp_path, "other", bind=True)
        assert broker.capabilities.control
        async with connected(broker, tmp_path), connected(other, tmp_path) as (_, port):
            with pytest.raises(Refused, match="names no subject"):
                await other.subscribe(Filter("rate > 30"))
            await other.subscribe(Filter(f"subject IN ('{CONTROL}', 'Wide')"))
            await broker.announce(control)
            await sent(broker.publish(control))
            await until(lambda: port.events)
            assert port.events == [control]
            numbers = (int(broker.status()["tx_node"]), int(other.status()["tx_node"]))
            assert numbers[0] != numbers[1]
            return numbers

    first = asyncio.run(work())
    assert (tmp_path / "broker" / "names").stat().st_size == 15 * 4  # two numbers, two etags
    assert asyncio.run(work()) == first  # given once, and kept


@pytest.mark.spec("COSMIC-23")
def test_names_are_given_beside_a_full_queue(channel: str, tmp_path: Path) -> None:
    """What waits for the bus is seconds of it, and events wait for names: that of the broker, and that of who asks."""

    async def work() -> None:
        common: dict[str, Any] = {"bind": True, "bitrate": 20_000}
        broker = adapter(channel, tmp_path, "broker", broker=True, tx_node=1, **common)
        other = adapter(channel, tmp_path, "other", tx_node=2, **common)
        async with connected(broker, tmp_path), connected(other, tmp_path):
            for busy in (broker, other):
                text = Event(f"Text of {busy.service}", [("t", "x" * 200)])
                await busy.announce(text)
                while busy._node is not None and not busy._node.full:
                    await busy.publish(text)
                for number in range(3):
                    await other.announce(Event(f"Fog {number} beside {busy.service}"))
                assert count(busy, "stored") > 10

    asyncio.run(work())


def test_without_a_broker_it_is_unavailable_and_says_what_to_do(channel: str, tmp_path: Path) -> None:
    async def work() -> None:
        made = adapter(channel, tmp_path, bind=True, binding_ms=300)
        with pytest.raises(Unavailable, match="set tx_node, or broker = true"):
            await made.connect(RecordingPort("car", tmp_path))
        made = adapter(channel, tmp_path, bind=True, tx_node=3, binding_ms=300)
        async with connected(made, tmp_path):
            with pytest.raises(Unavailable, match="'Fog' an etag"):
                await made.announce(Event("Fog"))

    asyncio.run(work())


def test_a_hard_real_time_channel_between_two_that_share_a_clock(channel: str, tmp_path: Path) -> None:
    """Nothing is promised of when; that every event that is in the air arrives as it was is."""
    slot = {"subject": "Speed", "etag": 299, "class": "hrt", "codec": "mapping", "period_us": 50_000, "slot_node": 1}
    slot |= {"precision_us": 20_000}

    async def work() -> None:
        common: dict[str, Any] = {"mapping": "car.toml", "event_channel": [slot], "time_etag": 298}
        one = adapter(channel, tmp_path, "one", tx_node=1, time_rank=0, **common)
        two = adapter(channel, tmp_path, "two", tx_node=2, **common)
        async with connected(one, tmp_path), connected(two, tmp_path) as (_, port):
            await two.subscribe(Filter("subject = 'Speed'"))
            await one.announce(SPEED)
            async with asyncio.timeout(PATIENCE):
                while not port.events:
                    await one.publish(SPEED)
                    await asyncio.sleep(0.05)
            assert port.events[0] == SPEED

    asyncio.run(work())


# A bus that goes away


def test_a_bus_that_dies_is_lost_and_comes_back(channel: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with connected(adapter(channel, tmp_path, mapping="car.toml", validity_ms=60_000), tmp_path) as (
            made,
            port,
        ):
            waiting = await made.publish(SPEED)
            assert waiting is not None
            os.kill(made._bus.server_pid, signal.SIGKILL)  # type: ignore[union-attr]
            await until(lambda: port.lost_because)
            assert "is gone" in port.lost_because[0]
            with pytest.raises(Unavailable):
                await asyncio.wait_for(waiting, PATIENCE)
            with pytest.raises(Unavailable):
                await made.publish(SPEED)
            await made.disconnect()
            await made.connect(port)
            await made.subscribe(Filter("subject = 'Speed'"))
            with can.Bus(interface="vicinal", channel=channel) as car:
                car.send(can.Message(arbitration_id=12345, data=FIGURE))
                await until(lambda: port.events)
            assert len(port.lost_because) == 1

    asyncio.run(work())


def test_bus_off_loses_nothing_and_is_told_when_it_lasts(channel: str, tmp_path: Path) -> None:
    async def work() -> None:
        made = adapter(channel, tmp_path, mapping="car.toml", validity_ms=60_000, bus_off_ms=300)
        async with connected(made, tmp_path) as (_, port):
            with can.Bus(interface="vicinal", channel=channel) as car:
                bus: Any = made._bus
                bus.disturb(1.0)
                waiting = await made.publish(SPEED)
                assert waiting is not None
                await until(lambda: count(made, "bus-off"))
                bus.disturb(0)
                await asyncio.wait_for(waiting, PATIENCE)
                message = await asyncio.to_thread(car.recv, PATIENCE)
                assert message is not None
                assert message.data == FIGURE
                made._shell.recovery.report("bus-off", made._shell.now())  # type: ignore[union-attr]
                await until(lambda: port.lost_because)
                assert "is bus-off for 0.3 s: too many errors" in port.lost_because[-1]

    asyncio.run(work())


def test_an_interface_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    async def work() -> None:
        port = RecordingPort("car", tmp_path)
        missing = CosmicAdapter("car", settings({"channel": "can77"}))
        with pytest.raises(Unavailable, match="ip link set can77 type can bitrate 500000"):
            await missing.connect(port)
        await missing.disconnect()
        unknown = CosmicAdapter("car", settings({"channel": "x", "interface": "nowhere"}))
        with pytest.raises(Refused, match="nowhere"):
            await unknown.connect(port)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"mapping": "none.toml"}, r"mapping is '.*none.toml': No such file"),
        ({"mapping": "gateway.toml"}, "mapping cannot be read"),
        ({"mapping": "car.dbc", "only": ["Gears"]}, "only has 'Gears', which is no message of car.dbc"),
        ({"uid": "12"}, "uid is '12', want 16 hexadecimal"),
        ({"tx_node": 127}, "tx_node is 127, want at least 0 and at most 126"),
        ({"event_channel": [{"subject": "A", "etag": 5}]}, "etag is 5, want at least 100"),
        ({"event_channel": [{"subject": "A", "class": "soft"}]}, "class is 'soft', want one of srt, nrt, hrt"),
        ({"event_channel": [{"subject": "A", "etga": 500}]}, "etga is not known here: is 'etag' meant"),
        ({"event_channel": [{"subject": "A", "class": "hrt"}]}, "period_us is missing"),
        ({"event_channel": [{"subject": "A"}, {"subject": "A"}]}, "has a channel already"),
        ({"event_channel": [{"subject": CONTROL, "class": "srt"}]}, "needs a fragmented nrt channel"),
        ({"mapping": "car.toml", "event_channel": [{"subject": "Speed"}]}, "which the mapping has as frames"),
        ({"event_channel": [{"subject": "A", "codec": "mapping"}]}, "no message of the mapping has subject 'A'"),
    ],
)
def test_settings_that_are_wrong_are_named(tmp_path: Path, values: dict[str, Any], why: str) -> None:
    (tmp_path / "gateway.toml").write_text("[[x")
    with pytest.raises(ConfigError, match=why):
        adapter("c", tmp_path, **values)


def test_capabilities_are_those_of_the_settings(tmp_path: Path) -> None:
    plain = adapter("c", tmp_path, mapping="car.toml").capabilities
    assert set(plain.types) == {"str", "float", "bool", "int"}
    assert (plain.attributes, plain.control, plain.located, plain.tunnels) == ((), False, True, True)
    whole = adapter("c", tmp_path, event_channel=CHANNELS).capabilities
    assert (whole.attributes, whole.control, whole.max_bytes) == (("*",), True, 4096)
    assert "event" in whole.types
    both = adapter("c", tmp_path, mapping="car.toml", event_channel=CHANNELS).capabilities
    assert (both.attributes, both.control) == ((), True)
    srt = adapter("c", tmp_path, event_channel=[{"subject": "A", "class": "srt"}]).capabilities
    assert (srt.control, srt.max_bytes) == (False, 224)
