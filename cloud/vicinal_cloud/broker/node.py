"""The engine and those connected to it. What comes from a link goes into the engine, what comes out goes to a link.

Everything happens in one thread, in the turns of the event loop: a turn reads from some links, lets the engine decide,
and at its end writes once to each link that has something to say.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.scope.membership import Identity
from vicinal.siena.broker import Broker
from vicinal.siena.connection import (
    BYE_NAMES,
    NOT_ADMITTED,
    PING_AFTER,
    RENEW,
    TAKEN_OVER,
    TOO_MUCH,
    Connection,
)
from vicinal.siena.messages import BROKER, CLIENT, delivery

from . import limits
from .clock import clock
from .config import Identities
from .counters import Counters
from .holding import AGENT, Holding, is_agent
from .identity import is_administrator, prove
from .link import Link
from .publishing import Publishing
from .replay import Replays
from .scoped import Sifting, scoped
from .session import Session
from .single import lane_of
from .storage import Storage

if TYPE_CHECKING:
    from vicinal.siena.messages import Message

    from .administering import Administering

__all__ = ["Node", "clock"]


class Node:
    def __init__(
        self,
        engine: Broker,
        neighbours: dict[str, bool],
        now: Callable[[], int],
        storage: Storage | None = None,
        ping_after: int = PING_AFTER,
        identities: Identities | None = None,
    ) -> None:
        """Within a running loop. `neighbours` are the brokers that may connect; true for those that this one dials."""
        self._loop = asyncio.get_running_loop()
        self.engine = engine
        self.neighbours = neighbours
        self.now = now
        self.storage = storage
        self.ping_after = ping_after
        self.identities = Identities() if identities is None else identities
        self.administering: Administering | None = None
        """what is said to a broker that may be administered"""
        self.sifting = Sifting(self)
        self._generation = engine.rights.generation
        self.replays: Replays | None = None
        """of the log, for brokers that have missed some of it"""
        self.holding: Holding | None = None
        """of scopes with publishing policies"""
        self.counters = Counters()
        self.publishing = Publishing(self)
        self.links: set[Link] = set()
        self.sessions: dict[str, Session] = {}
        self.linked: dict[str, tuple[Link, str]] = {}
        """neighbours, and who of the two has dialled"""
        self.changed: list[Callable[[str, bool], None]] = []
        """are told when a link to a neighbour comes up or goes down"""
        engine.loads.backlog = self._backlog
        self.draining = False
        self.dirty: set[Link] = set()
        """links that have something to say at the end of the turn"""
        self._flushing = False
        self._reading = False
        """something came and is being dealt with: what it leads to is written after it"""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: int | None = None
        self._later: dict[str, int] = {}  # brokers that go on in the log when nothing is owed

    # Links

    def accept(self) -> Connection:
        return Connection(self.now(), None, self.ping_after)

    def dial(self) -> Connection:
        return Connection(self.now(), ("hello", 1, BROKER, self.engine.name), self.ping_after)

    def opened(self, link: Link) -> None:
        self.counters.connected += 1
        self.links.add(link)

    def received(self, link: Link, messages: "list[Message]") -> None:
        self._reading = True
        kind = messages[0][0]
        if kind == "hello":  # which comes alone, and so does welcome
            self._hello(link, messages[0][2], messages[0][3], messages[0][4] if len(messages[0]) > 4 else None)
        elif kind == "welcome":
            self._neighbour(link, messages[0][2], self.engine.name)
        elif link.connection.role == CLIENT:
            session = self.sessions.get(link.connection.peer)
            if session is not None and session.link is link:
                session.received(messages)
        else:
            for message in messages:
                if self.linked.get(link.connection.peer, (None,))[0] is link:
                    self._from_neighbour(link, message)

    def _hello(self, link: Link, role: int, name: str, token: str | None) -> None:
        connection = link.connection
        if self.draining:
            connection.bye(NOT_ADMITTED, f"broker {self.engine.name!r} is going down")
        elif link.identity is not None and link.identity not in (name, name.partition("~")[0]):
            connection.bye(NOT_ADMITTED, f"you say {name!r}, your certificate says {link.identity!r}")
        elif role == BROKER:
            if name not in self.neighbours:
                connection.bye(
                    NOT_ADMITTED, f"broker {self.engine.name!r} has no neighbour {name!r} in its configuration"
                )
            elif self.identities.required and link.identity is None:
                connection.bye(NOT_ADMITTED, f"broker {self.engine.name!r} admits no neighbour without a certificate")
            else:
                connection.welcome(self.engine.name)
                self._neighbour(link, name, name)
        elif "/" in name or is_agent(name) or name in self.neighbours or name == self.engine.name:
            connection.bye(
                NOT_ADMITTED, f"{name!r} cannot be a client's name: a broker's, with a slash, or {AGENT!r} first"
            )
        elif len(self.sessions) >= limits.MAX_CLIENTS and name not in self.sessions:
            connection.bye(TOO_MUCH, f"{limits.MAX_CLIENTS} clients are connected, no more can be")
        else:
            now = self.now()
            try:
                identity = prove(self.identities, name, link.certificate, token, now)
            except LocalProtocolError as error:
                connection.bye(NOT_ADMITTED, str(error))
                return
            link.certificate = None  # thousands of them are megabytes
            why = self.engine.rights.memberships.ended(identity, now)
            known = self.sessions.get(name)
            if known is not None and known.identity.issued is not None and identity.issued is None:
                why = f"{name!r} is connected, and has proven that it is: show a certificate or a token"
            if why:
                connection.bye(NOT_ADMITTED, why)
            else:
                self._client(link, name, identity)

    def _client(self, link: Link, name: str, identity: Identity) -> None:
        before = self.sessions.get(name)
        if before is not None:
            before.link.cut(TAKEN_OVER, f"another connection says that it is {name!r}")
        last = self.engine.last_published(name)
        if self.storage is not None:
            last = max(last, self.storage.highest(name))
        self.engine.admit(name, identity, self.now())
        self.sessions[name] = Session(self, link, name, identity)
        lane = lane_of(self, self.sessions[name])
        if lane is not None:
            link.open_lane(lane)
        link.connection.welcome(self.engine.name, last)
        if is_administrator(self.identities, identity):
            link.connection.take_larger()
        self._set_timer()  # an identity may expire

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
        self._reading = False
        self.links.discard(link)
        self.dirty.discard(link)
        self.publishing.paused.discard(link)
        counters = self.counters
        why = BYE_NAMES[code] if code < len(BYE_NAMES) else "other"
        counters.cut[why] += 1
        waiting = link.undelivered
        counters.delivered += link.delivered
        counters.bytes_in += link.bytes_in
        counters.bytes_out += link.bytes_out
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
        if self.dirty:  # what it said before it went was read in the same turn
            self._flush_at_the_end()

    # The engine

    def after_reading(self, link: Link) -> None:
        session = self.sessions.get(link.connection.peer)
        if session is not None and session.durable:
            session.turn.set()
        self.dirty.add(link)
        self.pump()
        self._reading = False
        # If this is the last that the loop does in this turn, there is nothing to wait for before writing, and a turn
        # more would only be a delay. A loop that does not show it gets its turn.
        if getattr(self._loop, "_ready", True):
            self._flush_at_the_end()
        else:
            self.flush()

    def pump(self) -> None:
        """Carry out what the engine wants done, and give it what it had no room for."""
        while True:
            deliveries, actions = self.engine.deliveries(), self.engine.actions()
            for event, trail, takers in deliveries:
                self._deliver(event, trail, takers)
            for kind, other, what in actions:
                if kind == "send":
                    self._send(other, what)
                elif kind == "ended":
                    self._ended(other, *what)
                elif kind == "administered":
                    if self.administering is not None:
                        self.administering.administered(other, what)
                elif self.storage is not None:
                    self._catch_up(kind, other, what)
            if self.holding is not None:
                self.holding.update()
            if self.engine.rights.seen:
                self.engine.rights.seen.clear()
            if not self.publishing.hand_on():
                break
        if self._generation != self.engine.rights.generation:
            self._generation = self.engine.rights.generation
            self.sifting.sift()
        if self.administering is not None:
            self.administering.settle()
        self._set_timer()

    def _ended(self, client: str, number: int, why: str, kind: str) -> None:
        """A right is gone, and what stood on it."""
        session = self.sessions.get(client)
        if session is None:
            if self.storage is not None:
                self.storage.ended(client, why, kind, self.counters, self.sessions.get(client.partition("/")[0]))
        elif kind == "moved":
            session.link.cut(RENEW, f"{client!r} is another component of the deployment now")
        elif kind != "lapsed":  # then the connection ends, and what it had is asked for in the next
            session.ended(number, why)
            self.sifting.lost(session)

    def _catch_up(self, kind: str, broker: str, offset: int) -> None:
        assert self.storage is not None
        if kind == "mark":
            self.storage.cursors.mark(broker, offset)
            return
        if self.replays is None:
            self.replays = Replays(self.engine, self.storage.published, self.now, self.pump)
        self._later.pop(broker, None)
        if self.engine.has_gap and offset >= self.engine.position:
            self._later[broker] = offset
            offset = -1
        self.replays.begin(broker, offset)

    def go_on_in_the_log(self) -> None:
        """Less is owed than was."""
        for broker, offset in list(self._later.items()):
            self._catch_up("replay", broker, offset)

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

    def _deliver(self, event: Event, trail: Any, takers: "list[tuple[str, tuple[int, ...]]]") -> None:
        """To all who take it. Those with the same subscriptions get the same bytes: made once."""
        counters, sessions, dirty = self.counters, self.sessions, self.dirty
        counters.handed += len(takers)
        made: tuple[int, ...] | None = None
        frame = b""
        came = self.engine.rights.seen.get(event.identity) if self.engine.rights.seen else None
        for client, numbers in takers:
            session = sessions.get(client)
            if session is None or session.link.connection.closed:
                if self.holding is not None and self.storage is None and is_agent(client):
                    self.holding.took(client, event)
                    continue
                if self.storage is None or not self.storage.deliver(client, event, counters):
                    counters.dropped["client gone"] += 1
                continue
            if numbers != made:
                made, frame = numbers, delivery(numbers, event, trail)
                if came is not None:
                    frame = scoped(frame, came)
            session.link.connection.deliver(frame)
            dirty.add(session.link)
        self._flush_at_the_end()

    def deliver_run(self, found: "list[tuple[str, bytes | memoryview, int, int]]") -> None:
        """To each client so many deliveries, which are frames already."""
        counters = self.counters
        for client, frames, count, _ in found:
            counters.handed += count
            taker = self.sessions.get(client)
            if taker is None or taker.link.connection.closed:
                counters.dropped["client gone"] += count
                continue
            taker.link.connection.deliver_many(frames, count)
            self.dirty.add(taker.link)
        self._flush_at_the_end()

    def flush_soon(self, link: Link) -> None:
        self.dirty.add(link)
        self._flush_at_the_end()

    def _flush_at_the_end(self) -> None:
        """Of this turn of the loop."""
        if not self._flushing and not self._reading:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def _backlog(self, client: str) -> int:
        """Deliveries that it has not taken."""
        session = self.sessions.get(client)
        return 0 if session is None else session.link.undelivered

    def store_soon(self) -> None:
        """What is to be published is stored at the end of this turn."""
        self._flush_at_the_end()

    def flush(self) -> None:
        """What all links have to say."""
        self._flushing = False
        self.publishing.store()
        dirty, self.dirty = self.dirty, set()
        for link in dirty:
            if link.flush() > limits.MAX_BUFFER:
                link.cut_if_slow(self.now())

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
            self._timer = self._loop.call_later(delay, self._timeout)

    def _timeout(self) -> None:
        self._timer = self._timer_due = None
        self.engine.handle_timeout(self.now())
        self.pump()

    async def tick(self) -> None:
        """For ever: what waits for brokers that take no more, connections that say nothing, and those that take
        nothing. At each tick some are looked at, all of them in a few seconds: thousands that are silent cost
        little."""
        rest: list[Link] = []
        while True:
            await asyncio.sleep(limits.TICK_SECONDS)
            now = self.now()
            if self.publishing.owes:
                self.pump()
            self.sifting.look(now)
            if not rest:
                rest = list(self.links)
                turn = max(len(rest) // limits.TICKS_FOR_ALL, limits.LINKS_A_TICK)
            some, rest = rest[:turn], rest[turn:]
            for link in some:
                if link not in self.links:
                    continue
                if link.paused:
                    continue  # we do not listen: its silence means nothing
                due = link.connection.next_timeout()
                if due is not None and now >= due:
                    link.connection.handle_timeout(now)
                    link.deal()
                    link.flush()
                if link.connection.role == CLIENT or link.backlog:
                    link.cut_if_slow(now)
