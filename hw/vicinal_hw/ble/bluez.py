"""A Pi's own radio through BlueZ: bleak scans, BlueZ's advertising manager sends. Both speak D-Bus.

    scanning     bleak ── Device1.ManufacturerData changes ──▶ on_heard(advertisement, rssi)
    sending      our object /org/vicinal/advertisement ◀── properties read by bluetoothd
                 └─ RegisterAdvertisement, then PropertiesChanged for each new frame

BlueZ takes advertisements apart and keeps the parts; what the protocol wants is put together again: the manufacturer
specific data of our company as one AD structure. Strangers, who are most of the air, are counted and go no further.

DuplicateData is asked for, as a frame that is repeated is news to whoever lost it; whether the controller filters by
itself is the kernel's business, and none of ours. Sending is `broadcast`: nobody can
connect, and BlueZ puts no flags before our data. MinInterval and MaxInterval are BlueZ's experimental properties: a
bluetoothd without --experimental ignores them and takes the kernel's default of 1.28 s. BlueZ does not say when it
sends: `replaced` counts only those frames of which it was not even told.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated, Any

from bleak import BleakScanner
from bleak.args.bluez import BlueZScannerArgs
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData
from bleak.exc import BleakError
from dbus_fast import BusType, DBusError, Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusSignature, DBusStr, DBusUInt32
from dbus_fast.constants import PropertyAccess
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.steam.frames import COMPANY, structure

from .physics import EXTENDED_MAX, LEGACY_MAX
from .shell import RadioError

__all__ = ["Advertiser", "BluezRadio", "Scanner"]

PATH = "/org/vicinal/advertisement"
HEADER = 4
"""length, type and company, before the frame in an AD structure"""
PATIENCE = 10.0
"""seconds for BlueZ to answer"""
PAYLOAD_MAX = 252
"""bytes; an AD structure says in one byte how long it is"""
_NO_BLUEZ = "Is bluetoothd running (systemctl status bluetooth), and is the adapter there (bluetoothctl list)?"


class Scanner:
    """Advertisements of our company, as BlueZ hears them."""

    def __init__(self, adapter: str | None = None) -> None:
        self.adapter = adapter
        self.counters = {"heard": 0, "strangers": 0}
        self._scanner: BleakScanner | None = None
        self._on_heard: Callable[[bytes, int], None] | None = None

    async def start(self, on_heard: Callable[[bytes, int], None]) -> None:
        self._on_heard = on_heard
        arguments: BlueZScannerArgs = {"filters": {"DuplicateData": True}}
        if self.adapter:
            arguments["adapter"] = self.adapter
        try:
            self._scanner = BleakScanner(self.detected, bluez=arguments)
            await self._scanner.start()
        except (OSError, EOFError) as error:
            self._scanner = None
            raise RadioError(f"cannot reach the system's D-Bus: {error}. {_NO_BLUEZ}") from error
        except (BleakError, DBusError) as error:
            self._scanner = None
            raise RadioError(f"cannot scan on {self.adapter or 'the default adapter'}: {error}. {_NO_BLUEZ}") from error

    async def stop(self) -> None:
        if self._scanner:
            scanner, self._scanner = self._scanner, None
            with contextlib.suppress(BleakError, DBusError, OSError, EOFError):
                await scanner.stop()

    def detected(self, device: BLEDevice | None, data: AdvertisementData) -> None:
        """bleak's callback; `device` is not looked at: addresses change, senders are in the frames."""
        payload = data.manufacturer_data.get(COMPANY)
        if not payload or len(payload) > PAYLOAD_MAX:
            self.counters["strangers"] += 1
            return
        self.counters["heard"] += 1
        if self._on_heard:
            self._on_heard(structure(payload), data.rssi)


class _Advertisement(ServiceInterface):
    """The object that bluetoothd reads."""

    def __init__(self, interval: int) -> None:
        super().__init__("org.bluez.LEAdvertisement1")
        self.payload = b""
        self.on_release: Callable[[], None] | None = None
        self._interval = interval

    @dbus_method()
    def Release(self) -> None:  # noqa: N802 - BlueZ's name for it
        if self.on_release:
            self.on_release()

    @dbus_property(access=PropertyAccess.READ, name="Type")
    def kind(self) -> DBusStr:
        return "broadcast"

    @dbus_property(access=PropertyAccess.READ, name="ManufacturerData")
    def manufacturer_data(self) -> Annotated[dict[int, Variant], DBusSignature("a{qv}")]:
        return {COMPANY: Variant("ay", self.payload)}

    @dbus_property(access=PropertyAccess.READ, name="MinInterval")
    def min_interval(self) -> DBusUInt32:
        return self._interval

    @dbus_property(access=PropertyAccess.READ, name="MaxInterval")
    def max_interval(self) -> DBusUInt32:
        return self._interval


class _ExtendedAdvertisement(_Advertisement):
    """With a secondary channel BlueZ sends an extended advertisement, which has room for more than 31 bytes."""

    @dbus_property(access=PropertyAccess.READ, name="SecondaryChannel")
    def secondary_channel(self) -> DBusStr:
        return "1M"


class Advertiser:
    """Sends through org.bluez.LEAdvertisingManager1. advertise() does not wait: a task brings BlueZ up to date."""

    def __init__(self, adapter: str | None = None, interval: int = 100, extended: bool = False) -> None:
        self.adapter = adapter or "hci0"
        self.counters = {"handed over": 0, "replaced": 0}
        """frames that BlueZ was told of, and those that were replaced before it could be"""
        self.extended = extended
        self._object = (_ExtendedAdvertisement if extended else _Advertisement)(interval)
        self._object.on_release = self._released
        self._bus: MessageBus | None = None
        self._wanted: bytes | None = None
        self._fresh = False
        self._registered = False
        self._work: asyncio.Task[None] | None = None
        self._on_lost: Callable[[Exception], None] | None = None

    async def start(self, on_lost: Callable[[Exception], None] | None = None) -> None:
        self._on_lost = on_lost
        try:
            self._bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
        except (OSError, DBusError, EOFError) as error:
            raise RadioError(f"cannot reach the system's D-Bus: {error}. {_NO_BLUEZ}") from error
        self._bus.export(PATH, self._object)

    async def stop(self) -> None:
        if self._work:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
            self._work = None
        if self._bus:
            if self._registered:
                with contextlib.suppress(RadioError):
                    await self._unregister()
            self._bus.disconnect()
            self._bus = None

    def advertise(self, advertisement: bytes | None) -> None:
        if advertisement is not None:
            most = EXTENDED_MAX if self.extended else LEGACY_MAX
            if len(advertisement) > most:
                raise LimitError("advertisement", f"{len(advertisement)} bytes", most)
            if advertisement[1:HEADER] != structure(b"")[1:] or advertisement[0] != len(advertisement) - 1:
                raise LocalProtocolError(f"not one AD structure of company {COMPANY:#x}: {advertisement.hex()}")
        self.counters["replaced"] += self._fresh and self._wanted is not None
        self._wanted = None if advertisement is None else advertisement[HEADER:]
        self._fresh = True
        if self._bus and self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            while self._fresh:
                self._fresh = False
                await self._bring(self._wanted)
        except RadioError as error:
            if self._on_lost:
                self._on_lost(error)
        finally:
            self._work = None

    async def _bring(self, payload: bytes | None) -> None:
        if payload is None:
            if self._registered:
                await self._unregister()
            return
        self.counters["handed over"] += 1
        self._object.payload = payload
        if self._registered:
            self._object.emit_properties_changed({"ManufacturerData": self._object.manufacturer_data})
            return
        self._registered = True
        await self._call("RegisterAdvertisement", "oa{sv}", [PATH, {}])

    async def _unregister(self) -> None:
        self._registered = False
        await self._call("UnregisterAdvertisement", "o", [PATH])

    def _released(self) -> None:
        """BlueZ no longer sends it: the adapter was switched off, or taken out."""
        self._registered = False
        if self._on_lost:
            self._on_lost(RadioError(f"BlueZ stopped advertising on {self.adapter}. {_NO_BLUEZ}"))

    async def _call(self, member: str, signature: str, body: list[Any]) -> None:
        assert self._bus
        request = Message(
            destination="org.bluez",
            path=f"/org/bluez/{self.adapter}",
            interface="org.bluez.LEAdvertisingManager1",
            member=member,
            signature=signature,
            body=body,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._bus.call(request)
        except (OSError, EOFError, TimeoutError) as error:
            raise RadioError(f"{member} on {self.adapter}: {error!r}. {_NO_BLUEZ}") from error
        if answer.message_type is MessageType.ERROR:
            self._registered = False
            said = " ".join(str(part) for part in answer.body)
            raise RadioError(f"{member} on {self.adapter}: {answer.error_name} {said}. {_NO_BLUEZ}")


class BluezRadio:
    """Both, as a shell wants them. Where it is, it knows best itself."""

    def __init__(self, adapter: str | None = None, interval: int = 100, extended: bool = False) -> None:
        self.scanner = Scanner(adapter)
        self.advertiser = Advertiser(adapter, interval, extended)

    @property
    def counters(self) -> dict[str, int]:
        return {**self.scanner.counters, **self.advertiser.counters}

    async def open(self, on_heard: Callable[[bytes, int], None], on_lost: Callable[[Exception], None]) -> None:
        await self.scanner.start(on_heard)
        try:
            await self.advertiser.start(on_lost)
        except RadioError:
            await self.scanner.stop()
            raise

    def advertise(self, advertisement: bytes | None) -> None:
        self.advertiser.advertise(advertisement)

    def move(self, lat: int, lon: int) -> None:
        pass

    async def close(self) -> None:
        await self.advertiser.stop()
        await self.scanner.stop()
