"""Session scopes beyond Figure 6: nesting, forwarding, mappings, and the context of a reaction."""

import asyncio

import pytest
from protocols.scope.helpers import hearers, manager, part, scope

from vicinal import wire
from vicinal.event import Event
from vicinal.scope.session import reaction
from vicinal.scope.session_cpython import in_context, reacting_to

spec = pytest.mark.spec


@spec("SCOPE-26", "SCOPE-27")
def test_a_floor_answers_the_customer_who_asked():
    """Figure 7: the floor is in every customer's session, and its engine deep within it."""
    moved = manager(
        scope("Prof"), scope("C1", session=True), scope("C2", session=True),
        scope("TF", "C1", "C2", "Prof"), scope("core", "TF"),
        part("pc1", "C1"), part("pc2", "C2"), part("pro", "Prof"), part("engine", "core"),
    )  # fmt: skip
    orders = [one for one in moved.publish("pc1", Event("Order"), 0) if one.component == "engine"]
    (order,) = orders
    assert order.event.attrs["Session"] == "C1"
    answer = reaction(order.event, Event("Accept"))
    assert [one.component for one in moved.publish("engine", answer, 0)] == ["pc1", "pro"]
    assert hearers(moved, "engine", "Quote") == ["pc1", "pc2", "pro"]


@spec("SCOPE-27")
def test_a_session_within_a_session():
    moved = manager(
        scope("outer", session=True), scope("plain", "outer"), scope("inner", "plain", session=True),
        scope("other", session=True), part("p", "inner"), part("o", "outer"), part("bridge", "outer", "other"),
        part("x", "other"),
    )  # fmt: skip
    found = {one.component: one.event.attrs["Session"] for one in moved.publish("p", Event("n"), 0)}
    assert found == {"o": "outer", "bridge": "outer"}
    assert hearers(moved, "bridge", Event("n", (), {"Session": "outer"})) == ["o", "p"]
    assert hearers(moved, "bridge", Event("n", (), {"Session": "other"})) == ["x"]
    # Of an inner session into the outer one, and never into a third.
    assert hearers(moved, "bridge", Event("n", (), {"Session": "inner"})) == ["o", "p"]


@spec("SCOPE-26", "SCOPE-27")
def test_down_into_a_session_is_its_own_matter():
    """A quote that came of C1's order is for all; who reacts to it in C2 orders in C2."""
    moved = manager(
        scope("market"), scope("C1", "market", session=True, output="FALSE"), scope("C2", "market", session=True),
        part("engine", "market", "C1"), part("pc2", "C2"),
    )  # fmt: skip
    (quote,) = moved.publish("engine", Event("Quote", (), {"Session": "C1"}), 0)
    assert (quote.component, quote.event.attrs["Session"]) == ("pc2", "C2")
    assert hearers(moved, "pc2", reaction(quote.event, Event("Order"))) == ["engine"]


@spec("SCOPE-29")
def test_a_session_that_is_no_scope_is_no_tag():
    moved = manager(scope("S", session=True), scope("T"), part("p", "S", "T"), part("s", "S"), part("t", "T"))
    assert hearers(moved, "p", Event("n", (), {"Session": "shopping"})) == ["s", "t"]
    assert hearers(moved, "p", Event("n", (), {"Session": "T"})) == ["s", "t"]
    assert hearers(moved, "p", Event("n", (), {"Session": "p"})) == ["s", "t"]


@spec("SCOPE-26")
def test_a_tag_travels_between_brokers():
    moved = manager(scope("S", session=True), part("p", "S"), part("c", "S"))
    (got,) = moved.publish("p", Event("n", (), (), "p", 1), 0)
    assert wire.decode(wire.encode(got.event)).attrs["Session"] == "S"


@spec("SCOPE-28")
def test_the_context_of_a_reaction_across_await_points():
    """Two sessions at once in one signing service, which waits in the middle and starts tasks of its own."""
    said: list[tuple[str, str | None]] = []

    async def later(what):
        await asyncio.sleep(0)
        said.append((what, in_context(Event("signed")).attrs.get("Session")))

    async def consumer(event):
        await asyncio.sleep(0)
        task = asyncio.create_task(later(f"{event.subject} task"))
        await later(event.subject)
        await task

    async def deliver(event):
        with reacting_to(event):
            await consumer(event)
        said.append((f"{event.subject} after", in_context(Event("signed")).attrs.get("Session")))

    async def all_at_once():
        events = [Event("s", (), {"Session": "S"}), Event("t", (), {"Session": "T"}), Event("plain")]
        await asyncio.gather(*[deliver(event) for event in events])

    asyncio.run(all_at_once())
    assert sorted(said, key=lambda one: one[0]) == [
        ("plain", None), ("plain after", None), ("plain task", None),
        ("s", "S"), ("s after", None), ("s task", "S"), ("t", "T"), ("t after", None), ("t task", "T"),
    ]  # fmt: skip


@spec("SCOPE-28")
def test_a_reaction_within_a_reaction_and_a_session_of_ones_own():
    with reacting_to(Event("s", (), {"Session": "S"})):
        with reacting_to(Event("untagged")):
            assert "Session" not in in_context(Event("x")).attrs
        assert in_context(Event("x", (), {"Priority": 3})).attrs == {"Priority": 3, "Session": "S"}
        assert in_context(Event("x", (), {"Session": "mine"})).attrs["Session"] == "mine"
