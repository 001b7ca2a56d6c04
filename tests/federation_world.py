"""A federation in one process, in stepped time: gateways as state machines, event services as media with a delay.

Every service is content-based, gives an event to all on it but the sender, and may lose, delay and reorder control
events. A client of a service publishes and hears there. The same seed gives the same run.
"""

import random
from typing import Any

from vicinal.control import SUBJECT
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.federation.gateway import Gateway
from vicinal.filter import Filter


class Client:
    def __init__(self, name: str, service: str, condition: str) -> None:
        self.name = name
        self.service = service
        self.condition = Filter(condition)
        self.heard: list[Event] = []

    @property
    def answers(self) -> list[tuple[str, str]]:
        """(service, reason) of the answers that came."""
        return [(one["Source"], one.get("Reason", "")) for one in self.heard if one.get("Type") == 6]


class World:
    def __init__(self, seed: int = 0, loss: float = 0.0, most_delay: int = 5) -> None:
        self.chance = random.Random(seed)
        self.loss = loss
        self.most_delay = most_delay
        self.now = 1_000_000
        self.gateways: dict[str, Gateway] = {}
        self.adapters: dict[tuple[str, str], dict[str, Filter]] = {}
        self.verbs: list[tuple[str, str, str, Any]] = []
        self.published: list[tuple[str, str, Event]] = []
        self.refusals: dict[tuple[str, str], str] = {}  # (service, verb) -> reason
        self.clients: list[Client] = []
        self.queue: list[tuple[int, int, Any]] = []
        self.seq = 0
        self.lives = 0
        self.kinds: dict[str, str] = {}
        self.capabilities: dict[str, Capabilities] = {}
        self.last: dict[tuple[str, str], int] = {}

    # Building

    def gateway(self, name: str, *services: str, hello: int = 1000) -> Gateway:
        self.lives += 1
        made = self.gateways[name] = Gateway(name, self.lives, self.lives * 1_000_000, hello)
        for service in services:
            made.attach(service, self.kinds.get(service, "memory"), self.able(service), self.now)
        for service in services:
            self.up(name, service)
        return made

    def able(self, service: str) -> Capabilities:
        return self.capabilities.setdefault(service, Capabilities(tunnels=True))

    def up(self, name: str, service: str) -> None:
        self.adapters[name, service] = {}
        self.gateways[name].service_up(service, self.now)
        self._drain(name)

    def down(self, name: str, service: str) -> None:
        self.adapters.pop((name, service), None)
        self.gateways[name].service_down(service, self.now)
        self._drain(name)

    def kill(self, name: str) -> None:
        del self.gateways[name]
        for key in [key for key in self.adapters if key[0] == name]:
            del self.adapters[key]

    def client(self, name: str, service: str, condition: str = "TRUE") -> Client:
        self.clients.append(Client(name, service, condition))
        return self.clients[-1]

    # Doing

    def publish(self, who: Client, event: Event) -> Event:
        self.seq += 1
        event = event.stamp(who.name, self.seq)
        self._emit(who.service, event, who.name)
        return event

    def _emit(self, service: str, event: Event, sender: str) -> None:
        self.published.append((sender, service, event))
        for client in self.clients:
            if client.service == service and client.name != sender and client.condition.matches(event):
                client.heard.append(event)
        for (name, at), filters in list(self.adapters.items()):
            if at != service or name == sender or not any(one.matches(event) for one in filters.values()):
                continue
            if event.subject == SUBJECT and self.chance.random() < self.loss:
                continue
            due = self.now + self.chance.randint(0, self.most_delay)
            due = self.last[sender, name] = max(due, self.last.get((sender, name), 0))  # a medium keeps order
            self._later(due, ("event", name, service, event))

    def _later(self, due: int, what: Any) -> None:
        self.seq += 1
        self.queue.append((due, self.seq, what))

    def _drain(self, name: str, out: Any = ()) -> None:
        gateway = self.gateways[name]
        for service, event in [*out, *gateway.deliveries()]:
            if (name, service) in self.adapters:
                self._emit(service, event, name)
        for number, verb, service, what in gateway.actions():
            self._later(self.now + 1, ("action", name, number, verb, service, what))

    def _do(self, what: Any) -> None:
        if what[1] not in self.gateways:
            return
        gateway = self.gateways[what[1]]
        if what[0] == "event":
            _, name, service, event = what
            if (name, service) in self.adapters:
                self._drain(name, gateway.receive(event, service, self.now))
            return
        _, name, number, verb, service, about = what
        adapter = self.adapters.get((name, service))
        if adapter is None:
            return
        self.verbs.append((name, verb, service, about))
        reason = self.refusals.get((service, verb), "")
        if not reason and verb == "subscribe":
            adapter[about.text] = about
        elif not reason and verb == "unsubscribe":
            adapter.pop(about.text, None)
        gateway.applied(number, reason, self.now)
        self._drain(name)

    def run(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while True:
            timers = [(one.next_timeout(), name) for name, one in self.gateways.items()]
            timer = min(timers, default=(end + 1, ""))
            self.queue.sort(key=lambda one: one[:2])
            event = self.queue[0][0] if self.queue else end + 1
            if min(timer[0], event) > end:
                break
            if event <= timer[0]:
                due, _, what = self.queue.pop(0)
                self.now = max(self.now, due)
                self._do(what)
            else:
                self.now = max(self.now, timer[0])
                self.gateways[timer[1]].handle_timeout(self.now)
                self._drain(timer[1])
        self.now = end

    def settle(self) -> None:
        """Until records have spread, and what is asked is answered."""
        self.run(8000)
