"""Real HCI and advertising bytes: bumble's stack and controller on its LocalLink between two nodes.

What goes in at one end as HCI commands comes out at the other as HCI reports; the radio between is no radio. bumble's
controller reports every PDU twice, which is what two radios do, and sends no non-connectable legacy PDUs, so that the
legacy test advertises scannable.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import Advertisement, AdvertisingEventProperties, AdvertisingParameters, AdvertisingType, Device
from bumble.hci import Address
from bumble.host import Host
from bumble.link import LocalLink
from bumble.transport.common import AsyncPipeSink

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node

LAT, LON = 533438000, -62546000
PATIENCE = 20.0
INTERVAL = 20.0

Send = Callable[[bytes], Awaitable[None]]


def device(link: LocalLink, name: str, address: str) -> Device:
    controller = Controller(name, link=link)
    return Device(address=Address(address), host=Host(controller, AsyncPipeSink(controller)))


@asynccontextmanager
async def linked(
    extended: bool, on_heard: Callable[[bytes, int], None]
) -> AsyncIterator[Send]:  # fmt: skip
    """A sender and a scanner; the sender's `send` exchanges what is advertised."""
    link = LocalLink()
    sender, scanner = device(link, "A", "F0:F1:F2:F3:F4:F5"), device(link, "B", "F5:F4:F3:F2:F1:F0")
    await sender.power_on()
    await scanner.power_on()

    def heard(found: Advertisement) -> None:
        on_heard(bytes(found.data_bytes), found.rssi)

    scanner.on("advertisement", heard)
    await scanner.start_scanning(legacy=not extended)
    if extended:
        parameters = AdvertisingParameters(
            advertising_event_properties=AdvertisingEventProperties(is_connectable=False, is_scannable=False),
            primary_advertising_interval_min=INTERVAL,
            primary_advertising_interval_max=INTERVAL,
        )
        advertising = await sender.create_advertising_set(advertising_parameters=parameters, auto_start=False)
        started = False

        async def send(data: bytes) -> None:
            nonlocal started
            await advertising.set_advertising_data(data)
            if not started:
                await advertising.start()
                started = True
    else:

        async def send(data: bytes) -> None:
            if sender.is_advertising:
                await sender.stop_advertising()
            await sender.start_advertising(
                advertising_type=AdvertisingType.UNDIRECTED_SCANNABLE,
                advertising_data=data,
                advertising_interval_min=INTERVAL,
                advertising_interval_max=INTERVAL,
            )

    yield send
    await scanner.stop_scanning()
    if sender.is_advertising:
        await sender.stop_advertising()


@pytest.mark.parametrize(("extended", "room"), [(False, 28), (False, 31), (True, 200), (True, 254)])
def test_events_through_hci(extended: bool, room: int) -> None:
    async def test() -> None:
        car, post = Node("car", 1, room), Node("post", 2)
        got: list[Event] = []
        heard: list[bytes] = []
        now = 0
        post.subscribe("Speed", None, lambda event, now: got.append(event))
        car.set_position(LAT, LON, now)
        post.set_position(LAT, LON, now)
        car.announce("Speed", Proximity.circle(LAT, LON, 300), now)
        event = Event("Speed", [("rate", 57.5), ("license_no", "00D12345"), ("lane", "second from the left")])
        assert car.publish(event, now)

        def on_heard(data: bytes, rssi: int) -> None:
            heard.append(data)
            post.receive(data, rssi, now)

        async with linked(extended, on_heard) as send, asyncio.timeout(PATIENCE):
            while not got:
                advertisement = car.advertisement(now)
                if advertisement is not None:
                    before = len(heard)
                    await send(advertisement)
                    while heard[before:].count(advertisement) < 2:
                        await asyncio.sleep(0.002)
                now += 100
        assert [(one["rate"], one["license_no"], one["lane"]) for one in got] == [
            (57.5, "00D12345", "second from the left")
        ]
        assert max(map(len, heard)) <= room
        counters = post.counters
        assert counters["heard"] == len(heard)
        assert counters["in delivered"] == 1

    asyncio.run(test())


STRANGERS = [
    [],
    [(AdvertisingData.FLAGS, b"\x06"), (AdvertisingData.COMPLETE_LOCAL_NAME, b"headphones")],
    [(AdvertisingData.MANUFACTURER_SPECIFIC_DATA, b"\x4c\x00\x10\x05\x01\x18\x9c\x12\x34")],
    [(AdvertisingData.SERVICE_DATA_16_BIT_UUID, bytes(UUID.from_16_bits(0xFEAA)) + b"\x10\xee\x03web")],
    [(AdvertisingData.FLAGS, b"\x06"), (AdvertisingData.TX_POWER_LEVEL, b"\x04")],
    [(AdvertisingData.MANUFACTURER_SPECIFIC_DATA, b"\xff\xff")],
]


@pytest.mark.spec("STEAM-2")
def test_strangers_through_hci_are_counted() -> None:
    async def test() -> None:
        post = Node("post", 2)
        post.subscribe("Speed", None, lambda event, now: None)
        heard: list[bytes] = []

        def on_heard(data: bytes, rssi: int) -> None:
            heard.append(data)
            post.receive(data, rssi, 0)

        async with linked(False, on_heard) as send, asyncio.timeout(PATIENCE):
            for parts in STRANGERS:
                data = bytes(AdvertisingData(parts))
                before = len(heard)
                await send(data)
                while data not in heard[before:]:
                    await asyncio.sleep(0.002)
        assert post.counters["strangers"] == post.counters["heard"] == len(heard)

    asyncio.run(test())


@pytest.mark.spec("STEAM-1", "STEAM-2")
def test_ours_between_what_a_stack_puts_before_and_after() -> None:
    """Flags and a name around our structure, made by bumble's own encoder."""
    car, post = Node("car", 1), Node("post", 2)
    joined: list[str] = []
    post.subscribe("Speed", None, lambda event, now: None)
    post.on_member = lambda what, group, now: joined.append(what)
    for node in (car, post):
        node.set_position(LAT, LON, 0)
    car.announce("Speed", Proximity.circle(LAT, LON, 300), 0)
    ours = car.advertisement(0)
    assert ours is not None
    parts = [
        (AdvertisingData.FLAGS, b"\x06"),
        (AdvertisingData.MANUFACTURER_SPECIFIC_DATA, ours[2:]),
        (AdvertisingData.COMPLETE_LOCAL_NAME, b"car"),
    ]
    post.receive(bytes(AdvertisingData(parts)), -60, 0)
    assert joined == ["joined"]
    assert AdvertisingData.from_bytes(ours).get(AdvertisingData.MANUFACTURER_SPECIFIC_DATA) == (0xFFFF, ours[4:])
