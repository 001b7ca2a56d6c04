"""Subscriptions along the ways of events, and mappings that are programs."""

import sys
import types

import pytest
from protocols.mapping.mapping_cases import mapping
from protocols.scope.helpers import manager, part, scope
from strategies import COLUMNS, Grammar, Seeded, make_event

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapping
from vicinal.scope.graph import ScopeGraph
from vicinal.scope.interface import Edge
from vicinal.scope.mapping import along, both, paths
from vicinal.scope.plugin_cpython import load

spec = pytest.mark.spec


def test_ways_up_and_then_down():
    graph = ScopeGraph([scope("top"), scope("a", "top"), scope("b", "top", "a"), scope("c", "b"), scope("x")])
    assert paths(graph, "c", "top") == [["c", "b", "top"], ["c", "b", "a", "top"]]
    assert paths(graph, "a", "c") == [["a", "b", "c"], ["a", "top", "b", "c"]]
    assert paths(graph, "c", "x") == []
    assert paths(graph, "x", "x") == [["x"]]


@spec("SCOPE-12")
@pytest.mark.parametrize("seed", range(4))
def test_a_subscription_is_never_narrower_where_events_begin(seed):
    """Interfaces and mappings by chance on a way of up to five scopes, sessions among them."""
    got_through = lost = 0
    for number in range(150):
        source = Seeded(seed * 1000 + number)
        columns = {**COLUMNS, "$Session": "s"}

        def condition(source=source, columns=columns):
            return Filter("TRUE") if source.chance(2) else Filter(Grammar(source, columns, depth=1).condition())

        ups, downs = source.one((0, 1, 2)), source.one((0, 1, 2))
        names = [f"s{i}" for i in range(ups + downs + 1)]
        scopes = []
        for i, name in enumerate(names):
            above = names[i + 1] if i < ups else names[i - 1] if i > ups else None
            edges = [Edge(above, mapping=mapping(source)[0] if source.chance(2) else None)] if above else []
            session = source.chance(3) or (number == 0 and i == 0)
            scopes.append(scope(name, *([above] if above else []), edges=edges, session=session))
            scopes[-1].output, scopes[-1].input = condition(), condition()
        wanted = condition()
        moved = manager(*scopes, part("p", names[0]), part("c", names[-1], subscribes=wanted.text))
        asked, _ = along(moved.graph, names, wanted)
        for _ in range(20):
            event = make_event(source, columns)
            event = event.replace(attrs={**event.attrs, "Session": "S"}) if source.chance(4) else event
            found = moved.publish("p", event, 0)
            got_through += bool(found)
            lost += asked.matches(event) and not found
            assert asked.matches(event) or not found, (seed, number, names, str(wanted), str(asked), event)
    assert got_through > 200
    assert lost < got_through * 3  # or TRUE would do


@spec("SCOPE-12")
def test_what_is_asked_for_is_no_wider_than_it_must_be():
    rename = Mapping.from_tables([{"subject": "a", "as": "b", "drop": ["$Session"]}])
    low = scope("low", "top", output="x > 1", input="x > 2", edges=[Edge("top", mapping=rename)])
    graph = ScopeGraph([scope("top"), low])
    assert str(along(graph, ["low", "top"], Filter("subject = 'a'"))[0]) == "subject = 'b' AND x > 1"
    assert str(along(graph, ["top", "low"], Filter("subject = 'b'"))[0]) == "(x > 2) AND (subject = 'a')"
    # What a mapping drops of the tag it does not drop.
    asked, reasons = along(graph, ["low", "top"], Filter("subject = 'a' AND $Session = 'S'"))
    assert asked.matches(Event("b", {"x": 2}, {"Session": "S"}))
    assert reasons == ["$Session is set by the scopes on the way"]


def test_a_closed_way_asks_for_nothing():
    graph = ScopeGraph([scope("top"), scope("a", "top", output=None), scope("b", "top", input=None)])
    for path in (["a", "top"], ["top", "b"]):
        assert str(along(graph, path, Filter("x > 1"))[0]) == "FALSE"


def test_two_conditions_that_are_too_long_together():
    long = Filter(" OR ".join(f"x = {i}" for i in range(200)))
    reasons: list[str] = []
    assert both(long, Filter("y = 1"), []).matches(Event("e", {"x": 7, "y": 1}))
    assert both(long, Filter(long.text.replace("x", "yy")), reasons) is long
    assert "limit" in reasons[0]


@pytest.fixture
def plugins():
    module = types.ModuleType("vicinal_test_plugins")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


class Shout:
    def outward(self, event):
        return Event(event.subject.upper(), event.params)

    def inward(self, event):
        return {"fails": 1 / 0} if event.subject == "FAIL" else None if event.subject == "NONE" else event.subject

    def map_filter(self, condition, direction):
        return Filter(condition.text.upper()) if "subject" in condition.text else 1 / 0


@spec("SCOPE-13")
def test_a_plug_in(plugins):
    plugins.Shout = Shout
    edge = Edge("top", mapping=load("vicinal_test_plugins:Shout"))
    moved = manager(scope("top"), scope("low", "top", edges=[edge]), part("p", "top"), part("c", "low"))
    (got,) = moved.publish("p", Event("quote", {"x": 1}, {"Session": "?"}, "p", 9), 0)
    assert got.event == Event("QUOTE", {"x": 1}, {"Session": "?"}, "p", 9)
    for subject in ("FAIL", "NONE", "TEXT"):
        assert moved.publish("c", Event(subject), 0) == []
    assert str(along(moved.graph, ["top", "low"], Filter("subject = 'a'"))[0]) == "SUBJECT = 'A'"
    wider, reasons = along(moved.graph, ["top", "low"], Filter("x = 1"))
    assert (str(wider), reasons) == (
        "TRUE",
        ["vicinal_test_plugins:Shout failed on a filter: ZeroDivisionError: division by zero"],
    )


@spec("SCOPE-13")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "want package.module:name"),
        ("vicinal_no_such:x", "does not load: ModuleNotFoundError"),
        ("vicinal_test_plugins:x", "does not load: AttributeError"),
        ("vicinal_test_plugins:Half", "has no method inward"),
    ],
)
def test_what_is_no_plug_in(plugins, name, said):
    plugins.Half = type("Half", (), {"outward": lambda self, event: event})
    with pytest.raises(LocalProtocolError, match=said):
        load(name)
