"""Adapters to one mosquitto, and mosquitto's own clients beside them."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from edge.servers import Mosquitto

from vicinal.event import Event
from vicinal_edge.adapter import Adapter
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import PATIENCE, RecordingPort, settings

fresh = count(1)
"""numbers of prefixes and clients that nobody else has"""


class Bench:
    """Adapters to one server, under a prefix of their own."""

    def __init__(self, server: Mosquitto, folder: Path, stack: AsyncExitStack) -> None:
        self.server = server
        self.folder = folder
        self.number = next(fresh)
        self.prefix = f"t{self.number}/"
        self.stack = stack

    def make(self, name: str, **more: Any) -> tuple[MqttAdapter, RecordingPort]:
        given = {"address": self.server.address, "prefix": self.prefix, "client_id": f"{name}-{self.number}"}
        adapter = MqttAdapter(name, settings({**given, **more}))
        folder = self.folder / f"{self.number}-{name}"
        folder.mkdir(exist_ok=True)
        self.stack.push_async_callback(adapter.disconnect)
        return adapter, RecordingPort(name, folder)

    async def connected(self, name: str, **more: Any) -> tuple[MqttAdapter, RecordingPort]:
        adapter, port = self.make(name, **more)
        await adapter.connect(port)
        return adapter, port

    async def client(self, program: str, *arguments: str) -> asyncio.subprocess.Process:
        """mosquitto's own, with MQTT 5 unless another version is named."""
        version = () if "-V" in arguments else ("-V", "5")
        return await asyncio.create_subprocess_exec(
            program, "-h", "127.0.0.1", "-p", str(self.server.port), *version, *arguments, stdout=subprocess.PIPE
        )

    async def say(self, topic: str, payload: str, *arguments: str) -> None:
        done = await self.client("mosquitto_pub", "-t", topic, "-q", "1", "-m", payload, *arguments)
        assert await done.wait() == 0


def run(server: Mosquitto, folder: Path, check: Callable[[Bench], Awaitable[None]]) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            await check(Bench(server, folder, stack))

    asyncio.run(work())


async def sent(adapter: Adapter, *events: Event) -> None:
    for future in [await adapter.publish(event) for event in events]:
        if future is not None:
            await asyncio.wait_for(future, PATIENCE)
