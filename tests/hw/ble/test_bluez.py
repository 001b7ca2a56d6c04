"""The Pi's radio against a private D-Bus with python-dbusmock's bluez5 template: bluetoothd is mocked, D-Bus is real.

The template of Debian 12 has no LEAdvertisingManager1; the tests add its two methods to the mock's adapter, and then
read our advertisement from D-Bus as bluetoothd does. That bluetoothd sends what it reads is not tested here.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from bleak.backends.scanner import AdvertisementData
from dbus_fast import Message, MessageType
from hw.ble.conftest import MockedBluez

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.frames import COMPANY, structure
from vicinal.steam.node import Node
from vicinal_hw.ble.bluez import PATH, Advertiser, BluezRadio, Scanner
from vicinal_hw.ble.shell import RadioError, Shell

PATIENCE = 10.0
LAT, LON = 533438000, -62546000
_adapters = itertools.count()


@asynccontextmanager
async def mocked() -> AsyncIterator[tuple[MockedBluez, str]]:
    """The mock, and an adapter of its own."""
    mock = await MockedBluez.connect()
    for _ in range(200):
        if await mock.owner():
            break
        await asyncio.sleep(0.05)
    adapter = f"hci{next(_adapters)}"
    await mock.add_adapter(adapter)
    try:
        yield mock, adapter
    finally:
        await mock.remove_adapter(adapter)
        mock.bus.disconnect()


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.01)


@pytest.fixture
def run(system_bus: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Awaitable[None]], None]:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", system_bus)

    def run_it(test: Awaitable[None]) -> None:
        asyncio.run(test)  # type: ignore[arg-type]

    return run_it


def test_frames_of_our_company_come_as_advertisements(run: Any) -> None:
    async def test() -> None:
        async with mocked() as (mock, adapter):
            heard: list[tuple[bytes, int]] = []
            scanner = Scanner(adapter)
            device = await mock.add_device(adapter, "AA:BB:CC:00:00:01")
            await scanner.start(lambda data, rssi: heard.append((data, rssi)))
            sent = [(bytes([0x24, number]) * 5, -40 - number) for number in range(20)]
            for payload, rssi in sent:
                await mock.hear(device, rssi, {COMPANY: payload})
            await until(lambda: len(heard) >= len(sent))
            assert [one for one in heard if one in [(structure(payload), rssi) for payload, rssi in sent]] == [
                (structure(payload), rssi) for payload, rssi in sent
            ]
            await scanner.stop()
            before = len(heard)
            await mock.hear(device, -1, {COMPANY: b"late"})
            await asyncio.sleep(0.1)
            assert len(heard) == before

    run(test())


def test_strangers_are_counted_and_never_raised(run: Any) -> None:
    async def test() -> None:
        async with mocked() as (mock, adapter):
            heard: list[bytes] = []
            scanner = Scanner(adapter)
            device = await mock.add_device(adapter, "AA:BB:CC:00:00:02")
            await scanner.start(lambda data, rssi: heard.append(data))
            chance = Random(1)
            for number in range(50):
                company = chance.choice([0x004C, 0x0006, 0x0499])
                service = {"0000feaa-0000-1000-8000-00805f9b34fb": chance.randbytes(chance.randrange(20))}
                await mock.hear(device, -50 - number, {company: chance.randbytes(chance.randrange(28))}, service)
            await until(lambda: scanner.counters["strangers"] >= 50)
            assert heard == []
            await scanner.stop()

    run(test())


def test_any_manufacturer_data_at_all() -> None:
    """What no D-Bus would say either: empty, too long, and all that is between."""
    scanner = Scanner()
    heard: list[bytes] = []
    scanner._on_heard = lambda data, rssi: heard.append(data)
    for size in range(400):
        scanner.detected(None, AdvertisementData(None, {COMPANY: bytes(size)}, {}, [], None, -60, ()))
    assert scanner.counters == {"heard": 252, "strangers": 148}
    assert [len(data) for data in heard] == [4 + size for size in range(1, 253)]
    assert all(data[0] == len(data) - 1 for data in heard)


def test_events_come_up_through_bluez(run: Any) -> None:
    """A node that sends, its frames put into the mock by hand, and a node with a shell that hears them."""

    async def test() -> None:
        async with mocked() as (mock, adapter):
            got: list[Event] = []
            node = Node("pi", 2)
            node.subscribe("Speed", None, lambda event, now: got.append(event))
            sender = Node("car", 1)
            device = await mock.add_device(adapter, "AA:BB:CC:00:00:03")
            async with Shell(node, BluezRadio(adapter)) as shell:
                shell.set_position(LAT, LON)
                sender.set_position(LAT, LON, shell.now())
                sender.announce("Speed", Proximity.circle(LAT, LON, 300), shell.now())
                sender.publish(Event("Speed", [("rate", 57.5), ("license_no", "00D12345")]), shell.now())
                for number in range(60):
                    advertisement = sender.advertisement(shell.now() + 100 * number)
                    if advertisement is not None:
                        await mock.hear(device, -60 - number % 2, {COMPANY: advertisement[4:]})
                    if got:
                        break
                await until(lambda: got)
            assert [(event.subject, event["rate"], event["license_no"]) for event in got] == [
                ("Speed", 57.5, "00D12345")
            ]
            assert node.counters["heard"] >= 2

    run(test())


async def give_advertising_manager(mock: MockedBluez, adapter: str) -> list[str]:
    """Adds it to the mock's adapter; the list has the methods that were called."""
    called: list[str] = []
    await mock.call(
        "org.bluez", f"/org/bluez/{adapter}", "org.freedesktop.DBus.Mock", "AddMethods", "sa(ssss)",
        "org.bluez.LEAdvertisingManager1",
        [["RegisterAdvertisement", "oa{sv}", "", ""], ["UnregisterAdvertisement", "o", "", ""]],
    )  # fmt: skip
    rule = "type='signal',interface='org.freedesktop.DBus.Mock',member='MethodCalled'"
    daemon = "org.freedesktop.DBus"
    await mock.call(daemon, "/org/freedesktop/DBus", daemon, "AddMatch", "s", rule)

    def listen(message: Message) -> None:
        if message.message_type is MessageType.SIGNAL and message.member == "MethodCalled":
            if message.path == f"/org/bluez/{adapter}":
                called.append(message.body[0])

    mock.bus.add_message_handler(listen)
    return called


async def read_advertisement(mock: MockedBluez, advertiser: Advertiser) -> dict[str, Any]:
    """As bluetoothd does when an advertisement is registered."""
    assert advertiser._bus is not None
    name = advertiser._bus.unique_name
    assert name is not None
    found = await mock.call(
        name, PATH, "org.freedesktop.DBus.Properties", "GetAll", "s", "org.bluez.LEAdvertisement1"
    )  # fmt: skip
    return {key: value.value for key, value in found[0].items()}


def test_what_bluetoothd_reads(run: Any) -> None:
    async def test() -> None:
        async with mocked() as (mock, adapter):
            called = await give_advertising_manager(mock, adapter)
            lost: list[Exception] = []
            advertiser = Advertiser(adapter, interval=150)
            await advertiser.start(lost.append)
            changes: list[bytes] = []

            def listen(message: Message) -> None:
                if message.member == "PropertiesChanged" and message.path == PATH:
                    changes.append(message.body[1]["ManufacturerData"].value[COMPANY].value)

            mock.bus.add_message_handler(listen)
            daemon = "org.freedesktop.DBus"
            await mock.call(daemon, "/org/freedesktop/DBus", daemon, "AddMatch", "s", f"type='signal',path='{PATH}'")

            advertiser.advertise(structure(b"one"))
            await until(lambda: called == ["RegisterAdvertisement"])
            read = await read_advertisement(mock, advertiser)
            data = read.pop("ManufacturerData")
            assert read == {"Type": "broadcast", "MinInterval": 150, "MaxInterval": 150}
            assert {key: bytes(value.value) for key, value in data.items()} == {COMPANY: b"one"}

            await until(lambda: advertiser._work is None)
            advertiser.advertise(structure(b"two"))
            await until(lambda: changes == [b"two"])
            advertiser.advertise(structure(b"skipped"))
            advertiser.advertise(structure(b"three"))
            await until(lambda: changes == [b"two", b"three"])
            assert advertiser.counters == {"handed over": 3, "replaced": 1}
            await until(lambda: advertiser._work is None)
            advertiser.advertise(None)
            await until(lambda: called == ["RegisterAdvertisement", "UnregisterAdvertisement"])
            advertiser.advertise(structure(b"again"))
            await until(lambda: len(called) == 3)
            await until(lambda: advertiser._work is None)
            await advertiser.stop()
            await until(lambda: called[-1] == "UnregisterAdvertisement")
            assert lost == []

    run(test())


def test_an_extended_advertisement_names_a_secondary_channel(run: Any) -> None:
    async def test() -> None:
        async with mocked() as (mock, adapter):
            await give_advertising_manager(mock, adapter)
            advertiser = Advertiser(adapter, extended=True)
            await advertiser.start()
            advertiser.advertise(structure(bytes(200)))
            read = await read_advertisement(mock, advertiser)
            assert read["SecondaryChannel"] == "1M"
            await advertiser.stop()

    run(test())


def test_a_released_advertisement_is_a_lost_radio(run: Any) -> None:
    async def test() -> None:
        async with mocked() as (mock, adapter):
            await give_advertising_manager(mock, adapter)
            lost: list[Exception] = []
            advertiser = Advertiser(adapter)
            await advertiser.start(lost.append)
            advertiser.advertise(structure(b"x"))
            await until(lambda: advertiser._registered and advertiser._work is None)
            assert advertiser._bus is not None
            name = advertiser._bus.unique_name
            assert name is not None
            await mock.call(name, PATH, "org.bluez.LEAdvertisement1", "Release")
            assert "stopped advertising" in str(lost[0])
            await advertiser.stop()

    run(test())


def test_an_adapter_that_cannot_advertise_says_so(run: Any) -> None:
    """The template as it is: an adapter without LEAdvertisingManager1, as one whose controller is off."""

    async def test() -> None:
        async with mocked() as (_, adapter):
            lost: list[Exception] = []
            advertiser = Advertiser(adapter)
            await advertiser.start(lost.append)
            advertiser.advertise(structure(b"x"))
            await until(lambda: lost)
            assert f"RegisterAdvertisement on {adapter}" in str(lost[0])
            assert "bluetoothctl" in str(lost[0])
            await advertiser.stop()

    run(test())


def test_no_bluez_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/nothing")

    async def test() -> None:
        with pytest.raises(RadioError, match="bluetoothd"):
            await Scanner().start(lambda data, rssi: None)
        with pytest.raises(RadioError, match="bluetoothd"):
            await Advertiser().start()

    asyncio.run(test())


def test_what_is_no_frame_of_ours_is_not_sent() -> None:
    advertiser = Advertiser()
    with pytest.raises(LimitError, match="32 bytes"):
        advertiser.advertise(structure(bytes(28)))
    with pytest.raises(LocalProtocolError, match="AD structure"):
        advertiser.advertise(b"\x02\x01\x06")
