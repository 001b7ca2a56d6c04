"""What a broker keeps on disk, in the event log (vicinal_cloud.log): the one place where the two meet.

    DIRECTORY/published                 what clients published here; acknowledged when it is in it
    DIRECTORY/durable/CLIENT/NAME       what was delivered to a durable subscription; the client reads from an offset
    DIRECTORY/durable.json              the durable subscriptions themselves
    DIRECTORY/cursors.json              how far they have come in what was published at each broker (cursors.py)
    DIRECTORY/incarnation               grows with every start

A durable subscription is a client of the engine of its own, CLIENT/NAME, and goes on while the client is away. Each has
its own log: what is in it was visible to it, and nothing else is.
"""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.siena.broker import Broker
from vicinal.wire import decode

from ..log import Duplicate, Entry, GroupCommit, Log, LogOptions, Refused, Stored, entry_of
from ..log._batch import STORAGE
from . import limits
from .counters import Counters
from .cursors import Cursors
from .files import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from .session import Session

__all__ = ["Storage", "next_incarnation"]


class _Durable:
    def __init__(self, client: str, name: str, condition: Filter, tags: Tags, commits: GroupCommit) -> None:
        self.client = client
        self.name = name
        self.condition = condition
        self.tags = tags
        self.commits = commits
        self.key = 0
        self.feeding: asyncio.Task[None] | None = None

    @property
    def engine_name(self) -> str:
        return f"{self.client}/{self.name}"


class Storage:
    def __init__(self, directory: Path, engine: Broker, now: "Callable[[], int]", options: LogOptions) -> None:
        """Within a running loop. Opens the logs, and subscribes again what was durably subscribed."""
        self.directory = directory
        self.engine = engine
        self._now = now
        self._options = options
        self.published = GroupCommit(Log(directory / "published", options), now)
        self._pending = 0
        self._durable: dict[str, _Durable] = {}
        self.cursors = Cursors(directory / "cursors.json", engine.cursors)
        engine.position = self.published.log.next
        for client, name, text, flat in self._read():
            one = self._open(client, name, Filter(text), Tags(zip(flat[1::2], flat[2::2]), flat[0]))
            try:
                one.key = engine.subscribe(one.engine_name, one.condition, one.tags, now(), durable=True)
            except LocalProtocolError:
                one.key = 0  # its scopes are not here now; what is stored can be read all the same

    # Publishing

    def highest(self, producer: str) -> int:
        return self.published.log.highest(producer)

    @property
    def full(self) -> bool:
        return self._pending > limits.MAX_STORING

    def submit(self, entries: list[Entry]) -> "asyncio.Future[list[int | str]]":
        """For each its offset once it is on disk, -1 if it was there before, or why it is not and will not be."""
        size = sum([len(one.event) for one in entries])
        self._pending += size
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[int | str]] = loop.create_future()

        def stored(done: "asyncio.Future[list[Any]]") -> None:
            self._pending -= size
            error = done.exception()
            if error is not None:
                found.set_result([f"the disk failed: {error}"] * len(entries))
            else:
                found.set_result([_outcome(one) for one in done.result()])

        try:
            self.published.submit(entries).add_done_callback(stored)
        except VicinalError as error:  # too much waits for the disk, or the log is closed
            self._pending -= size
            found.set_result([f"the disk is behind, try again later: {error}"] * len(entries))
        return found

    # Durable subscriptions

    def deliver(self, engine_name: str, event: Event, counters: Counters) -> bool:
        """Whether it is for a durable subscription; then it is put into its log."""
        one = self._durable.get(engine_name)
        if one is None:
            return False
        if event.producer == one.client:
            counters.dropped["its own"] += 1
            return True
        counters.putting += 1

        def put(done: "asyncio.Future[list[Any]]") -> None:
            counters.putting -= 1
            if done.exception() is not None:
                self.cursors.freeze()
                counters.dropped["the disk failed"] += 1
            elif isinstance(result := done.result()[0], Stored):
                counters.stored += 1
            elif isinstance(result, Duplicate):
                counters.dropped["repeated"] += 1
            else:
                if result.reason in STORAGE:
                    self.cursors.freeze()
                counters.dropped[result.reason] += 1

        try:
            done = one.commits.submit([entry_of(event)])
            done.add_done_callback(put)
            self.cursors.putting(done)
        except VicinalError:
            self.cursors.freeze()
            counters.putting -= 1
            counters.dropped["the disk is behind"] += 1
        return True

    def attach(
        self, session: "Session", name: str, condition: Filter, tags: Tags, offset: int | None, number: int
    ) -> None:
        """Begins to feed the client, under the number, from the offset or from the first there is."""
        engine_name = f"{session.name}/{name}"
        one = self._durable.get(engine_name)
        if one is not None and (one.condition != condition or one.tags != tags):
            raise LocalProtocolError(
                f"durable subscription {name!r} has the filter {one.condition}: unsubscribe it before it gets another"
            )
        if one is None or not one.key:
            key = self.engine.subscribe(engine_name, condition, tags, self._now(), durable=True)
            one = one or self._open(session.name, name, condition, tags)
            one.key = key
            self._write()
        log = one.commits.log
        start = log.first if offset is None else offset
        if not log.first <= start <= log.next:
            raise LocalProtocolError(f"offset {start} of {name!r} is not there: it has {log.first} to {log.next}")
        if one.feeding is not None:
            one.feeding.cancel()
        one.feeding = asyncio.get_running_loop().create_task(self._feed(session, one, start, number))

    async def _feed(self, session: "Session", one: _Durable, offset: int, number: int) -> None:
        connection = session.link.connection
        try:
            async for record in one.commits.follow(offset):
                while connection.credit <= 0 and not connection.closed:
                    session.turn.clear()
                    await session.turn.wait()
                if connection.closed:
                    return
                session.node.counters.handed += 1
                connection.send(("deliver", (number,), decode(record.event), record.offset, ()))
                session.node.flush_soon(session.link)
        except VicinalError as error:
            session.break_off(f"durable subscription {one.name!r}: {error}")

    def remove(self, session: "Session", name: str) -> None:
        """For good. Its log stays on disk until somebody removes it: what was stored is not ours to throw away."""
        one = self._durable.pop(f"{session.name}/{name}")
        if one.feeding is not None:
            one.feeding.cancel()
        self.engine.drop_client(one.engine_name, self._now())
        if not self._durable:
            self.cursors.clear()
        self._closing = asyncio.get_running_loop().create_task(one.commits.close())
        self._write()

    def detach(self, session: "Session") -> None:
        """The client is gone, its subscriptions stay."""
        session.turn.set()
        for one in self._durable.values():
            if one.client == session.name and one.feeding is not None:
                one.feeding.cancel()
                one.feeding = None

    def outside(self, engine_name: str) -> bool:
        """Its scopes are gone from here: it gets nothing more. Whether it is one of ours."""
        one = self._durable.get(engine_name)
        if one is None:
            return False
        self.engine.drop_client(engine_name, self._now())
        one.key = 0
        return True

    def status(self) -> dict[str, Any]:
        log = self.published.log
        return {
            "published": {"first": log.first, "next": log.next, "bytes": log.bytes, **log.counters.as_dict()},
            "cursors": dict(self.cursors.cursors),
            "durable": [
                {"client": one.client, "name": one.name, "first": one.commits.log.first, "next": one.commits.log.next}
                for one in self._durable.values()
            ],
        }

    async def close(self) -> None:
        for one in self._durable.values():
            if one.feeding is not None:
                one.feeding.cancel()
            await one.commits.close()
        await self.published.close()
        self.cursors.close()

    def _open(self, client: str, name: str, condition: Filter, tags: Tags) -> _Durable:
        # A name may be "..": never a path of its own.
        folder = self.directory / "durable" / f"c-{quote(client, safe='')}" / f"s-{quote(name, safe='')}"
        folder.mkdir(parents=True, exist_ok=True)
        one = _Durable(client, name, condition, tags, GroupCommit(Log(folder, self._options), self._now))
        self._durable[one.engine_name] = one
        return one

    def _read(self) -> list[Any]:
        file = self.directory / "durable.json"
        found: list[Any] = json.loads(file.read_text()) if file.exists() else []
        return found

    def _write(self) -> None:
        found = [[one.client, one.name, str(one.condition), one.tags.item()] for one in self._durable.values()]
        replace(self.directory / "durable.json", json.dumps(found))


def _outcome(result: Any) -> int | str:
    if isinstance(result, Refused):
        return result.message
    return result.offset if isinstance(result, Stored) else -1


def next_incarnation(directory: Path | None, now: int) -> int:
    """Greater than at every earlier start: the time, and where there is a disk, whatever the clock does."""
    if directory is None:
        return now
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "incarnation"
    number = max(now, int(file.read_text()) + 1 if file.exists() else 0)
    replace(file, str(number))
    return number
