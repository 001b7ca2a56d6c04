"""Beginning and end of a gateway: what it tells systemd, SIGTERM under load, and requests that survive its death."""

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.outages.rig import Rig, applied, out, until

from vicinal.control import SUBJECT, Subscription
from vicinal.filter import Filter
from vicinal_cloud.broker.client import Client, connect
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import RecordingPort, settings


def test_sigterm_under_load_leaves_everything_stored(tmp_path: Path) -> None:
    """With the uplink cut, and with it open: each time the next life has all of it."""

    async def run() -> None:
        async with Rig(tmp_path, env={}) as rig:
            load = asyncio.create_task(rig.load.forever(400))
            for cut in (True, False, True):
                if cut:
                    rig.link.cut()
                await asyncio.sleep(0.7)
                rig.kills += 1  # of one life the books would be others
                code = await rig.terminate()
                assert code == 0, rig.errors()
                rig.link.heal()
                await rig.start()
            load.cancel()
            await load
            await rig.check()

    asyncio.run(run())


def test_it_ends_when_nobody_answers(tmp_path: Path) -> None:
    """The uplink hangs: SIGTERM does not wait for it longer than an adapter may take to disconnect."""

    async def run() -> None:
        async with Rig(tmp_path, env={}) as rig:
            await rig.load.run(100, rate=400)
            rig.link.freeze()
            await rig.load.run(100, rate=400)
            rig.kills += 1
            assert await rig.terminate() == 0, rig.errors()
            rig.link.cut()
            rig.link.heal()
            await rig.start()
            await rig.check()

    asyncio.run(run())


def test_systemd_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(path))
            manager.setblocking(False)
            said: list[str] = []

            def read() -> list[str]:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        said.append(manager.recv(4096).decode())
                return said

            async with Rig(tmp_path, env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}) as rig:
                assert read().count("READY=1") == 1
                await until(lambda: read().count("WATCHDOG=1") >= 5, "it says that it lives")
                assert "STOPPING=1" not in read()
                rig.kills += 1
                assert await rig.terminate() == 0
                assert read().count("STOPPING=1") == 1
                assert read().index("STOPPING=1") > read().index("READY=1")

    asyncio.run(run())


@pytest.mark.parametrize("mutant", [None, "requests are not remembered"])
def test_who_has_asked_need_not_ask_again(tmp_path: Path, mutant: str | None) -> None:
    """A client on the bus has subscribed to the office by a control event; the gateway dies; events flow again."""

    async def run() -> bool:
        async with Rig(tmp_path, mutant=mutant) as rig, client_of(rig) as (adapter, port):
            done = await adapter.publish(Subscription("office", "bus", "subject = 'Order'").to_event().stamp("me", 1))
            assert done is not None
            await done
            await until(lambda: any(event.get("Type") == 6 for event in port.events), "the answer")
            office = await connect(rig.broker.addresses["b1"], "boss")
            try:
                await said_and_heard(office, port, 1)
                await asyncio.sleep(0.3)
                for number in (2, 3):
                    await rig.kill()
                    await rig.start()
                    await rig.until(applied, "the requests of the configuration")
                    if not await said_and_heard(office, port, number, 4.0 if mutant else 30.0):
                        return False
            finally:
                await office.close()
            return True

    assert asyncio.run(run()) is (mutant is None)


@contextlib.asynccontextmanager
async def client_of(rig: Rig) -> Any:
    adapter = MqttAdapter("bus", settings({"address": rig.bus.address, "prefix": "bus/", "client_id": "me"}))
    folder = rig.folder / "client"
    folder.mkdir()
    port = RecordingPort("bus", folder)
    await adapter.connect(port)
    try:
        await adapter.subscribe(Filter("subject = 'Order'"))
        await adapter.subscribe(Filter(f"subject = '{SUBJECT}' AND Type = 6"))
        yield adapter, port
    finally:
        await adapter.disconnect()


async def said_and_heard(office: Client, port: RecordingPort, number: int, seconds: float = 30.0) -> bool:
    """Said at the broker until it is heard on the bus: a subscription takes its time."""
    from vicinal.event import Event

    advert = await office.advertise("subject = 'Order'")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await office.publish(Event("Order", [("number", number)]), advert)
        await asyncio.sleep(0.1)
        if any(event.get("number") == number for event in port.events):
            return True
    return False


def test_the_books_of_a_life_go_on_in_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        async with Rig(tmp_path, env={}) as rig:
            await rig.load.run(200, rate=400)
            await rig.check()
            rig.kills += 1
            await rig.terminate()
            await rig.start()
            await rig.until(applied, "it is there")
            await rig.load.run(100, rate=400)
            await rig.check()
            assert out(await rig.status())["accepted"] == 300

    asyncio.run(run())
