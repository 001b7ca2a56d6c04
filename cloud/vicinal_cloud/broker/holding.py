"""The agents of scopes at a broker: what publishing policies hold back, on disk, and when it is let go.

An agent (vicinal.siena.holding) is a durable subscription of the broker itself: what it gets is in a log of its own
before the broker it came from may forget it. The log is read from its beginning at every start; what was let go before
is known by its number in the log of what was published here. Without a [log] all of it is in memory.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.publishing import heard
from vicinal.siena.broker import Refused
from vicinal.siena.holding import AGENT, Holder, agent_of, scope_of_agent

from ..log.scoped import event_of

if TYPE_CHECKING:
    from .node import Node

__all__ = ["AGENT", "Holding", "is_agent"]

_log = logging.getLogger("vicinal.broker")

# Seconds until what the disk refused is tried again.
_AGAIN = 1.0


class Holding:
    def __init__(self, node: "Node") -> None:
        """Within a running loop."""
        self._node = node
        self.holder = Holder(node.engine.name, node.engine.graph, self._highest, node.engine.silences)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._agents: dict[str, asyncio.Task[None] | None] = {}
        self._known: Any = None
        self._started = False
        self._stuck: dict[str, list[_Insider]] = {}  # by producer: what the disk did not take, in its order
        self._number = node.now() * 1000  # of what is in memory only: greater than before a restart

    def update(self) -> None:
        """Agents come and go with scopes, and with the brokers that are in them."""
        engine = self._node.engine
        if not self._started and self._node.storage is not None:
            # What lies here of scopes that others hold for now is let go all the same.
            for one in self._node.storage.holding():
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
            self._withdraw(agent)  # what it hears of may be another
        self._known = None
        self.update()
        self.release()

    def _begin(self, agent: str, scope: str) -> None:
        engine, storage, now = self._node.engine, self._node.storage, self._node.now()
        dimension: Any = engine.graph.advanced
        tags, condition = Tags([(dimension, scope)]), heard(engine.graph.scopes[scope].publishing)
        try:
            if agent not in engine._adverts:
                engine.advertise(agent, condition, tags)
            if storage is None:
                if agent not in engine._keys:
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
        self._withdraw(agent)
        if self._node.storage is not None:
            self._node.storage.hold_no_more(agent)
        else:
            self._node.engine.drop_client(agent, self._node.now())
            del self._agents[agent]

    def _withdraw(self, agent: str) -> None:
        engine = self._node.engine
        for number in list(engine._adverts.get(agent, ())):
            engine.unadvertise(agent, number)
        engine._adverts.pop(agent, None)
        if self._node.storage is None and agent in engine._keys:
            engine.drop_client(agent, self._node.now())

    async def _follow(self, agent: str, commits: Any) -> None:
        async for record in commits.follow(commits.log.first):
            try:
                self.holder.take(agent, event_of(record), record.offset, record.time)
                self.release()
            except Exception:  # whatever it is, it must not keep back what comes after it
                self.holder.count("dropped: not readable")
                _log.exception("offset %d of what %s holds", record.offset, agent)

    def took(self, agent: str, event: Event) -> None:
        """Of an agent that has no disk."""
        self._number += 1
        self.holder.take(agent, event, self._number, self._node.now())
        self._loop.call_soon(self.release)

    def release(self) -> None:
        """What is due, and a timer for what is due next."""
        node = self._node
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.holder.due(node.now())
        for producer, tags, event in due:
            insider = _Insider(producer, tags, event, self._refused)
            if producer in self._stuck:
                self._stuck[producer].append(insider)  # behind what the disk did not take: in the order of numbers
                continue
            try:
                node.publishing.publish_inside(insider, tags, event)
            except LimitError as error:
                self.holder.too_large()
                _log.warning("what %s lets go: %s", producer, error)
        if due:
            node.pump()
        following = self.holder.next_timeout(node.now())
        if following is not None:
            self._timer = self._loop.call_later(max(following - node.now(), 0) / 1000, self.release)

    def _refused(self, insider: "_Insider", reason: str) -> None:
        """The disk did not take it: it is tried again, in its place."""
        _log.warning("what %s lets go: %s", insider.name, reason)
        self._node.counters.refused["let go, and not stored"] += 1
        if insider.name not in self._stuck:
            self._stuck[insider.name] = []
            self._loop.call_later(_AGAIN, self._try_again, insider.name)
        self._stuck[insider.name].append(insider)

    def _try_again(self, producer: str) -> None:
        highest = self._highest(producer)
        for insider in self._stuck.pop(producer):
            if (insider.event.seq or 0) <= highest:
                # What was on its way to the disk behind it was taken: under this name it never will be.
                self.holder.counts["released"] -= 1
                self.holder.count("dropped: the disk took what came after it")
                continue
            self._node.publishing.publish_inside(insider, insider.tags, insider.event)
        self._node.pump()

    def _highest(self, producer: str) -> int:
        known = self._node.engine.last_published(producer)
        return known if self._node.storage is None else max(known, self._node.storage.highest(producer))

    def status(self) -> dict[str, Any]:
        scopes = [scope_of_agent(agent) for agent in self._agents]
        return {"waiting": {scope: self.holder.waiting(scope) for scope in scopes}, **self.holder.counts}

    def close(self) -> None:
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


class _Insider:
    """What publishes from within, in the place of a session."""

    link: Any = _NoLink()

    def __init__(self, name: str, tags: Tags, event: Event, refused: Callable[["_Insider", str], None]) -> None:
        self.name = name
        self.tags = tags
        self.event = event
        self._refused = refused

    def answer(self, request: int | None, accepted: bool, more: int | str) -> None:
        pass

    def refuse(self, request: int | None, reason: str) -> None:
        self._refused(self, reason)
