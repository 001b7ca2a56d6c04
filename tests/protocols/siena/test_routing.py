"""Which brokers an event goes through where scopes would make another of it, or do not let it in (SCOPE-40)."""

from typing import Any

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapped
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.interface import Edge
from vicinal_tools.sim.network import Network

TRUE = Filter("TRUE")


class WithoutSecrets:
    def inward(self, event: Event) -> Event:
        return event.replace(params=[pair for pair in event.params.items() if pair[0] != "secret"])

    def outward(self, event: Event) -> Event:
        return event

    def map_filter(self, condition: Filter, direction: str) -> Mapped:
        return Mapped(TRUE, [], "")


def diamond(session: bool) -> ScopeGraph:
    """From A up to T as it is through B, and through M without secrets, or not at all for what is of session Z."""
    edges = [] if session else [Edge("M", mapping=WithoutSecrets())]
    return ScopeGraph(
        [
            Scope("T", "d"),
            Scope("Z", "d", session=True),
            Scope("B", "d", ["T"], TRUE, TRUE),
            Scope("M", "d", ["T"], TRUE, TRUE, session=session),
            Scope("A", "d", ["B", "M"], TRUE, TRUE, edges),
        ]
    )


@pytest.mark.spec("SCOPE-40")
@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("other", ["", "B"])
def test_what_is_not_of_a_scope_does_not_go_through_its_brokers(session: bool, other: str) -> None:
    """Broker x is in M alone. What T hears is what came by B: it goes by brokers in B, or not at all."""
    network = Network(diamond(session), 1)
    for name, scopes in {"b1": "ABM", "x": "M", "y": "MT" + other, "z": other}.items():
        broker = network.start(name)
        for scope in scopes:
            broker.join_scope(scope)
        network.pump(name)
    for a, b in (("b1", "x"), ("x", "y"), ("b1", "z"), ("z", "y")):
        network.connect(a, b)
    network.settle()
    network.brokers["b1"].advertise("p", TRUE, Tags({"d": "A"}))
    network.brokers["y"].subscribe("c", TRUE, Tags({"d": "T"}), network.now)
    for name in network.brokers:
        network.pump(name)
    network.settle()
    through: list[str] = []
    got: list[Any] = []
    network.on_receive = lambda broker, message: (
        through.append(broker) if message[0] == "packets" and message[5][0] == "event" else None
    )
    network.on_deliver = lambda _broker, client, event, _trail: got.append((client, event["secret"]))
    event = Event("X", {"secret": 1}, {"Session": "Z"} if session else {}, "p", 1)
    network.brokers["b1"].publish("p", Tags({"d": "A"}), event, network.now)
    network.pump("b1")
    network.settle()
    assert (through, got) == ((["z", "y"], [("c", 1)]) if other else ([], []))
    assert network.brokers["b1"].counts.get("dropped: no way within its scopes", 0) == (0 if other else 1)
