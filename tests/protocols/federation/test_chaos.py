"""A federation that changes and fails, from a seed: whatever the topology, when things have calmed down every event
gets to everyone who asked for it, once. While ways change, two gateways may put it into a service, and so they may for
who asks at two services that have it from a third: under one identity, by which its consumers drop the second.
"""

import os
import random

import pytest
from federation_world import Client, World

from vicinal.control import Subscription, Unsubscription
from vicinal.event import Event
from vicinal.filter import Filter

SEEDS = range(3000 if os.environ.get("VICINAL_SOAK") else 60)
CALM = 40_000


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
            self.world.gateway(name, *services, hello=4000)
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
            self.world.gateway(name, *self.wiring[name], hello=4000)
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
                self.world.gateway(name, *services, hello=4000)
            for service in services:
                if (name, service) not in self.world.adapters:
                    self.world.up(name, service)
        self.world.loss = 0.0


def heard(client: Client) -> list[tuple[str, int]]:
    return [(one.producer or "", one.seq or 0) for one in client.heard if one.subject == "Speed"]


def meant_for(plan: Plan, where: str, event: Event) -> set[str]:
    """The services that a reference without gateways gives it to: those that asked where it is, and so on."""
    found, queue = {where}, [where]
    while queue:
        at = queue.pop()
        for (source, condition), goals in plan.asked.items():
            if at in goals and source not in found and at in plan.reachable(source):
                if Filter(condition).matches(event):
                    found.add(source)
                    queue.append(source)
    return found - {where}


def asked_directly(plan: Plan, name: str, where: str, event: Event) -> bool:
    """Who asks at two services that both got it from a third may get it from both."""
    return any(
        source == name and where in goals and Filter(condition).matches(event)
        for (source, condition), goals in plan.asked.items()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_in_calm_nothing_twice_and_nothing_missing(seed: int) -> None:
    plan = Plan(seed)
    plan.world.settle()
    for _ in range(plan.chance.randint(5, 25)):
        plan.chance.choice([plan.ask, plan.ask, plan.publish, plan.publish, plan.disturb])()
        plan.world.run(plan.chance.choice([1, 50, 3000, 40_000]))
    plan.heal()
    plan.world.run(CALM)
    # A gateway that was killed has forgotten what clients asked of it, and does not know what they took back meanwhile.
    for (source, condition), goals in plan.asked.items():
        for goal in plan.services:
            message = Subscription if goal in goals else Unsubscription
            plan.world.publish(plan.clients[source], message(goal, source, condition).to_event())
    plan.world.run(CALM)
    for client in plan.clients.values():
        client.heard.clear()
    sent = [plan.publish() for _ in range(20)]
    plan.world.run(5000)
    for name, client in plan.clients.items():
        found = heard(client)
        wanted = {event.identity for where, event in sent if name in meant_for(plan, where, event)}
        assert set(found) == wanted, f"seed {seed}: at {name}"
        for where, event in sent:
            if event.identity in wanted and asked_directly(plan, name, where, event):
                assert found.count(event.identity or ("", 0)) == 1, f"seed {seed}: {event} twice at {name}"
