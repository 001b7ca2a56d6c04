"""What is held back by a broker that is not where the event was said, but above it."""

from typing import Any

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.publishing import Publishing
from vicinal_tools.sim.network import Network

ALL = Filter("TRUE")


@pytest.mark.parametrize(("output", "heard"), [("TRUE", ["town"]), ("FALSE", [])])
def test_it_is_let_go_from_the_nearest_scope_above(output: str, heard: list[str]) -> None:
    """B0 is in the town, B1 in the street too. What the street does not let out the town never holds."""
    graph = ScopeGraph(
        [
            Scope("world", "market"),
            Scope("shop", "market", ["world"], ALL, ALL, publishing=[Publishing(delay=100)]),
            Scope("town", "place"),
            Scope("street", "place", ["town"], Filter(output), Filter("FALSE")),
        ]
    )
    network = Network(graph, 1)
    got: list[str] = []

    def delivered(_broker: str, client: str, _event: Any, _trail: Any) -> None:
        got.append(client)

    network.on_deliver = delivered
    for name, scopes in {"B0": ("world", "shop", "town"), "B1": ("world", "shop", "town", "street")}.items():
        broker = network.start(name)
        for scope in scopes:
            broker.join_scope(scope)
        network.pump(name)
    network.connect("B0", "B1")
    b0, b1 = network.brokers["B0"], network.brokers["B1"]
    said = Tags({"market": "shop", "place": "street"})
    b1.advertise("car", ALL, said)
    b0.subscribe("town", ALL, Tags({"market": "world", "place": "town"}), network.now)
    b1.subscribe("street", ALL, Tags({"market": "world", "place": "street"}), network.now)
    network.pump("B0")
    network.pump("B1")
    network.settle()
    assert b0.held_here() == ["shop"]
    b1.publish("car", said, Event("Price", {}, {}, "car", 1), network.now)
    network.pump("B1")
    network.settle()
    assert got == heard
    assert "dropped: left the scope" not in b0.counts
