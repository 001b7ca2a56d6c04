"""A network of brokers in one process: links that delay and fail, brokers that stop and forget, a clock that jumps
ahead.

Everything random comes from one seed, so that a failure replays. A link keeps its order and loses what is on it when it
fails; different links overtake each other. A broker may stop and go on with its memory (its disk survived) or without.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from vicinal.event import Event
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.publishing import heard
from vicinal.siena.broker import PRUNING, Broker
from vicinal.siena.holding import AGENT, Holder, agent_of

__all__ = ["Network"]

# Virtual milliseconds; a network that has not come to rest by then never will.
MAX_SETTLING = 10 * 60 * 1000


class Network:
    def __init__(self, graph: ScopeGraph, seed: int, trace: bool = False, pruning: tuple[str, ...] = PRUNING) -> None:
        self.graph = graph
        self.random = random.Random(seed)
        self.trace = trace
        self.pruning = pruning
        self.now = 1000
        self.brokers: dict[str, Broker] = {}
        self.holders: dict[str, Holder] = {}
        self._held = 0  # numbers of what is held
        self.stopped: set[str] = set()
        self.links: dict[frozenset[str], int] = {}  # up, with a number that grows at every change
        self.messages = 0
        self.on_receive: Callable[[str, Any], None] = lambda broker, message: None
        self.on_deliver: Callable[[str, str, Event, Any], None] = lambda broker, client, event, trail: None
        self._incarnations = 0
        self._changes = 0
        self._queue: list[tuple[int, int, str, str, Any, int]] = []
        self._arrival: dict[tuple[str, str], int] = {}
        self._order = 0
        self._timers: list[tuple[int, str]] = []
        self._due: dict[str, int | None] = {}

    def start(self, name: str) -> Broker:
        """A broker without memory."""
        self._incarnations += 1
        broker = self.brokers[name] = Broker(name, self._incarnations, self.graph, self.trace, self.pruning)
        self.holders[name] = Holder(name, self.graph, broker.last_published, broker.silences)
        self.stopped.discard(name)
        self.pump(name)
        return broker

    def connect(self, a: str, b: str) -> None:
        pair = frozenset((a, b))
        if pair in self.links or a in self.stopped or b in self.stopped:
            return
        self._changes += 1
        self.links[pair] = self._changes
        for one, other in ((a, b), (b, a)):
            self._arrival[(one, other)] = self.now
            self.brokers[one].link_up(other, self.now)
            self.pump(one)

    def disconnect(self, a: str, b: str) -> None:
        if self.links.pop(frozenset((a, b)), None) is None:
            return
        for one, other in ((a, b), (b, a)):
            if one not in self.stopped:
                self.brokers[one].link_down(other, self.now)
                self.pump(one)

    def stop(self, name: str) -> None:
        """Its links fail; it does nothing until `resume` or `start`."""
        for pair in [pair for pair in self.links if name in pair]:
            (other,) = pair - {name}
            self.disconnect(name, other)
        self.stopped.add(name)
        self._set_timer(name)

    def resume(self, name: str) -> None:
        self.stopped.discard(name)
        self._set_timer(name)

    def pump(self, name: str) -> None:
        """Carry out what a broker wants done."""
        self._hold(name)
        for event, trail, takers in self.brokers[name].deliveries():
            for client, _ in takers:
                if client.startswith(AGENT):
                    self._held += 1
                    self.holders[name].take(client, event, self._held, self.now)
                else:
                    self.on_deliver(name, client, event, trail)
        released = self.holders[name].due(self.now)
        for producer, tags, event in released:
            self.brokers[name].publish(producer, tags, event, self.now)
        if released:
            self.pump(name)
        for action in self.brokers[name].actions():
            change = self.links.get(frozenset((name, action[1])))
            if change is None:
                continue
            road = (name, action[1])
            arrival = max(self._arrival.get(road, 0), self.now + self.random.randint(1, 40))
            self._arrival[road] = arrival
            self._order += 1
            heapq.heappush(self._queue, (arrival, self._order, name, action[1], action[2], change))
        self._set_timer(name)

    def _hold(self, name: str) -> None:
        """The agents of the scopes whose publishing policies are for this broker."""
        broker = self.brokers[name]
        if broker.graph.advanced is None and not any(client.startswith(AGENT) for client in broker.clients()):
            return
        here = {agent_of(scope): scope for scope in broker.held_here()}
        for agent in [client for client in broker.clients() if client.startswith(AGENT) and client not in here]:
            broker.drop_client(agent, self.now)
        for agent, scope in here.items():
            if not broker.subscribed_by(agent):
                dimension: Any = broker.graph.advanced
                tags, condition = Tags([(dimension, scope)]), heard(broker.graph.scopes[scope].publishing)
                broker.advertise(agent, condition, tags)
                broker.subscribe(agent, condition, tags, self.now)

    def _set_timer(self, name: str) -> None:
        due = None if name in self.stopped else self.brokers[name].next_timeout()
        held = None if name in self.stopped else self.holders[name].next_timeout(self.now)
        due = min([time for time in (due, held) if time is not None], default=None)
        if due != self._due.get(name):
            self._due[name] = due
            if due is not None:
                heapq.heappush(self._timers, (due, name))

    def run(self, until: int) -> None:
        """Let time pass."""
        while True:
            due = self._next_timeout()
            arrival = self._queue[0][0] if self._queue else None
            times = [time for time in (due[0] if due else None, arrival) if time is not None]
            if not times or min(times) > until:
                break
            if arrival is not None and arrival <= min(times):
                self._deliver(heapq.heappop(self._queue))
            elif due is not None:
                self.now = max(self.now, due[0])
                self.brokers[due[1]].handle_timeout(self.now)
                self.pump(due[1])
        self.now = max(self.now, until)

    def settle(self) -> None:
        """Until nothing is under way and nobody waits for anything."""
        limit = self.now + MAX_SETTLING
        while self._queue or self._next_timeout() is not None:
            if self.now >= limit:
                raise AssertionError("the network does not come to rest")
            due = self._next_timeout()
            times = [time for time in (due[0] if due else None, self._queue[0][0] if self._queue else None) if time]
            self.run(min(times))

    def _next_timeout(self) -> tuple[int, str] | None:
        while self._timers and self._due.get(self._timers[0][1]) != self._timers[0][0]:
            heapq.heappop(self._timers)  # was set anew since
        return self._timers[0] if self._timers else None

    def _deliver(self, entry: tuple[int, int, str, str, Any, int]) -> None:
        arrival, _, sender, receiver, message, change = entry
        self.now = max(self.now, arrival)
        if self.links.get(frozenset((sender, receiver))) != change:
            return  # the link failed meanwhile
        self.messages += 1
        self.on_receive(receiver, message)
        self.brokers[receiver].receive(sender, message, self.now)
        self.pump(receiver)
