"""Radios of their own for each test, in a folder of their own; and a private D-Bus with a mock of bluetoothd on it."""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

SYSTEM_PYTHON = "/usr/bin/python3"
PACKAGES = "apt-get install -y --no-install-recommends dbus python3-dbusmock python3-gi"
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/>
<allow send_type="signal"/><allow send_destination="*"/><allow receive_sender="*"/><allow eavesdrop="true"/></policy>
</busconfig>
"""


@pytest.fixture(autouse=True, scope="session")
def _own_radios() -> Iterator[None]:
    """Not pytest's tmp_path: a Unix socket's path may have 107 characters."""
    with TemporaryDirectory(prefix="ble") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VICINAL_BLE_DIR", folder)
        yield
        for _ in range(100):
            if not list(Path(folder).rglob("*.sock")):
                break
            time.sleep(0.1)
        assert [path.name for path in Path(folder).rglob("*.sock")] == [], "a radio outlived its clients"


@pytest.fixture
def air_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def _what_is_missing() -> str:
    if not shutil.which("dbus-daemon"):
        return "dbus-daemon"
    if not Path(SYSTEM_PYTHON).exists():
        return SYSTEM_PYTHON
    done = subprocess.run([SYSTEM_PYTHON, "-c", "import dbusmock, gi"], capture_output=True, check=False, timeout=60)
    return "python3-dbusmock" if done.returncode else ""


@pytest.fixture(scope="session")
def system_bus() -> Iterator[str]:
    """The address of a private D-Bus with dbusmock's bluez5 template on it, which is a mock of bluetoothd."""
    if missing := _what_is_missing():
        text = f"{missing} is not there. Debian, as root: {PACKAGES}"
        if os.environ.get("CI") == "true":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with TemporaryDirectory(prefix="dbus") as folder:
        config = Path(folder, "bus.conf")
        config.write_text(CONFIG.format(path=Path(folder, "bus")))
        address = f"unix:path={folder}/bus"
        environment = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": address}
        environment.pop("PYTHONPATH", None)
        daemon = subprocess.Popen(["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile"])
        mock = None
        try:
            _wait(lambda: Path(folder, "bus").exists(), daemon)
            mock = subprocess.Popen(
                [SYSTEM_PYTHON, "-m", "dbusmock", "--system", "--template", "bluez5", "-l", f"{folder}/log"],
                env=environment,
                cwd=folder,
            )
            yield address
        finally:
            for process in (mock, daemon):
                if process is not None:
                    process.terminate()
                    process.wait(10)


def _wait(done: Any, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if done():
            return
        assert process.poll() is None, "it ended"
        time.sleep(0.05)
    raise AssertionError("it did not come up")


class MockedBluez:
    """What tests tell the mock, and ask our own objects as bluetoothd would."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus

    @classmethod
    async def connect(cls) -> "MockedBluez":
        bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
        return cls(bus)

    async def call(
        self, destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any
    ) -> list[Any]:
        request = Message(
            destination=destination, path=path, interface=interface, member=member, signature=signature, body=list(body)
        )
        answer = await self.bus.call(request)
        assert answer is not None
        if answer.message_type is MessageType.ERROR:
            raise LookupError(f"{answer.error_name} {answer.body}")
        return list(answer.body)

    async def owner(self) -> str | None:
        daemon = "org.freedesktop.DBus"
        try:
            return str((await self.call(daemon, "/org/freedesktop/DBus", daemon, "GetNameOwner", "s", "org.bluez"))[0])
        except LookupError:
            return None

    async def add_adapter(self, name: str) -> None:
        await self.call("org.bluez", "/", "org.bluez.Mock", "AddAdapter", "ss", name, "test")

    async def remove_adapter(self, name: str) -> None:
        await self.call("org.bluez", "/", "org.bluez.Mock", "RemoveAdapterWithDevices", "s", name)

    async def add_device(self, adapter: str, address: str) -> str:
        found = await self.call("org.bluez", "/", "org.bluez.Mock", "AddDevice", "sss", adapter, address, "device")
        return str(found[0])

    async def hear(
        self, device: str, rssi: int, manufacturer: dict[int, bytes], service: dict[str, bytes] | None = None
    ) -> None:
        """The mock tells that an advertisement of this device came."""
        properties = {
            "RSSI": Variant("n", rssi),
            "ManufacturerData": Variant("a{qv}", {key: Variant("ay", data) for key, data in manufacturer.items()}),
        }
        # The template starts with an array there, which bluetoothd never has, so both are always told.
        found = {key: Variant("ay", data) for key, data in (service or {}).items()}
        properties["ServiceData"] = Variant("a{sv}", found)
        body = [Variant("s", "org.bluez.Device1"), Variant("a{sv}", properties), Variant("as", [])]
        # Not the mock's UpdateProperties: Debian 12's does not take dictionaries.
        await self.call(
            "org.bluez", device, "org.freedesktop.DBus.Mock", "EmitSignal", "sssav",
            "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", body,
        )  # fmt: skip
