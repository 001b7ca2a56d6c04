"""What a broker keeps on disk, in the event log (vicinal_cloud.log): the one place where the two meet.

    DIRECTORY/published                 what clients published here; acknowledged when it is in it
    DIRECTORY/durable/CLIENT/NAME       what was delivered to a durable subscription; the client reads from an offset
    DIRECTORY/durable.json              the durable subscriptions themselves (durable.py)
    DIRECTORY/cursors.json              how far they have come in what was published at each broker (cursors.py)
    DIRECTORY/incarnation               grows with every start

A durable subscription is a client of the engine of its own, CLIENT/NAME, and goes on while the client is away. Each has
its own log: what is in it was visible to it, and nothing else is.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.errors import LimitError, LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.scope.membership import SUBSCRIBE, Identity
from vicinal.siena.broker import Broker
from vicinal.siena.holding import AGENT, said_by

from ..log import Duplicate, Entry, GroupCommit, Log, LogOptions, Refused, Stored, entry_of
from ..log._batch import STORAGE
from ..log.scoped import entry_with, unpack
from . import limits
from .counters import Counters
from .cursors import Cursors
from .durable import Durable, fresh_folder, read_list, write_list
from .files import replace
from .members import identity_item
from .scoped import NO_MEMBER

if TYPE_CHECKING:
    from collections.abc import Callable

    from .session import Session

__all__ = ["Storage", "next_incarnation"]

# Seconds until a client whose socket is full is looked at again.
_LATER = 0.02


class Storage:
    def __init__(
        self,
        directory: Path,
        engine: Broker,
        now: "Callable[[], int]",
        options: LogOptions,
        pump: "Callable[[], None]" = lambda: None,
    ) -> None:
        """Within a running loop. Opens the logs, and subscribes again what was durably subscribed. `pump` is called
        when the engine has something to do that nothing else led to."""
        self.directory = directory
        self.engine = engine
        self._now = now
        self._options = options
        self._pump = pump
        self.published = GroupCommit(Log(directory / "published", options), now)
        self._pending = 0
        self._putting = 0  # bytes on their way into the logs of durable subscriptions
        self._durable: dict[str, Durable] = {}
        self._removing: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._again_after = limits.READ_AGAIN_FIRST
        self.cursors = Cursors(directory / "cursors.json", engine.cursors)
        engine.position = self.published.log.next
        engine.keeps_up = self._keeps_up
        if self.cursors.damaged:
            engine.first_cursor = 0
        for one in read_list(directory):
            self._open(one)
            if one.client.startswith(AGENT):
                # Whether it still holds is known later (holding.py). What came while it did not is another's.
                one.left = dict(self.cursors.cursors) if one.left is None else None
                continue
            try:
                self._enter(one)
            except LocalProtocolError:  # its scopes are not here now; what is stored can be read all the same
                if one.left is None:
                    one.left = dict(self.cursors.cursors)
        if self._durable:
            self._write()
        elif self.cursors.cursors or self.cursors.damaged:
            self._begin_anew()  # it died before that was on disk

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
        if one.takes_no_more:
            self._miss(one)
            counters.dropped["comes again"] += 1
            return True
        came = self.engine.rights.seen.get(event.identity)
        try:
            entry = entry_of(event) if came is None else entry_with(event, came[0])
        except LimitError:
            counters.dropped["too large with its scopes"] += 1
            return True
        try:
            done = one.commits.submit([entry])
        except VicinalError:
            self._miss(one)
            counters.dropped["the disk is behind"] += 1
            return True
        size = len(entry.event)
        self._putting += size
        counters.putting += 1

        def put(done: "asyncio.Future[list[Any]]") -> None:
            self._putting -= size
            counters.putting -= 1
            if done.exception() is not None:
                self._miss(one)
                counters.dropped["the disk failed"] += 1
            elif isinstance(result := done.result()[0], Stored):
                counters.stored += 1
                if self._again is None:
                    self._again_after = limits.READ_AGAIN_FIRST
            elif isinstance(result, Duplicate):
                counters.dropped["repeated"] += 1
            else:
                if result.reason in STORAGE:
                    self._miss(one)
                counters.dropped[result.reason] += 1

        done.add_done_callback(put)
        self.cursors.putting(done)
        return True

    def _keeps_up(self) -> bool:
        return self._putting < limits.MAX_STORING

    def _miss(self, one: Durable) -> None:
        """Something for it is not in its log. What comes after it in the order of its producer would lock it out: so
        nothing is put until all comes again, from the cursors on, which stay where they are."""
        one.missed = True
        self.cursors.freeze()
        self._read_again_later()

    def _read_again_later(self) -> None:
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._again_after, self._read_again)
            self._again_after = min(2 * self._again_after, limits.READ_AGAIN_MOST)

    def _read_again(self) -> None:
        self._again = None
        if self._putting:
            self._read_again_later()
            return
        missed = [one for one in self._durable.values() if one.missed and one.key]
        # A log that does not know what it has on disk finds out when it is opened: at the next start.
        failed = [one for one in missed if one.commits.log.failed is not None]
        for one in missed:
            if one not in failed:
                one.read_again()
                self.engine.read_again(one.engine_name, self._now())
        if not failed:
            self.cursors.thaw()
        self._pump()

    def attach(
        self, session: "Session", name: str, condition: Filter, tags: Tags, offset: int | None, number: int
    ) -> None:
        """Begins to feed the client, under the number, from the offset or from the first there is. What is refused
        has changed nothing."""
        one = self._durable.get(f"{session.name}/{name}")
        self.engine.check_place(session.name, condition, tags, SUBSCRIBE)
        if one is None:
            if offset:
                raise LocalProtocolError(f"offset {offset} of {name!r} is not there: it is new, and has 0 to 0")
            one = self._create(session.name, session.identity, name, condition, tags)
            start = 0
        else:
            start = self._start(session, one, condition, tags, offset)
        one.stop_feeding()
        one.feeding = asyncio.get_running_loop().create_task(self._feed(session, one, start, number))

    def _start(self, session: "Session", one: Durable, condition: Filter, tags: Tags, offset: int | None) -> int:
        if one.condition != condition or one.tags != tags:
            raise LocalProtocolError(
                f"durable subscription {one.name!r} has the filter {one.condition}: "
                "unsubscribe it before it gets another"
            )
        log = one.commits.log
        start = log.first if offset is None else offset
        if not log.first <= start <= log.next:
            raise LocalProtocolError(f"offset {start} of {one.name!r} is not there: it has {log.first} to {log.next}")
        if one.name in session.durable.values():
            raise LocalProtocolError(f"durable subscription {one.name!r} is open in this connection already")
        self._own(session, one)
        is_new = identity_item(session.identity) != identity_item(one.identity)
        if is_new:
            one.identity = session.identity
            self.engine.admit(one.engine_name, one.identity, self._now())
        if not one.key:
            self._enter(one)
            is_new = True
        if is_new:
            self._write()
        return start

    def _own(self, session: "Session", one: Durable) -> None:
        if one.identity.issued is not None and session.identity.issued is None:
            raise LocalProtocolError(
                f"durable subscription {one.name!r} is of somebody who has proven to be {one.identity.name!r}: "
                "show a certificate or a token"
            )

    def _create(self, client: str, identity: Identity, name: str, condition: Filter, tags: Tags) -> Durable:
        of_client = len([1 for one in self._durable.values() if one.client == client])
        if of_client >= limits.MAX_DURABLE_PER_CLIENT:
            raise LocalProtocolError(
                f"client {client!r} has {of_client} durable subscriptions, which is the limit, connected or not"
            )
        if len(self._durable) >= limits.MAX_DURABLE:
            raise LocalProtocolError(f"this broker has {len(self._durable)} durable subscriptions, which is the limit")
        folder = fresh_folder(self.directory, client, name)
        one = Durable(client, name, condition, tags, folder, None, identity)
        self.engine.admit(one.engine_name, one.identity, self._now())
        one.key = self.engine.subscribe(one.engine_name, condition, tags, self._now(), durable=True)
        try:
            # Before the subscription is on disk: what is published here from now on is for it, whoever dies.
            self.cursors.begin(self.engine.name, self.engine.position)
            self._open(one)
            self._write()
        except BaseException:
            self.engine.drop_client(one.engine_name, self._now())
            if self._durable.pop(one.engine_name, None) is not None:
                self._remove_log(one)
            raise
        return one

    def hold(self, agent: str, condition: Filter, tags: Tags) -> Durable:
        """The durable subscription of a scope's agent, which may hear of other things than before."""
        one = self._durable.get(f"{agent}/held")
        if one is None:
            return self._create(agent, Identity(agent), "held", condition, tags)
        if one.condition != condition or one.tags != tags:
            if one.key:
                self.engine.drop_client(one.engine_name, self._now())
                one.key = 0
            one.condition, one.tags = condition, tags
        if not one.key:
            self._enter(one)
            self._write()
        return one

    def holding(self) -> list[Durable]:
        """Of agents, whether they hold now or did."""
        return [one for one in self._durable.values() if one.client.startswith(AGENT)]

    def hold_no_more(self, agent: str) -> None:
        """Another broker does: what comes from now on is not for this one, nor when it holds again."""
        one = self._durable.get(f"{agent}/held")
        if one is not None and one.key:
            self.outside(one.engine_name)
            one.left = None

    def _enter(self, one: Durable) -> None:
        """It is subscribed again; if it was outside its scopes, from where it was then."""
        self.engine.admit(one.engine_name, one.identity, self._now())
        one.key = self.engine.subscribe(one.engine_name, one.condition, one.tags, self._now(), durable=True)
        if one.left is not None:
            self.cursors.rewind(one.left)
            one.left = None
            one.read_again()
            self.engine.read_again(one.engine_name, self._now())

    async def _feed(self, session: "Session", one: Durable, offset: int, number: int) -> None:
        connection, link = session.link.connection, session.link
        try:
            async for record in one.commits.follow(offset):
                while not connection.closed:
                    if connection.credit <= 0:
                        session.turn.clear()
                        await session.turn.wait()
                    elif link.backlog > limits.MAX_FED:
                        await asyncio.sleep(_LATER)
                    else:
                        break
                if connection.closed:
                    return
                one.fed = record.offset + 1
                session.node.counters.handed += 1
                event, tags = unpack(record.event)
                if self._hidden(session, one, event, tags, record.time):
                    session.node.counters.dropped[NO_MEMBER] += 1
                    continue
                here = (self.engine.name, (), record.time)
                connection.send(("deliver", (number,), event, record.offset, (here,)))
                session.node.flush_soon(link)
        except (VicinalError, OSError) as error:
            session.break_off(f"durable subscription {one.name!r}: {error}")

    def _hidden(self, session: "Session", one: Durable, event: Event, tags: Tags, time: int) -> bool:
        """Rights are those of now, not of when it was stored."""
        rights = self.engine.rights
        rights.now = self._now()
        if not rights.guarded:
            return False
        mine = self.engine.subscribed(one.engine_name, one.key) or one.tags
        if not mine.scopes and not tags.scopes:
            return False
        return bool(rights.hiding(session.name, mine, tags, said_by(event), time))

    def remove(self, session: "Session", name: str) -> None:
        """For good, and its log with it."""
        one = self._durable.get(f"{session.name}/{name}")
        if one is None:
            raise LocalProtocolError(f"client {session.name!r} has no durable subscription {name!r}")
        self._own(session, one)
        self._remove(one)

    def ended(self, engine_name: str, why: str, kind: str, counters: Counters, session: "Session | None") -> None:
        """A right is gone: what is stored under it is not delivered. Where its client has only to show anew who it is,
        and where it is another component now, it goes on then."""
        one = self._durable.get(engine_name)
        if one is None:
            return
        for number, name in [] if session is None or kind == "moved" else list(session.durable.items()):
            if session is not None and name == one.name:
                session.ended(number, why)
        if kind == "subscription":
            count = one.commits.log.next - max(one.commits.log.first, one.fed)
            counters.handed += count
            counters.dropped[NO_MEMBER] += count
            self._remove(one)
            return
        one.stop_feeding()
        self.outside(engine_name)
        if kind == "moved":
            self.inside()

    def _remove(self, one: Durable) -> None:
        self._write(without=one)
        del self._durable[one.engine_name]
        self.engine.drop_client(one.engine_name, self._now())
        if not self._durable:
            self._begin_anew()
        self._remove_log(one)

    def _begin_anew(self) -> None:
        """Nobody is left for whom the cursors are: the next durable subscription wants what comes after it."""
        self.cursors.clear()
        self.engine.first_cursor = None

    def _remove_log(self, one: Durable) -> None:
        one.stop_feeding()
        task = asyncio.get_running_loop().create_task(one.remove())
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    def detach(self, session: "Session") -> None:
        """The client is gone, its subscriptions stay."""
        session.turn.set()
        for one in self._durable.values():
            if one.client == session.name:
                one.stop_feeding()

    def outside(self, engine_name: str) -> bool:
        """Its scopes are gone from here: it gets nothing more. Whether it is one of ours."""
        one = self._durable.get(engine_name)
        if one is None:
            return False
        self.engine.drop_client(engine_name, self._now())
        one.key = 0
        one.left = dict(self.cursors.cursors)
        self._write()
        return True

    def inside(self) -> None:
        """Scopes have come: those whose scopes are here again go on where they were."""
        for one in self._durable.values():
            if not one.key and not one.client.startswith(AGENT):
                try:
                    self._enter(one)
                except LocalProtocolError:
                    continue
                self._write()

    def status(self) -> dict[str, Any]:
        log = self.published.log
        return {
            "published": {"first": log.first, "next": log.next, "bytes": log.bytes, **log.counters.as_dict()},
            "cursors": dict(self.cursors.cursors),
            "durable": [
                {
                    "client": one.client,
                    "name": one.name,
                    "first": one.commits.log.first,
                    "next": one.commits.log.next,
                    "missed": one.missed,
                }
                for one in self._durable.values()
            ],
        }

    async def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        for one in self._durable.values():
            one.stop_feeding()
            await one.commits.close()
        if self._removing:
            await asyncio.wait(self._removing)
        await self.published.close()
        await self.cursors.close()

    def _open(self, one: Durable) -> None:
        one.folder.mkdir(parents=True, exist_ok=True)
        one.commits = GroupCommit(Log(one.folder, self._options), self._now)
        self._durable[one.engine_name] = one

    def _write(self, without: Durable | None = None) -> None:
        write_list(self.directory, [one for one in self._durable.values() if one is not without])


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
