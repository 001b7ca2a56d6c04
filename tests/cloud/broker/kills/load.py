"""Publishers and durable subscribers of an overlay under fire, by the product's own client. They write all down."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cloud.broker.kills.checker import Got, Heard, Said

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_cloud.broker.client import Client, Refused, connect
from vicinal_cloud.log import LogReader

__all__ = ["Publisher", "Subscriber"]

# Without an answer at most: what is under way when its broker dies.
WINDOW = 32


class Publisher:
    """Numbers its events from 1 on, without gaps; every third is of part 0."""

    def __init__(self, name: str, broker: str, address: str, rate: float, scoped: bool, seed: int) -> None:
        self.name = name
        self.broker = broker
        self.said: list[Said] = []
        self.refused: list[tuple[int, str]] = []
        self._address = address
        self._pause = 1 / rate
        self._scopes = {"geography": "london"} if scoped else None
        self._chance = random.Random(seed)
        self._open: dict[int, asyncio.Future[int]] = {}
        self._client: Client | None = None
        self._stopping = False

    async def start(self) -> None:
        self._client = await connect(self._address, self.name, chance=self._chance)
        self._advert = await self._client.advertise("subject = 'Speed'", self._scopes)

    async def run(self) -> None:
        """Until `stop`."""
        while not self._stopping:
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._pause)
            if len(self._open) < WINDOW:
                await self._say()

    async def say(self, count: int) -> None:
        """So many, and all are acknowledged."""
        for _ in range(count):
            await self._say()
        await asyncio.gather(*self._open.values())

    async def _say(self) -> None:
        assert self._client is not None
        seq = len(self.said) + 1
        event = Event("Speed", {"part": seq % 3, "rate": seq}, (), self.name, seq)
        self.said.append(Said(self.name, seq, self.broker, None))
        done = await self._client.submit(event, self._advert)
        self._open[seq] = done
        done.add_done_callback(self._answered(seq))

    def _answered(self, seq: int) -> "Callable[[asyncio.Future[int]], None]":
        def note(done: "asyncio.Future[int]") -> None:
            del self._open[seq]
            if done.cancelled():
                return
            error = done.exception()
            if error is None:
                self.said[seq - 1] = self.said[seq - 1]._replace(acknowledged=time.monotonic())
            elif isinstance(error, Refused):
                self.refused.append((seq, str(error)))

        return note

    def stop(self) -> None:
        self._stopping = True

    async def unanswered(self, seconds: float) -> int:
        """How many were not answered within so many seconds."""
        if self._open:
            await asyncio.wait(list(self._open.values()), timeout=seconds)
        return len(self._open)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _identities(log: Path) -> Iterator[tuple[str, int]]:
    reader = LogReader(log)
    offset = reader.first
    while offset < reader.next:
        records, offset = reader.read(offset, 10_000)
        yield from [(one.producer, one.seq) for one in records]


class Subscriber:
    """A durable subscription that goes on from the offset it has come to, also as a new client that knows no more."""

    def __init__(self, name: str, broker: str, address: str, part: int | None, scoped: bool, seed: int) -> None:
        self.name = name
        self.broker = broker
        self.got: list[Got] = []
        self.duplicates = 0
        self._address = address
        self._part = part
        self._scopes = {"geography": "uk"} if scoped else None
        self._chance = random.Random(seed)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    def wants(self, producer: str, seq: int) -> bool:
        return self._part is None or seq % 3 == self._part

    def heard(self, folder: Path | None = None) -> Heard:
        """`folder` is where its broker has its files: then what is on disk for it is looked up too."""
        log = None if folder is None else folder / f"{self.broker}.log" / "durable" / f"c-{self.name}" / "s-all"
        stored = frozenset(_identities(log)) if log is not None and log.exists() else frozenset()
        return Heard(self.name, self.broker, self.wants, self.got, stored)

    async def start(self) -> None:
        text = "subject = 'Speed'" if self._part is None else f"part = {self._part}"
        self._client = await connect(self._address, self.name, chance=self._chance)
        offset = self.got[-1].offset + 1 if self.got else None
        found = await self._client.subscribe(text, self._scopes, durable="all", offset=offset)

        async def read() -> None:
            async for one in found:
                assert one.offset is not None
                assert one.event.producer is not None
                assert one.event.seq is not None
                self.got.append(Got(one.event.producer, one.event.seq, one.offset))

        self._task = asyncio.create_task(read())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._client is not None:
            self.duplicates += self._client.duplicates
            await self._client.close()
        self._client = self._task = None

    async def anew(self) -> None:
        """The client dies and another takes its place."""
        await self.close()
        while True:
            try:
                await self.start()
                return
            except (VicinalError, ConnectionError):
                if self._client is not None:
                    await self._client.close()
                await asyncio.sleep(0.1)
