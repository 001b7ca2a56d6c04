"""Worlds of scopes with mappings, sessions and policies, in an overlay: who gets what is what the reference model says,
wherever the components are connected."""

import os
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest
from protocols.scope import model
from protocols.scope.worlds import SUBJECTS, World, form_of

from vicinal.filter import Filter
from vicinal.scope import mapping, session
from vicinal.scope.graph import Tags
from vicinal.scope.interface import Edge
from vicinal.siena import routing
from vicinal_tools.sim.network import Network

spec = pytest.mark.spec
WORLDS = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 400


class Overlay:
    """A world on some brokers, all of which are in all scopes: visibility alone decides, not who is where."""

    def __init__(self, seed: int, without: tuple[str, ...]) -> None:
        self.world = World(seed, without=without)
        self.random = random.Random(seed)
        self.network = Network(self.world.graph, seed)
        self.names = names = [f"B{i}" for i in range(self.random.randrange(1, 4))]
        for name in names:
            broker = self.network.start(name)
            for scope in self.world.graph.scopes:
                broker.join_scope(scope)
            self.network.pump(name)
        self.wires = [(name, names[self.random.randrange(at + 1)]) for at, name in enumerate(names[1:])]
        self._heal()
        self.home: dict[str, str] = {}
        self.tags: dict[str, Tags] = {}
        self.says: dict[str, str] = {}
        self.got: list[tuple[str, Any]] = []
        self.network.on_deliver = self._delivered
        for name in self.world.graph.components:
            self._enter(name)
        self.network.settle()
        # Who is chosen is chosen where an event is published: each broker takes turns of its own.
        self.models = {name: self.world.model._replace(turns={}) for name in names}

    def _enter(self, name: str) -> None:
        component = self.world.graph.components[name]
        self.home[name] = self.random.choice(self.names)
        scopes = self.world.graph.scopes
        tags = self.tags[name] = Tags([(scopes[one].dimension, one) for one in component.scopes], component.rest)
        broker = self.network.brokers[self.home[name]]
        # Of subscriptions only those are told that could match, past all mappings.
        self.says[name] = self.random.choice(SUBJECTS)
        broker.advertise(name, Filter(f"subject = '{self.says[name]}'"), tags)
        if component.subscribes is not None:
            broker.subscribe(name, component.subscribes, tags, self.network.now)
        self.network.pump(broker.name)

    def _heal(self) -> None:
        for name in sorted(self.network.stopped):
            self.network.resume(name)
        for a, b in self.wires:
            self.network.connect(a, b)

    # What changes

    def move(self) -> None:
        """A member goes, and comes elsewhere, under another name: it is somebody else."""
        name = self.random.choice(sorted(self.home))
        if self.home[name] in self.network.stopped:
            return
        broker = self.network.brokers[self.home[name]]
        broker.drop_client(name, self.network.now)
        self.network.pump(broker.name)
        self._heal()
        self._enter(name)

    def fail(self) -> None:
        if self.wires and self.random.random() < 0.6:
            self.network.disconnect(*self.random.choice(self.wires))
        else:
            self.network.stop(self.random.choice(self.names))

    def deploy(self, seed: int) -> None:
        """Other scopes, one broker after the other; clients of before are cut, and come again."""
        self._heal()
        before, self.world = self.world, World(seed, without=self.world.without)
        self.network.graph = self.world.graph
        for name in self.names:
            broker = self.network.brokers[name]
            for client in sorted(before.graph.components):
                broker.drop_client(client, self.network.now)
            broker.use_graph(self.world.graph, self.network.now)
            self.network.holders[name].use_graph(self.world.graph)
            for scope in self.world.graph.scopes:
                broker.join_scope(scope)
            self.network.pump(name)
            self.network.run(self.network.now + self.random.randrange(50))
        self.home, self.tags, self.says = {}, {}, {}
        for name in self.world.graph.components:
            self._enter(name)
        self.models = {name: self.world.model._replace(turns={}) for name in self.names}

    def _delivered(self, _broker: str, client: str, event: Any, _trail: Any) -> None:
        self.got.append((client, form_of(event)))

    def publish(self, seq: int, settling: bool = True) -> tuple[Counter[Any], Counter[Any]]:
        """What came, and what the model says."""
        form, event = self.world.event(seq)
        producer = self.random.choice(sorted(self.home))
        form["subject"] = self.says[producer]
        event = event.replace(subject=self.says[producer], producer=producer, seq=seq)
        broker = self.network.brokers[self.home[producer]]
        if settling:
            self.got = []
        if broker.name not in self.network.stopped:
            broker.publish(producer, self.tags[producer], event, self.network.now)
            self.network.pump(broker.name)
        if settling:
            self.network.settle()
        said = model.deliver(self.models[broker.name], producer, form, anew=True)
        return _counted(self.got), _counted([(who, form) for _, who, _, form in said])


def _counted(found: list[Any]) -> Counter[Any]:
    return Counter((who, repr(sorted(form.items()))) for who, form in found)


def compare(seeds: Iterable[int], without: tuple[str, ...]) -> int:
    """How many were delivered."""
    delivered = 0
    for seed in seeds:
        overlay = Overlay(seed, without)
        for seq in range(1, 9):
            came, said = overlay.publish(seq)
            assert came == said, f"world {seed}, event {seq}"
            delivered += came.total()
    return delivered


@spec("SCOPE-40", "SCOPE-41", "SCOPE-42")
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("without", [("rules", "delays"), ("rules", "choices")])
def test_what_comes_is_what_the_model_says(part: int, without: tuple[str, ...]) -> None:
    assert compare(range(part, WORLDS, 4), without) > WORLDS


@pytest.mark.parametrize("part", range(4))
def test_it_holds_again_after_every_change(part: int) -> None:
    """Links fail, brokers stop, members move, other scopes are deployed, while events are under way. Nobody gets what
    the model would never give them; and when all has come to rest, all is exactly as it says."""
    delivered = 0
    for seed in range(part, 120, 4):
        overlay = Overlay(seed, ("rules", "choices"))
        seq = 1
        for step in range(4):
            allowed: set[Any] = set()
            overlay.got = []
            for _ in range(overlay.random.randrange(1, 5)):
                change = overlay.random.randrange(4)
                if change == 0:
                    overlay.move()
                elif change == 1 and step == 2:
                    overlay._heal()
                    overlay.network.settle()
                    overlay.deploy(1000 + seed)
                else:
                    overlay.fail()
                _, said = overlay.publish(seq, settling=False)
                allowed |= set(said)
                seq += 1
                overlay.network.run(overlay.network.now + overlay.random.randrange(300))
            overlay._heal()
            overlay.network.settle()
            assert set(_counted(overlay.got)) <= allowed, f"world {seed}, step {step}"
            for _ in range(4):
                came, said = overlay.publish(seq)
                assert came == said, f"world {seed}, step {step}, event {seq}"
                delivered += came.total()
                seq += 1
    assert delivered > 100


MUTANTS = {
    "what is held back goes up at once": (routing.Routes, "_goes_up", lambda *_: True),
    "sessions are open": (session, "enters", lambda *_: True),
    "all are chosen": (routing.Routes, "_choose", lambda _self, _journey, _scope, offered, _form: offered),
    "the other dimensions are not asked": (routing.Routes, "_passes", lambda *_: True),
    "subscriptions are compared as they are": (mapping, "along", lambda _graph, _way, condition: (condition, [])),
    "mappings are left out": (Edge, "up", lambda self, event: (event if self.output is not None else None, "")),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str) -> None:
    place, what, mutant = MUTANTS[name]
    without = ("rules", "choices") if what == "_goes_up" else ("rules", "delays")
    with mock.patch.object(place, what, mutant), pytest.raises(AssertionError, match="world"):
        compare(range(400), without)
