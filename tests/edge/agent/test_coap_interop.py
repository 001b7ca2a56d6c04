"""Our CoAP client with the servers of others, over real sockets: the gateway's (aiocoap), aiocoap's own, libcoap's."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap import resource

from vicinal.coap import events
from vicinal.coap.client import Answer, Client, Request
from vicinal.coap.message import GET, PUT
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapters.coap import CoapAdapter
from vicinal_edge.agent.link import UdpLink
from vicinal_edge.contract import RecordingPort, settings

SERVER = shutil.which("coap-server-notls")
PATIENCE = 20.0


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Device:
    """A client and its link, driven in real time."""

    def __init__(self, port: int, **options: Any) -> None:
        self.client = Client(b"interop!", **options)
        self.link = UdpLink("127.0.0.1", port)
        self.answers: list[Answer] = []

    def now(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def turn(self) -> None:
        self.link.service(self.client, self.now())

    def ask(self, code: int, path: str, payload: bytes = b"", form: int | None = None, **options: Any) -> None:
        request = Request(code, path.split("/"), lambda a, t: self.answers.append(a), payload, form, **options)
        self.client.request(request, self.now())

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            self.turn()
            assert time.monotonic() < end, (
                f"{what}: {[(a.code, a.reason) for a in self.answers]} {self.client.counters}"
            )
            await asyncio.sleep(0.002)

    async def answer(self) -> Answer:
        await self.until(lambda: bool(self.answers), "an answer")
        return self.answers.pop(0)


@pytest.mark.parametrize("echo", ["never", "always"])
def test_with_the_gateway(tmp_path: Path, echo: str) -> None:
    async def work() -> None:
        adapter = CoapAdapter("field", settings({"bind": "127.0.0.1:0", "echo": echo}))
        port = RecordingPort("field", tmp_path)
        await adapter.connect(port)
        await adapter.subscribe(Filter("subject LIKE 'Speed%'"))
        device = Device(int(adapter.address.rpartition(":")[2]), block=256)
        try:
            sent = [
                Event("Speed", [("rate", n), ("more", "x" * size)], (), "car-7", n)
                for n, size in enumerate((0, 10, 255, 300, 3000, 20000))
            ]
            for event in sent:
                events.publish(device.client, event, device.now(), lambda a, t: device.answers.append(a))
                assert (await device.answer()).ok
            assert port.events == sent

            heard: list[Event] = []
            ended: list[Answer] = []
            request = events.observe(
                device.client,
                "Limit",
                "rate > 30",
                lambda e, t: heard.append(e),
                device.now(),
                lambda a, t: ended.append(a),
            )
            await device.until(lambda: device.client.observing == 1, "an observation")
            limits = [Event("Limit", [("rate", n), ("more", "y" * (n * 30))], (), "gw", n) for n in range(20, 60, 3)]
            for event in limits:
                await adapter.publish(event)
            want = [event for event in limits if event["rate"] > 30]  # type: ignore[operator]
            await device.until(lambda: len(heard) == len(want), "the limits")
            assert heard == want
            # Asked for anew, under the same token: what is there comes again, and then what follows.
            request.due = device.now()
            await device.until(lambda: not device.client.waiting and heard[-1] == want[-1], "again")
            await adapter.publish(Event("Limit", [("rate", 99)], (), "gw", 100))
            await device.until(lambda: heard[-1]["rate"] == 99, "what follows")
            assert not ended
            device.client.unobserve(request, device.now())
            await device.until(lambda: not device.client.waiting, "the end")
            await adapter.publish(Event("Limit", [("rate", 98)], (), "gw", 101))
            await device.until(lambda: adapter.status()["observers"] == 0, "nobody observing")
            assert heard[-1]["rate"] == 99
            bad = Event("Speed", [("rate", 1)], (), "car-7", 50)
            device.ask(PUT, "ps/Other", bytes(10), 60)
            assert (await device.answer()).code == 0x80
            events.publish(device.client, bad, device.now(), None, False)
            await device.until(lambda: port.events[-1] == bad, "one that is not confirmable")
        finally:
            device.link.close()
            await adapter.disconnect()

    asyncio.run(work())


class Counter(resource.ObservableResource):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.content = b"0"
        self.handle: Any = None

    def set(self, content: bytes) -> None:
        self.content = content
        self.updated_state()

    async def render_get(self, request: Any) -> Any:
        return aiocoap.Message(payload=self.content)

    async def render_put(self, request: Any) -> Any:
        self.set(request.payload)
        return aiocoap.Message(code=aiocoap.CHANGED)


class Slow(resource.Resource):  # type: ignore[misc]
    async def render_get(self, request: Any) -> Any:
        await asyncio.sleep(0.5)  # so that the answer is a separate one
        return aiocoap.Message(payload=b"at last")


def test_with_a_server_of_aiocoap() -> None:
    async def work() -> None:
        site, counter, where = resource.Site(), Counter(), free_port()
        site.add_resource(["counter"], counter)
        site.add_resource(["slow"], Slow())
        server = await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", where), transports=["udp6"])
        device = Device(where, block=64, max_body=10_000)
        try:
            for size in (1, 64, 65, 1000, 5000):
                body = bytes([n % 251 for n in range(size)])
                device.ask(PUT, "counter", body)
                assert (await device.answer()).code == 0x44
                assert counter.content == body
                device.ask(GET, "counter")
                assert (await device.answer()).payload == body
            device.ask(GET, "slow")
            assert (await device.answer()).payload == b"at last"
            device.ask(GET, "nothing")
            assert (await device.answer()).code == 0x84
            device.ask(GET, "counter", confirmable=False)
            assert (await device.answer()).ok
            heard: list[bytes] = []
            counter.set(b"small")  # aiocoap sends a notification whole, whatever was asked for
            device.client.observe(Request(GET, ["counter"], lambda a, t: heard.append(a.payload)), device.now())
            await device.until(lambda: len(heard) == 1, "the first")
            for n in range(5):
                counter.set(b"%d" % n * (n * 40 + 1))
                await device.until(lambda: bool(heard) and heard[-1] == counter.content, f"notification {n}")
        finally:
            device.link.close()
            await server.shutdown()

    asyncio.run(work())


@pytest.fixture
def libcoap() -> Iterator[int]:
    assert SERVER is not None
    port = free_port()
    process = subprocess.Popen([SERVER, "-A", "127.0.0.1", "-p", str(port), "-d", "10"], stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(SERVER is None, reason="Debian's libcoap3-bin is not installed")
def test_with_a_server_of_libcoap(libcoap: int) -> None:
    async def work() -> None:
        device = Device(libcoap, block=64, max_body=20_000)
        try:
            device.ask(GET, "time")
            first = await device.answer()
            assert first.ok, first.reason
            body = b"0123456789abcdef" * 60
            device.ask(PUT, "example_data", body)
            assert (await device.answer()).ok
            device.ask(GET, "example_data")
            assert (await device.answer()).payload == body
            device.ask(GET, "async", queries=["1"])
            assert (await device.answer()).ok
            device.ask(GET, "nothing")
            assert (await device.answer()).code == 0x84
            heard: list[Answer] = []
            request = Request(GET, ["time"], lambda a, t: heard.append(a))
            device.client.observe(request, device.now())
            await device.until(lambda: len(heard) >= 3, "the time, second by second")
            assert all(answer.observed for answer in heard)
            device.client.unobserve(request, device.now())
            await device.until(lambda: not device.client.waiting, "the end")
            count = len(heard)
            with contextlib.suppress(AssertionError):
                await asyncio.wait_for(device.until(lambda: False, "silence"), 2.5)
        except TimeoutError:
            assert len(heard) == count
        finally:
            device.link.close()

    asyncio.run(work())


def test_nobody_listens() -> None:
    device = Device(free_port())
    device.ask(GET, "x")
    for _ in range(5):
        device.turn()
    now = device.now()
    while not device.answers:
        now += 1000
        device.link.service(device.client, now)
    assert "timeout" in device.answers[0].reason
