"""The engine and those connected to it. What comes from a link goes into the engine, what comes out goes to a link.

Everything happens in one thread, in the turns of the event loop: a turn reads from some links, lets the engine decide,
and at its end writes once to each link that has something to say.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.siena.broker import Broker, Busy
from vicinal.siena.connection import (
    BYE_NAMES,
    NOT_ADMITTED,
    PING_AFTER,
    TAKEN_OVER,
    TOO_MUCH,
    Connection,
    framed,
)
from vicinal.siena.messages import BROKER, CLIENT, encode

from . import limits
from .counters import Counters
from .link import Link
from .session import Session
from .storage import Storage

__all__ = ["Node", "clock"]


def clock() -> Callable[[], int]:
    """Milliseconds that never go back, and are those of the wall clock at the start: timers need the one, the trail of
    an event the other."""
    start = int(time.time() * 1000) - int(time.monotonic() * 1000)
    return lambda: start + int(time.monotonic() * 1000)


class _Publish(NamedTuple):
    session: Session
    request: int | None
    advert: int
    event: Event


class Node:
    def __init__(
        self,
        engine: Broker,
        neighbours: dict[str, bool],
        now: Callable[[], int],
        storage: Storage | None = None,
        ping_after: int = PING_AFTER,
    ) -> None:
        """`neighbours` are the brokers that may connect; true for those that this one dials."""
        self.engine = engine
        self.neighbours = neighbours
        self.now = now
        self.storage = storage
        self.ping_after = ping_after
        self.counters = Counters()
        self.links: set[Link] = set()
        self.sessions: dict[str, Session] = {}
        self.linked: dict[str, tuple[Link, str]] = {}
        """neighbours, and who of the two has dialled"""
        self.changed: list[Callable[[str, bool], None]] = []
        """are told when a link to a neighbour comes up or goes down"""
        self.draining = False
        self._dirty: set[Link] = set()
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: int | None = None
        self._publishes: list[_Publish] = []  # to be stored
        self._owed: deque[_Publish] = deque()  # accepted, and too much is under way to where they go

    # Links

    def accept(self) -> Connection:
        return Connection(self.now(), None, self.ping_after)

    def dial(self) -> Connection:
        return Connection(self.now(), ("hello", 1, BROKER, self.engine.name), self.ping_after)

    def opened(self, link: Link) -> None:
        self.counters.connected += 1
        self.links.add(link)

    def received(self, link: Link, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == "hello":
            self._hello(link, message[2], message[3])
        elif kind == "welcome":
            self._neighbour(link, message[2], self.engine.name)
        elif link.connection.role == CLIENT:
            session = self.sessions.get(link.connection.peer)
            if session is not None and session.link is link:
                session.received(message)
        elif self.linked.get(link.connection.peer, (None,))[0] is link:
            self._from_neighbour(link, message)

    def _hello(self, link: Link, role: int, name: str) -> None:
        connection = link.connection
        if self.draining:
            connection.bye(NOT_ADMITTED, f"broker {self.engine.name!r} is going down")
        elif link.identity is not None and link.identity != name:
            connection.bye(NOT_ADMITTED, f"you say {name!r}, your certificate says {link.identity!r}")
        elif role == BROKER:
            if name not in self.neighbours:
                connection.bye(
                    NOT_ADMITTED, f"broker {self.engine.name!r} has no neighbour {name!r} in its configuration"
                )
            else:
                connection.welcome(self.engine.name)
                self._neighbour(link, name, name)
        elif "/" in name or name in self.neighbours or name == self.engine.name:
            connection.bye(NOT_ADMITTED, f"{name!r} cannot be a client's name: a broker's, or with a slash")
        elif len(self.sessions) >= limits.MAX_CLIENTS and name not in self.sessions:
            connection.bye(TOO_MUCH, f"{limits.MAX_CLIENTS} clients are connected, no more can be")
        else:
            self._client(link, name)

    def _client(self, link: Link, name: str) -> None:
        before = self.sessions.get(name)
        if before is not None:
            before.link.cut(TAKEN_OVER, f"another connection says that it is {name!r}")
        last = self.engine.last_published(name)
        if self.storage is not None:
            last = max(last, self.storage.highest(name))
        self.sessions[name] = Session(self, link, name)
        link.connection.welcome(self.engine.name, last)

    def _neighbour(self, link: Link, name: str, dialler: str) -> None:
        if name not in self.neighbours:
            link.connection.bye(NOT_ADMITTED, f"called {link.where}, and {name!r} answered, who is no neighbour")
            return
        if name in self.linked:
            old, before = self.linked[name]
            if dialler > before:
                # Both have dialled: at both ends the link of the lesser name stays.
                link.connection.bye(TAKEN_OVER, "there is a link already")
                return
            old.cut(TAKEN_OVER, "there is a newer link")
        self.linked[name] = (link, dialler)
        self.engine.link_up(name, self.now())
        for tell in self.changed:
            tell(name, True)

    def _from_neighbour(self, link: Link, message: tuple[Any, ...]) -> None:
        name = link.connection.peer
        if message[0] == "record":
            known = self.engine.records
            if known.get(message[1].broker) is None and len(known) >= limits.MAX_BROKERS:
                link.connection.bye(TOO_MUCH, f"{limits.MAX_BROKERS} brokers are known, no more can be")
                return
        try:
            self.engine.receive(name, message, self.now())
        except VicinalError as error:
            link.connection.bye(NOT_ADMITTED, str(error))

    def ended(self, link: Link, code: int, reason: str) -> None:
        self.links.discard(link)
        self._dirty.discard(link)
        counters = self.counters
        why = BYE_NAMES[code] if code < len(BYE_NAMES) else "other"
        counters.cut[why] += 1
        counters.delivered += link.delivered
        counters.bytes_in += link.bytes_in
        counters.bytes_out += link.bytes_out
        waiting = link.undelivered
        if waiting:
            counters.dropped[f"client gone: {why}"] += waiting
        name = link.connection.peer
        session = self.sessions.get(name)
        if session is not None and session.link is link:
            del self.sessions[name]
            session.gone()
            self.engine.drop_client(name, self.now())
        elif self.linked.get(name, (None,))[0] is link:
            del self.linked[name]
            self.engine.link_down(name, self.now())
            for tell in self.changed:
                tell(name, False)
        self.pump()

    # The engine

    def after_reading(self, link: Link) -> None:
        session = self.sessions.get(link.connection.peer)
        if session is not None and session.durable:
            session.turn.set()
        self.pump()
        self.flush_soon(link)

    def pump(self) -> None:
        """Carry out what the engine wants done."""
        while actions := self.engine.actions():
            for action in actions:
                if action[0] == "deliver":
                    self._deliver(action[1], action[2], action[3], action[4])
                else:
                    self._send(action[1], action[2])
            if self._owed:
                self._hand_on()
        self._set_timer()

    def _send(self, name: str, message: tuple[Any, ...]) -> None:
        entry = self.linked.get(name)
        if entry is None or entry[0].connection.closed:
            return
        link = entry[0]
        if message[0] == "packets" and link.backlog > limits.MAX_BUFFER // 2:
            # The first broker sends it again; what says how the overlay is made has to pass.
            self.counters.held_back[name] += 1
            return
        link.connection.send(message)
        self.flush_soon(link)

    def _deliver(self, client: str, event: Event, trail: Any, keys: tuple[int, ...]) -> None:
        counters = self.counters
        counters.handed += 1
        session = self.sessions.get(client)
        if session is None or session.link.connection.closed:
            if self.storage is None or not self.storage.deliver(client, event, counters):
                counters.dropped["client gone"] += 1
            return
        link = session.link
        link.connection.deliver(framed(encode(("deliver", keys, event, None, trail))))
        self.flush_soon(link)

    def flush_soon(self, link: Link) -> None:
        self._dirty.add(link)
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._publishes:
            self._store_publishes()
        dirty, self._dirty = self._dirty, set()
        now = self.now()
        for link in dirty:
            link.flush()
            if link.backlog > limits.MAX_BUFFER:
                link.cut_if_slow(now)

    # Publishing

    def publish(self, session: Session, request: int | None, advert: int, event: Event) -> None:
        """Raises Refused. Who publishes faster than it can go on is not refused: no more is read from it."""
        one = _Publish(session, request, advert, event)
        if self.storage is not None:
            self.engine.check_publish(session.name, advert, event)
            self._publishes.append(one)
        else:
            self._owed.append(one)
        self.counters.storing += 1
        if self.storage is None:
            self._hand_on()

    def _store_publishes(self) -> None:
        assert self.storage is not None
        waiting, self._publishes = self._publishes, []
        for at in range(0, len(waiting), limits.MAX_STORED_AT_ONCE):
            batch = waiting[at : at + limits.MAX_STORED_AT_ONCE]
            done = self.storage.submit([one.event for one in batch])
            done.add_done_callback(partial(self._stored, batch))
        if self.storage.full:
            for one in waiting:
                one.session.link.pause()

    def _stored(self, batch: list[_Publish], done: "asyncio.Future[list[str | None]]") -> None:
        for one, reason in zip(batch, done.result()):
            if reason is None:
                self._owed.append(one)
            else:
                self.counters.storing -= 1
                one.session.refuse(one.request, reason)
            self.flush_soon(one.session.link)
        self._hand_on()
        self.pump()

    def _hand_on(self) -> None:
        """In the order in which they came, as far as the engine takes them now."""
        owed = self._owed
        while owed:
            one = owed[0]
            try:
                again = (one.event.seq or 0) <= self.engine.last_published(one.session.name)
                goals = self.engine.publish(one.session.name, one.advert, one.event, self.now())
            except Busy:
                for waiting in owed:
                    waiting.session.link.pause()
                return
            except LocalProtocolError as refusal:  # the advertisement is gone meanwhile
                one.session.refuse(one.request, str(refusal))
            else:
                if again:
                    self.counters.repeated += 1
                else:
                    self.counters.accepted += 1
                one.session.answer(one.request, True, goals)
                self.flush_soon(one.session.link)
            self.counters.storing -= 1
            owed.popleft()
        if self.storage is None or not self.storage.full:
            for session in self.sessions.values():
                if session.link.paused:
                    session.link.resume()

    # Time

    def _set_timer(self) -> None:
        due = self.engine.next_timeout()
        if due == self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due = None, due
        if due is not None:
            delay = max(due - self.now(), 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay, self._timeout)

    def _timeout(self) -> None:
        self._timer = self._timer_due = None
        self.engine.handle_timeout(self.now())
        self.pump()

    async def tick(self) -> None:
        """For ever: connections that say nothing, and those that take nothing."""
        while True:
            await asyncio.sleep(limits.TICK_SECONDS)
            now = self.now()
            for link in list(self.links):
                if link.paused:
                    continue  # we do not listen: its silence means nothing
                due = link.connection.next_timeout()
                if due is not None and now >= due:
                    link.connection.handle_timeout(now)
                    link.deal()
                    link.flush()
                if link.connection.role == CLIENT or link.backlog:
                    link.cut_if_slow(now)
