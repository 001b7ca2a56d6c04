"""A broker within the test's own loop, so that its disk and its links can be held up; peers on real sockets."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cloud.broker.brokers import PATIENCE, Brokers

from vicinal.siena.connection import Frames
from vicinal.siena.messages import CLIENT, MAX_BYTES_BROKER, encode, framed
from vicinal.siena.messages_read import decode
from vicinal_cloud.broker.config import load
from vicinal_cloud.broker.server import Server


@asynccontextmanager
async def server(folder: Path, name: str = "b1", **what: Any) -> AsyncIterator[Server]:
    """`what` is as for Brokers.write."""
    found = Server(load(Brokers(folder).write(name, **what)), random.Random(1))
    await found.start()
    try:
        yield found
    finally:
        await found.drain()


@contextmanager
def disk_held(one: Server) -> Iterator[threading.Event]:
    """Nothing gets into the log of what is published, until the event is set."""
    assert one.node.storage is not None
    log: Any = one.node.storage.published.log
    real, go_on = log.append_batch, threading.Event()

    def held(*entries: Any) -> Any:
        assert go_on.wait(PATIENCE)
        return real(*entries)

    log.append_batch = held
    try:
        yield go_on
    finally:
        go_on.set()
        log.append_batch = real


class Peer:
    """Says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._frames = Frames(MAX_BYTES_BROKER)

    @classmethod
    async def open(cls, one: Server, name: str, role: int = CLIENT) -> "Peer":
        address = one.addresses[0]
        found = cls(*await asyncio.open_connection(address.host, address.port))
        found.say(("hello", 1, role, name))
        await found.next("welcome")
        return found

    def say(self, *messages: tuple[Any, ...]) -> None:
        self.writer.write(b"".join([framed(encode(one)) for one in messages]))

    async def next(self, kind: str) -> tuple[Any, ...]:
        """The next message of the kind; others are passed over."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while (frame := self._frames.next_frame()) is not None:
                    message = decode(frame, MAX_BYTES_BROKER)
                    if message[0] == kind:
                        return message
                data = await self._reader.read(1 << 16)
                assert data, f"closed, and no {kind}"
                self._frames.receive_data(data)

    async def ask(self, *message: Any) -> Any:
        """What the answer brings."""
        self.say(message)
        _, request, accepted, more = await self.next("answer")
        assert accepted, more
        assert request == message[1]
        return more
