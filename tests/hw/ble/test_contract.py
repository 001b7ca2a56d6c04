"""One contract for every radio that a shell may have: the virtual one, and BlueZ's with a mock of bluetoothd.

A subclass opens the radio beside a peer that sends, and says what the peer heard. What BlueZ sends, its mock does not
radiate: there the peer reads the advertisement as bluetoothd would.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest
from hw.ble.conftest import MockedBluez
from hw.ble.test_bluez import give_advertising_manager, mocked, read_advertisement

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.frames import COMPANY, structure
from vicinal.steam.node import Node
from vicinal_hw.ble.bluez import BluezRadio
from vicinal_hw.ble.shell import Radio, Shell
from vicinal_hw.ble.virtual import VirtualRadio

PATIENCE = 15.0
LAT, LON = 533438000, -62546000


class Peer(Protocol):
    async def send(self, advertisement: bytes) -> None:
        """Once at least."""

    async def hears(self) -> bytes | None:
        """What the radio advertises now, as far as this one can tell."""


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.01)


def nothing(*_: object) -> None:
    pass


class RadioContract:
    def pair(self, air_name: str) -> AbstractAsyncContextManager[tuple[Radio, Peer]]:
        raise NotImplementedError

    def run(self, air_name: str, test: Callable[[Radio, Peer], Awaitable[None]]) -> None:
        async def inside() -> None:
            async with self.pair(air_name) as (radio, peer):
                await test(radio, peer)

        asyncio.run(inside())

    @pytest.mark.parametrize("size", [1, 20, 27])
    def test_what_a_peer_sends_is_heard_as_it_was_sent(self, air_name: str, size: int) -> None:
        async def test(radio: Radio, peer: Peer) -> None:
            heard: list[tuple[bytes, int]] = []
            await radio.open(lambda data, rssi: heard.append((data, rssi)), nothing)
            sent = structure(bytes(range(size)))
            await peer.send(sent)
            await until(lambda: heard)
            assert {data for data, _ in heard} == {sent}
            assert all(-128 <= rssi < 0 for _, rssi in heard)
            assert radio.counters["heard"] >= 1
            await radio.close()

        self.run(air_name, test)

    def test_what_is_advertised_is_exchanged_and_ends(self, air_name: str) -> None:
        async def test(radio: Radio, peer: Peer) -> None:
            await radio.open(nothing, nothing)
            for wanted in (structure(b"one"), structure(b"two")):
                radio.advertise(wanted)
                async with asyncio.timeout(PATIENCE):
                    while await peer.hears() != wanted:
                        await asyncio.sleep(0.01)
            radio.advertise(None)
            async with asyncio.timeout(PATIENCE):
                while await peer.hears() is not None:
                    await asyncio.sleep(0.01)
            await radio.close()

        self.run(air_name, test)

    def test_too_long_is_refused(self, air_name: str) -> None:
        async def test(radio: Radio, peer: Peer) -> None:
            await radio.open(nothing, nothing)
            with pytest.raises(VicinalError):
                radio.advertise(structure(bytes(251)))
            await radio.close()

        self.run(air_name, test)

    def test_a_shell_on_it_delivers_and_sends(self, air_name: str) -> None:
        async def test(radio: Radio, peer: Peer) -> None:
            got: list[Event] = []
            post, car = Node("post", 2), Node("car", 1)
            post.subscribe("Speed", None, lambda event, now: got.append(event))
            async with Shell(post, radio) as shell:
                shell.set_position(LAT, LON)
                car.set_position(LAT, LON, shell.now())
                car.announce("Speed", Proximity.circle(LAT, LON, 300), shell.now())
                car.publish(Event("Speed", [("rate", 57)]), shell.now())
                at = shell.now()
                async with asyncio.timeout(PATIENCE):
                    while not got:
                        at += 100
                        advertisement = car.advertisement(at)
                        if advertisement is not None:
                            await peer.send(advertisement)
                assert [event["rate"] for event in got] == [57]
                post.announce("Limit", Proximity.circle(LAT, LON, 100), shell.now())
                shell.update()
                async with asyncio.timeout(PATIENCE):
                    while await peer.hears() is None:
                        await asyncio.sleep(0.01)

        self.run(air_name, test)

    def test_closed_twice_is_closed(self, air_name: str) -> None:
        async def test(radio: Radio, peer: Peer) -> None:
            await radio.open(nothing, nothing)
            await radio.close()
            await radio.close()

        self.run(air_name, test)


class VirtualPeer:
    def __init__(self, radio: VirtualRadio) -> None:
        self.radio = radio

    async def send(self, advertisement: bytes) -> None:
        before = self.radio.status()["sent"]
        self.radio.advertise(advertisement)
        await until(lambda: self.radio.status()["sent"] > before)

    async def hears(self) -> bytes | None:
        while self.radio.fetch(0) is not None:
            pass
        heard = await asyncio.to_thread(self.radio.fetch, 0.5)
        return None if heard is None else heard.advertisement


class TestVirtual(RadioContract):
    @asynccontextmanager
    async def pair(self, air_name: str) -> AsyncIterator[tuple[Radio, Peer]]:
        other = VirtualRadio(air_name, LAT, LON)
        other.connect()
        yield VirtualRadio(air_name, LAT + 1000, LON), VirtualPeer(other)
        other.shut()


class MockPeer:
    """Tells the mock what it heard, and reads what it should send."""

    def __init__(self, mock: MockedBluez, device: str, radio: BluezRadio, called: list[str]) -> None:
        self.mock = mock
        self.device = device
        self.radio = radio
        self.called = called

    async def send(self, advertisement: bytes) -> None:
        await self.mock.hear(self.device, -60, {COMPANY: advertisement[4:]})

    async def hears(self) -> bytes | None:
        if not self.called or self.called[-1] != "RegisterAdvertisement":
            return None
        read = await read_advertisement(self.mock, self.radio.advertiser)
        return structure(bytes(read["ManufacturerData"][COMPANY].value))


class TestBluezWithAMock(RadioContract):
    @pytest.fixture(autouse=True)
    def _bus(self, system_bus: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", system_bus)

    @asynccontextmanager
    async def pair(self, air_name: str) -> AsyncIterator[tuple[Radio, Peer]]:
        async with mocked() as (mock, adapter):
            called = await give_advertising_manager(mock, adapter)
            device = await mock.add_device(adapter, "AA:BB:CC:00:00:09")
            radio = BluezRadio(adapter)
            yield radio, MockPeer(mock, device, radio, called)
