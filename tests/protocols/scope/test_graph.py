"""What a graph of scopes is, and what is refused."""

import pytest
from protocols.scope.helpers import OPEN, hearers, manager, part, scope

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapping
from vicinal.scope.graph import MAX_LEVELS, ScopeGraph
from vicinal.scope.interface import Edge
from vicinal.scope.policy import Delivery

spec = pytest.mark.spec


@spec("SCOPE-1")
@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([scope("a", "b"), scope("b", "a")], "is in itself"),
        ([scope("a", "a")], "is in itself"),
        ([scope("a"), scope("a")], "'a' is given twice"),
        ([scope("a", "x")], "is in 'x', which is no scope"),
        ([scope("a"), scope("b", "a", dimension="e")], "which is of another dimension"),
        ([scope("a", "p"), part("p")], "is in 'p', a component"),
        ([scope("a"), part("a")], "component 'a' is given twice, or is a scope too"),
        ([part("p"), part("p")], "component 'p' is given twice"),
        ([part("p", "a")], "component 'p' is in 'a', which is no scope"),
        ([scope("a"), scope("b", edges=[Edge("a")])], "has an edge to 'a', which it is not in"),
        ([scope("a"), scope("b", "a", edges=[Edge("a"), Edge("a")])], "has two edges to 'a'"),
    ],
)
def test_what_is_no_graph(items, said):
    with pytest.raises(LocalProtocolError, match=said):
        manager(*items)


@spec("SCOPE-1")
def test_levels_are_bounded():
    deep = [scope("s0")] + [scope(f"s{i}", f"s{i - 1}") for i in range(1, MAX_LEVELS)]
    ScopeGraph(deep)
    with pytest.raises(LimitError, match="levels down to scope 's32' is 33, the limit is 32"):
        ScopeGraph([*deep, scope(f"s{MAX_LEVELS}", f"s{MAX_LEVELS - 1}")])


@spec("SCOPE-7")
@pytest.mark.parametrize(
    "more",
    [
        {"session": True},
        {"traverse": "top-down"},
        {"delivery": Delivery("one-of-n")},
        {"edges": [Edge("top", mapping=Mapping.from_tables([{"subject": "a", "as": "b"}]))]},
    ],
)
def test_advanced_scopes_are_of_one_dimension(more):
    top = scope("top")
    graph = ScopeGraph([top, scope("x", "top", **more), scope("other", dimension="e")])
    assert graph.advanced == "d"
    with pytest.raises(LocalProtocolError, match=r"has .* and so has 'other' of 'e'"):
        ScopeGraph([top, scope("x", "top", **more), scope("other", dimension="e", session=True)])


@spec("SCOPE-3", "SCOPE-4", "SCOPE-39")
def test_interfaces_are_closed_until_given_and_differ_by_superscope():
    moved = manager(
        scope("m"), scope("n"), scope("shut", "m", output=None, input=None),
        scope("floor", "m", "n", output="subject = 'Quote'", edges=[Edge("n", Filter("subject = 'Accept'"), OPEN)]),
        part("engine", "floor"), part("in_m", "m"), part("in_n", "n"), part("in_shut", "shut"),
    )  # fmt: skip
    assert hearers(moved, "engine", "Quote") == ["in_m"]
    assert hearers(moved, "engine", "Accept") == ["in_n"]
    assert hearers(moved, "engine", "OrderBook") == []
    assert hearers(moved, "in_shut", "Quote") == []
    assert hearers(moved, "in_m", "Order") == ["engine"]


@spec("SCOPE-5", "SCOPE-10", "SCOPE-11")
def test_interfaces_speak_of_what_is_told_outside():
    mapping = Mapping.from_tables([{"subject": "Price", "as": "preis", "scale": {"x": 2}, "drop": ["$Session"]}])
    moved = manager(
        scope("m"),
        scope("s", "m", output="subject = 'Price' AND x > 10", input="x <= 20", edges=[Edge("m", mapping=mapping)]),
        part("inside", "s"), part("outside", "m"),
    )  # fmt: skip
    (up,) = moved.publish("inside", Event("preis", {"x": 24.0}, {"Session": "?"}, "inside", 7), 0)
    assert up.event == Event("Price", {"x": 12.0}, {"Session": "?"}, "inside", 7)
    assert moved.publish("inside", Event("preis", {"x": 16.0}), 0) == []
    assert moved.publish("inside", Event("Price", {"x": 24.0}), 0) == []  # it would be taken for another
    (down,) = moved.publish("outside", Event("Price", {"x": 20.0}), 0)
    assert down.event == Event("preis", {"x": 40.0})
    assert moved.publish("outside", Event("Price", {"x": 21.0}), 0) == []


@spec("SCOPE-8")
def test_where_ways_meet_the_shortest_counts():
    twice = Mapping.from_tables([{"subject": "x", "as": "y", "direction": "inward"}])
    moved = manager(
        scope("top"), scope("far", "top"), scope("near", "far", "top", edges=[Edge("top", mapping=twice)]),
        part("p", "near", subscribes=None), part("c", "top"),
    )  # fmt: skip
    (got,) = moved.publish("p", Event("y"), 0)
    assert (got.event.subject, got.scope) == ("x", "top")


@spec("SCOPE-6")
def test_agnostic_components_hear_and_are_heard_in_every_scope():
    moved = manager(
        scope("a", session=True), scope("b"), scope("e", dimension="e"),
        part("p"), part("in_a", "a"), part("in_b_e", "b", "e"), part("only_b", "b", rest=False), part("no", rest=False),
    )  # fmt: skip
    assert hearers(moved, "p", "n") == ["in_a", "in_b_e", "no", "only_b"]
    assert hearers(moved, "in_a", "n") == ["p"]
    assert hearers(moved, "in_b_e", "n") == ["p"]  # only_b is not in e, and not in the rest
    assert hearers(moved, "no", "n") == ["p"]
