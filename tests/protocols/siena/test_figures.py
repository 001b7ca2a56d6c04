"""The worked examples of seed 003: Figure 1 with W, X, Y and Z, Figure 2's transition path."""

import itertools

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.visibility import visible, visible_in
from vicinal_tools.sim.network import Network

OPEN = Filter("TRUE")


def scope(name, dimension, supers=()):
    """With interfaces that let everything through; the figure's n passes all of them."""
    return Scope(name, dimension, supers, OPEN, OPEN)


GRAPH = ScopeGraph(
    [
        scope("es", "membership"),
        scope("us", "membership", ["es"]),
        scope("fs", "membership", ["es"]),
        scope("ir", "membership"),
        scope("ls", "membership", ["us"]),
        scope("is", "membership", ["fs", "ir"]),
        scope("eu", "area"),
        scope("fr", "area", ["eu"]),
        scope("uk", "area", ["eu"]),
        scope("bo", "area", ["fr"]),
        scope("ch", "area", ["bo"]),
        scope("lo", "area", ["uk"]),
        scope("pi", "range"),
        scope("ti", "range", ["pi"]),
        scope("tm", "range", ["pi"]),
        scope("bw", "range", ["ti"]),
    ]
)
N = Event("Weather", [("t", 21)], producer="X", seq=1)

W = Tags.of(["ls", "ch"], GRAPH, rest=False)
X = Tags.of(["ls", "ch"], GRAPH, rest=True)
Y = Tags.of(["is", "lo", "tm"], GRAPH, rest=False)
Z = Tags.of(["is", "tm"], GRAPH, rest=True)


@pytest.mark.parametrize(
    ("producer", "consumer", "holds"),
    [(W, Y, False), (W, Z, False), (X, Y, True), (X, Z, True)],
    ids=["WY", "WZ", "XY", "XZ"],
)
def test_figure_1(producer, consumer, holds):
    assert visible(GRAPH, N, producer, consumer) is holds


def test_figure_1_membership():
    assert "es" in GRAPH.above("ls")
    assert "ir" not in GRAPH.above("us")
    assert "us" not in GRAPH.above("ir")
    assert visible_in(GRAPH, N, "ls", "is")
    # Down and up again is no visibility path: nothing of the European chapter reaches IRIT through its students.
    assert not visible_in(GRAPH, N, "es", "ir")


def figure_2():
    network = Network(GRAPH, seed=1, trace=True)
    members = {
        "B1": ["es", "fs", "eu", "uk"],
        "B2": ["us", "es", "fr", "eu"],
        "B3": ["ls", "us", "ch", "bo", "fr"],
        "B4": ["us", "fr"],
        "B5": ["fs", "is", "uk", "lo"],
    }
    for name, scopes in members.items():
        broker = network.start(name)
        for scope in scopes:
            broker.join_scope(scope)
        network.pump(name)
    for a, b in (("B3", "B2"), ("B2", "B1"), ("B1", "B5"), ("B3", "B4"), ("B4", "B5")):
        network.connect(a, b)
    network.settle()
    return network


def publish(network, advert, event):
    broker = network.brokers["B3"]
    broker.publish("X", broker.check_publish("X", advert, event), event, network.now)
    network.pump("B3")


def test_figure_2_the_transition_path():
    """B4 would be nearer, but does not belong to the scopes in which the notification can get to B5."""
    network = figure_2()
    found = []
    network.on_deliver = lambda broker, client, event, trail: found.append((broker, client, event, trail))
    network.brokers["B5"].subscribe("Y", Filter("t > 20"), Tags.of(["is", "lo"], GRAPH, rest=False), network.now)
    network.pump("B5")
    advert = network.brokers["B3"].advertise("X", Filter("TRUE"), Tags.of(["ls", "ch"], GRAPH, rest=False))
    network.pump("B3")
    network.settle()
    publish(network, advert, N)
    network.settle()

    ((broker, client, event, trail),) = found
    assert (broker, client, event) == ("B5", "Y", N)
    assert list(dict.fromkeys(name for name, _, _ in trail)) == ["B3", "B2", "B1", "B5"]
    for i, path in enumerate((["ch", "bo", "fr", "eu", "uk", "lo"], ["ls", "us", "es", "fs", "is"])):
        assert list(dict.fromkeys(state[i][0] for _, state, _ in trail)) == path
        # Upward first, then downward.
        ups = [state[i][1] for _, state, _ in trail]
        assert ups == sorted(ups, reverse=True)
    for name, state, _ in trail:
        assert all(scope in network.brokers[name].scopes for scope, _ in state)
    for (here, before, _), (there, after, _) in itertools.pairwise(trail):
        changed = [i for i in range(2) if before[i] != after[i]]
        assert (len(changed), here == there) in ((0, False), (1, True))


def test_figure_2_a_failed_link_changes_the_way_and_nothing_else():
    """Without B1 to B2 there is no way within the scopes; with it back, all flows again, subscriptions untouched."""
    network = figure_2()
    found = []
    network.on_deliver = lambda broker, client, event, trail: found.append(event.seq)
    network.brokers["B5"].subscribe("Y", Filter("t > 20"), Tags.of(["is", "lo"], GRAPH, rest=False), network.now)
    network.pump("B5")
    advert = network.brokers["B3"].advertise("X", Filter("TRUE"), Tags.of(["ls", "ch"], GRAPH, rest=False))
    network.pump("B3")
    network.settle()
    tables = len(network.brokers["B3"].interest)
    network.disconnect("B1", "B2")
    network.settle()
    for seq in (1, 2):
        publish(network, advert, Event("Weather", [("t", 30)], (), "X", seq))
    network.settle()
    assert found == []
    assert network.brokers["B3"].counts["dropped: no way within its scopes"] == 2
    network.connect("B1", "B2")
    network.settle()
    publish(network, advert, Event("Weather", [("t", 30)], (), "X", 3))
    network.settle()
    assert found == [3]
    assert len(network.brokers["B3"].interest) == tables == 1
