"""Worlds of scopes with mappings, sessions and policies, in an overlay: who gets what is what the reference model says,
wherever the components are connected."""

import random
from collections import Counter
from typing import Any

import pytest
from protocols.scope import model
from protocols.scope.worlds import SUBJECTS, World, form_of

from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal_tools.sim.network import Network


class Overlay:
    """A world on some brokers, all of which are in all scopes: visibility alone decides, not who is where."""

    def __init__(self, seed: int, without: tuple[str, ...]) -> None:
        self.world = World(seed, without=without)
        self.random = random.Random(seed)
        self.network = Network(self.world.graph, seed)
        names = [f"B{i}" for i in range(self.random.randrange(1, 4))]
        for name in names:
            broker = self.network.start(name)
            for scope in self.world.graph.scopes:
                broker.join_scope(scope)
            self.network.pump(name)
        for at, name in enumerate(names[1:]):
            self.network.connect(name, names[self.random.randrange(at + 1)])
        self.home: dict[str, str] = {}
        self.tags: dict[str, Tags] = {}
        self.says: dict[str, str] = {}
        self.got: list[tuple[str, Any]] = []
        self.network.on_deliver = self._delivered
        for name, component in self.world.graph.components.items():
            self.home[name] = self.random.choice(names)
            scopes = self.world.graph.scopes
            tags = self.tags[name] = Tags([(scopes[one].dimension, one) for one in component.scopes], component.rest)
            broker = self.network.brokers[self.home[name]]
            # Of subscriptions only those are told that could match, past all mappings.
            self.says[name] = self.random.choice(SUBJECTS)
            broker.advertise(name, Filter(f"subject = '{self.says[name]}'"), tags)
            if component.subscribes is not None:
                broker.subscribe(name, component.subscribes, tags, self.network.now)
            self.network.pump(broker.name)
        self.network.settle()
        # Who is chosen is chosen where an event is published: each broker takes turns of its own.
        self.models = {name: self.world.model._replace(turns={}) for name in names}

    def _delivered(self, _broker: str, client: str, event: Any, _trail: Any) -> None:
        self.got.append((client, form_of(event)))

    def publish(self, seq: int) -> tuple[Counter[Any], Counter[Any]]:
        """What came, and what the model says."""
        form, event = self.world.event(seq)
        producer = self.random.choice(sorted(self.home))
        form["subject"] = self.says[producer]
        event = event.replace(subject=self.says[producer], producer=producer, seq=seq)
        broker = self.network.brokers[self.home[producer]]
        self.got = []
        broker.publish(producer, self.tags[producer], event, self.network.now)
        self.network.pump(broker.name)
        self.network.settle()
        said = model.deliver(self.models[broker.name], producer, form, anew=True)
        return _counted(self.got), _counted([(who, form) for _, who, _, form in said])


def _counted(found: list[Any]) -> Counter[Any]:
    return Counter((who, repr(sorted(form.items()))) for who, form in found)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("without", [("rules", "delays"), ("rules", "choices")])
def test_what_comes_is_what_the_model_says(part: int, without: tuple[str, ...]) -> None:
    delivered = 0
    for seed in range(part, 400, 4):
        overlay = Overlay(seed, without)
        for seq in range(1, 9):
            came, said = overlay.publish(seq)
            assert came == said, f"world {seed}, event {seq}"
            delivered += came.total()
    assert delivered > 400  # else nothing was tested
