"""Figures 5.4, 5.5 and 5.6 of the dissertation, in stepped time.

A ── G1 ── B ── G2 ── C        a consumer at A subscribes at E: G1, G3 and G4 pass it on; what a producer at E
           │                   publishes comes back the same way
           G3 ── D ── G4 ── E
"""

import pytest
from federation_world import Client, World

from vicinal.control import Record, Subscription, Unsubscription
from vicinal.event import Event

SPEED = Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)])
FAST = "subject = 'Speed' AND rate > 30"


def figure(world: World) -> tuple[Client, Client]:
    world.gateway("G1", "A", "B")
    world.gateway("G2", "B", "C")
    world.gateway("G3", "B", "D")
    world.gateway("G4", "D", "E")
    world.settle()
    return world.client("consumer", "A"), world.client("producer", "E", "FALSE")


def events(client: Client) -> list[Event]:
    return [one for one in client.heard if one.subject == "Speed"]


def check_delivery(world: World, consumer: Client, producer: Client) -> None:
    consumer.heard.clear()
    sent = world.publish(producer, SPEED)
    world.publish(producer, SPEED.replace(params={"license_no": "00D1234", "rate": 20.0}))
    world.run(1000)
    (found,) = events(consumer)
    assert found.params == sent.params
    assert found.identity == sent.identity
    assert found.attrs["Source"] == "E"


def test_an_opaque_subscription_and_the_publication_on_the_reverse_path() -> None:
    world = World()
    consumer, producer = figure(world)
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.run(1000)
    assert consumer.answers == [("E", "")]
    assert {where for _, verb, where, what in world.verbs if verb == "subscribe" and what.text == FAST} == {"E"}
    check_delivery(world, consumer, producer)
    # C was not on the way.
    assert not [one for sender, where, one in world.published if where == "C" and one.get("Type") in (2, 3)]


def test_a_transparent_subscription_is_the_same_without_the_consumer_saying_so() -> None:
    world = World()
    consumer, producer = figure(world)
    world.gateways["G1"].ask(Subscription("E", "A", FAST), world.now)
    world.run(1000)
    assert consumer.answers == []
    (request,) = world.gateways["G1"].requests.report()
    assert request["services"] == {"E": {"state": "applied", "reason": ""}}
    check_delivery(world, consumer, producer)


@pytest.mark.parametrize("opaque", [True, False])
def test_an_unsubscription_ends_it(opaque: bool) -> None:
    world = World()
    consumer, producer = figure(world)
    for message in (Subscription("E", "A", FAST), Unsubscription("E", "A", FAST)):
        if opaque:
            world.publish(consumer, message.to_event())
        else:
            world.gateways["G1"].ask(message, world.now)
        world.run(1000)
    if opaque:
        assert consumer.answers == [("E", ""), ("E", "")]
    assert [verb for name, verb, where, what in world.verbs if where == "E" and getattr(what, "text", "") == FAST] == [
        "subscribe",
        "unsubscribe",
    ]
    consumer.heard.clear()
    world.publish(producer, SPEED)
    world.run(1000)
    assert events(consumer) == []
    assert world.gateways["G1"].requests.standing == {}
    assert world.gateways["G4"].services["E"].notes == {}


def test_a_loop_in_the_topology_is_harmless() -> None:
    """G5 between C and D closes B-C-D; G6 stands beside G3."""
    world = World()
    consumer, producer = figure(world)
    world.gateway("G5", "C", "D")
    world.gateway("G6", "B", "D")
    world.settle()
    world.publish(consumer, Subscription("*", "A", FAST).to_event())
    world.run(1000)
    assert sorted(consumer.answers) == [("B", ""), ("C", ""), ("D", ""), ("E", "")]
    before = len(world.published)
    check_delivery(world, consumer, producer)
    # As many as without the loop: E, D, B and A, one copy each.
    moved = [(sender, where) for sender, where, one in world.published[before:] if one.get("Type") != 7]
    assert sorted(where for sender, where in moved if sender != "producer") == ["A", "B", "D"]


def test_a_gateway_that_dies_is_routed_around() -> None:
    world = World()
    consumer, producer = figure(world)
    world.gateway("G6", "B", "D")
    world.settle()
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.run(1000)
    check_delivery(world, consumer, producer)
    world.kill("G3")
    world.run(10_000)
    check_delivery(world, consumer, producer)


def test_a_gateway_that_comes_back_has_forgotten_and_is_asked_again() -> None:
    world = World()
    consumer, producer = figure(world)
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.run(1000)
    world.kill("G4")
    world.run(10_000)
    assert consumer.answers[-1] == ("E", "")  # nothing more was said: the consumer did not ask again
    world.gateway("G4", "D", "E")
    world.settle()
    check_delivery(world, consumer, producer)


def test_without_a_way_the_answer_says_so_and_a_way_found_later_serves() -> None:
    world = World()
    consumer, producer = figure(world)
    world.kill("G4")
    world.run(10_000)
    world.publish(consumer, Subscription("E,D", "A", FAST).to_event())
    world.run(1000)
    assert sorted(consumer.answers) == [("D", ""), ("E", "unreachable: no gateway is connected to 'E'")]
    world.gateway("G4", "D", "E")
    world.settle()
    assert consumer.answers[-1] == ("E", "")
    check_delivery(world, consumer, producer)


def test_what_appears_behind_another_gateway_is_no_longer_unreachable_here() -> None:
    """G1 says so for A at first, and G5 stands for E from then on."""
    world = World()
    consumer, _ = figure(world)
    world.kill("G4")
    world.run(10_000)
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.run(1000)
    assert consumer.answers == [("E", "unreachable: no gateway is connected to 'E'")]
    world.gateway("G5", "A", "E")
    world.settle()
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.run(1000)
    assert consumer.answers[-1] == ("E", "")
    states = [one["services"] for one in world.gateways["G1"].requests.report()]
    assert states == [{}]


def test_a_refusal_names_its_reason() -> None:
    world = World()
    world.refusals["E", "subscribe"] = "it filters by subject"
    consumer, _ = figure(world)
    world.publish(consumer, Subscription("E", "A", "rate > 30").to_event())
    world.run(1000)
    assert consumer.answers == [("E", "refused: it filters by subject")]
    assert world.gateways["G4"].services["E"].notes == {}


def test_no_answer_is_an_answer_too() -> None:
    world = World()
    consumer, _ = figure(world)
    world.publish(consumer, Subscription("E", "A", FAST).to_event())
    world.gateways["G4"].apply = lambda message, service, asker, now: None  # type: ignore[method-assign]
    world.run(3000)
    assert consumer.answers == []
    world.run(15_000)
    assert consumer.answers == [("E", "timed out: no answer from 'E' in 15 s")]


def test_who_asks_again_is_answered_again() -> None:
    world = World()
    consumer, _ = figure(world)
    request = Subscription("E", "A", FAST).to_event()
    for _ in range(3):
        world.publish(consumer, request)
        world.run(1000)
    assert consumer.answers == [("E", "")] * 3
    assert len([verb for _, verb, where, what in world.verbs if getattr(what, "text", "") == FAST]) == 1


def test_requests_get_through_where_control_events_are_lost() -> None:
    world = World(seed=3, loss=0.3)
    figure(world)
    world.gateways["G1"].ask(Subscription("E", "A", FAST), world.now)
    world.run(60_000)
    (request,) = world.gateways["G1"].requests.report()
    assert request["services"]["E"]["state"] == "applied"


@pytest.mark.parametrize("to", ["truck-*", "A", "A, truck-?"])
def test_a_request_for_nobody_is_answered_too(to: str) -> None:
    """Once, though two gateways hear it; and a service that appears later is asked all the same."""
    world = World()
    world.gateway("G1", "A", "B")
    world.gateway("G2", "A", "C")
    world.settle()
    consumer = world.client("consumer", "A")
    world.publish(consumer, Subscription(to, "A", FAST).to_event())
    world.run(30_000)
    assert consumer.answers == [(to, f"unreachable: no gateway is connected to another service that {to!r} names")]
    world.gateway("G3", "C", "truck-7")
    world.settle()
    assert consumer.answers[1:] == ([] if to == "A" else [("truck-7", "")])


def test_strangers_that_come_and_go_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vicinal.federation.gateway.MAX_LAST_WAYS", 100)
    world = World()
    one = world.gateway("G1", "A", "B")
    world.settle()
    for n in range(1000):
        record = Record(f"X{n}", 1, 1, ("B", f"S{n}"), ()).to_event().stamp(f"X{n}", 1)
        one.receive(record, "B", world.now)
        world.run(100)
    assert len(one._last_ways) <= 101 + len(one.topology.services())
    assert one._last_ways["A"] == "A"
