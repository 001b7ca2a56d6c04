"""Adapters to one ActiveMQ, and stomp.py beside them: a client that knows nothing of us."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import stomp
from edge.servers import ActiveMq

from vicinal.event import Event
from vicinal_edge.adapter import Adapter, Unavailable
from vicinal_edge.adapters.jms import JmsAdapter
from vicinal_edge.contract import PATIENCE, RecordingPort, settings

fresh = count(1)
"""numbers of destinations that nobody else has"""


class Bench:
    def __init__(self, server: ActiveMq, folder: Path, stack: AsyncExitStack) -> None:
        self.server = server
        self.folder = folder
        self.number = next(fresh)
        self.prefix = f"t{self.number}."
        self.stack = stack

    def make(self, name: str, **more: Any) -> tuple[JmsAdapter, RecordingPort]:
        given = {"address": self.server.address, "destination": self.prefix, "client_id": f"{name}-{self.number}"}
        adapter = JmsAdapter(name, settings({**given, **more}))
        folder = self.folder / f"{self.number}-{name}"
        folder.mkdir(exist_ok=True)
        self.stack.push_async_callback(adapter.disconnect)
        return adapter, RecordingPort(name, folder)

    async def connected(self, name: str, **more: Any) -> tuple[JmsAdapter, RecordingPort]:
        adapter, port = self.make(name, **more)
        await connect(adapter, port)
        return adapter, port

    def other(self, style: str = "topic") -> "Other":
        made = Other(self.server.port, f"/{style}/{self.prefix}")
        self.stack.callback(made.end)
        return made


async def connect(adapter: JmsAdapter, port: RecordingPort) -> None:
    """As a gateway does: tried again until who was there under this name has been missed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await adapter.connect(port)
            except Unavailable as error:
                if "already connected" not in str(error):
                    raise
            await asyncio.sleep(0.05)


class Other(stomp.ConnectionListener):  # type: ignore[misc]
    """Another client. It waits for its receipts: what it has said is said."""

    def __init__(self, port: int, prefix: str) -> None:
        self.prefix = prefix
        self.frames: list[Any] = []
        self.connection = stomp.Connection12([("127.0.0.1", port)], auto_content_length=False)
        self.connection.set_listener("", self)
        self.connection.connect(wait=True)
        self._receipts: dict[str, threading.Event] = {}
        self._numbers = count(1)

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)

    def on_receipt(self, frame: Any) -> None:
        self._receipts[frame.headers["receipt-id"]].set()

    def _waited(self, ask: Callable[[str], None]) -> None:
        number = str(next(self._numbers))
        self._receipts[number] = threading.Event()
        ask(number)
        assert self._receipts[number].wait(PATIENCE)

    def say(self, subject: str, body: str = "", /, **properties: Any) -> None:
        where = self.prefix + subject
        self._waited(lambda number: self.connection.send(where, body, headers={**properties, "receipt": number}))

    def subscribe(self, subject: str, selector: str = "") -> None:
        headers = {"selector": selector} if selector else {}
        self._waited(
            lambda number: self.connection.subscribe(
                self.prefix + subject, "1", "auto", headers={**headers, "receipt": number}
            )
        )

    def end(self) -> None:
        self.connection.disconnect()


def run(server: ActiveMq, folder: Path, check: Callable[[Bench], Awaitable[None]]) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            await check(Bench(server, folder, stack))

    asyncio.run(work())


async def sent(adapter: Adapter, *events: Event) -> None:
    for future in [await adapter.publish(event) for event in events]:
        if future is not None:
            await asyncio.wait_for(future, PATIENCE)
