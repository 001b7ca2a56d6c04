"""The agents of scopes at a broker: what publishing policies hold back, on disk, and when it is let go.

An agent (vicinal.siena.holding) is a durable subscription of the broker itself: what it gets is in a log of its own
before the broker it came from may forget it. The log is read from its beginning at every start; what was let go before
is known by its number in the log of what was published here. Without a [log] all of it is in memory.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.publishing import heard
from vicinal.siena.broker import Refused
from vicinal.siena.holding import AGENT, Holder, agent_of, scope_of_agent

from ..log import Record
from ..log.errors import OffsetGone
from ..log.scoped import event_of
from .checkpoint import Checkpoint

if TYPE_CHECKING:
    from .node import Node

__all__ = ["AGENT", "Holding", "Insider", "is_agent"]

_log = logging.getLogger("vicinal.broker")

# Seconds until what the disk refused is tried again.
_AGAIN = 1.0


class Holding:
    def __init__(self, node: "Node") -> None:
        """Within a running loop."""
        self.node = node
        self.holder = Holder(node.engine.name, node.engine.graph, self._highest, node.engine.silences)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._agents: dict[str, asyncio.Task[None] | None] = {}
        self._lanes: dict[str, _Lane] = {}  # by the producer that things are let go under
        directory = None if node.storage is None else node.storage.directory
        self.checkpoint = Checkpoint(None if directory is None else directory / "held.json")
        self.holder.dropped = self._dropped
        self._known: Any = None
        self._started = False
        self._number = node.now() * 1000  # of what is in memory only: greater than before a restart

    def update(self) -> None:
        """Agents come and go with scopes, and with the brokers that are in them."""
        engine = self.node.engine
        if not self._started and self.node.storage is not None:
            # What lies here of scopes that others hold for now is let go all the same.
            for one in self.node.storage.holding():
                self._agents[one.client] = self._loop.create_task(self._follow(one.client, one.commits))
        self._started = True
        if engine.graph.advanced is None and not self._agents:
            return
        known = (id(engine.graph), engine.records.changes)
        if known == self._known:
            return
        self._known = known
        here = {agent_of(scope): scope for scope in engine.held_here()}
        for agent in [agent for agent in self._agents if agent not in here]:
            self._end(agent)
        for agent, scope in here.items():
            self._begin(agent, scope)

    def use_graph(self, graph: ScopeGraph) -> None:
        self.holder.use_graph(graph)
        for agent in list(self._agents):
            self.node.engine.drop_client(agent, self.node.now())  # what it hears of may be another
        self._known = None
        self.update()
        self.release()

    def _begin(self, agent: str, scope: str) -> None:
        engine, storage, now = self.node.engine, self.node.storage, self.node.now()
        dimension: Any = engine.graph.advanced
        tags, condition = Tags([(dimension, scope)]), heard(engine.graph.scopes[scope].publishing)
        try:
            if not engine.advertised_by(agent):
                engine.advertise(agent, condition, tags)
            if storage is None:
                if not engine.subscribed_by(agent):
                    engine.subscribe(agent, condition, tags, now)
                self._agents[agent] = None
                return
            durable = storage.hold(agent, condition, tags)
        except Refused:  # the broker is about to leave the scope
            return
        if self._agents.get(agent) is None:
            self._agents[agent] = self._loop.create_task(self._follow(agent, durable.commits))

    def _end(self, agent: str) -> None:
        """What it holds it still lets go."""
        self.node.engine.drop_client(agent, self.node.now())
        if self.node.storage is not None:
            self.node.storage.hold_no_more(agent)
        else:
            del self._agents[agent]

    async def _follow(self, agent: str, commits: Any) -> None:
        offset = commits.log.first
        while True:
            try:
                async for record in commits.follow(offset):
                    offset = record.offset + 1
                    self._take(agent, record)
                return
            except OffsetGone as gone:
                self.holder.count("dropped: retention was faster", gone.first - offset)
                offset = gone.first
            except Exception:  # a disk that cannot be read for now
                _log.exception("what %s holds cannot be read from offset %d on, tried again", agent, offset)
                await asyncio.sleep(_AGAIN)

    def _take(self, agent: str, record: Record) -> None:
        try:
            done = self.checkpoint.is_done(agent, record.offset)
            waits = self.holder.take(agent, event_of(record), record.offset, record.time, done)
            self.checkpoint.took(agent, record.offset, waits)
            self.release()
        except Exception:  # whatever it is, it must not keep back what comes after it
            self.holder.count("dropped: not readable")
            _log.exception("offset %d of what %s holds", record.offset, agent)

    def _dropped(self, scope: str, number: int) -> None:
        self.checkpoint.done(agent_of(scope), number)

    def let_go(self, producer: str, event: Event) -> None:
        """It is on disk."""
        self.checkpoint.done(agent_of(scope_of_agent(producer)), event.seq or 0)

    def took(self, agent: str, event: Event) -> None:
        """Of an agent that has no disk."""
        self._number += 1
        self.holder.take(agent, event, self._number, self.node.now())
        self._loop.call_soon(self.release)

    def release(self) -> None:
        """What is due, and a timer for what is due next."""
        node = self.node
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.holder.due(node.now())
        for producer, tags, event in due:
            self._lanes.setdefault(producer, _Lane(self, producer)).waiting.append((tags, event))
        for producer in {producer for producer, _, _ in due}:
            self._lanes[producer].go_on()
        following = self.holder.next_timeout(node.now())
        if following is not None:
            self._timer = self._loop.call_later(max(following - node.now(), 0) / 1000, self.release)

    def _highest(self, producer: str) -> int:
        known = self.node.engine.last_published(producer)
        return known if self.node.storage is None else max(known, self.node.storage.highest(producer))

    def status(self) -> dict[str, Any]:
        scopes = [scope_of_agent(agent) for agent in self._agents]
        return {"waiting": {scope: self.holder.waiting(scope) for scope in scopes}, **self.holder.counts}

    def close(self) -> None:
        self.checkpoint.write()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._agents.values():
            if task is not None:
                task.cancel()


def is_agent(client: str) -> bool:
    return client.startswith(AGENT)


class _NoLink:
    """An agent has no connection."""

    backlog = 0

    def flush(self) -> int:
        return 0


class _Lane:
    """What one policy lets go, in its order: what comes next waits until the disk has what went before. Then nothing
    that the disk refused is overtaken, and taken for a repetition when it is tried again."""

    def __init__(self, holding: Holding, producer: str) -> None:
        self.waiting: deque[tuple[Tags, Event]] = deque()
        self._holding = holding
        self._producer = producer
        self._under_way = 0
        self._refused: list[tuple[Tags, Event]] = []

    def go_on(self) -> None:
        if self._under_way or not self.waiting:
            return
        going = list(self.waiting)
        self.waiting.clear()
        self._under_way = len(going)
        node = self._holding.node
        for tags, event in going:
            insider = Insider(self, self._producer, tags, event)
            try:
                node.publishing.publish_inside(insider, tags, event)
            except LimitError as error:
                self._holding.holder.too_large()
                _log.warning("what %s lets go: %s", self._producer, error)
                self.answered(insider, True)
        node.pump()

    def refused(self, reason: str) -> None:
        _log.warning("what %s lets go is tried again: %s", self._producer, reason)
        self._holding.node.counters.refused["let go, and not stored"] += 1

    def answered(self, insider: "Insider", accepted: bool) -> None:
        self._under_way -= 1
        if accepted:
            self._holding.let_go(self._producer, insider.event)
        else:
            self._refused.append((insider.tags, insider.event))
        if self._under_way:
            return
        loop = asyncio.get_running_loop()
        if self._refused:
            self.waiting.extendleft(reversed(self._refused))
            self._refused = []
            loop.call_later(_AGAIN, self.go_on)
        else:
            loop.call_soon(self.go_on)


class Insider:
    """What publishes from within, in the place of a session."""

    link: Any = _NoLink()

    def __init__(self, lane: _Lane, name: str, tags: Tags, event: Event) -> None:
        self.name = name
        self.tags = tags
        self.event = event
        self._lane = lane

    def answer(self, request: int | None, accepted: bool, more: int | str) -> None:
        self._lane.answered(self, accepted)

    def refuse(self, request: int | None, reason: str) -> None:
        self._lane.refused(reason)
        self._lane.answered(self, False)
