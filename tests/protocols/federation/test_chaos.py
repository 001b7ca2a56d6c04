"""A federation that changes and fails, from a seed: whatever the topology, no event comes twice, and when things have
calmed down every event gets to everyone who asked for it."""

import random

import pytest
from federation_world import Client, World

from vicinal.control import Subscription, Unsubscription
from vicinal.event import Event

SEEDS = range(60)
CALM = 60_000


class Plan:
    """Who is connected to what, and what was asked."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.world = World(seed, loss=chance.choice([0.0, 0.0, 0.05]), most_delay=chance.choice([1, 20, 200]))
        self.services = [f"S{n}" for n in range(chance.randint(2, 7))]
        self.wiring = {}
        for n in range(chance.randint(1, 7)):
            most = min(len(self.services), 4)
            self.wiring[f"G{n}"] = tuple(chance.sample(self.services, chance.randint(min(2, most), most)))
        for name, services in self.wiring.items():
            self.world.gateway(name, *services)
        self.clients = {name: self.world.client(f"client-{name}", name) for name in self.services}
        self.asked: dict[tuple[str, str], set[str]] = {}  # (source, filter) -> services
        self.count = 0

    def reachable(self, start: str) -> set[str]:
        """Over the gateways that live, every adapter connected."""
        found, queue = {start}, [start]
        while queue:
            at = queue.pop()
            for name, services in self.wiring.items():
                if name in self.world.gateways and at in services:
                    for other in services:
                        if other not in found:
                            found.add(other)
                            queue.append(other)
        return found

    def ask(self) -> None:
        source, goal = self.chance.choice(self.services), self.chance.choice(self.services)
        condition = self.chance.choice(["subject = 'Speed'", "rate > 30", "subject = 'Speed' AND rate <= 40"])
        key = (source, condition)
        client = self.clients[source]
        if goal in self.asked.get(key, ()) and self.chance.random() < 0.5:
            self.asked[key].discard(goal)
            self.world.publish(client, Unsubscription(goal, source, condition).to_event())
        else:
            self.asked.setdefault(key, set()).add(goal)
            self.world.publish(client, Subscription(goal, source, condition).to_event())

    def publish(self) -> tuple[str, Event]:
        where = self.chance.choice(self.services)
        self.count += 1
        rate = self.chance.choice([10.0, 35.0, 57.0])
        return where, self.world.publish(self.clients[where], Event("Speed", [("n", self.count), ("rate", rate)]))

    def disturb(self) -> None:
        name = self.chance.choice(list(self.wiring))
        if name not in self.world.gateways:
            self.world.gateway(name, *self.wiring[name])
        elif self.chance.random() < 0.5:
            self.world.kill(name)
        else:
            service = self.chance.choice(self.wiring[name])
            if (name, service) in self.world.adapters:
                self.world.down(name, service)
            else:
                self.world.up(name, service)

    def heal(self) -> None:
        for name, services in self.wiring.items():
            if name not in self.world.gateways:
                self.world.gateway(name, *services)
            for service in services:
                if (name, service) not in self.world.adapters:
                    self.world.up(name, service)
        self.world.loss = 0.0


def heard(client: Client) -> list[tuple[str, int]]:
    return [(one.producer or "", one.seq or 0) for one in client.heard if one.subject == "Speed"]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_twice_and_in_calm_nothing_missing(seed: int) -> None:
    plan = Plan(seed)
    plan.world.settle()
    for _ in range(plan.chance.randint(5, 25)):
        plan.chance.choice([plan.ask, plan.ask, plan.publish, plan.publish, plan.disturb])()
        plan.world.run(plan.chance.choice([1, 50, 3000, 40_000]))
    plan.heal()
    plan.world.run(CALM)
    # A gateway that was killed has forgotten what clients asked of it: they ask again, as the shell's memory does.
    for (source, condition), goals in plan.asked.items():
        for goal in goals:
            plan.world.publish(plan.clients[source], Subscription(goal, source, condition).to_event())
    plan.world.run(CALM)
    for client in plan.clients.values():
        assert len(heard(client)) == len(set(heard(client))), f"seed {seed}: twice at {client.service}"
        client.heard.clear()
    sent = [plan.publish() for _ in range(20)]
    plan.world.run(5000)
    for name, client in plan.clients.items():
        wanted = set()
        for where, event in sent:
            for (source, condition), goals in plan.asked.items():
                from vicinal.filter import Filter

                if source == name and where in goals - {source} and Filter(condition).matches(event):
                    if where in plan.reachable(source):
                        wanted.add(event.identity)
        own = {event.identity for where, event in sent if where == name}
        found = heard(client)
        assert len(found) == len(set(found)), f"seed {seed}: twice at {name}"
        assert set(found) - own == wanted - own, f"seed {seed}: at {name}"
