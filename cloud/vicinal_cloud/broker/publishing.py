"""From a publish that comes to the engine: over the disk where there is one, and past a broker that takes no more.

    publish ──▶ may it? with which tags? ──▶ (storing) ──▶ engine ──▶ answer
                                                             │ Busy
                                                             ▼
                                                          owed: by client, in its order, until there is room

A client of whom something is owed is not read from; others go on.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from vicinal.errors import LocalProtocolError
from vicinal.siena.broker import Busy

from ..log.scoped import entry_with
from . import limits

if TYPE_CHECKING:
    import asyncio

    from vicinal.event import Event
    from vicinal.scope.graph import Tags
    from vicinal.siena.messages import Message

    from ..log import Entry
    from .holding import Insider
    from .link import Link
    from .node import Node
    from .session import Session

    # session, request or None, tags, event; offset in the log, or -1
    _Publish: TypeAlias = tuple[Session, int | None, Tags, Event, int]
    _Storing: TypeAlias = tuple[Session, int | None, Tags, Event, Entry]

__all__ = ["Publishing"]


class Publishing:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._engine = node.engine
        self._counters = node.counters
        self.paused: set[Link] = set()
        """connections that are not read from"""
        self._storing: list[_Storing] = []
        self._disk_full = False
        self.owed: dict[str, deque[_Publish]] = {}
        """by client: what waits for a broker that takes no more"""
        self._blocked: dict[str, dict[str, None]] = {}  # brokers, and the clients of whom something waits for them
        self._stored_to = 0  # of the log: all before it was published, or is owed

    @property
    def owes(self) -> bool:
        return bool(self.owed)

    def publish(self, session: "Session", messages: "list[Message]") -> None:
        """What may be published is settled here, once: the client's advertisements are others when it comes back. Who
        publishes faster than it can go on is not refused: no more is read from it."""
        self._counters.received += len(messages)
        self._counters.storing += len(messages)
        node = self._node
        name, storage, check, now = session.name, node.storage, self._engine.check_publish, node.now()
        self._engine.rights.now = now
        for _, request, advert, event in messages:
            try:
                tags = check(name, advert, event)
                if self.owed and len(self.owed.get(name, ())) >= limits.MAX_OWED:
                    raise LocalProtocolError(f"{limits.MAX_OWED} events of {name!r} wait: try again later")
                if storage is None:
                    self._hand((session, request, tags, event, -1), now)
                else:
                    self._storing.append((session, request, tags, event, entry_with(event, tags)))
            except LocalProtocolError as refusal:
                self._counters.storing -= 1
                session.refuse(request, str(refusal))
                self._node.flush_soon(session.link)
        if storage is not None:
            self._node.flush_soon(session.link)
        if name in self.owed:
            self._pause(session.link)

    def publish_inside(self, insider: "Insider", tags: "Tags", event: "Event") -> None:
        """From the broker itself (holding.py): what may be published was settled before. Raises LimitError for what is
        too large with its scopes."""
        entry = None if self._node.storage is None else entry_with(event, tags)
        self._counters.received += 1
        self._counters.storing += 1
        one: Any = insider
        if entry is None:
            self._hand((one, 0, tags, event, -1), self._node.now())
        else:
            self._storing.append((one, 0, tags, event, entry))
            self._node.store_soon()

    def publish_run(self, session: "Session", run: Any) -> None:
        """All at once where that can be, else one by one."""
        found = None
        if self._node.storage is None and session.name not in self.owed:
            self._node.pump()  # what came before is delivered before
            found = self._engine.publish_run(session.name, run)
        if found is None:
            self.publish(session, run.messages())
            return
        self._counters.received += len(run)
        self._counters.accepted += len(run)
        self._node.deliver_run(found)

    def store(self) -> None:
        """What has come since it was done last."""
        if not self._storing:
            return
        storage = self._node.storage
        assert storage is not None
        waiting, self._storing = self._storing, []
        for at in range(0, len(waiting), limits.MAX_STORED_AT_ONCE):
            batch = waiting[at : at + limits.MAX_STORED_AT_ONCE]
            done = storage.submit([one[4] for one in batch])
            done.add_done_callback(partial(self._stored, batch))
        if storage.full:
            self._disk_full = True
            for link in {one[0].link for one in waiting}:
                self._pause(link)

    def _stored(self, batch: "list[_Storing]", done: "asyncio.Future[list[int | str]]") -> None:
        storage, now = self._node.storage, self._node.now()
        assert storage is not None
        for one, found in zip(batch, done.result()):
            if isinstance(found, int):
                self._hand((*one[:4], found), now)
            else:
                self._counters.storing -= 1
                one[0].refuse(one[1], found)
                self._node.flush_soon(one[0].link)
        if self._disk_full and not storage.full:
            self._disk_full = False
            for link in list(self.paused):
                self._resume(link)
        self._node.pump()

    def _hand(self, one: "_Publish", now: int) -> None:
        """To the engine, or behind what waits of the same client."""
        owed = self.owed.get(one[0].name) if self.owed else None
        if owed is not None:
            owed.append(one)
        else:
            try:
                self._put(one, now)
            except Busy as busy:
                self._block(one[0].name, deque([one]), busy.broker)
                self._pause(one[0].link)
        if one[4] >= 0:
            self._stored_to = one[4] + 1
            if not self.owed:
                self._engine.position = self._stored_to

    def _put(self, one: "_Publish", now: int) -> None:
        session, request, tags, event, _ = one
        goals = self._engine.publish(session.name, tags, event, now)
        counters = self._counters
        counters.storing -= 1
        if goals is None:
            counters.repeated += 1
        else:
            counters.accepted += 1
        if request is not None:
            session.answer(request, True, goals or 0)
            self._node.flush_soon(session.link)

    def _block(self, name: str, owed: "deque[_Publish]", broker: str) -> None:
        self._stored_to = max(self._stored_to, self._engine.position)
        self.owed[name] = owed
        self._blocked.setdefault(broker, {})[name] = None
        self._engine.has_gap = self._node.storage is not None

    def hand_on(self) -> bool:
        """What is owed, as far as there is room now. Whether there was some."""
        if not self._blocked:
            return False
        now = self._node.now()
        found = False
        for broker in list(self._blocked):
            if not self._engine.make_room(broker, now):
                continue
            names = self._blocked.pop(broker)
            found = True
            while names and broker not in self._blocked:
                name = next(iter(names))
                del names[name]
                self._hand_on_of(name, now)
            if names:
                self._blocked[broker] = names | self._blocked[broker]
        if found and self._node.storage is not None:
            self._move_position()
        return found

    def _hand_on_of(self, name: str, now: int) -> None:
        owed = self.owed.pop(name)
        try:
            while owed:
                self._put(owed[0], now)
                owed.popleft()
        except Busy as busy:
            self._block(name, owed, busy.broker)
            return
        if name in self._node.sessions:
            self._resume(self._node.sessions[name].link)

    def _move_position(self) -> None:
        """In the log, up to the first that is owed. A broker that waited for that goes on."""
        engine = self._engine
        firsts = [next((one[4] for one in owed if one[4] >= 0), self._stored_to) for owed in self.owed.values()]
        engine.position = min(firsts, default=self._stored_to)
        engine.has_gap = bool(self.owed)
        self._node.go_on_in_the_log()

    def _pause(self, link: "Link") -> None:
        if link in self._node.links:
            link.pause()
            self.paused.add(link)

    def _resume(self, link: "Link") -> None:
        storage = self._node.storage
        if storage is not None and storage.full:
            self._disk_full = True
        elif link.connection.peer not in self.owed:
            link.resume()
            self.paused.discard(link)
