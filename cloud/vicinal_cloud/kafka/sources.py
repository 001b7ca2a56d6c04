"""Where a mirror reads: a log's directory, or the log of a broker over the network. Both by offset; nothing is changed.

    await source.ends()             the first offset there is, and the next to be written
    await source.read(at, most)     Part: what is there from `at` on; no records and at = next where it is all

Over the network a client that is no administrator gets what was published in no scope (broker/reading.py). A broker
that is away is waited for.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from vicinal.errors import VicinalError

from ..broker.client import Client
from ..broker.dial import CannotConnect
from ..broker.reading import TOPIC, in_no_scope, unpack_records
from ..log import LogReader, Record

__all__ = ["BrokerSource", "DirectorySource", "Part", "Source"]

# Seconds between two looks for a broker that is away.
_AGAIN = 0.5


class Part(NamedTuple):
    first: int
    """the first offset that retention has left"""
    next: int
    """of the log"""
    at: int
    """the offset to go on with"""
    records: list[Record]
    hidden: int
    """records before `at` that are not for us"""


class Source(Protocol):
    name: str

    async def ends(self) -> tuple[int, int]: ...

    async def read(self, at: int, most: int) -> Part: ...

    async def close(self) -> None: ...


class DirectorySource:
    def __init__(self, path: Path, name: str = "", scoped: bool = False) -> None:
        """The log's own folder, or the one of a broker that has it as `published`. `scoped`: also what was published in
        scopes; who reads the topic then reads it, member or not."""
        inner = path / "published"
        where = inner if inner.is_dir() and not any(path.glob("*.segment")) else path
        if not where.is_dir():
            raise VicinalError(f"{path}: there is no event log: want the directory that [log] of a broker names")
        self.name = name or str(path)
        self._scoped = scoped
        self._reader = LogReader(where)

    async def ends(self) -> tuple[int, int]:
        return self._reader.first, self._reader.next

    async def read(self, at: int, most: int) -> Part:
        return await asyncio.to_thread(self._read, at, most)

    def _read(self, at: int, most: int) -> Part:
        first, following = self._reader.first, self._reader.next
        if not first <= at < following:
            return Part(first, following, at, [], 0)
        records, end = self._reader.read(at, most)
        shown = records if self._scoped else [one for one in records if in_no_scope(one)]
        return Part(first, following, end, shown, len(records) - len(shown))

    async def close(self) -> None:
        self._reader.close()


class BrokerSource:
    def __init__(self, name: str, connect: "Callable[[], Awaitable[Client]]") -> None:
        self.name = name
        self._connect = connect
        self._client: Client | None = None

    async def ends(self) -> tuple[int, int]:
        found = await self._ask(TOPIC)
        return found["first"], found["next"]

    async def read(self, at: int, most: int) -> Part:
        found = await self._ask(f"{TOPIC} {json.dumps({'from': at, 'to': at + most})}")
        records = unpack_records(found["records"])
        return Part(found["first"], found["next"], min(found["at"], found["next"]), records, found["hidden"])

    async def _ask(self, what: str) -> dict[str, Any]:
        """Raises CannotConnect before it was ever connected; Closed, Refused when the broker does not want us."""
        while True:
            known = self._client is not None
            try:
                if self._client is None:
                    self._client = await self._connect()
                found: dict[str, Any] = json.loads(await self._client.administer("tell", what))
                return found
            except (ConnectionError, CannotConnect) as error:
                if not known and isinstance(error, CannotConnect):
                    raise
                await asyncio.sleep(_AGAIN)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
