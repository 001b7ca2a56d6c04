"""The sentences of protocols/spec/federation.md that the figures do not exercise."""

import json
from itertools import pairwise
from typing import Any

import pytest
from federation_world import Client, World
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import spec

from vicinal.control import SUBJECT, Announcement, Answer, Echo, Publication, Record, Subscription, Unannouncement
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.federation.gateway import MAX_HOPS, Gateway
from vicinal.federation.notes import tunnel_filter
from vicinal.federation.topology import Known, Topology

SPEED = Event("Speed", [("rate", 57.0)])
ALL = "subject = 'Speed'"
NAMES = [f"S{n}" for n in range(6)]


def records(world: World, source: str, service: str | None = None) -> list[Event]:
    return [
        event
        for _, where, event in world.published
        if event.get("Type") == Record.type and event["Source"] == source and service in (None, where)
    ]


# Records and the tree


@spec("FED-1")
def test_a_gateway_says_where_it_is_connected() -> None:
    world = World()
    world.capabilities["can"] = Capabilities(control=False)
    world.gateway("G1", "A", "can")
    world.run(10)
    said = [where for sender, where, event in world.published if event.get("Type") == Record.type]
    assert set(said) == {"A"}
    assert (records(world, "G1")[-1]["Transit"], records(world, "G1")[-1]["Leaves"]) == ("A", "can")
    before = len(records(world, "G1"))
    world.run(3500)
    assert len(records(world, "G1")) - before >= 3
    world.gateways["G1"].attach("B", "memory", Capabilities(), world.now)
    world.up("G1", "B")
    world.run(1100)
    assert records(world, "G1", "B")[-1]["Transit"] == "A,B"


@spec("FED-2")
def test_each_version_is_passed_on_once() -> None:
    world = World()
    world.gateway("G1", "A", "B", hello=100_000)
    world.run(100)
    client = world.client("someone", "A")
    for version in (5, 5, 4, 6):
        world.publish(client, Record("G9", 1, version, ("A",), ()).to_event())
        world.run(50)
    passed = [
        event["Version"] for sender, where, event in world.published if sender == "G1" and event["Source"] == "G9"
    ]
    assert passed == [5, 6]
    world.publish(client, Record("G9", 0, 99, ("A",), ()).to_event())
    world.run(50)
    assert world.gateways["G1"].topology.records["G9"].age == (1, 6)


@spec("FED-3")
def test_silence_and_goodbye() -> None:
    world = World()
    world.gateway("G1", "A")
    world.gateway("G2", "A", "B")
    world.gateway("G3", "A", "C")
    world.settle()
    assert set(world.gateways["G1"].topology.records) == {"G1", "G2", "G3"}
    world._drain("G2", world.gateways["G2"].goodbye(world.now))
    world.run(100)
    assert world.gateways["G1"].topology.way("B") is None
    world.kill("G3")
    world.run(3400)
    assert world.gateways["G1"].topology.way("C") == "A"
    world.run(1200)
    assert world.gateways["G1"].topology.way("C") is None


wirings = st.dictionaries(
    st.sampled_from([f"G{n}" for n in range(7)]),
    st.tuples(st.sets(st.sampled_from(NAMES), max_size=4), st.sets(st.sampled_from(["L1", "L2"]), max_size=2)),
    min_size=1,
)


def component(wiring: Any, start: str) -> set[str]:
    """What can be reached from a gateway or a service, over transit services; leaves included, and not passed."""
    found, queue = {start}, [start]
    while queue:
        at = queue.pop()
        for gateway, (transit, leaves) in wiring.items():
            beside = set(transit) | set(leaves)
            if at == gateway:
                new = beside
            elif at in transit:
                new = {gateway}
            else:
                continue
            queue += [one for one in new - found if one not in leaves]
            found |= new
    return found


@spec("FED-4", "FED-5")
@given(wirings)
def test_the_tree_is_the_same_everywhere_and_has_no_loop(wiring: Any) -> None:
    made = {}
    for own in wiring:
        topology = made[own] = Topology(own)
        for name, (transit, leaves) in wiring.items():
            topology.put(Known(name, 1, 1, tuple(sorted(transit)), tuple(sorted(leaves))), 0)
    trees = [topology._tree() for topology in made.values()]
    assert all(tree == trees[0] for tree in trees)
    edges, parents = trees[0]
    count = sum(len(services) for services in edges.values())
    nodes = set(edges) | {service for services in edges.values() for service in services}
    roots = {frozenset(component(wiring, name) & set(wiring)) for name in wiring}
    assert count == len(nodes) - len(roots), "a forest: as many edges as nodes, less one for each tree"
    for name, topology in made.items():
        reach = component(wiring, name)
        for service in topology.services():
            # A leaf that two parts share belongs to one of them.
            here = service in reach and (service not in ("L1", "L2") or parents[service] in reach)
            assert (topology.way(service) is not None) == here
            assert (topology.way(service) == service) == (service in edges[name])


@spec("FED-4")
@given(wirings, st.data())
def test_who_follows_the_ways_arrives(wiring: Any, data: Any) -> None:
    topologies = {}
    for own in wiring:
        topology = topologies[own] = Topology(own)
        for name, (transit, leaves) in wiring.items():
            topology.put(Known(name, 1, 1, tuple(sorted(transit)), tuple(sorted(leaves))), 0)
    start = data.draw(st.sampled_from(sorted(wiring)))
    for goal in topologies[start].services():
        at, came = start, ""
        path = [start]
        while (way := topologies[at].way(goal)) is not None and way != goal:
            assert way != came, "back where it came from"
            following = [
                name
                for name in wiring
                if name != at and topologies[name].on_tree(way) and topologies[name].way(goal) != way
            ]
            assert len(following) == 1, "one gateway passes it on"
            at, came = following[0], way
            path.append(at)
            assert len(path) <= len(wiring)
        if way == goal:
            assert topologies[start].beside(goal) == at
        assert all(one != other for one, other in pairwise(path))


# Requests


def line(world: World, *names: str) -> None:
    """A ── G1 ── B ── G2 ── C ..."""
    for number, (one, other) in enumerate(pairwise(names)):
        world.gateway(f"G{number + 1}", one, other)
    world.settle()


@spec("FED-6", "FED-12")
def test_one_gateway_answers_for_each_service_and_one_for_those_that_are_not_there() -> None:
    world = World()
    world.gateway("G1", "A", "B")
    world.gateway("G2", "A", "C")
    world.gateway("G3", "A", "D")
    world.settle()
    client = world.client("c", "A")
    world.publish(client, Subscription("*,nowhere", "A", ALL).to_event())
    world.run(500)
    assert sorted(client.answers) == [
        ("B", ""),
        ("C", ""),
        ("D", ""),
        ("nowhere", "unreachable: no gateway is connected to 'nowhere'"),
    ]
    world.publish(client, Subscription("B", "elsewhere", ALL).to_event())
    world.run(500)
    assert {reason for _, reason in client.answers[4:]} == {"refused: 'elsewhere' is not where this was published"}


@spec("FED-7", "FED-8")
def test_hops_are_counted_down_and_end() -> None:
    world = World()
    line(world, "A", "B", "C", "D")
    client = world.client("c", "A")
    world.publish(client, Subscription("D", "A", ALL).to_event())
    world.run(500)
    asked = [(where, event) for _, where, event in world.published if event.get("Type") == 2 and "Hops" in event.attrs]
    assert [(where, event.attrs["Hops"], event.producer) for where, event in asked] == [
        ("B", MAX_HOPS, "G1"),
        ("C", MAX_HOPS - 1, "G1"),
    ]
    gateway = world.gateways["G1"]
    for hops, passed in ((0, 0), (-1, 0), (1, 1)):
        event = (
            Publication("D", "A", SPEED.stamp("x", 5))
            .to_event()
            .replace(attrs={"Hops": hops}, producer="stranger", seq=hops + 10)
        )
        assert len(gateway.receive(event, "A", world.now)) == passed
        assert gateway.receive(event, "A", world.now) == [], "once"
    assert gateway.counters["control dropped: hop limit"] == 4
    assert gateway.counters["control dropped: duplicate"] == 1


@spec("FED-9")
def test_the_adapter_is_asked_once_for_each_filter() -> None:
    world = World()
    line(world, "A", "B", "C")
    clients = [world.client("a", "A"), world.client("b", "B")]
    for verb in ("subscribe", "unsubscribe"):
        for client in clients:
            message = Subscription("C", client.service, ALL)
            world.publish(
                client, (message if verb == "subscribe" else message.undo("C", client.service, ALL)).to_event()
            )
            world.run(500)
    asked = [verb for _, verb, where, what in world.verbs if where == "C" and getattr(what, "text", "") == ALL]
    assert asked == ["subscribe", "unsubscribe"]


@spec("FED-10")
def test_announcements() -> None:
    world = World()
    world.capabilities["C"] = Capabilities(types=("str", "float"))
    line(world, "A", "B", "C")
    clients = [world.client("a", "A"), world.client("b", "B")]
    for kind in (Announcement, Unannouncement):
        for client in clients:
            world.publish(client, kind("C", client.service, SPEED).to_event())
            world.run(500)
    assert [verb for _, verb, where, what in world.verbs if where == "C" and what == SPEED] == [
        "announce",
        "unannounce",
    ]
    world.publish(clients[0], Announcement("C", "A", Event("Raw", [("data", b"1")])).to_event())
    world.run(500)
    assert clients[0].answers[-1] == (
        "C",
        "refused: parameter 'data' of 'Raw' is a bytes, which this service cannot carry",
    )
    world.publish(clients[0], Unannouncement("C", "A", Event("Never")).to_event())
    world.run(500)
    assert clients[0].answers[-1] == ("C", "refused: there is no such announcement")


@spec("FED-11")
def test_a_service_that_is_away_answers_twice() -> None:
    world = World()
    line(world, "A", "B", "C")
    client = world.client("a", "A")
    world.down("G2", "C")
    world.publish(client, Subscription("C", "A", ALL).to_event())
    world.run(500)
    assert client.answers == [("C", "unavailable: 'C' is not connected; noted for when it is")]
    world.up("G2", "C")
    world.run(500)
    assert client.answers[1:] == [("C", "")]


@spec("FED-13")
def test_a_request_stands_for_services_to_come_and_until_it_expires() -> None:
    world = World()
    line(world, "A", "B")
    client = world.client("a", "A")
    request = Subscription("can-*", "A", ALL).to_event()
    world.publish(client, request.replace(attrs={"Expires": world.now + 60_000}))
    world.run(500)
    assert client.answers == [("can-*", "unreachable: no gateway is connected to another service that 'can-*' names")]
    world.gateway("G7", "B", "can-7")
    world.settle()
    assert client.answers[1:] == [("can-7", "")]
    assert world.gateways["G7"].services["can-7"].match(SPEED) == ["A"]
    world.run(60_000)
    assert world.gateways["G7"].services["can-7"].match(SPEED) == []
    assert world.gateways["G1"].requests.standing == {}


@spec("FED-14")
def test_a_note_that_nobody_asks_for_again_is_removed() -> None:
    world = World()
    line(world, "A", "B", "C")
    client = world.client("a", "A")
    world.publish(client, Subscription("C", "A", ALL).to_event())
    world.run(190_000)
    assert world.gateways["G2"].services["C"].match(SPEED) == ["A"], "it is asked for again"
    world.gateways["G1"].requests.standing.clear()
    world.run(150_000)
    assert world.gateways["G2"].services["C"].match(SPEED) == ["A"]
    world.run(70_000)
    assert world.gateways["G2"].services["C"].match(SPEED) == []


@spec("FED-14")
def test_a_note_stays_while_its_source_is_away() -> None:
    world = World()
    line(world, "A", "B", "C")
    world.publish(world.client("a", "A"), Subscription("C", "A", ALL).to_event())
    world.run(500)
    world.kill("G1")
    world.run(1_800_000)
    assert world.gateways["G2"].services["C"].match(SPEED) == ["A"]


@spec("FED-15")
@given(
    st.dictionaries(
        st.sampled_from(["Type", "DistList", "Source", "Filter", "Event", "Trace", "Version", "Hop"]),
        st.integers(-3, 12)
        | st.text(max_size=8)
        | st.booleans()
        | st.floats()
        | st.binary(max_size=4)
        | st.just(SPEED),
    ),
    st.none() | st.integers(-2, 40) | st.text(max_size=3),
)
def test_no_control_event_upsets_a_gateway(params: dict[str, Any], hops: Any) -> None:
    gateway = Gateway("G1", 1)
    for name in ("A", "B"):
        gateway.attach(name, "memory", Capabilities(), 0)
        gateway.service_up(name, 0)
    gateway.handle_timeout(0)
    gateway.actions()
    gateway.deliveries()
    event = Event(SUBJECT, params, {} if hops is None else {"Hops": hops}, "stranger", 1)
    out = gateway.receive(event, "A", 10)
    assert gateway.counters["received"] == 1
    assert len(out) <= 3
    gateway.handle_timeout(20_000)


@spec("FED-15")
def test_what_cannot_be_read_is_answered() -> None:
    world = World()
    line(world, "A", "B")
    client = world.client("a", "A")
    world.publish(client, Event(SUBJECT, {"Type": 2, "DistList": "B", "Source": "A", "Filter": "rate >"}))
    world.run(100)
    ((service, reason),) = client.answers
    assert service == "A"
    assert reason.startswith("refused: control event of type 2: want a name or a value")
    assert world.gateways["G1"].counters["control dropped: malformed"] == 1


# Events


@spec("FED-16", "FED-17", "FED-18", "FED-20")
def test_an_event_gets_what_it_lacks() -> None:
    world = World()
    line(world, "A", "B", "C")
    hears = world.client("c", "C")
    world.gateways["G2"].ask(Subscription("A", "C", ALL), world.now)
    world.run(500)
    world._emit("A", SPEED, "a client without identity")
    world.run(500)
    (found,) = [event for event in hears.heard if event.subject == "Speed"]
    assert found.params == SPEED.params
    assert found.producer == "G1/A"
    assert found.attrs == {"Source": "A"}
    assert ("G2", "announce", "C", found.replace()) in [(n, v, w, x) for n, v, w, x in world.verbs if v == "announce"]


@spec("FED-19", "FED-21")
def test_what_was_in_a_service_does_not_come_again_and_is_an_event_of_it() -> None:
    world = World()
    line(world, "A", "B", "C")
    hears = [world.client(name.lower(), name) for name in "ABC"]
    for source, goal in (("B", "A"), ("C", "B"), ("A", "C"), ("C", "A")):
        world.publish(hears["ABC".index(source)], Subscription(goal, source, "rate > 1").to_event())
        world.run(300)
    sent = world.publish(hears[0], SPEED)
    world.run(500)
    found = {one.service: [event for event in one.heard if event.subject == "Speed"] for one in hears}
    assert [len(found[name]) for name in "ABC"] == [0, 1, 1]
    assert all(event.identity == sent.identity for events in found.values() for event in events)


@spec("FED-20")
def test_an_event_knows_where_it_was_given_to() -> None:
    gateway = Gateway("G1", 1)
    for name in ("A", "B", "C", "D"):
        gateway.attach(name, "memory", Capabilities(), 0)
        gateway.service_up(name, 0)
    gateway.handle_timeout(0)
    for source in "BCD":
        gateway.ask(Subscription("A", source, ALL), 0)
    found = dict(gateway.receive(SPEED.stamp("x", 1), "A", 10))
    assert {name: event.attrs for name, event in found.items() if event.subject == "Speed"} == {
        "B": {"Source": "A", "Via": "C,D"},
        "C": {"Source": "A", "Via": "B,D"},
        "D": {"Source": "A", "Via": "B,C"},
    }
    given = SPEED.stamp("x", 2).replace(attrs={"Source": "Z", "Via": "B,Q,D"})
    assert [name for name, _ in gateway.receive(given, "A", 10)] == ["C"]
    full = SPEED.stamp("x", 3).replace(attrs={"Source": "Z", "Via": ",".join(f"s{n}" for n in range(MAX_HOPS))})
    assert gateway.receive(full, "A", 10) == []
    assert gateway.counters["dropped: hop limit"] == 1


@spec("FED-22")
def test_what_is_for_a_service_that_is_away_waits_where_it_would_go() -> None:
    world = World()
    line(world, "A", "B", "C")
    client = world.client("c", "C")
    world.publish(client, Subscription("A", "C", ALL).to_event())
    world.run(500)
    world.down("G1", "B")
    world.run(200_000)
    gateway = world.gateways["G1"]
    assert gateway.topology.way("C") is None
    ((service, event),) = gateway.receive(SPEED.stamp("x", 1), "A", world.now)
    assert (service, event["Type"], event["DistList"]) == ("B", Publication.type, "C")
    direct = world.gateways["G2"]
    world.down("G2", "C")
    world.run(200_000)
    out = direct.receive(event, "B", world.now)
    assert [(name, one.subject) for name, one in out] == [("C", "Speed")]


# Tunnels and echoes


@spec("FED-23")
def test_tunnels() -> None:
    world = World()
    world.kinds |= {"A": "cosmic", "C": "cosmic", "D": "mqtt"}
    line(world, "A", "B", "C", "D")
    world.gateways["G1"].ask(Subscription("C,D", "A", tunnel_filter("cosmic")), world.now)
    world.run(500)
    (request,) = world.gateways["G1"].requests.report()
    assert request["services"]["C"]["state"] == "applied"
    assert request["services"]["D"]["reason"] == "refused: 'D' is mqtt, and no tunnel of 'cosmic'"
    assert ("G2", "tunnel", "C") in [one[:3] for one in world.verbs]
    packet = Event("FES_Tunnel", [("Kind", "cosmic"), ("Data", b"\x00\xff")])
    world._drain("G2", world.gateways["G2"].receive(packet, "C", world.now))
    world.run(500)
    (found,) = [event for sender, where, event in world.published if where == "A" and event.subject == "FES_Tunnel"]
    assert found["Data"] == b"\x00\xff"


def answers(client: Client) -> list[Answer]:
    from vicinal.control import from_event

    found = [from_event(event) for event in client.heard if event.get("Type") == Answer.type]
    return [one for one in found if isinstance(one, Answer)]


@spec("FED-24")
@pytest.mark.parametrize("trace", [True, False])
def test_echoes(trace: bool) -> None:
    world = World()
    line(world, "A", "B", "C", "D")
    client = world.client("a", "A")
    world.publish(client, Echo("D,E", "", trace).to_event())
    world.run(500)
    found = answers(client)
    last = next(one for one in found if one.source == "D")
    assert (last.gateway, last.hop, last.reason) == ("G3", 3, "")
    assert json.loads(last.detail)["capabilities"]["filter"] == "subject"
    assert next(one for one in found if one.source == "E").reason == "unreachable: no gateway is connected to 'E'"
    passed = sorted([(one.hop, one.gateway, one.detail) for one in found if one.passed])
    assert passed == ([(1, "G1", "B"), (2, "G2", "C"), (3, "G3", "-")] if trace else [])
    world.kill("G3")
    world.run(2)
    client.heard.clear()
    world.publish(client, Echo("D", "", True).to_event())
    world.run(500)
    assert sorted([(one.hop, one.gateway, one.detail) for one in answers(client)]) == [(1, "G1", "B"), (2, "G2", "C")]
