"""The clock of the gateways is set back, by seconds and by ten years: they go on saying that they are there, miss who
is gone, and ask again in time."""

import pytest
from federation_world import Client, World

from vicinal.control import Subscription
from vicinal.event import Event

HELLO = 1000
SECOND, DAY = 1000, 86_400_000


def pass_time(world: World, seconds: int) -> None:
    """As the shell has it: every gateway looks at the clock once in a hello, whatever it believes is due."""
    for _ in range(seconds):
        world.run(HELLO)
        for name, one in list(world.gateways.items()):
            one.handle_timeout(world.now)
            world._drain(name)


def speeds(client: Client) -> int:
    return len([one for one in client.heard if one.subject == "Speed"])


@pytest.mark.parametrize("by", [5 * SECOND, DAY, 3650 * DAY])
def test_a_clock_that_is_set_back_stops_nothing(by: int) -> None:
    world = World()
    world.now = 4000 * DAY
    for name, services in (("G1", "AB"), ("G2", "BC")):
        world.gateway(name, *services, hello=HELLO)
    world.settle()
    consumer, producer = world.client("consumer", "A"), world.client("producer", "C", "FALSE")
    world.publish(consumer, Subscription("C", "A", "subject = 'Speed'").to_event())
    pass_time(world, 10)
    assert consumer.answers == [("C", "")]
    world.now -= by
    world.last.clear()
    said = len(world.published)
    pass_time(world, 20)
    hellos = [(sender, at) for sender, at, one in world.published[said:] if one.get("Type") == 7]
    assert hellos.count(("G1", "B")) >= 10
    assert hellos.count(("G2", "B")) >= 10
    world.publish(producer, Event("Speed", [("rate", 57.0)]))
    pass_time(world, 2)
    assert speeds(consumer) == 1
    # Who is gone is missed, and what was asked there is asked again when it is back.
    world.kill("G2")
    pass_time(world, 10)
    assert world.gateways["G1"].topology.way("C") is None
    world.gateway("G2", "B", "C", hello=HELLO)
    pass_time(world, 10)
    consumer.heard.clear()
    world.publish(producer, Event("Speed", [("rate", 57.0)]))
    pass_time(world, 2)
    assert speeds(consumer) == 1
